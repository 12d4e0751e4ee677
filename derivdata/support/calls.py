"""Records of calls: arguments as JSON, with hashes of tables and arrays.

`derivdata.support.arguments` attaches the record of the outermost call to the ``attrs`` of a result, under
``call``. The description of an argument includes its own record, so a result has the complete chain of calls
from the fetcher on. `derivdata.card` writes it to a file, and `derivdata.rerun` runs it again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import hashlib
import inspect
import json
import math
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ATTRIBUTE = "call"
ARCHIVE_READ = "archive.read"
"""Name of `derivdata.sources.archive.Archive.read` in a record, which does not name the archive."""
_LIBRARIES = ("derivdata", "numpy", "pandas", "scipy", "xarray")
"""Libraries whose versions a record states."""
_BLOCK = 1 << 16
_TEXTS = "OUST"
"""Kinds of dtypes whose items are hashed and listed as text."""
_MAX_NAMES = 2_000
_MAX_NUMBERS = 16
"""Maximum number of numeric labels of a coordinate that are listed, so that a selection can be repeated."""


_COMPUTED = "analysis."
"""Prefix of functions whose results are compared by sums instead of hashes."""
_GOLDEN = 0.6180339887498949
_CLOSE = 1e-7  # the inverse of a covariance differs by 2e-8 between BLAS kernels

_PLAIN = (bool, int, float, str, type(None), np.generic, dt.date, dt.timedelta)


class Provenance(dict[str, Any]):
    """A dict that is its own deep copy, so it must not be changed.

    pandas copies ``attrs`` deeply at every step of a computation (pandas-dev/pandas#60357). For a provenance
    of a thousand requests the copy would take longer than the step.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Provenance:
        return self

    def __or__(self, other: Any) -> Any:
        return Provenance(super().__or__(other))


def record_of(value: Any) -> dict[str, Any] | None:
    """Return the record that is attached to a table or an array, or None."""
    text = getattr(value, "attrs", {}).get(ATTRIBUTE)
    if not isinstance(text, str):
        return None
    record: dict[str, Any] = json.loads(text)
    return record


def record_text(function: str, arguments: Mapping[str, Any]) -> str:
    """Return the record of a call as text for ``attrs``; `arguments` are already `described`."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            versions[name] = version
    record = {"function": function, "arguments": arguments, "versions": versions}
    return json.dumps(record, ensure_ascii=False, sort_keys=True)


def described(value: Any) -> Any:
    """Return an argument as JSON, equal for equal values only, and without memory addresses."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):  # JSON has no NaN and no infinity
        return value if math.isfinite(value) else {"float": str(value)}
    if _kind(value) in ("DataFrame", "Series", "Index", "DataArray", "Dataset"):
        return _data(value)  # before mappings: a Dataset is one
    for kinds, describe in _DESCRIBED:
        if isinstance(value, kinds):
            return describe(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: described(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return _instance(value, fields)
    if callable(value) and hasattr(value, "__qualname__"):
        return _function(value)
    return _instance(value, {name: described(item) for name, item in sorted(_state(value).items())})


def digest(value: Any) -> str:
    """Return the SHA-256 of the names, kinds, labels and values of a table or an array."""
    hashed = hashlib.sha256()
    _feed(hashed, value)
    return hashed.hexdigest()


def _kind(value: Any) -> str:
    """Return the name of a class of pandas or xarray, or an empty text."""
    module = type(value).__module__.partition(".")[0]
    if module not in ("pandas", "xarray"):
        return ""
    name = type(value).__name__
    if name.endswith("Index"):
        return "Index"
    return name


def _data(value: Any) -> dict[str, Any]:
    """Describe a table or an array: hash, labels or shape, and the record of its own call."""
    described_data: dict[str, Any] = {"data": _kind(value)}
    if _is_lazy(value):
        described_data["lazy"] = True
    else:
        described_data["sha256"] = digest(value)
    if _kind(value) in ("DataArray", "Dataset"):
        described_data["labels"] = {str(name): _labels(coord) for name, coord in value.coords.items()}
    else:
        described_data["shape"] = list(value.shape)
    record = record_of(value)
    if record is not None:
        record.pop("versions", None)
        described_data["call"] = record
        if record["function"].startswith(_COMPUTED) and not _is_lazy(value):
            described_data["sums"] = sums(value)
    return described_data


def sums(value: Any) -> dict[str, list[float]]:
    """Return, for each numeric variable, the count of finite values, the sum of sizes and a weighted sum.

    The last digits of an analysis differ between processors, and so does its hash. These sums agree to a
    tolerance.
    """
    kind = _kind(value)
    if kind == "DataFrame":
        named = {str(name): value[name] for name in value.columns}
    elif kind == "Dataset":
        named = {str(name): variable for name, variable in value.data_vars.items()}
    else:
        named = {"": value}
    summed = {}
    for name, variable in named.items():
        if variable.dtype.kind not in "iufb":
            continue
        values = np.asarray(variable, dtype=np.float64).reshape(-1)
        finite = np.isfinite(values)
        # Each position has a different weight, so that an exchange of two values changes the sum.
        weights = np.arange(1, values.size + 1) * _GOLDEN % 1.0
        numbers = values[finite]
        summed[name] = [int(finite.sum()), float(np.abs(numbers).sum()), float(numbers @ weights[finite])]
    return summed


def are_close(recorded: Mapping[str, list[float]], value: Any) -> bool:
    """Return whether the `sums` of a value equal the recorded sums, within 1e-7 of the sizes."""
    new = sums(value)
    if new.keys() != recorded.keys():
        return False
    for name, (count, size, weighted) in recorded.items():
        new_count, new_size, new_weighted = new[name]
        slack = _CLOSE * max(size, 1.0)
        if new_count != count or abs(new_size - size) > slack or abs(new_weighted - weighted) > slack:
            return False
    return True


def _labels(coord: Any) -> Any:
    """Return the labels of a coordinate, or first, last and size of a long one, to repeat a selection."""
    values = np.asarray(coord.values).reshape(-1)
    if coord.ndim == 0:
        return _label(values[0])
    if coord.ndim > 1 or not values.size:
        return {"shape": list(coord.shape)}
    most = _MAX_NAMES if values.dtype.kind in _TEXTS else _MAX_NUMBERS
    if values.size <= most:
        return list(map(_label, values))
    return {"first": _label(values[0]), "last": _label(values[-1]), "size": values.size}


def _label(item: Any) -> Any:
    """Return a label as JSON; times, NaN and other objects as text."""
    if isinstance(item, np.datetime64 | np.timedelta64):
        return str(item)
    if isinstance(item, np.generic):
        item = item.item()
    if item is None or isinstance(item, bool | int | str):
        return item
    if isinstance(item, float) and math.isfinite(item):
        return item
    return str(item)


def _is_lazy(value: Any) -> bool:
    if _kind(value) == "Dataset":
        return any(_is_lazy(variable) for variable in value.data_vars.values())
    return hasattr(getattr(value, "data", None), "__dask_graph__")


def _function(value: Any) -> dict[str, Any]:
    """Describe a function by its name and the hash of its source."""
    name = f"{value.__module__}:{value.__qualname__}"
    return {"function": name, "source": source_of(value)}


def _instance(value: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an object by its class, its fields and the hash of the class."""
    kind = type(value)
    return {
        "type": f"{kind.__module__}:{kind.__qualname__}",
        "fields": dict(fields),
        "source": source_of(kind),
    }


def source_of(value: Any) -> str | None:
    """Return the hash of the code of a function or class, or None if the source cannot be read."""
    try:
        return hashlib.sha256(inspect.getsource(value).encode()).hexdigest()
    except (OSError, TypeError):
        return None


def _state(value: Any) -> dict[str, Any]:
    """Return the plain attributes of an object.

    Others are left out: objects such as figures refer to each other, so their description would not end.
    """
    if not hasattr(value, "__dict__"):
        return {}
    return {name: item for name, item in vars(value).items() if isinstance(item, _PLAIN)}


def _partial(value: functools.partial[Any]) -> dict[str, Any]:
    """Describe a function with some arguments set."""
    keywords = {name: described(item) for name, item in sorted(value.keywords.items())}
    return {
        "partial": described(value.func),
        "args": list(map(described, value.args)),
        "keywords": keywords,
    }


def _items(value: Any) -> Any:
    """Describe a list, a tuple or a named tuple."""
    listed = list(map(described, value))
    if hasattr(value, "_fields"):  # a named tuple
        return _instance(value, dict(zip(value._fields, listed, strict=True)))
    if isinstance(value, list):
        return listed
    return {"tuple": listed}


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe a mapping, whose keys may be any objects, in the order of the keys."""
    pairs = [[described(key), described(item)] for key, item in value.items()]
    return {"mapping": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True))}


def _numbers(value: Any) -> dict[str, Any]:
    """Describe a number or an array of numpy; long arrays and text by their hash."""
    if isinstance(value, np.generic):
        return {"numpy": str(value.dtype), "value": described(value.item())}
    if value.size <= 64 and value.dtype.kind in "iufb":
        values = list(map(described, value.reshape(-1).tolist()))
        return {"array": str(value.dtype), "values": values, "shape": list(value.shape)}
    return {"data": "ndarray", "dtype": str(value.dtype), "shape": list(value.shape), "sha256": digest(value)}


def _feed(hashed: Any, value: Any) -> None:
    """Add a value to a hash: kind, labels and contents, in an order that does not depend on the platform."""
    kind = _kind(value)
    if kind == "DataFrame":
        for name in value.columns:
            hashed.update(f"column {name}\0".encode())
            _feed_column(hashed, value[name])
    elif kind in ("Series", "Index"):
        _feed_column(hashed, value)
    elif kind == "DataArray":
        _feed_variable(hashed, "", value)
        for name in sorted(map(str, value.coords)):
            _feed_variable(hashed, name, value[name])
    elif kind == "Dataset":
        for name in sorted(map(str, value.variables)):
            _feed_variable(hashed, name, value[name])
    else:
        _feed_array(hashed, np.asarray(value))


def _feed_variable(hashed: Any, name: str, variable: Any) -> None:
    hashed.update(f"variable {name} {' '.join(map(str, variable.dims))}\0".encode())
    _feed_array(hashed, np.asarray(variable.values))


def _feed_column(hashed: Any, column: Any) -> None:
    if hasattr(column.dtype, "categories"):
        _feed_array(hashed, np.asarray(column.dtype.categories).astype(str))
        _feed_codes(hashed, np.asarray(column.array.codes))
    elif getattr(column.dtype, "tz", None) is not None:
        hashed.update(str(column.dtype).encode())
        _feed_array(hashed, np.asarray(column.array.asi8))
    else:
        _feed_array(hashed, column.to_numpy())


def _feed_codes(hashed: Any, codes: Any) -> None:
    """Add codes as 64-bit integers, as `_feed_array` would, but block by block without a full copy."""
    hashed.update(f"<i8 {codes.shape}\0".encode())
    for start in range(0, codes.size, _BLOCK):
        hashed.update(codes[start : start + _BLOCK].astype("<i8").data)


def _feed_array(hashed: Any, values: Any) -> None:
    if values.dtype.kind in _TEXTS:
        text = "\0".join(map(str, values.reshape(-1).tolist()))
        hashed.update(f"text {values.shape}\0{text}".encode("utf-8", "surrogatepass"))
        return
    hashed.update(f"{values.dtype.newbyteorder('<').str} {values.shape}\0".encode())
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    if little.flags.c_contiguous:
        hashed.update(little.reshape(-1).view(np.uint8).data)
        return
    # Blocks in C order: ravel would copy a transposed view of a large panel as a whole.
    if little.dtype.kind in "mM":
        little = little.view(f"u{little.dtype.itemsize}")
    blocks = np.nditer(
        little, flags=["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=_BLOCK
    )
    for block in blocks:
        hashed.update(np.ascontiguousarray(block).view(np.uint8).data)


_DESCRIBED: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (dt.timedelta | np.timedelta64, lambda value: {"timedelta": str(value)}),
    (dt.datetime | dt.date | np.datetime64, lambda value: {"time": str(value)}),
    (functools.partial, _partial),
    (list | tuple, _items),
    (set | frozenset, lambda value: {"set": sorted(map(described, value), key=json.dumps)}),
    (Mapping, _mapping),
    (np.generic | np.ndarray, _numbers),
    (types.EllipsisType, str),
)
