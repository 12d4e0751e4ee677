"""Cards: small files that store how a result was computed and its figures, and can be run again.

A card has the call with its arguments, the calls that returned these arguments, hashes of the data, versions,
and key figures, each with a tolerance. With the recording of the responses (`derivdata.record`), `rerun`
computes the result again offline.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import derivdata
from derivdata.client.bundle.recording import replay
from derivdata.support import calls
from derivdata.support.arguments import typed
from derivdata.support.files import replace_file

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["card", "card_of_report", "rerun"]
_ISLAND = re.compile(r'<script type="application/json" id="card">(.*?)</script>', re.DOTALL)
"""Script element of a report's page that contains its card."""


def __dir__() -> list[str]:
    return ["card", "rerun"]


_FORMAT = 1
_TOLERANCE = 1e-9
_ORIGIN = ("source", "synthetic", "as_of", "attribution")


@typed
def card(
    result: Any,
    path: str | Path,
    *,
    tolerance: float = _TOLERANCE,
    tolerances: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Write the call that returned a result, and its key figures, to a JSON file.

    Parameters
    ----------
    result
        The unchanged result of a public function of the library: a DataFrame, a DataArray or a Dataset.
    path
        The file, replaced atomically.
    tolerance
        Maximum difference of a figure that `rerun` accepts, relative to the larger of 1 and the figure.
    tolerances
        Tolerances of single figures, by name.

    Returns
    -------
    dict
        The content: ``call``, ``versions``, ``figures`` (each with ``value`` and ``tolerance``), ``sha256``
        of the result, and ``provenance``. Figures of a dataset are its scalars, and count, mean, minimum and
        maximum of its other variables. Figures of a table are its number of rows, and the same statistics of
        its numeric columns.

    Raises
    ------
    TypeError
        `result` does not have a record of its call. An argument is a lambda or a nested function, which
        another session cannot import. An argument is data that the library did not return.
    ValueError
        `tolerances` names a figure that the result does not have.

    Notes
    -----
    `rerun` repeats a selection by labels (``panel.sel(symbol="BTC")``) between two calls. Other changes of
    data between two calls are not recorded: `rerun` then raises and names the argument that differs.

    Examples
    --------
    >>> share = dd.analysis.oi.market_share(dd.panel(dd.oi.history("BTC", "7d"), "oi_usd"))
    >>> sorted(dd.card(share, "share.json"))
    ['call', 'figures', 'format', 'provenance', 'sha256', 'versions']
    """
    record = calls.record_of(result)
    if record is None:
        raise TypeError(
            "result must have a record of its call: pass the unchanged result of a derivdata function"
        )
    versions = record.pop("versions")
    _require_importable(record, record["function"])
    values = figures(result)
    unknown = sorted(set(tolerances or {}) - set(values))
    if unknown:
        raise ValueError(f"tolerances has the unknown figure {unknown[0]!r}; available: {', '.join(values)}")
    tolerance_of = dict.fromkeys(values, tolerance) | dict(tolerances or {})
    written = {
        "format": _FORMAT,
        "call": record,
        "versions": versions,
        "figures": {
            name: {"value": value, "tolerance": tolerance_of[name]} for name, value in values.items()
        },
        "sha256": calls.digest(_computed(result)),
        "provenance": _origin(result),
    }
    text = json.dumps(written, indent=2, sort_keys=True, ensure_ascii=False)
    replace_file(Path(path), f"{text}\n".encode())
    return written


@typed
def rerun(
    path: str | Path, data: str | Path | None = None, *, archive: str | Path | None = None
) -> pd.DataFrame:
    """Compute the result of a card again, and compare its figures with the recorded ones.

    Parameters
    ----------
    path
        A file that `card` wrote, or the page of a report, which contains a card.
    data
        The recording of the responses (`derivdata.record`), which is then the only source. None requests them
        from the connected source, or from an active replay.
    archive
        The folder of the archive, or of a copy, if the card is made of rows of `Archive.read`.

    Returns
    -------
    DataFrame
        One row per figure: ``figure``, ``recorded``, ``new``, ``difference``, ``tolerance``, ``equal``.
        ``attrs["identical"]`` is True if all values of the result are bit-equal.

    Raises
    ------
    ValueError
        The file is not a card; the data of an argument differs from the card's; rows of an archive are needed
        and `archive` is None.
    BundleError, NotRecorded
        The recording is damaged, or does not contain a request.

    Examples
    --------
    >>> with dd.record("week.ddz"):
    ...     share = dd.analysis.oi.market_share(dd.panel(dd.oi.history("BTC", "7d"), "oi_usd"))
    >>> _ = dd.card(share, "share.json")
    >>> again = dd.rerun("share.json", "week.ddz")
    >>> bool(again["equal"].all()), again.attrs["identical"]
    (True, True)
    """
    written = _read(Path(path))
    if data is None:
        new, digest = _computed_again(written, archive)
    else:
        with replay(data):
            new, digest = _computed_again(written, archive)
    rows = []
    for name, figure in written["figures"].items():
        recorded = _number(figure["value"])
        value = _number(new.get(name))
        relative = figure["tolerance"]
        difference = value - recorded
        both_missing = np.isnan(recorded) and np.isnan(value) and name in new
        if both_missing:
            difference = 0.0
        is_close = abs(difference) <= relative * max(1.0, abs(recorded))
        equal = both_missing or value == recorded or is_close
        rows.append((name, recorded, value, difference, relative, bool(equal)))
    table = pd.DataFrame(rows, columns=["figure", "recorded", "new", "difference", "tolerance", "equal"])
    table.attrs["identical"] = digest == written["sha256"]
    return table


def card_of_report(arguments: Mapping[str, Any], figures: Mapping[str, float]) -> str:
    """Return the card of a report as a JSON script element for its page."""
    values = {name: _plain(value) for name, value in figures.items()}
    written = {
        "format": _FORMAT,
        "call": {
            "function": "report",
            "arguments": {name: calls.described(value) for name, value in arguments.items()},
        },
        "versions": {"python": ".".join(map(str, sys.version_info[:3])), "derivdata": derivdata.__version__},
        "figures": {name: {"value": value, "tolerance": _TOLERANCE} for name, value in values.items()},
        "sha256": hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest(),
    }
    text = json.dumps(written, sort_keys=True).replace("<", "\\u003c")
    return f'<script type="application/json" id="card">{text}</script>'


def _report_again(written: Mapping[str, Any]) -> tuple[dict[str, float | None], str]:
    """Write the report of a card again, and return its figures and their hash."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        arguments = _values(written["call"]["arguments"], "report", {})
        derivdata.report(**arguments, out=page)
        again = _read(page)
    return {name: figure["value"] for name, figure in again["figures"].items()}, again["sha256"]


def _computed_again(
    written: Mapping[str, Any], archive: str | Path | None = None
) -> tuple[dict[str, float | None], str]:
    """Compute the result of a card again, and return its figures and its hash."""
    if written["call"]["function"] == "report":
        return _report_again(written)
    result = _evaluated(
        written["call"], other_versions=_has_other_versions(written["versions"]), archive=archive
    )
    return figures(result), calls.digest(_computed(result))


def _has_other_versions(recorded: Mapping[str, str]) -> bool:
    """Return whether a library has another version than recorded, so that fits differ in the last digits."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in recorded}
    return any(loaded[name] not in (None, version) for name, version in recorded.items())


def figures(result: Any) -> dict[str, float | None]:
    """Return the key figures of a result by name; a missing figure is None."""
    import xarray as xr

    named: dict[str, float | None] = {}
    if isinstance(result, pd.DataFrame):
        named["rows"] = float(len(result))
        for name, column in result.items():
            if pd.api.types.is_numeric_dtype(column.dtype):
                named |= _summary(str(name), column.to_numpy(dtype=np.float64, na_value=np.nan))
        return named
    if isinstance(result, xr.DataArray):
        variables = {"value" if result.name is None else result.name: result}
    else:
        variables = result.data_vars
    for name, variable in variables.items():
        values = np.asarray(variable.values)
        if values.dtype.kind not in "iufb":
            continue
        if values.ndim == 0:
            named[str(name)] = _plain(values.item())
        else:
            named |= _summary(str(name), values)
    return named


def _summary(name: str, values: Any) -> dict[str, float | None]:
    """Return count, mean, minimum and maximum of the finite values."""
    finite = values[np.isfinite(values)].astype(np.float64)
    summary: dict[str, float | None] = {f"{name}.count": float(finite.size)}
    if finite.size:
        summary[f"{name}.mean"] = _plain(np.mean(finite))
        summary[f"{name}.min"] = _plain(np.min(finite))
        summary[f"{name}.max"] = _plain(np.max(finite))
    return summary


def _plain(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def _computed(result: Any) -> Any:
    return result.compute() if hasattr(result, "compute") else result


def _origin(result: Any) -> dict[str, Any]:
    """Return source, time and attribution from the provenance of a result."""
    attached = result.attrs.get("provenance")
    origin = json.loads(attached) if isinstance(attached, str) else dict(attached or {})
    return {name: origin[name] for name in _ORIGIN if name in origin}


def _read(path: Path) -> dict[str, Any]:
    """Read a card from its file, or from the page of a report."""
    text = path.read_text(encoding="utf-8")
    island = _ISLAND.search(text)
    try:
        written = json.loads(text if island is None else island[1])
    except ValueError as problem:
        raise ValueError(f"{path} must be a card: {problem}") from None
    missing = {"format", "call", "figures", "sha256"} - set(written if isinstance(written, dict) else ())
    if missing:
        raise ValueError(f"{path} must be a card: {sorted(missing)[0]!r} is missing")
    if written["format"] != _FORMAT:
        raise ValueError(f"{path}: expected a card of format {_FORMAT}, got {written['format']}")
    return dict(written)


def _require_importable(record: Mapping[str, Any], place: str) -> None:
    """Raise if another session cannot repeat a call, and name the argument."""
    for where, description in _named_descriptions(record["arguments"], place):
        if "data" in description:
            if "call" not in description:
                raise TypeError(
                    f"{where}: the {description['data']} was not returned by a function of derivdata, so the "
                    "card cannot record how to make it; fetch it, or load it with dd.datasets or an archive"
                )
            _require_importable(description["call"], description["call"]["function"])
        for name in ("function", "type"):
            if name in description:
                _require_code(str(description[name]), where)


def _require_code(code: str, place: str) -> None:
    """Raise if another session cannot import a function or class by this name."""
    if "<lambda>" in code:
        raise TypeError(f"{place}: {code} must be a function defined at the top of a module, got a lambda")
    if "<locals>" in code:
        raise TypeError(f"{place}: {code} must be defined at the top of a module, not within a function")
    if code.startswith("__main__:"):
        raise TypeError(f"{place}: {code} must be defined in a module, not in this session")


def _descriptions(value: Any, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object in the description of a call with its place, without the calls that made data."""
    if isinstance(value, list):
        for item in value:
            yield from _descriptions(item, place)
    elif isinstance(value, dict):
        yield place, value
        for name, item in value.items():
            if name in _BY_NAME:
                yield from _named_descriptions(item, place)
            elif name not in ("call", "labels"):
                yield from _descriptions(item, place if name in _STRUCTURE else f"{place}, {name}")


def _named_descriptions(named: Mapping[str, Any], place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of arguments or fields, whose names may equal keys of a description (``data``)."""
    for name, item in named.items():
        yield from _descriptions(item, f"{place}, {name}")


_BY_NAME = ("fields", "keywords")
_STRUCTURE = ("mapping", "tuple", "set", "args", "partial")


def _evaluated(
    record: Mapping[str, Any], *, other_versions: bool = False, archive: str | Path | None = None
) -> Any:
    """Return the result of a recorded call; every call of the chain is made once."""
    results: dict[str, Any] = {_OTHER_VERSIONS: other_versions, _ARCHIVE: archive}
    return _call(record, results)


_OTHER_VERSIONS = "other versions"
_ARCHIVE = "archive"


def _call(record: Mapping[str, Any], results: dict[str, Any]) -> Any:
    """Return the result of a recorded call from `results`, where it is stored on first use."""
    key = json.dumps(record, sort_keys=True)
    if key not in results:
        name = record["function"]
        arguments = _values(record["arguments"], name, results)
        function = _archive_reader(results[_ARCHIVE]) if name == calls.ARCHIVE_READ else _public(name)
        results[key] = function(**arguments)
    return results[key]


def _archive_reader(folder: str | Path | None) -> Any:
    """Return the function that reads rows of an archive."""
    if folder is None:
        raise ValueError("the card uses rows of an archive: pass its folder as archive=")
    sources = importlib.import_module("derivdata.sources.archive")  # a layer above this module
    return sources.open_archive(folder, create=False).read


def _public(name: str) -> Any:
    """Return the public function of a name such as ``analysis.backtest.carry``."""
    module, _, attribute = f"derivdata.{name}".rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        raise ValueError(
            f"the card calls dd.{name}, which does not exist in this version; install the version that wrote "
            "the card"
        ) from None


def _imported(code: str, source: str | None) -> Any:
    """Import a function or class, and raise if its source code is not the recorded one."""
    module, _, qualname = code.partition(":")
    value = functools.reduce(getattr, qualname.split("."), importlib.import_module(module))
    if source is not None and calls.source_of(value) != source:
        raise ValueError(
            f"the source code of {code} has changed since the card was written: its hash differs"
        )
    return value


def _values(descriptions: Mapping[str, Any], function: str, results: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function from their descriptions."""
    return {name: _value(item, f"{name} of {function}", results) for name, item in descriptions.items()}


def _value(description: Any, place: str, results: dict[str, Any]) -> Any:
    """Return the argument of a description."""
    if isinstance(description, list):
        return [_value(item, place, results) for item in description]
    if not isinstance(description, dict):
        return description
    for name, build in _BUILDERS.items():
        if name in description:
            return build(description, place, results)
    raise ValueError(f"{place}: expected a description that can be computed again, got {sorted(description)}")


def _built_data(description: Mapping[str, Any], place: str, results: dict[str, Any]) -> Any:
    """Return the result of a call, or the selection from it that was recorded."""
    value = _call(description["call"], results)
    expected = description.get("sha256")
    if expected is None or calls.digest(value) == expected:
        return value
    selected = _selected(value, description.get("labels", {}))
    best_guess = value if selected is None else selected
    if results.get(_OTHER_VERSIONS):
        return best_guess  # other versions never give the same hash; only the final figures are compared
    recorded = description.get("sums")
    if recorded is not None:
        for candidate in (best_guess, value):
            if calls.are_close(recorded, candidate):
                return candidate
    if selected is None or calls.digest(selected) != expected:
        raise ValueError(
            f"{place}: the data differs from the card's data: dd.{description['call']['function']} returns "
            "other data. It was changed between the calls, or this is another recording"
        )
    return selected


def _selected(value: Any, labels: Mapping[str, Any]) -> xr.DataArray | xr.Dataset | None:
    """Repeat a selection from an array, by the labels of the selection; None if it cannot be repeated."""
    if not hasattr(value, "sel"):
        return None
    for dim in [str(name) for name in value.dims]:
        selection = labels.get(dim)
        if isinstance(selection, dict) and "first" in selection:
            value = value.sel({dim: slice(selection["first"], selection["last"])})
        elif selection is not None and not isinstance(selection, dict):
            value = value.sel({dim: selection})
    dropped = [name for name in value.coords if str(name) not in labels]
    return value.drop_vars(dropped)  # type: ignore[no-any-return]


def _built_instance(description: Mapping[str, Any], place: str, results: dict[str, Any]) -> Any:
    kind = _imported(description["type"], description["source"])
    fields = {name: _value(item, place, results) for name, item in description["fields"].items()}
    if dataclasses.is_dataclass(kind):
        fields = {field.name: fields[field.name] for field in dataclasses.fields(kind) if field.init}
    return kind(**fields)


def _built_partial(description: Mapping[str, Any], place: str, results: dict[str, Any]) -> Any:
    function = _value(description["partial"], place, results)
    args = _value(description["args"], place, results)
    keywords = {name: _value(item, place, results) for name, item in description["keywords"].items()}
    return functools.partial(function, *args, **keywords)


def _built_array(description: Mapping[str, Any], place: str, results: dict[str, Any]) -> Any:
    values = _value(description["values"], place, results)
    return np.array(values, dtype=description["array"]).reshape(description["shape"])


def _built_mapping(description: Mapping[str, Any], place: str, results: dict[str, Any]) -> Any:
    pairs = _value(description["mapping"], place, results)  # lists of key and value
    return dict(map(tuple, pairs))


_BUILDERS: dict[str, Any] = {
    "data": _built_data,
    "partial": _built_partial,
    "type": _built_instance,
    "function": lambda d, _place, _results: _imported(d["function"], d["source"]),
    "float": lambda d, _place, _results: float(d["float"]),
    "timedelta": lambda d, _place, _results: pd.Timedelta(d["timedelta"]),
    "time": lambda d, _place, _results: pd.Timestamp(d["time"]),
    "tuple": lambda d, place, results: tuple(_value(d["tuple"], place, results)),
    "set": lambda d, place, results: set(_value(d["set"], place, results)),
    "mapping": _built_mapping,
    "numpy": lambda d, _place, _results: np.dtype(d["numpy"]).type(d["value"]),
    "array": _built_array,
}
"""Functions that build an argument from its description, by the key that identifies the description."""
