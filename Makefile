# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint format bench clean

# The stamp is newer than pyproject.toml exactly when the environment is up to date.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

# Numba's disk cache does not notice when a kernel in another file has changed.
KERNELS := $(shell find src -name '*.py')
$(VENV)/.kernels: $(VENV)/.installed $(KERNELS)
	find src -name '*.nbi' -delete
	touch $@

demo: $(VENV)/.kernels
	$(BIN)/maxplus demo

test: $(VENV)/.kernels
	$(BIN)/python -m pytest

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python benchmarks/products.py
	@if [ -n "$$MAXPLUS_DATA" ]; then $(BIN)/python benchmarks/engines.py; \
	else echo "benchmarks/engines.py needs MNIST: set MAXPLUS_DATA"; fi

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
