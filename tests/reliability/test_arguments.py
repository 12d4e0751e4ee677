"""Wrong arguments to every public function: it works, or one of our errors says which argument is wrong."""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import re
import signal
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import derivdata as dd
from derivdata.client.transport import SESSION
from derivdata.client.transport.connection import Connection
from derivdata.errors import DataNotice, DerivdataError
from tests.reliability.calls import CALLS, LEFT_OUT, MAIN, function, public
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK, count
from tests.reliability.wrong import DRAWN, VALUES, Make, changes

Wrong: TypeAlias = tuple[str, Any]
"""What is wrong with a value, and the value."""

SECONDS = 300.0  # only a call that hangs takes so long, however slow the machine
"""A call that takes longer hangs."""

_SLOW = {"funding.history", "funding.settlements", "liquidations.history"}

_EACH = sorted(name for name in MAIN if SOAK or name not in _SLOW)

_ANY = "any value"

_CONNECTING = ("connect", "record", "replay")
"""What changes who answers."""

_WIRE = {
    "window": ("range",),
    "min_volume_usd": ("min_value",),
    "venue": ("exchange",),
    "venues": ("exchange", "exchanges"),
}
"""What the API calls an argument, where what is refused is what would be sent; it has no plurals either."""


def test_every_public_function_is_called_or_left_out_with_a_reason() -> None:
    assert public() == CALLS.keys() | LEFT_OUT.keys()
    assert not CALLS.keys() & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
    assert CALLS.keys() >= MAIN


@pytest.fixture(scope="module", autouse=True)
def _sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The sample, most requests asked of it once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.chdir(tmp_path_factory.mktemp("here"))
        connection = dd.connect("sample", cache="off")
        patch.setattr(SESSION, "connection", None)
        SESSION.responder = functools.lru_cache(maxsize=1000)(connection._serve)
        signal.signal(signal.SIGALRM, _late)
        yield connection
        SESSION.responder = None
        connection.close()


@pytest.fixture(autouse=True)
def _connected(_sample: Connection) -> Iterator[None]:
    """The sample is not closed after a test, as connections are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SESSION, "connection", _sample)
        yield


@pytest.fixture(scope="module")
def tally() -> Counter[str]:
    """How many different wrong calls were made of each function."""
    return Counter()


@contextlib.contextmanager
def _connected_as_before(name: str) -> Iterator[None]:
    """Undo what a call does to who answers; one that changes it is made where nobody does yet."""
    if name not in _CONNECTING:
        yield
        return
    restore = SESSION.install(responder=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SESSION, "connection", None)
        try:
            yield
        finally:
            dd.disconnect()
            restore()


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
    single = re.sub("ies$", "y", argument) if argument.endswith("ies") else argument.removesuffix("s")
    return [argument, single, *_WIRE.get(argument, ())]


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
        with _connected_as_before(name):
            function(name)(**arguments)
    except (DerivdataError, ValueError, TypeError) as error:
        refusal = error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        plt.close("all")
    changed = [argument for argument, value in arguments.items() if not _same(value, before[argument])]
    assert not changed
    if refusal is not None and not isinstance(refusal, DerivdataError):
        message = "\n".join([str(refusal), *getattr(refusal, "__notes__", [])])
        assert any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message) for word in named), refusal


def _calls(name: str) -> tuple[dict[str, Any], dict[str, dict[str, Make]]]:
    """All arguments of a valid call, and for each what is wrong, by what is wrong with it."""
    wanted = inspect.signature(function(name)).parameters.values()
    valid = {one.name: one.default for one in wanted if one.default is not one.empty} | CALLS[name]()
    return valid, {argument: VALUES | changes(value) for argument, value in valid.items()}


@st.composite
def _wrong(draw: st.DrawFn, valid: dict[str, Any], made: dict[str, dict[str, Make]]) -> dict[str, Wrong]:
    """One or two arguments of a call and what they are replaced with: a value of `made`, or any other."""
    places = [names for n in (1, 2) for names in itertools.combinations(sorted(valid), n)]
    wrong = {}
    for name in draw(st.sampled_from(places)):
        kind = draw(st.sampled_from([*sorted(made[name]), *[_ANY] * (len(made[name]) // 4)]))
        wrong[name] = (kind, draw(DRAWN) if kind == _ANY else made[name][kind]())
    return wrong


def _holds(name: str, valid: dict[str, Any], wrong: dict[str, Wrong]) -> None:
    arguments = valid | {argument: value for argument, (_, value) in wrong.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataNotice)
        _call(name, arguments, [word for argument in wrong for word in _words(argument, valid[argument])])


def _draws(name: str) -> int:
    if name.startswith("plot."):
        return count(4, 60)
    return count(4, 3000 if name in MAIN else 300)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_wrong_argument_is_refused_by_name(name: str, tally: Counter[str]) -> None:
    valid, made = _calls(name)
    seen: set[str] = set()

    @settings(
        max_examples=_draws(name) * 5 // 4,  # for some are the same
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_wrong(valid, made))
    def holds(wrong: dict[str, Wrong]) -> None:
        seen.add(
            " ".join(
                f"{a}: {kind} {value!r}" if kind == _ANY else f"{a}: {kind}"
                for a, (kind, value) in wrong.items()
            )
        )
        _holds(name, valid, wrong)

    holds()
    tally[name] += len(seen)


@pytest.mark.parametrize("name", _EACH)
def test_each_argument_refuses_each_wrong_value_by_name(name: str, tally: Counter[str]) -> None:
    """In the gate each value that fits no argument meets one argument in three, the next value the next."""
    valid, made = _calls(name)
    every = min(len(made), count(3, 1))
    for place, (argument, kinds) in enumerate(made.items()):
        for number, (kind, make) in enumerate(kinds.items()):
            if kind in VALUES and (number + place) % every:
                continue
            try:
                _holds(name, valid, {argument: (kind, make())})
            except AssertionError as wrong:
                raise AssertionError(f"{argument}: {kind}") from wrong


def test_as_many_were_made_as_were_meant_to(tally: Counter[str], measured: Measured) -> None:
    few = {name: n for name, n in tally.items() if n < _draws(name)}
    assert few == {}
    measured(
        "arguments",
        f"{len(tally)} functions, {tally.total():,} different wrong calls: 0 other errors, 0 without a name",
    )
