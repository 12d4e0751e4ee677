"""Wrong arguments to every public function: it works, or one of our errors says which argument is wrong."""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import derivdata as dd
from derivdata.api import Request
from derivdata.errors import DataNotice, DerivdataError
from derivdata.transport import served
from tests.reliability.calls import CALLS, HELD, LEFT_OUT, function, public
from tests.reliability.wrong import VALUES, changes

SECONDS = 10.0
"""A call that takes longer hangs."""

_WIRE = {"window": ("range",), "min_volume_usd": ("min_value",)}
"""What the API calls an argument, where what is refused is what would be sent; it has no plurals either."""


def test_every_public_function_is_called_or_left_out_with_a_reason() -> None:
    assert public() == CALLS.keys() | LEFT_OUT.keys()
    assert not CALLS.keys() & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
    assert CALLS.keys() >= HELD


@pytest.fixture(scope="module", autouse=True)
def _answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The sample, each request asked of it once; nothing is connected, so no socket is opened by a call."""
    known: dict[Request, served.Served] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.chdir(tmp_path_factory.mktemp("here"))
        connection = dd.connect("sample", cache="off")

        def answer(request: Request) -> served.Served:
            if request not in known:
                known[request] = connection.serve(request)
            return known[request]

        served.set_responder(answer)
        yield
        served.set_responder(None)
        dd.disconnect()


class _Hangs(BaseException):
    """A call took too long; no error that the library could catch."""


def _late(*_: Any) -> None:
    raise _Hangs


def _words(argument: str, valid: Any) -> list[str]:
    """What a message may call an argument: its name, or for data a column, dim or variable of it."""
    if isinstance(valid, pd.DataFrame):
        return [argument, *map(str, valid.columns)]
    if isinstance(valid, xr.DataArray | xr.Dataset):
        return [argument, *map(str, valid.dims), *map(str, getattr(valid, "variables", valid.coords))]
    return [argument, argument.removesuffix("s"), *_WIRE.get(argument, ())]


def _copied(value: Any) -> Any:
    if isinstance(value, pd.DataFrame | xr.DataArray | xr.Dataset):
        return value.copy(deep=True)
    return value.copy() if isinstance(value, np.ndarray | list | dict) else value


def _same(value: Any, before: Any) -> bool:
    if isinstance(value, pd.DataFrame):
        return value.equals(before) and value.columns.equals(before.columns)
    if isinstance(value, xr.DataArray | xr.Dataset):
        return bool(value.identical(before))
    return repr(value) == repr(before) if isinstance(value, np.ndarray | list | dict) else True


def _call(name: str, arguments: dict[str, Any], named: list[str]) -> None:
    """Make a call, and hold what comes of it to the promise."""
    before = {argument: _copied(value) for argument, value in arguments.items()}
    refusal: Exception | None = None
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        function(name)(**arguments)
    except (DerivdataError, ValueError, TypeError) as error:
        refusal = error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        plt.close("all")
    changed = [argument for argument, value in arguments.items() if not _same(value, before[argument])]
    assert not changed
    if refusal is not None and not isinstance(refusal, DerivdataError):
        assert any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", str(refusal)) for word in named), refusal


@st.composite
def _wrong(draw: st.DrawFn, valid: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A valid call with one or two arguments replaced, and what a message may call these."""
    names = draw(st.lists(st.sampled_from(sorted(valid)), min_size=1, max_size=2, unique=True))
    arguments, words = dict(valid), []
    for name in names:
        made: dict[str, Callable[[], Any]] = VALUES | changes(valid[name])
        arguments[name] = made[draw(st.sampled_from(sorted(made)))]()
        words += _words(name, valid[name])
    return arguments, words


@pytest.mark.parametrize("name", sorted(HELD))
def test_a_wrong_argument_is_refused_by_name(name: str) -> None:
    valid = CALLS[name]()
    signal.signal(signal.SIGALRM, _late)

    @settings(
        max_examples=12,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_wrong(valid))
    def holds(drawn: tuple[dict[str, Any], list[str]]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DataNotice)
            _call(name, *drawn)

    holds()
