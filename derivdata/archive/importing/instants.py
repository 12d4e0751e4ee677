"""Instants of files as UTC: ISO text with or without a zone, numbers since 1970, timestamps."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.archive.importing.values import Rejections, shown, words

__all__ = ["instants", "zone"]

_FIXED = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)
_ZONED = re.compile(r".*(Z|:\d{2}(\.\d+)?[+-]\d{2}(:?\d{2})?)")
_EPOCH = re.compile(r"\d+(\.\d*)?(e\+?\d+)?", re.IGNORECASE)
_EARLIEST, _LATEST = 1_200_000_000, 4_200_000_000
_MICROS_PER = {1: 1_000_000.0, 1_000: 1_000.0, 1_000_000: 1.0, 1_000_000_000: 0.001}
_MISSING = np.datetime64("NaT", "us")


def zone(name: str) -> dt.tzinfo:
    """Zone of a name such as ``Europe/London``, ``Etc/GMT-3``, ``UTC`` or ``UTC+3`` (three hours ahead).

    Raises
    ------
    ValueError
        There is no such zone.
    """
    fixed = _FIXED.fullmatch(name.strip())
    if fixed is not None:
        ahead = dt.timedelta(hours=int(fixed[2]), minutes=int(fixed[3] or 0))
        if ahead >= dt.timedelta(hours=24):
            raise ValueError(f"tz={name!r} is a day or more from UTC")
        return dt.timezone(ahead if fixed[1] == "+" else -ahead)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"tz={name!r} is no zone: write Europe/London, UTC or UTC+3") from None


def instants(
    values: Any,
    name: str,
    rejections: Rejections,
    *,
    tz: dt.tzinfo | None,
    groups: Sequence[Any] | None = None,
) -> pd.DatetimeIndex:
    """Values as UTC instants: ISO 8601 text, numbers since 1970 in s, ms, µs or ns, or timestamps.

    Parameters
    ----------
    tz
        Zone of what states none; None turns such rows down.
    groups
        What a row belongs to. Of a local hour that the clock shows twice, the first is meant, but the
        second in a row that repeats an instant of its group.
    """
    if isinstance(getattr(values, "dtype", None), pd.DatetimeTZDtype):
        return pd.DatetimeIndex(values).tz_convert("UTC").as_unit("us")
    if pd.api.types.is_datetime64_dtype(getattr(values, "dtype", None)):
        naive = np.asarray(values, dtype="datetime64[us]")
        utc = np.full(len(naive), _MISSING)
    else:
        utc, naive = _read(values, name, rejections)
    floating = ~np.isnat(naive)
    if floating.any() and tz is None:
        why = "states no zone: say which with --tz, such as UTC or Europe/London"
        rejections.reject(floating, lambda i: f"{name}={shown(values, i)} {why}")
    elif floating.any():
        utc[floating] = _localized(naive, floating, tz, groups)
        lost = floating & np.isnat(utc)
        rejections.reject(lost, lambda i: f"{name}={shown(values, i)} was skipped by the clock of {tz}")
    return pd.DatetimeIndex(utc).tz_localize("UTC")


def _read(
    values: Any, name: str, rejections: Rejections
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """UTC instants of what states its zone, and local ones of what does not."""
    texts = [text or "" for text in words(values, name, rejections)]
    utc, naive = np.full(len(texts), _MISSING), np.full(len(texts), _MISSING)
    kinds = np.array([_kind(text) for text in texts])
    for kind, target in (("epoch", utc), ("zoned", utc), ("naive", naive)):
        rows = np.flatnonzero(kinds == kind)
        chosen = [texts[i] for i in rows]
        target[rows] = _epochs(chosen) if kind == "epoch" else _iso(chosen, utc=kind == "zoned")
    unread = (kinds != "") & np.isnat(utc) & np.isnat(naive)
    rejections.reject(unread, lambda i: f"{name}={shown(values, i)} is no instant in ISO 8601 or since 1970")
    return utc, naive


def _kind(text: str) -> str:
    if not text:
        return ""
    if _EPOCH.fullmatch(text):
        return "epoch"
    return "zoned" if _ZONED.fullmatch(text) or text.endswith((" UTC", " GMT")) else "naive"


def _iso(texts: list[str], *, utc: bool) -> np.ndarray[Any, Any]:
    plain = [text.removesuffix(" UTC").removesuffix(" GMT") for text in texts]
    parsed = pd.DatetimeIndex(pd.to_datetime(plain, format="ISO8601", errors="coerce", utc=utc))
    return np.asarray(parsed.tz_localize(None).as_unit("us"))


def _epochs(texts: list[str]) -> np.ndarray[Any, Any]:
    """Instants of numbers since 1970, whose size says whether they are s, ms, µs or ns."""
    result = np.full(len(texts), _MISSING)
    whole = [int(text) if text.isdigit() else 0 for text in texts]
    amounts = np.array([float(text) for text in texts])
    for scale, micros in _MICROS_PER.items():
        rows = np.flatnonzero((amounts >= _EARLIEST * scale) & (amounts < _LATEST * scale))
        exact = [
            whole[i] * 1_000_000 // scale if whole[i] else round(float(amounts[i]) * micros) for i in rows
        ]
        result[rows] = np.array(exact, dtype=np.int64).view("datetime64[us]")
    return result


def _localized(
    naive: np.ndarray[Any, Any],
    floating: np.ndarray[Any, Any],
    tz: dt.tzinfo | None,
    groups: Sequence[Any] | None,
) -> np.ndarray[Any, Any]:
    local = pd.DatetimeIndex(naive[floating])
    twice = np.asarray(local.tz_localize(tz, ambiguous="NaT", nonexistent="shift_forward").isna())
    keys = {str(i): np.asarray(group, dtype=object)[floating] for i, group in enumerate(groups or ())}
    again = pd.DataFrame({**keys, "time": local}).duplicated().to_numpy()
    second = again & twice if not (again & ~twice).any() else np.zeros(len(local), dtype=bool)
    zoned = local.tz_localize(tz, ambiguous=~second, nonexistent="NaT")
    return np.asarray(zoned.tz_convert("UTC").tz_localize(None))
