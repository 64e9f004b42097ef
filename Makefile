# make demo   install into .venv and show what widen does
# make test   the same with the test extra: lint, tests, docstring examples
# make help   the other targets

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
GPU_JOBS ?= 15

# What one test process has compiled to bytecode serves the others (`make clean` removes it).
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
PROGRAMS := build/programs

.PHONY: help demo test test-slow test-programs docs test-page test-gpu soak sanitize lint format bench wheel sdist test-package test-wheel clean

help:
	@echo "make demo      install into $(VENV) and run the demonstration"
	@echo "make test      lint, tests and docstring examples"
	@echo "make test-slow the tests that take long and rarely tell anything new"
	@echo "make test-programs programs of other libraries inside widen.emulate, in an environment of their own"
	@echo "make docs      the site in build/site, with every example on it run"
	@echo "make test-page the site and the page of 'widen reproduce' in Chromium (chromium, chromium-driver)"
	@echo "make lint      ruff and strict type check"
	@echo "make format    rewrite the sources in the house style"
	@echo "make bench     measure on this CPU (bench/cpu.py)"
	@echo "make test-gpu  the tests that need a GPU, and the kernels' own tests on it"
	@echo "make soak      2,000 random products on the GPU against the CPU (ARGS='--cases 100')"
	@echo "make sanitize  the GPU kernels under compute-sanitizer (memcheck, racecheck)"
	@echo "make wheel     the package in dist/, with machine code for GPUs, compiled without one"
	@echo "make sdist     the source package in dist/"
	@echo "make test-package builds both packages and installs them in an empty environment"
	@echo "make test-wheel installs what make wheel made, and looks for machine code in it"
	@echo "make clean     remove $(VENV), caches and build outputs"
	@echo "PYTHON=python3.12 make ... chooses the interpreter"

demo: $(VENV)/.installed
	$(BIN)/widen demo

test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow and not gpu" tests $(ARGS)

test-programs: $(PROGRAMS)/.installed
	$(PROGRAMS)/bin/python -m pytest -m slow tests/emulate/test_whole_programs.py $(ARGS)

docs: $(VENV)/.installed-docs
	$(BIN)/python docs/site/make.py

test-page: docs $(VENV)/.installed-page
	$(BIN)/python -m pytest -m page tests $(ARGS)

test-gpu: $(VENV)/.installed-gpu
	$(BIN)/python -m pytest -n $(GPU_JOBS) --dist worksteal -m "gpu or device" tests $(ARGS)

soak: $(VENV)/.installed-gpu
	$(BIN)/python bench/soak.py --processes $(GPU_JOBS) $(ARGS)

# The first run compiles; what the sanitizer then slows down are the kernels alone, each process
# watching its share of the jobs.
sanitize: $(VENV)/.installed-gpu
	$(BIN)/python bench/odd_sizes.py --processes $(GPU_JOBS)
	for tool in memcheck racecheck; do \
	  seq 0 $$(($(GPU_JOBS) - 1)) | xargs -P $(GPU_JOBS) -I{} \
	    compute-sanitizer --tool $$tool --report-api-errors no --error-exitcode 1 \
	    $(BIN)/python bench/odd_sizes.py --first {} --every $(GPU_JOBS) || exit 1; \
	done

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-test
	$(BIN)/python bench/cpu.py $(ARGS)

# What is compiled stays in build/machine_code: the next time, what did not change is taken from there.
wheel: $(VENV)/.installed-wheel
	$(BIN)/python -m widen.gpu.ship --processes $(JOBS) $(ARGS)
	$(BIN)/python -m build --wheel

# The source package, and a wheel made of it (without machine code), each in an environment of its own.
test-package: $(VENV)/.installed-test
	rm -rf build/package
	$(BIN)/python -m build --outdir build/package
	$(PYTHON) tests/shared/packages.py build/package/*.tar.gz build/package/*.whl --folder build/package

# What `make wheel` made: machine code for all four architectures inside, below 40 MB, and it runs.
WHEEL ?= $(lastword $(sort $(wildcard dist/*.whl)))
PACKS ?= 80 90 100 120
test-wheel:
	$(PYTHON) tests/shared/packages.py $(WHEEL) --folder build/wheel --packs $(PACKS)

sdist: $(VENV)/.installed-test
	$(BIN)/python -m build --sdist

# One stamp per set of extras: a second run installs nothing until pyproject.toml changes.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "widen needs Python 3.11 or newer and '$(PYTHON)' is not: name one, as in: make PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.created
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[test,docs]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

$(VENV)/.installed-page: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[test,docs,page]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test $(VENV)/.installed-docs

$(VENV)/.installed-gpu: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[test,torch]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

$(VENV)/.installed-wheel: pyproject.toml | $(VENV)/.created
	$(PIP) -e '.[test,wheel]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-test

# PyTorch first, in the version of the tests, which the other libraries then find.
$(PROGRAMS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(PROGRAMS)
	$(PROGRAMS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	$(PROGRAMS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' transformers gpytorch botorch
	@touch $@

clean:
	rm -rf $(VENV) build dist src/widen/gpu/shipped .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
