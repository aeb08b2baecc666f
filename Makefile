# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-fast test-experiments test-documentation test-optional test-lowest test-mpi coverage soak \
        reproduce reproduce-quick pictures lint format dist bench bench-quick bench-mpi clean

# The stamp is newer than pyproject.toml exactly when the environment is up to date.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

# Numba's disk cache does not notice when a kernel in another file has changed: all kernels are dropped
# when a module with kernels changes.
KERNELS := $(shell grep -rlE '@(njit|inner|intrinsic)|_compile' src --include='*.py')
$(VENV)/.kernels: $(VENV)/.installed $(KERNELS)
	find src -name '*.nbi' -delete
	rm -rf build/kernels*
	touch $@

demo: $(VENV)/.kernels
	$(BIN)/python -m experiments.demo

# Compiled once for all tests and experiments, whichever process needs them first.
test test-fast test-experiments test-documentation test-optional test-mpi coverage docs reproduce \
  reproduce-quick $(VENV)/.compiled: \
  export NUMBA_CACHE_DIR := $(CURDIR)/build/kernels

# Three workers for two cores, because tests wait for processes that they start; one thread each:
# libraries for matrix products would take both cores. A worker that is done takes over tests of others.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal
# Experiments and documentation have tests of their own: the two targets below.
LIBRARY := --ignore=tests/experiments --ignore=tests/documentation
test: $(VENV)/.compiled
	$(PYTEST) $(LIBRARY)

# What takes long is left out; with kernels compiled, an answer in a minute.
test-fast: $(VENV)/.compiled
	$(PYTEST) $(LIBRARY) -m "not slow"

test-experiments: $(VENV)/.compiled
	$(PYTEST) tests/experiments

# README's numbers, docstrings and their examples, the parts of the site, the package page.
test-documentation: $(VENV)/.compiled
	$(PYTEST) tests/documentation

# What nearly all tests need, on both cores, before their workers start.
$(VENV)/.compiled: $(VENV)/.kernels
	$(BIN)/python tests/kernels.py
	touch $@

# What is skipped where PyTorch or a browser is not installed.
test-optional: $(VENV)/.compiled
	$(PYTEST) tests/test_export.py tests/test_torch.py tests/test_report_page_browser.py \
	  tests/test_report_page_what_if.py

# Python lines that tests reach, at least 95 %; pyproject.toml says what is left out, and why. The
# tests take about half as long again as without. A page with every line is build/coverage/index.html.
coverage: $(VENV)/.compiled
	rm -f .coverage .coverage.*
	$(PYTEST) $(LIBRARY) --cov --cov-report=html:build/coverage --cov-report=term

# Once through everything with the lowest versions of what is needed, in a new environment.
test-lowest:
	$(PYTHON) -m venv --clear build/lowest
	build/lowest/bin/python -m pip install --quiet --no-compile --constraint constraints/lowest.txt .
	NUMBA_CACHE_DIR=build/lowest/kernels build/lowest/bin/python tests/smoke.py constraints/lowest.txt

# Random trials for an hour, or as long as one says: SOAK_SECONDS=600. Its counts are kept.
SOAK_SECONDS ?= 3600
soak: $(VENV)/.kernels
	PYTHONPATH=tests $(BIN)/python -m soak --seconds $(SOAK_SECONDS) --out results/soak.json

# On two and three ranks that mpiexec starts, a time limit on each: a deadlock fails, and ends.
RANKS := NUMBA_NUM_THREADS=1 timeout --kill-after=5
MPI_TESTS := $(BIN)/python -m pytest -q -n 0 -p no:cacheprovider tests/mpi
test-mpi: $(VENV)/.compiled
	$(BIN)/python -m pip install --quiet --editable ".[mpi]"
	$(RANKS) 120 $(BIN)/mpiexec -n 2 $(MPI_TESTS)
	$(RANKS) 120 $(BIN)/mpiexec -n 3 $(MPI_TESTS)
	MAXPLUS_LAUNCHES=1 $(RANKS) 300 $(MPI_TESTS)

# The paper's experiments, about two hours; finished parts are kept. At reduced scale: under three minutes.
reproduce: $(VENV)/.compiled
	$(BIN)/python -m experiments all --resume --out build/reproduce

reproduce-quick: $(VENV)/.compiled
	$(BIN)/python -m experiments all --quick --out build/reproduce-quick

# The site, into build/docs. All code on its pages is run; what it gave is kept (build/docs-cache,
# docs/gallery) until the library, what draws or makes pages, or a measurement has changed.
$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@

build/docs-cache: $(VENV)/.kernels $(VENV)/.docs \
  $(wildcard docs/_ext/*.py docs/drawing/*.py results/*.json results/*/*.json)
	rm -rf build/docs* docs/gallery docs/api/generated docs/results/generated
	mkdir -p $@

.PHONY: docs
docs: build/docs-cache
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky -q \
	  -d build/docs-pages docs build/docs
	touch build/docs-cache
	@echo "The site is build/docs/index.html"

# The README's picture of an explanation; needs MNIST. Two minutes on two cores.
pictures: $(VENV)/.kernels
	mkdir -p build
	$(BIN)/maxplus train mnist --algorithm subgradient --set n_hidden=500 --set max_iter=40000 \
	  --set slope=4 --set polyak_target=1.2 --set learning_rate=1 \
	  -o build/mnist.maxplus
	$(BIN)/maxplus explain build/mnist.maxplus mnist:test --row 1 --picture docs/explanation.png

lint: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	mkdir -p build
	$(BIN)/python tests/typed_program.py > build/public_names.py
	$(BIN)/mypy --strict --cache-dir .mypy_cache/strict tests/typed_program.py build/public_names.py

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The two files of a release, checked: README's page, and what is inside.
dist: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/dist_contents.py dist

# The whole takes about half an hour; bench-quick leaves the two long runs out. Results go to BENCH;
# BENCH=results renews what is committed, and then the numbers in README.md, which a test compares.
BENCH ?= build/bench
bench: bench-quick
	$(BIN)/python -m experiments long-run million --out $(BENCH)

bench-quick: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m experiments products timing --out $(BENCH)

# Cost and gain of several ranks: six minutes on two otherwise idle cores.
bench-mpi: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[mpi,plot]"
	$(BIN)/python -m experiments mpi --out $(BENCH)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build demo dist .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf docs/gallery docs/api/generated docs/results/generated
