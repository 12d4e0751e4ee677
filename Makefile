# `make report` and `make test` do all their own set-up: they need python3.11 with venv, make and git.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
SYMBOLS ?= BTC ETH
SOURCE ?= sample
OUT ?= report.html

.PHONY: report test docs clean

report: $(VENV)/.base
	$(BIN)/derivdata report $(SOURCE) --symbols $(SYMBOLS) --out $(OUT)

test: $(VENV)/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --cov --cov-fail-under=95 --cov-report=term:skip-covered

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

clean:
	rm -rf $(VENV) docs/_build docs/gallery docs/reference .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@ $(VENV)/.base
