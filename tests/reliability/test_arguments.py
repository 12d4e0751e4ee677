"""Wrong arguments to every public function: it works, or raises an error that names the argument."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import functools
import inspect
import itertools
import re
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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

Make: TypeAlias = Callable[[], Any]

_TEXTS = {
    "empty": "",
    "unknown": "no such thing",
    "NUL": "a\0b",
    "surrogate": "\ud800",
    "path": "../../etc/passwd",
    "query": "a?b=c&d#e",
    "long": "x" * 5000,
    "number": "1.5",
    "length": "3h",
    "day": "2026-06-29",
    "old day": "1677-01-01",
    "last day": "9999-12-31T23:59:59Z",
    "after the window": "2026-07-15",
}
_NUMBERS = {
    "zero": 0,
    "minus one": -1,
    "one": 1,
    "vast": 10**30,
    "tiny": 5e-324,
    "huge": 1e308,
    "minus huge": -1e308,
    "NaN": float("nan"),
    "inf": float("inf"),
    "True": True,
    "complex": 1j,
    "decimal": decimal.Decimal("1.5"),
    "numpy NaN": np.float32("nan"),
}
_TIMES = {
    "naive": dt.datetime(2026, 6, 29, 1),  # noqa: DTZ001
    "date": dt.date(2026, 6, 29),
    "stamp": pd.Timestamp("2026-06-29", tz="UTC"),
    "NaT": pd.NaT,
    "numpy NaT": np.datetime64("NaT", "us"),
    "numpy year": np.datetime64("30000", "Y"),
    "time delta": pd.Timedelta("1h"),
    "minus a day": pd.Timedelta("-1D"),
}
_OTHERS: dict[str, Make] = {
    "None": lambda: None,
    "NA": lambda: pd.NA,
    "bytes": lambda: b"binance",
    "list": list,
    "dict": dict,
    "set": lambda: {"binance"},
    "texts": lambda: ["binance", "okx"],
    "same twice": lambda: ["binance", "binance"],
    "unknown names": lambda: ["nowhere", "okx"],
    "many names": lambda: [f"v{n}" for n in range(count(40, 500))],
    "mixed": lambda: ["okx", 1, None],
    "lists": lambda: [["okx"], [1, 2]],
    "backwards": lambda: [2.0, -1.0],
    "NaNs": lambda: [float("nan")] * 3,
    "mapping of text": lambda: {"long_entry": "x", "call": "x"},
    "mapping from numbers": lambda: {1: 2.0, None: 1.0},
    "legs of NaN": lambda: dict.fromkeys(("long_entry", "long_exit", "short_entry", "short_exit"), np.nan),
    "array": lambda: np.arange(3.0),
    "empty array": lambda: np.empty(0),
    "no dims": lambda: np.array(2.0),
    "two dims": lambda: np.ones((2, 3)),
    "texts in an array": lambda: np.array(["a", "b"]),
    "objects in an array": lambda: np.array([None, "x", 1.0], dtype=object),
    "series": lambda: pd.Series([1.0, 2.0], index=["a", "a"]),
    "index": lambda: pd.DatetimeIndex(["2026-06-29", "2026-06-28"]),
    "frame": pd.DataFrame,
    "data array": lambda: xr.DataArray(np.ones(2), dims="other"),
    "lone value": lambda: xr.DataArray(np.nan),
    "dataset": xr.Dataset,
    "object": object,
    "function": lambda: len,
    "generator": lambda: (name for name in ["okx"]),
    "slice": lambda: slice(1),
}


def _held(values: Mapping[str, Any]) -> dict[str, Make]:
    return {name: lambda value=value: value for name, value in values.items()}


VALUES: dict[str, Make] = {**_held(_TEXTS), **_held(_NUMBERS), **_held(_TIMES), **_OTHERS}
"""Values by kind; a new object each time."""

DRAWN: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.binary(max_size=4),
    st.datetimes(),
    st.timedeltas(),
    st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=4), st.none()), max_size=4),
    st.dictionaries(st.text(max_size=4), st.floats(), max_size=3),
)
"""Unexpected values."""


def _of_frame(frame: pd.DataFrame) -> dict[str, Make]:
    def with_column(name: Any, value: Any) -> Make:
        return lambda: frame.assign(**{name: value})

    made: dict[str, Make] = {
        "no rows": lambda: frame.iloc[:0],
        "one row": lambda: frame.iloc[:1],
        "rows twice": lambda: pd.concat([frame, frame]),
        "columns twice": lambda: pd.concat([frame, frame], axis=1),
        "backwards": lambda: frame.iloc[::-1],
        "by number": lambda: frame.set_axis(range(frame.shape[1]), axis=1),
        "as text": lambda: frame.astype(str),
        "other index": lambda: frame.set_index(frame.columns[0]),
    }
    for name in frame.columns:
        made |= {
            f"without {name}": lambda name=name: frame.drop(columns=name),
            f"{name} as NaN": with_column(name, np.nan),
            f"{name} as NaT": with_column(name, pd.NaT),
            f"{name} as number": with_column(name, -1.0),
            f"{name} as infinity": with_column(name, np.inf),
            f"{name} as text": with_column(name, "x"),
        }
    return made


def _of_labelled(data: Any) -> dict[str, Make]:
    """Return variants of an array or a dataset with changed labels and dims."""
    made: dict[str, Make] = {
        "without attributes": lambda: data.drop_attrs(),
        "without labels": lambda: data.drop_vars(list(data.coords)),
        "in pieces": lambda: data.chunk(),
        "backwards": lambda: data.isel({dim: slice(None, None, -1) for dim in data.dims}),
    }
    for dim in data.dims:
        made |= {
            f"no {dim}": lambda dim=dim: data.isel({dim: slice(0)}),
            f"one {dim}": lambda dim=dim: data.isel({dim: slice(1)}),
            f"first {dim}": lambda dim=dim: data.isel({dim: 0}),
            f"{dim} renamed": lambda dim=dim: data.rename({dim: "other"}),
            f"{dim} the same": lambda dim=dim: data.isel({dim: [0] * data.sizes[dim]}),
        }
    return made


def _of_array(array: xr.DataArray) -> dict[str, Make]:
    made: dict[str, Make] = _of_labelled(array) | {
        "other units": lambda: array.assign_attrs(units="furlong"),
        "other kind": lambda: array.assign_attrs(kind="furlong"),
        "number as units": lambda: array.assign_attrs(units=3),
        "NaN": lambda: array * np.nan,
        "infinity": lambda: array.copy(data=np.full(array.shape, np.inf)),
        "negative": lambda: array.copy(data=np.full(array.shape, -1.0)),
        "zero": lambda: array.copy(data=np.zeros(array.shape)),
        "booleans": lambda: array.notnull().assign_attrs(array.attrs),
        "texts": lambda: array.astype(str),
        "bare": lambda: array.to_numpy().copy(),
        "transposed": lambda: array.transpose(*array.dims[::-1]),
    }
    for dim in array.dims:
        texts = [f"x{n}" for n in range(array.sizes[dim])]
        made |= {
            f"{dim} as numbers": lambda dim=dim: array.assign_coords({dim: np.arange(array.sizes[dim])}),
            f"{dim} as texts": lambda dim=dim, texts=texts: array.assign_coords({dim: texts}),
            f"{dim} twice": lambda dim=dim: xr.concat([array, array], dim),
        }
    return made


def _without(data: xr.Dataset, name: Any) -> xr.Dataset:
    """Return the data without a variable, whose index other coordinates may share: xarray keeps it whole."""
    if name in data.xindexes:
        data = data.drop_indexes([*data.xindexes.get_all_coords(name)])
    return data.drop_vars(name)


def _of_dataset(data: xr.Dataset) -> dict[str, Make]:
    return _of_labelled(data) | {
        "NaN": lambda: data.map(lambda one: one * np.nan if one.dtype.kind == "f" else one),
        "negative": lambda: data.map(lambda one: -one if one.dtype.kind == "f" else one),
        "texts": lambda: data.map(lambda one: one.astype(str)),
        **{f"without {name}": lambda name=name: _without(data, name) for name in data.variables},
    }


def changes(value: Any) -> dict[str, Make]:
    """Nearly valid values of an argument, by fault."""
    if isinstance(value, pd.DataFrame):
        return _of_frame(value)
    if isinstance(value, xr.DataArray):
        return _of_array(value)
    if isinstance(value, xr.Dataset):
        return _of_dataset(value)
    return {}


Wrong: TypeAlias = tuple[str, Any]
"""Invalid values by description."""

SECONDS = 300.0  # only a call that hangs takes so long, however slow the machine
"""A call that takes longer hangs."""

_SLOW = {"funding.history", "funding.settlements", "liquidations.history"}

_EACH = sorted(name for name in MAIN if SOAK or name not in _SLOW)

_ANY = "any value"

_CONNECTING = ("connect", "record", "replay")
"""Functions that change the connection."""

_WIRE = {
    "window": ("range",),
    "min_volume_usd": ("min_value",),
    "venue": ("exchange",),
    "venues": ("exchange", "exchanges"),
}
"""The API's names of arguments, where the API's value is rejected; it has no plurals."""


def test_every_public_function_is_called_or_exempt_with_a_reason() -> None:
    assert public() == CALLS.keys() | LEFT_OUT.keys()
    assert not CALLS.keys() & LEFT_OUT.keys()
    assert all(LEFT_OUT.values())
    assert CALLS.keys() >= MAIN


@pytest.fixture(scope="module", autouse=True)
def _sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """Connect the sample, with most requests already cached."""
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
    """Restore the connection that a call changes; a call that connects starts without a connection."""
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
    """Names of an argument in a message: its own, or for data a column, dim or variable of it."""
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
    """Make a call, and check its result against the promise."""
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
    """Return all arguments of a valid call, and invalid values for each."""
    expected = inspect.signature(function(name)).parameters.values()
    valid = {item.name: item.default for item in expected if item.default is not item.empty} | CALLS[name]()
    return valid, {argument: VALUES | changes(value) for argument, value in valid.items()}


@st.composite
def _wrong(
    draw: st.DrawFn, valid: dict[str, Any], make_collector: dict[str, dict[str, Make]]
) -> dict[str, Wrong]:
    """Draw one or two arguments of a call and their replacements: a value of `made`, or any other."""
    places = [names for n in (1, 2) for names in itertools.combinations(sorted(valid), n)]
    wrong = {}
    for name in draw(st.sampled_from(places)):
        kind = draw(
            st.sampled_from([*sorted(make_collector[name]), *[_ANY] * (len(make_collector[name]) // 4)])
        )
        wrong[name] = (kind, draw(DRAWN) if kind == _ANY else make_collector[name][kind]())
    return wrong


def _holds(name: str, valid: dict[str, Any], wrong: dict[str, Wrong]) -> None:
    arguments = valid | {argument: value for argument, (_, value) in wrong.items()}
    words = [word for argument in wrong for word in _words(argument, valid[argument])]
    if name == "tables.expiry" and isinstance(arguments["name"], str):
        words.append(arguments["name"])  # the name of the caller's argument, which the error has
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataNotice)
        _call(name, arguments, words)


def _draws(name: str) -> int:
    if name.startswith("plot."):
        return count(4, 60)
    return count(4, 3000 if name in MAIN else 300)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_wrong_argument_is_rejected_by_name(name: str, tally: Counter[str]) -> None:
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


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("analysis.backtest.capacity", {"result": "texts"}),
        ("analysis.backtest.carry", {"capital": "one"}),
        ("analysis.backtest.sweep", {"panel": "no exchange"}),
        ("analysis.backtest.sweep", {"rules": "legs of NaN"}),
        ("analysis.backtest.sweep", {"rules": "mapping of text"}),
        ("analysis.backtest.options", {"chains": "ask_coin as text"}),
        ("analysis.backtest.options", {"rule": "function"}),
        ("analysis.chain.clean", {"chain": "volume as NaT"}),
        ("analysis.chain.executable", {"options": "ask_usd as infinity"}),
        ("analysis.chain.executable", {"options": "bid_coin as number"}),
        ("analysis.chain.executable", {"options": "interest_rate as infinity"}),
        ("analysis.chain.forwards", {"discount": "vast"}),
        ("analysis.chain.greeks", {"chain": "exchange as NaN"}),
        ("analysis.chain.smiles", {"options": "ask_coin as NaT"}),
        ("analysis.chain.smiles", {"options": "interest_rate as text"}),
        ("analysis.exposure.max_pain", {"chain": "symbol as NaN"}),
        ("analysis.funding.next_settlements", {"settlements": "time as NaT"}),
        ("analysis.funding.portfolio", {"forecasts": "no symbol"}),
        ("analysis.funding.portfolio", {"forecasts": "one time"}),
        ("analysis.funding.portfolio", {"maintenance": "frame"}),
        ("analysis.funding.portfolio", {"prices": "one time"}),
        ("analysis.futures.constant_maturity", {"curve": "no expiry"}),
        ("analysis.liquidations.branching_ratio", {"counts": "negative"}),
        ("analysis.position.attribution", {"legs": "expiry as NaT"}),
        ("analysis.sessions.by_session", {"mark": "exchange as texts"}),
        ("analysis.sessions.calendar", {"start": "old day"}),
        ("analysis.sessions.calendar", {"end": "last day"}),
        ("analysis.smile.iv", {"fit": "without year_fraction"}),
        ("analysis.smile.svi.convert", {"year_fraction": "tiny"}),
        ("analysis.surface.from_chain", {"chain": "index_price_usd as text"}),
        ("analysis.surface.fit", {"iv_ask": "huge", "weights": "huge"}),
        ("open_archive", {"path": "long"}),
        ("plot.option_flow", {"trades": "by number"}),
        ("plot.option_flow", {"trades": "execution as NaN"}),
        ("plot.orderbook_depth", {"data": "as text"}),
        ("plot.orderbook_depth", {"data": "bid_depth_usd as NaN"}),
        ("plot.orderbook_depth", {"data": "depth_bps as NaN"}),
        ("plot.orderbook_depth", {"data": "ask_depth_usd as infinity"}),
        ("plot.orderbook_depth", {"data": "frame"}),
        ("plot.pnl_attribution", {"attribution": "no currency"}),
        ("plot.positioning", {"data": "long_short_ratio as infinity"}),
        ("plot.positioning", {"funding": "lone value"}),
        ("plot.smile", {"fit": "without k_max"}),
        ("plot.smile", {"fit": "without expiry"}),
        ("plot.term_structure", {"engine": "NA", "figsize": "NA"}),
        ("plot.venue_difference", {"data": "exchange the same"}),
        ("plot.venue_difference", {"data": "without method"}),
        ("plot.venue_difference", {"data": "without year_fraction"}),
        ("plot.venue_difference", {"reference": "unknown"}),
        ("tables.expiry", {"label": "NUL", "name": "NUL"}),
    ],
)
def test_a_wrong_call_of_an_earlier_run_is_rejected_by_name(name: str, kinds: dict[str, str]) -> None:
    """Calls that raised an error of another package, or without the argument's name, with other seeds."""
    valid, made = _calls(name)
    _holds(name, valid, {argument: (kind, made[argument][kind]()) for argument, kind in kinds.items()})


def test_planned_number_of_wrong_calls_was_made(tally: Counter[str], measured: Measured) -> None:
    few = {name: n for name, n in tally.items() if n < _draws(name)}
    assert few == {}
    measured(
        "arguments",
        f"{len(tally)} functions, {tally.total():,} different wrong calls: 0 other errors, 0 without a name",
    )
