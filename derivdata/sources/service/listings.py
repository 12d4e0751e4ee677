"""Symbols that come or go: found by the change of a sum of hashes, and taken out of sums over all symbols."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.archive.step_sums import subtracted, sums_of_frame, symbol_hash

__all__ = ["changed_symbols", "without"]

_MOST_CHANGES = 64
"""Changes whose symbols are looked for, of a few venues within days; more are hardly listings."""

_Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def changed_symbols(sums: pd.DataFrame, symbols: Collection[str]) -> list[str] | None:
    """Return the symbols that some venues do not have at every instant; None where that cannot be told.

    A symbol that comes adds its hash to the venue's sum, one that goes subtracts it, modulo 2^64. Up to two
    at once are found.
    """
    names = sorted(symbols)
    hashes = np.array([symbol_hash(name) for name in names], np.uint64)
    order = np.argsort(hashes)
    ordered = sums.sort_values(["exchange", "time"])
    venue, sum_of = pd.Categorical(ordered["exchange"]).codes, ordered["symbol_hash"].to_numpy()
    same = venue[1:] == venue[:-1]
    changes = np.unique((sum_of[1:] - sum_of[:-1])[same])
    changes = changes[changes != 0]
    if len(changes) > _MOST_CHANGES:
        return None
    changed: set[str] = set()
    for change in changes:
        places = _terms(change, hashes[order])
        if places is None:
            return None
        changed.update(names[order[place]] for place in places)
    return sorted(changed)


def _terms(change: np.uint64, hashes: _Hashes) -> list[int] | None:
    """Return the places of the one or two hashes whose sum or difference, of either sign, is the change."""
    came = np.array([change])  # unsigned numbers wrap in arrays; alone they warn
    gone = 0 - came
    for single in (_places(came, hashes), _places(gone, hashes)):
        if single[0] >= 0:
            return [int(single[0])]
    for others in (came - hashes, gone - hashes, came + hashes):
        place = _places(others, hashes)
        fitting = np.flatnonzero(place >= 0)
        if fitting.size:
            return [int(fitting[0]), int(place[fitting[0]])]
    return None


def _places(wanted: _Hashes, hashes: _Hashes) -> np.ndarray[Any, Any]:
    """Return where each number is among sorted ones; -1 where it is not."""
    place = np.minimum(np.searchsorted(hashes, wanted), max(len(hashes) - 1, 0))
    return np.where(hashes[place] == wanted, place, -1) if len(hashes) else np.full(len(wanted), -1)


def without(sums: pd.DataFrame, rows: pd.DataFrame, value: str) -> pd.DataFrame | None:
    """Subtract rows of some symbols from the sums over all; None where they are not a part of these."""
    if rows.empty:
        return None
    rest = subtracted(sums, sums_of_frame(rows, value))
    if len(rest) > len(sums) or (rest["symbols"] < 0).any():
        return None
    return rest[rest["symbols"] > 0]
