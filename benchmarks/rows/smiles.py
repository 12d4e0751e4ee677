"""Smiles fitted all at once, next to scipy for one slice or one surface at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit, least_squares

from benchmarks.row import OURS, Check, Made, Row, faster, stated
from derivdata.analysis import smile
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.evaluate import RAW
from tests.analysis.smile_reference import best_of_starts, raw_svi, rms, vol_residuals
from tests.analysis.smiles import crypto_like

__all__ = ["ROWS"]

Floats = NDArray[np.float64]
_Slice = tuple[Floats, Floats, float]

_SLICES = 2_500
_SOME = 50
_NARROWEST = 1e-3
_TRF = "scipy least_squares (trf, bounded), slice by slice, 1/50 of them"
_ONCE = "limit: all curves evaluated once"
_CURVE = "scipy curve_fit, slice by slice, 1/50 of them"


def _fits(noise: float, _: Path) -> Made:
    k, iv, t, true = crypto_like(_SLICES, 40, seed=11, noise=noise)
    raw = svi.Raw(*(x[:, None] for x in true))
    some = [(k[i], iv[i], t[i]) for i in range(_SOME)]

    def ours() -> Any:
        return smile.fit(k, iv, t, weights="equal")

    return Made(
        {
            OURS: ours,
            _TRF: lambda: [trf(each) for each in some],
            _CURVE: lambda: [by_curve_fit(each) for each in some],
            _ONCE: lambda: svi.total_variance(k, raw),
        },
        parts=dict.fromkeys((_TRF, _CURVE), _SOME / _SLICES),
        checks=lambda: _checks(ours(), some, noisy=noise > 0),
    )


def trf(given: _Slice) -> Floats:
    """Raw parameters from one start, the width no less than the library's."""
    low, high = [-np.inf, 0, -1, -np.inf, _NARROWEST * np.ptp(given[0])], [np.inf, np.inf, 1, np.inf, np.inf]
    found: Floats = least_squares(lambda p: vol_residuals(*given, p), _start(given), bounds=(low, high)).x
    return found


def by_curve_fit(given: _Slice) -> Floats | None:
    """Raw parameters from the same start without bounds; None where the search does not end."""
    k, iv, t = given
    try:
        found: Floats = curve_fit(raw_svi, k, iv**2 * t, _start(given), sigma=2 * iv * t)[0]
    except RuntimeError:
        return None
    return found


def _start(given: _Slice) -> list[float]:
    k, iv, t = given
    w, half = iv**2 * t, np.ptp(k) / 2
    return [w.min() / 2, np.ptp(w) / half, -0.1, k[np.argmin(w)], half / 3]


def _checks(fit: Any, some: list[_Slice], *, noisy: bool) -> list[Check]:
    raw = np.stack([fit[name] for name in RAW], axis=1)
    ours = [rms(*each, p) for each, p in zip(some, raw[:_SOME], strict=True)]
    found = [
        _beside(name, ours, some, by) for name, by in (("least_squares", trf), ("curve_fit", by_curve_fit))
    ]
    if noisy:
        best = [rms(*each, best_of_starts(*each)) for each in some]
        share = np.mean(np.array(ours) > 1.01 * np.array(best))
        what = f"slices over 1 % worse than the best of 12 bounded starts, of {len(some)}"
        found.append(Check(what, f"{share:.1%}", "≤ 1 %", bool(share <= 0.01)))
    return found


def _beside(
    name: str, ours: list[float], some: list[_Slice], fit: Callable[[_Slice], Floats | None]
) -> Check:
    """Count the slices that another fit meets more closely within the library's bounds."""
    theirs = [fit(each) for each in some]
    kept = [i for i, p in enumerate(theirs) if p is not None and _allowed(p, some[i][0])]
    worse = [i for i in kept if ours[i] > (1 + 1e-6) * rms(*some[i], theirs[i]) + 1e-8]
    return Check(
        f"slices of {len(some)} that {name} fits closer, of {len(kept)} where it keeps the library's bounds",
        str(len(worse)),
        "0",
        not worse,
    )


def _allowed(p: Floats, k: Floats) -> bool:
    """Return whether Lee's bound is satisfied, no variance is negative, and the width is allowed by the
    library.
    """
    a, b, rho, _, sigma = p
    inside = b >= 0 and abs(rho) <= 1 and b * (1 + abs(rho)) <= 2 and sigma >= _NARROWEST * np.ptp(k)
    return bool(inside and a + b * sigma * np.sqrt(1 - rho**2) >= 0)


ROWS = [
    Row(
        "svi-clean",
        what="SVI slices",
        given="2,500 clean slices of 40 strikes",
        make=partial(_fits, 0.0),
        goals={_TRF: faster(100), _CURVE: faster(15), _ONCE: stated()},
        rounds=3,
    ),
    Row(
        "svi-noisy",
        what="SVI slices",
        given="2,500 slices of 40 strikes, 3 % noise",
        make=partial(_fits, 0.03),
        goals={_TRF: faster(100), _CURVE: faster(15), _ONCE: stated()},
        rounds=3,
    ),
]
