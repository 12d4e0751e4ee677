# `make report` and `make test` do all their own set-up: they need python3.11 with venv, make and git.
# What is installed is locked in requirements/: these versions, these files by their hashes, no code of theirs run.
# Modules are compiled when they are first imported: most never are, and to compile them all takes half a minute.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/tools
LOCKED := -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-compile --requirement
PACKAGE := -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
LOCK := $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--only-binary :all: --custom-compile-command "make lock" $(LOCK_OPTIONS)
SYMBOLS ?= BTC ETH
SOURCE ?= sample
OUT ?= report.html

# A newer Python than the locks' oldest takes the newest numpy and scipy that are allowed.
NEWER ?= $(firstword $(shell for p in python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.1[23]*/bin/python3); \
	do $$p -c "import ensurepip" 2>/dev/null && echo $$p; done))

.PHONY: report test checks checks-newest test-newest test-machines test-more coverage mutants soak bench docs dist lock audit sbom clean

report: $(VENV)/.base
	$(BIN)/derivdata report $(SOURCE) --symbols $(SYMBOLS) --out $(OUT)

# Both virtual environments are made, and both versions' types checked, side by side; then the tests run.
test:
	$(MAKE) --no-print-directory --jobs 2 checks checks-newest
	$(BIN)/python -m pytest -q -n 2 --dist loadfile
	$(MAKE) --no-print-directory test-newest

checks: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy

ifeq ($(NEWER),)
checks-newest test-newest:
	@echo "the newest numpy and scipy were not checked: they need Python 3.12 or 3.13, and none is installed"
else
checks-newest: | $(BIN)/python
	$(MAKE) --no-print-directory $(VENV)/newest/.dev VENV=$(VENV)/newest PYTHON=$(NEWER)
	$(VENV)/newest/bin/mypy --cache-dir .mypy_cache/newest

test-newest: checks-newest
	$(VENV)/newest/bin/python -m pytest -q -n 2 --dist loadfile -m "environment and not slow"
endif

# What takes too long for the gate: which lines no test runs; other users, Pythons, locales and processors;
# mutants; full loads; the pages.
test-more: coverage test-machines mutants soak docs

coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --cov --cov-fail-under=95 --cov-report=term:skip-covered

test-machines: $(VENV)/.dev
	$(BIN)/python -m tests.machines

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

SOAK_ON_VENUES := $(addprefix tests/collect/test_,every_fetcher.py notebooks_on_venues.py refills.py deployment.py)

# Some eighteen minutes on a machine that does nothing else; writes the figures of docs/reliability.md.
soak: $(VENV)/.dev
	DERIVDATA_SOAK=1 $(BIN)/python -m pytest -q tests/reliability $(SOAK_ON_VENUES) tests/test_report_drawing.py --durations=25

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# Adds what pyproject.toml asks for now; LOCK_OPTIONS=--upgrade also takes newer versions of what is there.
lock: $(VENV)/.tools
	$(LOCK) pyproject.toml requirements/build.in --output-file requirements/base.txt
	$(LOCK) pyproject.toml requirements/build.in --extra dev --constraint requirements/base.txt \
		--output-file requirements/dev.txt
	$(LOCK) pyproject.toml requirements/build.in --extra docs --constraint requirements/base.txt \
		--output-file requirements/docs.txt
	$(LOCK) pyproject.toml requirements/build.in --extra bench --constraint requirements/dev.txt \
		--output-file requirements/bench.txt
	$(LOCK) requirements/tools.in --output-file requirements/tools.txt
	$(LOCK) requirements/pip.in --output-file requirements/pip.txt

# The wheel, to install elsewhere: dist/derivdata-VERSION-py3-none-any.whl.
dist: $(VENV)/.base
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/derivdata-*.whl

# Needs a network: known weaknesses are looked up at the Python Package Index.
audit: $(VENV)/.dev $(VENV)/.tools
	$(BIN)/python -m pip check
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/dev.txt \
		--requirement requirements/docs.txt --requirement requirements/bench.txt --requirement requirements/tools.txt \
		--requirement requirements/pip.txt

# What an installed derivdata consists of, by name, version and hash, in CycloneDX's format; from the lock alone.
sbom: $(VENV)/.tools
	$(TOOLS)/bin/cyclonedx-py requirements requirements/base.txt --pyproject pyproject.toml --output-reproducible \
		--output-file sbom.json

clean:
	rm -rf $(VENV) dist docs/_build docs/outputs docs/gallery docs/reference .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage .mutants.coverage .mutants.xml

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The pip that venv brings installs the locked one, which installs all else.
$(VENV)/.pip: requirements/pip.txt | $(BIN)/python
	$(BIN)/python $(LOCKED) requirements/pip.txt
	touch $@

$(VENV)/.base: pyproject.toml requirements/base.txt $(VENV)/.pip
	$(BIN)/python $(LOCKED) requirements/base.txt
	$(BIN)/python $(PACKAGE)
	touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.txt $(VENV)/.pip
	$(BIN)/python $(LOCKED) requirements/dev.txt
	$(BIN)/python $(PACKAGE)
	touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml requirements/docs.txt $(VENV)/.pip
	$(BIN)/python $(LOCKED) requirements/docs.txt
	$(BIN)/python $(PACKAGE)
	touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml requirements/bench.txt $(VENV)/.pip
	$(BIN)/python $(LOCKED) requirements/bench.txt
	$(BIN)/python $(PACKAGE)
	touch $@ $(VENV)/.base

$(VENV)/.tools: requirements/tools.txt requirements/pip.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python $(LOCKED) requirements/pip.txt
	$(TOOLS)/bin/python $(LOCKED) requirements/tools.txt
	touch $@
