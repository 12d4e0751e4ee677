"""Past errors that are carried from one decision to the next, against sorting all of them again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from derivdata.analysis.funding import forecast_errors
from derivdata.analysis.funding.forecast_errors import PastErrors
from derivdata.analysis.funding.pooled_regression import Plan

PLAN = Plan(hold=6, spans=(1, 3, 9, 21, 60), stride=2, phase=0, memory=40.0, minimum=30, recent=20.0)
PAIRS, COLUMNS = 7, 80


class _Sizes(NamedTuple):
    number: np.ndarray
    base: np.ndarray

    def by_fit(self, column: int, of: np.ndarray) -> np.ndarray:
        return self.base[:, of] * (1.0 + 0.01 * column)


def _inputs():
    rng = np.random.default_rng(4)
    missed = rng.normal(size=(PAIRS, COLUMNS)).round(1)  # rounded: many errors are equal
    missed[:, ::5] = np.nan
    missed[2, 10:20] = np.nan
    scale = rng.choice([0.05, 0.5, 1.0], size=missed.shape)  # 0.05: clipped errors
    direction = rng.choice([-1.0, 0.0, 1.0], size=missed.shape)
    number = np.where(np.arange(COLUMNS) < 12, 5.0, 50.0)
    sizes = _Sizes(number, rng.choice([0.5, 1.0], size=missed.shape))
    return missed, scale, direction, sizes, 2 * np.arange(COLUMNS)


def _by_sorting(missed, scale, direction, sizes, columns, at, most):
    """Return the weighted distribution of errors known at a period as a dict from error to weight."""
    usable = [c for c in range(COLUMNS) if columns[c] <= at - PLAN.hold and np.isfinite(missed[:, c]).any()]
    weights: dict[float, float] = {}
    for c in usable[-most:]:
        size = scale[:, c]
        if sizes.number[c] < 30.0:
            size = sizes.by_fit(int(np.searchsorted(columns, at)), np.array([c]))[:, 0]
        for pair in range(PAIRS):
            error = float(np.clip(missed[pair, c] / size[pair], -10.0, 10.0))
            if np.isnan(error):
                continue
            weight = 0.5 ** ((at - columns[c]) / PLAN.memory)
            for sign in (1.0, -1.0):
                share = 0.5 * (1.0 + sign * direction[pair, c])
                weights[sign * error] = weights.get(sign * error, 0.0) + weight * share
    return weights, len(usable[-most:])


@pytest.mark.parametrize("most", [1000, 15])
def test_incremental_error_quantiles_equal_sorting_at_each_decision(monkeypatch, most: int) -> None:
    monkeypatch.setattr(forecast_errors, "_MAX_ERRORS", most * PAIRS)
    inputs = _inputs()
    carried = PastErrors(*inputs, PLAN)
    for at in [3, 8, 9, 30, 31, 60, 100, 160, 40, 41, 160]:  # also back in time
        errors, up_to, decisions = carried.known_at(at)
        weights, number = _by_sorting(*inputs, at, most)
        assert decisions == number
        assert (np.diff(errors) >= 0.0).all()
        total = sum(weights.values())
        # The weight of equal errors together: the order among them is not defined.
        middle = dict.fromkeys(weights, 0.0)
        steps = np.diff(_ends(up_to), prepend=0.0)
        for error, step in zip(errors, steps, strict=True):
            middle[float(error)] += step
        expected = {error: weight / total for error, weight in weights.items()}
        assert middle == pytest.approx(expected, abs=1e-12)


def _ends(up_to: np.ndarray) -> np.ndarray:
    """Return the weight up to the end of each error, from those up to its middle."""
    ends = np.empty_like(up_to)
    before = 0.0
    for place, middle in enumerate(up_to):
        ends[place] = before = 2.0 * middle - before
    return ends
