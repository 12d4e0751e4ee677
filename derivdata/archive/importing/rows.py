"""Rows of a file as rows of a table, each one that does not fit turned down with its reason."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import units
from derivdata.archive.importing.files import Chunk
from derivdata.archive.importing.instants import instants
from derivdata.archive.importing.recipe import Recipe
from derivdata.archive.importing.values import Verdict, numbers, shown, words
from derivdata.errors import ArchiveError
from derivdata.schema import Kind
from derivdata.tables.contracts import contract

__all__ = ["RANK", "Rows", "quotes", "rows"]

RANK = "quote_rank"
_WORDS = (Kind.TEXT, Kind.LABEL)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_TINY_BPS_8H = 0.01
_HUGE_IV = 5.0


class Rows(NamedTuple):
    """Rows that fit, with the rank of each contract's quote; how many do not, and the first reason."""

    frame: pd.DataFrame
    rejected: int
    first: str | None


def rows(chunk: Chunk, recipe: Recipe) -> Rows:
    """The rows of a chunk that fit the table, in house names and units.

    Raises
    ------
    ArchiveError
        A column is not there, or the values cannot be in the unit that was meant.
    """
    verdict = Verdict(len(chunk.lines))
    ragged = np.isin(np.arange(len(chunk.lines)), list(chunk.ragged))
    verdict.reject(ragged, lambda i: chunk.ragged[i])
    found = _words(chunk, recipe, verdict) | _numbers(chunk, recipe, verdict)
    found |= _times(chunk, recipe, verdict, found)
    _convert(found, recipe, verdict)
    _require(found, recipe, verdict)
    names = [name for name in (*recipe.table.columns, RANK) if name in found]
    frame = pd.DataFrame({name: found[name] for name in names})[~verdict.bad]
    if not verdict.bad.any():
        return Rows(frame, 0, None)
    where, why = verdict.first
    return Rows(frame.reset_index(drop=True), int(verdict.bad.sum()), f"line {chunk.lines[where]}: {why}")


def quotes(chunk: Chunk, recipe: Recipe) -> set[tuple[str, str, int]]:
    """Venue, base symbol and quote's rank of every contract in a chunk."""
    found = _words(chunk, recipe, Verdict(len(chunk.lines)))
    return set(zip(found["exchange"], found["symbol"], found[RANK].tolist(), strict=True))


def _words(chunk: Chunk, recipe: Recipe, verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, column in recipe.table.columns.items():
        if column.kind in _WORDS and (raw := recipe.raw(name, chunk)) is not None:
            found[name] = np.array(words(raw, name, verdict), dtype=object)
            _hold_to(found, name, recipe.allowed(name), raw, verdict)
        elif column.kind is Kind.FLAG and (raw := recipe.raw(name, chunk)) is not None:
            found[name] = _flags(raw, name, verdict)
    if "exchange" in found:
        found["exchange"] = _mapped(found["exchange"], str.lower)
    if "symbol" in found:
        contracts = _mapped(found["symbol"], contract)
        found["symbol"] = np.array([c and c.symbol for c in contracts], dtype=object)
        found[RANK] = np.array([0 if c is None else c.rank for c in contracts])
    return found


def _flags(raw: Any, name: str, verdict: Verdict) -> Any:
    found = _mapped(words(raw, name, verdict), str.lower)
    wrong = np.array([word is not None and word not in _FLAGS for word in found])
    verdict.reject(wrong, lambda i: f"{name}={shown(raw, i)} is not true or false")
    return _mapped(found, _FLAGS.get)


def _hold_to(found: dict[str, Any], name: str, allowed: tuple[str, ...], raw: Any, verdict: Verdict) -> None:
    if allowed:
        found[name] = _mapped(found[name], str.lower)
        wrong = np.array([word is not None and word not in allowed for word in found[name]])
        choice = " or ".join(f"--set {name}={word}" for word in allowed[:2])
        why = f"is not {' or '.join(allowed)}: if all rows are one of them, say {choice}"
        verdict.reject(wrong, lambda i: f"{name}={shown(raw, i)} {why}")


def _mapped(values: Any, change: Any) -> Any:
    known = {value: None if value is None else change(value) for value in set(values)}
    result = np.empty(len(values), dtype=object)
    result[:] = [known[value] for value in values]
    return result


def _numbers(chunk: Chunk, recipe: Recipe, verdict: Verdict) -> dict[str, Any]:
    kinds = {name: column.kind for name, column in recipe.table.columns.items()}
    wanted = [name for name, kind in kinds.items() if kind in (Kind.NUMBER, Kind.COUNT, Kind.RANK)]
    if "rate_bps_8h" in wanted and "interval_hours" not in wanted:
        wanted.append("interval_hours")
    found = {}
    for name in wanted:
        raw = recipe.raw(name, chunk)
        if raw is not None:
            found[name] = numbers(raw, name, verdict)
            if kinds.get(name) in (Kind.COUNT, Kind.RANK):
                _hold_to_whole(found[name], name, verdict)
    return found


def _hold_to_whole(values: Any, name: str, verdict: Verdict) -> None:
    broken = np.isfinite(values) & (values != np.round(values))
    verdict.reject(broken, lambda i: f"{name}={values[i]:g} is not a whole number")


def _times(chunk: Chunk, recipe: Recipe, verdict: Verdict, found: dict[str, Any]) -> dict[str, Any]:
    groups = [found[name] for name in ("symbol", *recipe.table.key) if name in found]
    return {
        name: instants(raw, name, verdict, tz=recipe.tz, groups=groups if name == "time" else None)
        for name, column in recipe.table.columns.items()
        if column.kind is Kind.TIME and (raw := recipe.raw(name, chunk)) is not None
    }


def _convert(found: dict[str, Any], recipe: Recipe, verdict: Verdict) -> None:
    if "rate_bps_8h" in found:
        _convert_rate(found, recipe, verdict)
    if "iv" in found:
        if recipe.unit is None and _median(found["iv"]) > _HUGE_IV:
            raise ArchiveError("iv looks like percent: say --unit percent, or --unit decimal if it is not")
        if recipe.unit == "percent":
            found["iv"] = found["iv"] / 100


def _convert_rate(found: dict[str, Any], recipe: Recipe, verdict: Verdict) -> None:
    rate = found["rate_bps_8h"]
    if recipe.unit is None and 0 < _median(np.abs(rate[rate != 0])) < _TINY_BPS_8H:
        raise ArchiveError(
            "rate_bps_8h looks like a fraction, not bps per 8 hours: say --unit native (and "
            "--set interval_hours=8, say), or --unit bps_8h if it is not"
        )
    if recipe.unit in (None, "bps_8h"):
        return
    if "interval_hours" not in found:
        raise ArchiveError(
            f"--unit {recipe.unit} is per the venue's own interval: say which with "
            "--set interval_hours=8 or --map interval_hours=COLUMN"
        )
    hours = found["interval_hours"]
    verdict.reject(~(hours > 0), lambda i: f"interval_hours={hours[i]:g} is no interval")
    scale = {"native": 1.0, "percent": 100.0, "bps": units.BPS}[recipe.unit]
    with np.errstate(divide="ignore", invalid="ignore"):
        found["rate_bps_8h"] = units.bps_8h_from_native(rate / scale, hours)


def _median(values: Any) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else float("nan")


def _require(found: dict[str, Any], recipe: Recipe, verdict: Verdict) -> None:
    for name in recipe.table.columns:
        if name in found and recipe.required(name):
            verdict.reject(pd.isna(found[name]), f"{name} is missing")
