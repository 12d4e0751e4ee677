"""Every public analysis records its call: two calls that differ in one argument have other attributes."""

from __future__ import annotations

import inspect
import typing
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.errors import DataNotice, DerivdataError
from derivdata.support import calls
from tests.reliability.calls import CALLS, function

NAMES = sorted(
    name for name in CALLS if name.startswith("analysis.") or name in ("panel", "quality", "features")
)


def labelled(result: Any) -> bool:
    return isinstance(result, pd.DataFrame | xr.DataArray | xr.Dataset)


def others(name: str, argument: str, value: Any) -> Iterator[Any]:
    """Yield values near a valid one that may also be valid."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value * 1.01 + 1e-6
    elif isinstance(value, xr.DataArray | np.ndarray) and value.dtype.kind == "f":
        yield value * 1.001
    elif isinstance(value, str):
        try:
            hint = typing.get_type_hints(inspect.unwrap(function(name))).get(argument)
        except NameError:  # a name that only type checkers import
            hint = None
        yield from (choice for choice in typing.get_args(hint) if isinstance(choice, str) and choice != value)
        if value[:-1].isdigit():
            yield f"{int(value[:-1]) + 1}{value[-1]}"


def result_of(name: str, arguments: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        return function(name)(**arguments)


@pytest.mark.parametrize("name", NAMES)
def test_two_calls_that_differ_in_one_argument_differ_in_their_attributes(name: str) -> None:
    if name == "features":  # the one of them that requests its tables
        dd.connect("sample")
    parameters = inspect.signature(function(name)).parameters.values()
    valid = {p.name: p.default for p in parameters if p.default is not p.empty} | CALLS[name]()
    result = result_of(name, valid)
    if not labelled(result):
        return
    record = calls.record_of(result)
    assert record is not None
    assert record["function"] == name
    named = {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    assert record["arguments"].keys() >= named
    for argument, value in valid.items():
        for other in others(name, argument, value):
            try:
                changed = result_of(name, valid | {argument: other})
            except (DerivdataError, ValueError, TypeError):
                continue  # not a valid value of this argument
            if labelled(changed):
                assert changed.attrs["call"] != result.attrs["call"], argument
