"""How far prices move before collateral can be moved: what an account must bear by itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.funding.rolling import sliding
from derivdata.support.arrays import Floats, Indices

_HALF_LIFE_HOURS = 14.0 * 24.0  # of the weight of a past move in volatility and correlation
_LEAST_SPANS = 30.0  # spans of history before anything is said
_TAIL = 0.1  # part of the largest moves that the tail is fitted to
_INDEX, _INDEX_WEIGHT = 3.0, 10.0
"""Tail index that is expected beforehand, of as many moves (the inverse cubic law of returns)."""
_WEEK = 168.0


class Moves(NamedTuple):
    """Moves of prices within a span, as known at some instants; NaN where history is too short."""

    covariance: Floats
    """(instant, symbol, symbol): of the logarithms of prices over the span."""
    threshold: Floats
    """(instant) standard deviations: a tenth of the largest moves within a span are beyond."""
    tail: Floats
    """(instant) by which the probability falls further out: ``0.1 (x / threshold) ** −index``."""
    spans: float
    """Number of spans in a week."""

    def deviations(self, at: int, weekly: float) -> float:
        """Return how many standard deviations a span's largest move exceeds with this probability a week."""
        each = -np.expm1(np.log1p(-weekly) / self.spans)
        # A move more likely than one in ten is not rare: the least that is asked for is the threshold.
        return float(self.threshold[at] * max(_TAIL / each, 1.0) ** (1.0 / self.tail[at]))

    def weekly(self, at: int, deviations: Floats) -> Floats:
        """Return the probability that a span's largest move exceeds some deviations within a week."""
        beyond = np.maximum(deviations / self.threshold[at], 1e-12)
        each = np.minimum(_TAIL * beyond ** -self.tail[at], 1.0)
        return np.asarray(1.0 - (1.0 - each) ** self.spans)


def moves_of(levels: Floats, step: float, span: float, at: Indices) -> Moves:
    """Return the moves of levels (symbol, row) within a span of hours, known at some rows.

    Rows are `step` hours apart. Volatility is that of recent moves, the newest with most weight. The largest
    rise and the largest fall within each past span, in units of the volatility known at its start, make the
    distribution (filtered historical simulation: Barone-Adesi, Giannopoulos and Vosper 1999), and their
    largest tenth its tail (Hill 1975).
    """
    rows = max(1, round(span / step))
    deviation, correlation = _recent(np.diff(levels, axis=1, prepend=np.nan), _HALF_LIFE_HOURS / step, at)
    deviation *= np.sqrt(rows)
    upward, downward = (_largest(sign * levels, rows) for sign in (1.0, -1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = np.stack([upward, downward]) / deviation
    threshold, index = np.full((2, at.size), np.nan)
    for place, row in enumerate(map(int, at)):
        past = standard[..., : max(row - rows + 1, 0)]  # spans that are over
        past = past[np.isfinite(past)]
        if row + 1 < _LEAST_SPANS * rows or not past.size:
            continue
        threshold[place] = np.quantile(past, 1.0 - _TAIL)
        tail = past[past > threshold[place]]
        number = max(tail.size / rows, 1.0)  # spans that overlap say in part the same
        excess = float(np.log(tail / threshold[place]).mean()) if tail.size else 0.0
        index[place] = (number + _INDEX_WEIGHT) / (number * excess + _INDEX_WEIGHT / _INDEX)
    known = deviation[:, at].T
    return Moves(known[:, :, None] * correlation * known[:, None, :], threshold, index, _WEEK / span)


def _recent(moves: Floats, half_life: float, at: Indices) -> tuple[Floats, Floats]:
    """Return the deviations (symbol, row) of recent moves, and their correlations (at, symbol, symbol)."""

    def mean(values: Floats) -> Floats:
        found: Floats = pd.DataFrame(values.T).ewm(halflife=half_life, ignore_na=True).mean().to_numpy().T
        return found

    deviation = np.sqrt(mean(moves**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = moves / deviation
    number, count = len(moves), at.size
    products = mean((standard[:, None] * standard[None]).reshape(number**2, -1))[:, at]
    products = np.moveaxis(products.reshape(number, number, count), -1, 0)
    own = np.sqrt(np.maximum(np.einsum("tii->ti", products), 1e-300))
    return deviation, np.clip(products / own[:, :, None] / own[:, None, :], -1.0, 1.0)


def _largest(levels: Floats, rows: int) -> Floats:
    """Return by how much levels rise at most within so many rows after each; NaN where that is not over."""
    highest = np.full(levels.shape, np.nan)
    if levels.shape[1] > rows:
        highest[:, :-rows] = sliding(np.fmax, levels[:, 1:], rows)
    return highest - levels
