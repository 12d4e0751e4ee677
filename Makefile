# `make report` and `make test` do all their own set-up: they need python3.11 with venv, make and git.
# What is installed is locked in requirements/: these versions, these files by their hashes, no code of theirs run.
# The pip that venv brings installs uv, which installs all else several times as fast; uv asks the index of
# UV_DEFAULT_INDEX, where that is set.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/tools
UV := $(BIN)/uv
LOCKED := pip install --quiet --system-certs --require-hashes --only-binary :all: --requirement
PACKAGE := pip install --quiet --system-certs --no-deps --no-build-isolation --editable .
LOCK := $(UV) pip compile --quiet --system-certs --universal --python-version 3.11 --generate-hashes \
	--only-binary :all: --custom-compile-command "make lock" --constraint requirements/constraints.in $(LOCK_OPTIONS)
# Every extra but serve: the local service is tested, shown and timed as it is without.
EXTRAS := $(addprefix --extra ,completion dask excel mcp netcdf pandera plotly s3 sessions stream zarr)
# Compiled modules are kept, whatever the environment says: without them every process compiles pandas again.
export PYTHONDONTWRITEBYTECODE :=
SYMBOLS ?= BTC ETH
SOURCE ?= sample
OUT ?= report.html
# Three workers for two cores: many tests wait for a service, a process or a clock.
PYTEST := -m pytest -q -n 3 --dist loadfile

# A newer Python than the locks' oldest takes the newest numpy and scipy that are allowed.
NEWER ?= $(firstword $(shell for p in python3.14 python3.13 python3.12 $(foreach minor,14 13 12, \
	$(wildcard $(HOME)/.pyenv/versions/3.$(minor).*/bin/python3)); \
	do $$p -c "import ensurepip" 2>/dev/null && echo $$p; done))

# Files with tests of what numpy, scipy, pandas and xarray compute. Those that depend on their versions are marked
# `environment`; `make weekly` runs the whole suite on each Python.
NUMERIC_TESTS := tests/analysis $(wildcard tests/test_*.py)

.PHONY: report test checks test-slow test-newest test-machines test-long weekly coverage mutants soak bench docs dist lock audit sbom clean

report: $(VENV)/.base
	$(BIN)/derivdata report $(SOURCE) --symbols $(SYMBOLS) --out $(OUT)

test: checks
	$(BIN)/python $(PYTEST) -m "not slow"

checks: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/mypy

# Those of them that take seconds each: a part of continuous integration.
test-slow: $(VENV)/.dev
	$(BIN)/python $(PYTEST) -m slow

# What the short forms of `make test` leave out: more drawn examples of each property, and the tests marked `slow`.
test-long: $(VENV)/.dev
	$(BIN)/python $(PYTEST) --hypothesis-profile=long -m "slow or drawn"

ifeq ($(NEWER),)
test-newest:
	@echo "the newest numpy and scipy were not checked: they need Python 3.12 or newer, and none is installed"
else
test-newest:
	$(MAKE) --no-print-directory $(VENV)/newest/.dev VENV=$(VENV)/newest PYTHON=$(NEWER)
	$(VENV)/newest/bin/mypy --cache-dir .mypy_cache/newest
	$(VENV)/newest/bin/python $(PYTEST) -m "environment and not slow" $(NUMERIC_TESTS)
endif

# Checks that take too long for the gate: many drawn examples, full loads, other users, Pythons, locales and
# processors, coverage, mutants, benchmarks and pages. Each part that passed on this commit is skipped, so an
# interrupted run continues. PART=soak runs the parts whose names contain `soak`. Writes docs/development/weekly.md.
weekly: $(VENV)/.dev
	$(BIN)/python -m tests.weekly -k "$(PART)"

coverage: $(VENV)/.dev
	$(BIN)/python $(PYTEST) --cov --cov-fail-under=95 --cov-report=term:skip-covered

test-machines:
	$(MAKE) --no-print-directory weekly PART="machine: "

mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Full loads, two parts at a time, under 45 minutes on two idle cores; writes the figures of docs/methods/reliability.md.
soak:
	$(MAKE) --no-print-directory weekly PART="soak: "

# In an environment of its own, as Read the Docs builds them: a package that only the tests have would hide a fault.
docs:
	$(MAKE) --no-print-directory $(VENV)/docs/.docs VENV=$(VENV)/docs
	$(VENV)/docs/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# Adds what pyproject.toml asks for now; LOCK_OPTIONS=--upgrade also takes newer versions of what is there.
lock: $(UV)
	$(LOCK) pyproject.toml requirements/build.in --output-file requirements/base.txt
	$(LOCK) pyproject.toml requirements/build.in $(EXTRAS) --group dev --constraint requirements/base.txt \
		--output-file requirements/dev.txt
	$(LOCK) pyproject.toml requirements/build.in $(EXTRAS) --group docs --constraint requirements/dev.txt \
		--output-file requirements/docs.txt
	$(LOCK) pyproject.toml requirements/build.in $(EXTRAS) --group bench --constraint requirements/dev.txt \
		--output-file requirements/bench.txt
	$(LOCK) requirements/tools.in --output-file requirements/tools.txt
	$(LOCK) requirements/uv.in --output-file requirements/uv.txt

# The source archive and the wheel, built from it: dist/derivdata-VERSION-py3-none-any.whl.
dist: $(VENV)/.base
	$(UV) build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	@ls dist/derivdata-*.whl

# Needs a network: known weaknesses are looked up at the Python Package Index.
audit: $(VENV)/.dev $(VENV)/.tools
	$(UV) pip check --python $(BIN)/python
	$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/dev.txt \
		--requirement requirements/docs.txt --requirement requirements/bench.txt --requirement requirements/tools.txt \
		--requirement requirements/uv.txt

# The software of an installed derivdata in CycloneDX's format: versions, hashes, licences, who depends on whom.
sbom: $(VENV)/.tools $(VENV)/.installed
	$(TOOLS)/bin/cyclonedx-py environment $(VENV)/installed/bin/python --pyproject pyproject.toml \
		--output-reproducible --output-file sbom.json
	$(BIN)/python requirements/sbom.py sbom.json

clean:
	rm -rf $(VENV) dist docs/_build docs/outputs docs/gallery docs/generated docs/reference .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage .mutants.coverage .mutants.xml

$(UV): requirements/uv.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		--requirement requirements/uv.txt
	touch $@

$(VENV)/.base: pyproject.toml requirements/base.txt $(UV)
	$(UV) $(LOCKED) requirements/base.txt --python $(BIN)/python
	$(UV) $(PACKAGE) --python $(BIN)/python
	touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.txt $(UV)
	$(UV) $(LOCKED) requirements/dev.txt --python $(BIN)/python
	$(UV) $(PACKAGE) --python $(BIN)/python
	touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml requirements/docs.txt $(UV)
	$(UV) $(LOCKED) requirements/docs.txt --python $(BIN)/python
	$(UV) $(PACKAGE) --python $(BIN)/python
	touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml requirements/bench.txt $(UV)
	$(UV) $(LOCKED) requirements/bench.txt --python $(BIN)/python
	$(UV) $(PACKAGE) --python $(BIN)/python
	touch $@ $(VENV)/.base

$(VENV)/.installed: requirements/base.txt $(UV)
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(VENV)/installed
	$(UV) $(LOCKED) requirements/base.txt --python $(VENV)/installed/bin/python
	touch $@

$(VENV)/.tools: requirements/tools.txt $(UV)
	$(UV) venv --quiet --allow-existing --python $(BIN)/python $(TOOLS)
	$(UV) $(LOCKED) requirements/tools.txt --python $(TOOLS)/bin/python
	touch $@
