# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-fast test-optional test-lowest soak reproduce-quick pictures lint format bench \
  bench-quick clean

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
	rm -rf build/kernels*
	touch $@

demo: $(VENV)/.kernels
	$(BIN)/maxplus demo

# Each worker begins with half of the files; who is done first helps the other.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
test: build/kernels
	$(PYTEST)

# What takes long is left out; with kernels compiled, an answer in a minute.
test-fast: build/kernels
	$(PYTEST) -m "not slow"

# Compiled once for all workers of the tests.
build/kernels: $(VENV)/.kernels
	mkdir -p build
	$(BIN)/python tests/kernels.py build/kernels
	touch $@

# What is skipped where PyTorch or a browser is not installed.
test-optional: $(VENV)/.kernels
	$(BIN)/python -m pytest tests/test_export.py tests/test_report_page*.py
	$(BIN)/python -m pytest tests/test_committee.py -k torch

# Once through everything with the lowest versions of what is needed, in a new environment.
test-lowest:
	$(PYTHON) -m venv --clear build/lowest
	build/lowest/bin/python -m pip install --quiet --no-compile --constraint constraints/lowest.txt .
	NUMBA_CACHE_DIR=build/lowest/kernels build/lowest/bin/python tests/smoke.py constraints/lowest.txt

# Random trials for an hour, or as long as one says: SOAK_SECONDS=600. Its counts are kept.
SOAK_SECONDS ?= 3600
soak: $(VENV)/.kernels
	PYTHONPATH=tests $(BIN)/python -m soak --seconds $(SOAK_SECONDS) --out results/soak.json

# All experiments at reduced scale: under three minutes. Without --quick: about two hours.
reproduce-quick: $(VENV)/.kernels
	$(BIN)/maxplus reproduce all --quick --out build/reproduce-quick

# The README's picture of an explanation; needs MNIST. Two minutes on two cores.
pictures: $(VENV)/.kernels
	mkdir -p build
	$(BIN)/maxplus train mnist --paper -H 500 -n 40000 --slope 4 --polyak-target 1.2 --learning-rate 1 \
	  -o build/mnist.maxplus
	$(BIN)/maxplus explain build/mnist.maxplus mnist:test --row 1 --picture docs/explanation.png

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The whole takes about half an hour; bench-quick leaves the two long runs out. Results go to BENCH;
# BENCH=results renews what is committed, and then the numbers in README.md, which a test compares.
BENCH ?= build/bench
bench: bench-quick
	$(BIN)/maxplus reproduce long-run million --out $(BENCH)

bench-quick: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/maxplus reproduce products iris-torch timing --out $(BENCH)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
