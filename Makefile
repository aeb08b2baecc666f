# All targets install their requirements in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test test-fast test-experiments test-documentation test-optional test-lowest test-mpi coverage soak \
        reproduce reproduce-quick pictures lint format dist bench bench-quick bench-mpi clean

# The stamp file is newer than pyproject.toml if the environment is up to date.
$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

# Numba's cache does not detect changes of kernels in other files. Delete all cached kernels if a module
# with kernels has changed.
KERNELS := $(shell grep -rlE '@(njit|inner|intrinsic)|_compile' src --include='*.py')
$(VENV)/.kernels: $(VENV)/.installed $(KERNELS)
	find src -name '*.nbi' -delete
	rm -rf build/kernels*
	touch $@

demo: $(VENV)/.kernels
	$(BIN)/python -m experiments.demo

# Tests and experiments share one kernel cache.
test test-fast test-experiments test-documentation test-optional test-mpi coverage docs reproduce \
  reproduce-quick $(VENV)/.compiled: \
  export NUMBA_CACHE_DIR := $(CURDIR)/build/kernels

# Three workers for two cores, because some tests wait for subprocesses. BLAS libraries use one thread
# per worker.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal
# The tests of experiments and documentation have separate targets.
LIBRARY := --ignore=tests/experiments --ignore=tests/documentation
test: $(VENV)/.compiled
	$(PYTEST) $(LIBRARY)

# Skip slow tests. Takes a minute if kernels are compiled.
test-fast: $(VENV)/.compiled
	$(PYTEST) $(LIBRARY) -m "not slow"

test-experiments: $(VENV)/.compiled
	$(PYTEST) tests/experiments

# Numbers in README.md, docstrings and their examples, extensions of the documentation.
test-documentation: $(VENV)/.compiled
	$(PYTEST) tests/documentation

# Compile the kernels that most tests use before the workers start.
$(VENV)/.compiled: $(VENV)/.kernels
	$(BIN)/python tests/kernels.py
	touch $@

# Tests that require PyTorch or a browser; skipped if they are not installed.
test-optional: $(VENV)/.compiled
	$(PYTEST) tests/test_export.py tests/test_torch.py tests/test_report_page_browser.py \
	  tests/test_report_page_what_if.py

# Line coverage of at least 95 %. pyproject.toml lists the excluded lines. The report is
# build/coverage/index.html.
coverage: $(VENV)/.compiled
	rm -f .coverage .coverage.*
	$(PYTEST) $(LIBRARY) --cov --cov-report=html:build/coverage --cov-report=term

# A smoke test with the minimum supported versions of all dependencies, in a new environment.
test-lowest:
	$(PYTHON) -m venv --clear build/lowest
	build/lowest/bin/python -m pip install --quiet --no-compile --constraint constraints/lowest.txt .
	NUMBA_CACHE_DIR=build/lowest/kernels build/lowest/bin/python tests/smoke.py constraints/lowest.txt

# Randomised stress tests for SOAK_SECONDS, an hour by default.
SOAK_SECONDS ?= 3600
soak: $(VENV)/.kernels
	PYTHONPATH=tests $(BIN)/python -m soak --seconds $(SOAK_SECONDS) --out results/soak.json

# Tests on two and three MPI ranks, with a time limit in case of a deadlock.
RANKS := NUMBA_NUM_THREADS=1 timeout --kill-after=5
MPI_TESTS := $(BIN)/python -m pytest -q -n 0 -p no:cacheprovider tests/mpi
test-mpi: $(VENV)/.compiled
	$(BIN)/python -m pip install --quiet --editable ".[mpi]"
	$(RANKS) 120 $(BIN)/mpiexec -n 2 $(MPI_TESTS)
	$(RANKS) 120 $(BIN)/mpiexec -n 3 $(MPI_TESTS)
	MAXPLUS_LAUNCHES=1 $(RANKS) 300 $(MPI_TESTS)

# The experiments of the paper take about two hours. Finished parts are kept. With --quick, they take a
# few minutes.
reproduce: $(VENV)/.compiled
	$(BIN)/python -m experiments all --resume --out build/reproduce

reproduce-quick: $(VENV)/.compiled
	$(BIN)/python -m experiments all --quick --out build/reproduce-quick

# Build the documentation in build/docs and execute the code on its pages. Outputs are cached in
# build/docs-cache and docs/gallery until the library, the extensions or the results change.
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

# The figure of an explanation in docs/guide/images.md. Requires MNIST; takes two minutes on two cores.
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

# Build the wheel and the sdist, and check their metadata and contents.
dist: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable ".[release]"
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/dist_contents.py dist

# Benchmarks take about half an hour; bench-quick skips the two long ones. BENCH is the output folder.
# After BENCH=results, update the numbers in README.md, which are compared by a test.
BENCH ?= build/bench
bench: bench-quick
	$(BIN)/python -m experiments long-run million --out $(BENCH)

bench-quick: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m experiments products timing --out $(BENCH)

# Cost and speed-up of several ranks; takes nine minutes on two idle cores.
bench-mpi: $(VENV)/.kernels
	$(BIN)/python -m pip install --quiet --editable ".[mpi,plot]"
	$(BIN)/python -m experiments mpi --out $(BENCH)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build demo dist .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf docs/gallery docs/api/generated docs/results/generated
