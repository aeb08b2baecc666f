# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-fast test-optional test-mpi reproduce-quick pictures lint format bench bench-quick bench-mpi clean

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

# On two and three ranks that mpiexec starts, a time limit on each: a deadlock fails, and ends.
OVER_MPI = timeout --kill-after=5 $(1) $(BIN)/mpiexec -n $(2) $(BIN)/python -m pytest -q -n 0 \
  -p no:cacheprovider tests/mpi
test-mpi: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[mpi]"
	NUMBA_NUM_THREADS=1 $(call OVER_MPI,120,2)
	NUMBA_NUM_THREADS=1 $(call OVER_MPI,60,3)
	MAXPLUS_LAUNCHES=1 NUMBA_NUM_THREADS=1 timeout 120 $(BIN)/python -m pytest -q -n 0 tests/mpi

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

# What several ranks cost and gain: six minutes on two cores that nobody else uses.
bench-mpi: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[mpi,plot]"
	$(BIN)/maxplus reproduce mpi --out $(BENCH)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
