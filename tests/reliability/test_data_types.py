"""The same data in another zone, unit or type give the same results, in every public function."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xarray as xr
from matplotlib.axes import Axes

import derivdata as dd
from derivdata.client.transport import SESSION
from derivdata.client.transport.connection import Connection
from derivdata.support.plain_data import TIME_COLUMNS, plain
from derivdata.support.times import iso, length, naive_utc, utc
from derivdata.tables.definitions import COLUMNS
from derivdata.tables.schema import Kind
from tests.reliability.calls import CALLS, function
from tests.reliability.promises import SOAK

pytestmark = pytest.mark.filterwarnings("ignore:the figure cannot state its source")  # of data made by hand

Change: TypeAlias = Callable[[pd.DatetimeIndex], Any]
"""Makes the labels or the values of a column of other type from times in UTC."""

ZONES = ("UTC", "Asia/Tokyo", "America/New_York", "Asia/Kolkata")

CHANGES: dict[str, Change] = {
    **{zone: lambda stamps, zone=zone: stamps.tz_convert(zone) for zone in ZONES},
    "ns": lambda stamps: stamps.as_unit("ns"),
    "ms in Tokyo": lambda stamps: stamps.as_unit("ms").tz_convert("Asia/Tokyo"),
    "s": lambda stamps: stamps.as_unit("s"),
    "Arrow": lambda stamps: _arrow(stamps),
    "Arrow in New York": lambda stamps: _arrow(stamps.tz_convert("America/New_York")),
    "objects": lambda stamps: pd.Index(
        [None if stamp is pd.NaT else stamp.to_pydatetime() for stamp in stamps], dtype=object
    ),
    "objects in Kolkata": lambda stamps: stamps.tz_convert("Asia/Kolkata").astype(object),
    "text": lambda stamps: pd.Index([_text(stamp) for stamp in stamps], dtype="str"),
    "text in Tokyo": lambda stamps: pd.Index([_text(stamp, "Asia/Tokyo") for stamp in stamps], dtype="str"),
}

SINGLE: dict[str, Callable[[pd.Timestamp], Any]] = {
    **{zone: lambda stamp, zone=zone: stamp.tz_convert(zone) for zone in ZONES},
    "ns": lambda stamp: stamp.as_unit("ns"),
    "ms in Tokyo": lambda stamp: stamp.as_unit("ms").tz_convert("Asia/Tokyo"),
    "s": lambda stamp: np.datetime64(naive_utc(stamp).isoformat(), "s"),
    "Arrow": lambda stamp: np.datetime64(naive_utc(stamp).isoformat(), "us"),
    "Arrow in New York": lambda stamp: stamp.tz_convert("America/New_York"),
    "objects": lambda stamp: stamp.to_pydatetime(),
    "objects in Kolkata": lambda stamp: stamp.tz_convert("Asia/Kolkata").to_pydatetime(),
    "text": iso,
    "text in Tokyo": lambda stamp: stamp.tz_convert("Asia/Tokyo").isoformat(),
}

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")

_CHANGE_THE_CONNECTION = {"connect", "record", "replay", "open_archive", "cache_clear", "bundle_diff", "raw"}

_DAYS_ONLY = {"venues.facts"}
"""Functions whose argument is a calendar day, not a time."""


def _text(stamp: pd.Timestamp, zone: str = "UTC") -> str | None:
    return None if stamp is pd.NaT else stamp.tz_convert(zone).isoformat()


def _arrow(stamps: pd.DatetimeIndex) -> pd.Index:
    return pd.Index(pd.Series(stamps).convert_dtypes(dtype_backend="pyarrow"))


def _changed(value: Any, change: str) -> Any:
    """Return an argument with its times of another zone, unit or type; None where it has none."""
    if isinstance(value, pd.DataFrame):
        return _changed_frame(value, change)
    if isinstance(value, xr.DataArray | xr.Dataset):
        return _changed_array(value, change)
    if isinstance(value, dict):
        changed = {name: _changed(part, change) for name, part in value.items()}
        return (
            value | {n: part for n, part in changed.items() if part is not None}
            if any(part is not None for part in changed.values())
            else None
        )
    if isinstance(value, list | tuple) and value and all(isinstance(item, pd.Timestamp) for item in value):
        return [SINGLE[change](utc(item)) for item in value]
    if isinstance(value, list) and value and all(isinstance(item, pd.DataFrame) for item in value):
        return [_changed_frame(item, change) for item in value]
    if isinstance(value, str) and _ISO.match(value):
        return SINGLE[change](utc(pd.Timestamp(value)))
    return SINGLE[change](utc(value)) if isinstance(value, pd.Timestamp) else None


def _changed_frame(frame: pd.DataFrame, change: str) -> pd.DataFrame | None:
    zoned = [name for name in frame.columns if isinstance(frame[name].dtype, pd.DatetimeTZDtype)]
    if not zoned:
        return None
    columns = {
        name: pd.Series(CHANGES[change](pd.DatetimeIndex(frame[name])), index=frame.index) for name in zoned
    }
    return frame.assign(**columns)


def _changed_array(data: Any, change: str) -> Any:
    labels = [name for name in data.indexes if isinstance(data.indexes[name], pd.DatetimeIndex)]
    if not labels:
        return None
    changed = {name: CHANGES[change](utc(data.indexes[name])) for name in labels}
    return data.assign_coords({name: (name, values, data[name].attrs) for name, values in changed.items()})


def _comparable(result: Any) -> Any:
    """Return the result of a call as comparable frames and arrays."""
    if isinstance(result, Axes):
        frame = dd.plot.data(result)
        plt.close("all")
        return frame
    if isinstance(result, pd.DataFrame | xr.DataArray | xr.Dataset):
        return plain(result)
    return result


def _with_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return categories and objects as text: they name the same."""
    words = [
        name for name in frame.columns if frame[name].dtype == "category" or frame[name].dtype.kind == "O"
    ]
    return frame.astype(dict.fromkeys(words, "str"))


def _assert_equal(found: Any, expected: Any) -> None:
    if dataclasses.is_dataclass(expected) and not isinstance(expected, type):
        found, expected = vars(found), vars(expected)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(
            _with_text(found), _with_text(expected), check_dtype=False, check_column_type=False
        )
    elif isinstance(expected, xr.DataArray | xr.Dataset):
        xr.testing.assert_equal(found, expected)
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            _assert_equal(found[name], expected[name])
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected or repr(found) == repr(expected)


@pytest.fixture(scope="module", autouse=True)
def _sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        connection = dd.connect("sample", cache="off")
        patch.setattr(SESSION, "connection", None)
        SESSION.responder = functools.lru_cache(maxsize=1000)(connection._serve)
        yield connection
        SESSION.responder = None
        connection.close()


@pytest.fixture(autouse=True)
def _connected(_sample: Connection) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SESSION, "connection", _sample)
        yield


@pytest.mark.parametrize("name", sorted(CALLS.keys() - _CHANGE_THE_CONNECTION))
def test_every_example_call_is_valid(name: str) -> None:
    """An example that fails would make every test of wrong arguments pass."""
    _expected(name)


def _takes_times(name: str) -> bool:
    if name in _CHANGE_THE_CONNECTION or name in _DAYS_ONLY:
        return False
    return any(_changed(value, "UTC") is not None for value in CALLS[name]().values())


def _chosen(changes: Sequence[str], name: str, step: int, count: int) -> list[str]:
    """Return the changes that a function meets: in the soak all, in the gate other ones than its neighbours.

    A figure is drawn once: all figures read their data through the same functions.
    """
    if SOAK:
        return [*changes]
    if name.startswith("plot."):
        count = 1
    first = sorted(CALLS).index(name)
    return [changes[(first + step * number) % len(changes)] for number in range(count)]


@functools.cache
def _expected(name: str) -> Any:
    """Return the result of the example of a function."""
    return _comparable(function(name)(**CALLS[name]()))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_times_of_any_zone_unit_and_type_give_the_same_result(name: str) -> None:
    if not _takes_times(name):
        return
    arguments = CALLS[name]()
    expected = _expected(name)
    chosen = _chosen([*CHANGES], name, 3, 4)
    for change in chosen:
        changed = {argument: _changed(value, change) for argument, value in arguments.items()}
        given = arguments | {argument: value for argument, value in changed.items() if value is not None}
        result = _comparable(function(name)(**given))
        try:
            _assert_equal(result, expected)
        except AssertionError as other:
            raise AssertionError(f"{name} with times in {change}") from other


_WITHOUT_A_TIME = {
    ("connect", "now"): "changes the connection",
    ("plot.option_flow", "expiry"): "of a book of trades, which the example lacks",
    ("plot.strikes", "expiry"): "of open interest or volume: the example is of gamma",
    ("tables.expiry", "label"): "test_expiries",
}
"""Arguments that take times, whose example has none, with the test or the reason."""


def _first_expiry(name: str) -> list[pd.Timestamp]:
    return [utc(pd.DatetimeIndex(next(iter(CALLS[name]().values()))["expiry"].to_numpy()))[0]]


_TIMES_OF_DATA: dict[tuple[str, str], Callable[[], Any]] = {
    ("plot.implied_density", "expiries"): lambda: _first_expiry("plot.implied_density"),
    ("plot.liquidations", "end"): lambda: CALLS["plot.liquidations"]()["events"]["time"].max(),
    ("plot.liquidations", "start"): lambda: CALLS["plot.liquidations"]()["events"]["time"].min(),
    ("plot.smile", "expiries"): lambda: _first_expiry("plot.smile"),
}
"""Times for arguments that are omitted in the example of a function, where its data determine them."""


_AGES = {"at": "2h", "end": "1h", "since": "3h", "start": "3h", "window": "3h"}
"""Age of a time that is passed for an argument, unless the example has a lookback."""


def _arguments_of_times(name: str) -> list[str]:
    """Return the arguments of a function that take times, according to their annotations."""
    parameters = inspect.signature(function(name)).parameters.values()
    return [item.name for item in parameters if re.search("TimeLike|Expiries", str(item.annotation))]


def _time_for(name: str, argument: str, example: Any) -> Any:
    if (name, argument) in _TIMES_OF_DATA:
        return _TIMES_OF_DATA[name, argument]()
    age = length(_AGES[argument] if example is None else example)
    return dd.asof() - age


@pytest.mark.parametrize("name", sorted(name for name in CALLS if _arguments_of_times(name)))
def test_arguments_whose_example_has_no_time_take_times_of_any_zone_and_type(name: str) -> None:
    example = CALLS[name]()
    for argument in _arguments_of_times(name):
        value = example.get(argument)
        if (name, argument) in _WITHOUT_A_TIME or _changed(value, "UTC") is not None:
            continue
        time = _time_for(name, argument, value)
        given = example | {"start": "6h"} if argument == "end" and "start" in example else example
        expected = _comparable(function(name)(**given | {argument: time}))
        for change in _chosen([*SINGLE], name, 5, 2):
            result = _comparable(function(name)(**given | {argument: _changed(time, change)}))
            try:
                _assert_equal(result, expected)
            except AssertionError as other:
                raise AssertionError(f"{name}: {argument} as {change}") from other


def test_methods_of_an_archive_take_times_of_any_zone_and_type(tmp_path: Path) -> None:
    rates = dd.funding.history("BTC", "2d", venues=["binance", "okx"], resolution="1h")
    archive = dd.open_archive(tmp_path / "archive")
    archive.append("funding_history", rates)
    end = rates["time"].max()
    panel = functools.partial(archive.panel, "funding_history", "rate_bps_8h", step="1h")
    calls: dict[str, Callable[[Any], Any]] = {
        "read from": lambda time: archive.read("funding_history", time),
        "read to": lambda time: archive.read("funding_history", None, time),
        "latest": lambda time: archive.latest("funding_history", time, within=pd.Timedelta("3h")),
        "lazy from": lambda time: archive.lazy("funding_history", start=time).compute(),
        "lazy to": lambda time: archive.lazy("funding_history", end=time).compute(),
        "panel from": lambda time: panel(start=time, end=end).compute(),
        "panel to": lambda time: panel(start=rates["time"].min(), end=time).compute(),
        "extents": lambda time: archive.extents("funding_history", time),
        "unanswered": lambda time: archive.unanswered("funding_history", "okx", "BTC", time, end),
        "replace": lambda time: archive.replace(
            "funding_history", rates[rates["time"] >= utc(pd.Timestamp(time))], start=time
        )[1:],
    }
    time = rates["time"].iloc[20]
    for number, (label, call) in enumerate(calls.items()):
        expected = _comparable(call(time))
        assert len(expected), label
        for change in [*SINGLE] if SOAK else [*SINGLE][number % 4 :: 4]:
            try:
                _assert_equal(_comparable(call(_changed(time, change))), expected)
            except AssertionError as other:
                raise AssertionError(f"{label} as {change}") from other


def _whole(values: Any) -> bool:
    return bool(np.isfinite(values).all() and (values == np.round(values)).all())


def _frame_of_type(frame: pd.DataFrame, change: str) -> pd.DataFrame:
    floats = [name for name in frame.columns if frame[name].dtype == np.float64]
    words = [name for name in frame.columns if isinstance(frame[name].dtype, pd.CategoricalDtype)]
    if change == "Arrow":
        table = pa.Table.from_pandas(frame.reset_index(drop=True)).to_pandas(
            types_mapper=pd.ArrowDtype, ignore_metadata=True
        )
        table.attrs = frame.attrs
        return table
    if change == "nullable":
        return frame.convert_dtypes()  # Float64, and Int64 where all are whole
    if change == "big-endian":
        return frame.astype(dict.fromkeys(floats, ">f8"))
    if change == "whole numbers":
        return frame.astype({name: np.int64 for name in floats if _whole(frame[name].to_numpy())})
    text = [name for name in frame.columns if frame[name].dtype == "str"]
    if change == "objects":
        return frame.astype(dict.fromkeys([*words, *text], object))
    return frame.assign(
        **{name: frame[name].astype("category").cat.add_categories(["unused"]) for name in [*words, *text]}
    )


TYPES = ("Arrow", "nullable", "big-endian", "whole numbers", "objects", "categories without rows")


def _array_of_type(data: Any, change: str) -> Any:
    if isinstance(data, xr.Dataset):
        return data.map(lambda values: _array_of_type(values, change), keep_attrs=True)
    if data.dtype != np.float64 or change not in ("big-endian", "whole numbers"):
        return data
    if change == "whole numbers":
        return data.astype(np.int64) if _whole(data.to_numpy()) else data
    return data.astype(">f8")


def _of_type(value: Any, change: str) -> Any:
    if isinstance(value, pd.DataFrame):
        return _frame_of_type(value, change)
    if isinstance(value, xr.DataArray | xr.Dataset):
        return _array_of_type(value, change)
    if isinstance(value, list) and value and all(isinstance(item, pd.DataFrame) for item in value):
        return [_frame_of_type(item, change) for item in value]
    return value


_DATA = (pd.DataFrame, xr.DataArray, xr.Dataset)


@pytest.mark.parametrize("name", sorted(CALLS.keys() - _CHANGE_THE_CONNECTION))
def test_data_of_any_type_gives_the_same_result(name: str) -> None:
    arguments = CALLS[name]()
    if not any(isinstance(value, _DATA) for value in arguments.values()):
        return
    expected = _expected(name)
    for change in _chosen(TYPES, name, 2, 3):
        given = {argument: _of_type(value, change) for argument, value in arguments.items()}
        try:
            _assert_equal(_comparable(function(name)(**given)), expected)
        except (AssertionError, TypeError, ValueError) as other:
            raise AssertionError(f"{name} with data as {change}") from other


def test_every_time_column_may_hold_text() -> None:
    assert {name for name, column in COLUMNS.items() if column.kind is Kind.TIME} <= TIME_COLUMNS


_ALLOWED = {
    "derivdata/support/times.py",
    "derivdata/support/plain_data.py",
    "derivdata/sources/sample/universe.py",  # a session is of the exchange's own wall clock
}


def _drops_zone(node: ast.AST) -> bool:
    """Whether code drops a zone, or looks for one by the type of a column, which other types share."""
    if isinstance(node, ast.Attribute) and node.attr == "DatetimeTZDtype":
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("tz_localize", "tz_convert"):
        return any(isinstance(part, ast.Constant) and part.value is None for part in node.args)
    if node.func.attr in ("replace", "astimezone"):
        return any(word.arg == "tzinfo" for word in node.keywords)
    return False


_WORDS_OF_ZONES = ("DatetimeTZDtype", "tz_localize", "tz_convert", "tzinfo")
"""A file without these words drops no zone: it is not parsed."""


def test_one_function_drops_the_zone_of_times() -> None:
    package = Path(dd.__file__).parent
    places = []
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package.parent).as_posix()
        code = path.read_text(encoding="utf-8")
        if file in _ALLOWED or not any(word in code for word in _WORDS_OF_ZONES):
            continue
        lines = [node.lineno for node in ast.walk(ast.parse(code)) if _drops_zone(node)]  # type: ignore[attr-defined]
        places += [f"{file}:{line}" for line in lines]
    assert places == [], "use derivdata.support.times.naive_utc and has_zone"


def test_a_zone_is_dropped_after_conversion_to_utc() -> None:
    noon = pd.Timestamp("2026-06-30T21:00", tz="Asia/Tokyo")
    assert naive_utc(noon) == pd.Timestamp("2026-06-30T12:00")
    assert naive_utc(pd.DatetimeIndex([noon])).tolist() == [pd.Timestamp("2026-06-30T12:00")]
    assert naive_utc(pd.Series([noon])).tolist() == [pd.Timestamp("2026-06-30T12:00")]
    assert naive_utc(pd.Timestamp("2026-06-30T12:00")) == pd.Timestamp("2026-06-30T12:00")
