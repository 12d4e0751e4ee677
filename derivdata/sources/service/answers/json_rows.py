"""Columns as JSON, without a Python loop over rows.

Every column becomes a list of JSON tokens (each distinct instant or category is written once), and rows
are joined from them. What is missing is ``null``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from msgspec import Raw

from derivdata.support import times

_ENCODER = msgspec.json.Encoder()
_SECOND = 1_000_000


def encode(body: Any) -> bytes:
    """Write a body as JSON; NaN is ``null``."""
    return _ENCODER.encode(body)


def stamp(instant: pd.Timestamp) -> str:
    """Write an instant as snapshots do: ``YYYY-MM-DD HH:MM:SS``."""
    return str(instant.strftime("%Y-%m-%d %H:%M:%S"))


def rows(columns: Mapping[str, Any] | pd.DataFrame) -> Raw:
    """Write columns of equal length (Series, index, array, tokens) as a JSON array of objects."""
    return array(objects(columns))


def objects(columns: Mapping[str, Any] | pd.DataFrame) -> list[bytes]:
    """Write one JSON object per row."""
    template = b"{" + b",".join(b"%b:%%b" % encode(name) for name in columns) + b"}"
    lists = [values if isinstance(values, list) else tokens(values) for _, values in columns.items()]
    return list(map(template.__mod__, zip(*lists, strict=True)))


def sparse_objects(stamps: list[bytes], wide: pd.DataFrame) -> list[bytes]:
    """Write a JSON object per row of a wide frame, after its ``timestamp``; what is missing has no field."""
    fields = [b",%b:" % encode(name) for name in wide.columns]
    objects = []
    for stamp, row in zip(stamps, wide.to_numpy().tolist(), strict=True):
        values = [field + encode(v) for field, v in zip(fields, row, strict=True) if v == v]
        objects.append(b'{"timestamp":%b%b}' % (stamp, b"".join(values)))
    return objects


def array(items: list[bytes]) -> Raw:
    """Join items that are JSON already to a JSON array."""
    return Raw(b"[" + b",".join(items) + b"]")


def split(items: list[bytes], labels: pd.Series, shape: bytes = b"[%b]") -> dict[str, Raw]:
    """Put runs of equal labels under their label, each as an array or as `shape` says."""
    names = labels.to_numpy(dtype=object)
    if not len(names):
        return {}
    cuts = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
    return {str(names[a]): Raw(shape % b",".join(items[a:b])) for a, b in pairwise(cuts)}


def tokens(values: Any) -> list[bytes]:
    """Write every value as a JSON token: numbers, text, instants, truth values; missing is ``null``."""
    values = pd.Series(values, copy=False)
    if times.has_zone(values):
        return iso_tokens(pd.DatetimeIndex(values))
    if isinstance(values.dtype, pd.CategoricalDtype):
        words = [*map(encode, values.cat.categories), b"null"]
        return [words[code] for code in values.cat.codes.tolist()]
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
        return encode(values.to_numpy().tolist())[1:-1].split(b",") if values.size else []
    if pd.api.types.infer_dtype(values, skipna=True) == "string":  # repeated names are written once
        codes, distinct = pd.factorize(values)
        words = [*map(encode, distinct), b"null"]
        return [words[code] for code in codes.tolist()]
    values = values.astype(object).where(values.notna(), None)
    return [encode(None if value is pd.NA else value) for value in values.tolist()]


def iso_tokens(index: pd.DatetimeIndex) -> list[bytes]:
    """Write instants as quoted ISO text in UTC ending in Z, with a fraction only where there is one."""
    codes, distinct = pd.factorize(index.as_unit("us").asi8)
    micros = np.asarray(distinct, dtype=np.int64)
    written = np.char.add(np.datetime_as_string(micros.view("M8[us]"), unit="s"), "Z")
    words = [encode(text) for text in written.tolist()]
    for i in np.flatnonzero(micros % _SECOND):
        words[i] = encode(times.iso(pd.Timestamp(int(micros[i]), unit="us", tz="UTC")))
    for i in np.flatnonzero(np.isnat(micros.view("M8[us]"))):
        words[i] = b"null"
    return [words[code] for code in codes.tolist()]
