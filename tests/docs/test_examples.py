"""Examples in docstrings run as shown, on the sample, and every public module has some."""

from __future__ import annotations

import doctest
import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd

FAMILIES = ("funding", "liquidations", "markets", "oi", "options", "orderbook", "volume")
ANALYSIS = (
    "analysis",
    *(f"analysis.{name}" for name in dd.analysis.__all__ if not callable(getattr(dd.analysis, name))),
)
SHOWN = ("", *FAMILIES, *ANALYSIS, "units")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def module_of(name: str) -> ModuleType:
    """A public module by the name that users write after ``dd.``."""
    if not name:
        return dd
    family, _, rest = name.partition(".")
    return importlib.import_module(f"derivdata.{name}") if rest else getattr(dd, family)


def examples(name: str) -> Iterator[doctest.DocTest]:
    """The examples of everything public in a module."""
    module = module_of(name)
    finder = doctest.DocTestFinder(recurse=False, exclude_empty=True)
    for public in module.__all__:
        value = getattr(module, public)
        if callable(value):
            result = finder.find(value, f"{name}.{public}".strip("."), globs={})
            yield from (test for test in result if test.examples)


CASES = [(name, test) for name in SHOWN for test in examples(name)]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names of an example: the usual ones, the sample connected, an empty folder."""
    monkeypatch.chdir(tmp_path)
    dd.connect("sample")
    return {"dd": dd, "np": np, "pd": pd, "xr": xr}


@pytest.mark.parametrize("test", [test for _, test in CASES], ids=[test.name for _, test in CASES])
def test_example_runs_as_shown(test: doctest.DocTest, names: dict[str, Any]) -> None:
    messages: list[str] = []
    test.globs = names
    with warnings.catch_warnings(), pd.option_context("display.width", 120):
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=messages.append, clear_globs=False)
    assert not messages, "".join(messages)


@pytest.mark.parametrize("name", SHOWN)
def test_every_module_has_an_example(name: str) -> None:
    assert [test for module, test in CASES if module == name]
