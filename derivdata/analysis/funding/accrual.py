"""Funding that a position accrues, row by row."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.funding.ledger import Ledger, of_sampled, of_settled
from derivdata.analysis.panels import (
    beside,
    hours,
    kind_of,
    like,
    positive,
    require_rate,
    usual_step,
    whole,
)
from derivdata.analysis.settlements import merge_late_stamps, refuse_overlap
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS, BPS_UNIT, HOUR_UNIT

__all__ = ["PreparedPanel", "cumulative", "prepare"]


class PreparedPanel(NamedTuple):
    """A funding panel made ready for a kernel: its arrays, and how their rows become a `Ledger`."""

    arrays: tuple[xr.DataArray, ...]
    """The rates, and of settlements their intervals beside them; time in one chunk."""
    since: Floats
    origin: np.datetime64
    """The instant from which `since` counts: of settlements, what the first stamp stands for."""
    settled: bool
    step: float
    limit: float

    def ledger(self, *arrays: Floats) -> Ledger:
        """Return the ledger of the arrays' values, time last."""
        if self.settled:
            rates, interval = arrays
            refuse_overlap(
                np.where(np.isfinite(rates) & (interval > 0.0), interval, 0.0), self.since, self.origin
            )
            return of_settled(rates, interval, self.since)
        return of_sampled(arrays[0], self.since, step=self.step, limit=self.limit)


def prepare(
    panel: xr.DataArray,
    *,
    interval_hours: Any = None,
    max_gap_hours: float | None = None,
    step_hours: float | None = None,
) -> PreparedPanel:
    """Check a funding panel and what belongs to its kind; see `cumulative` for the arguments.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`.
    """
    require_rate(panel, "time")
    since = hours(panel)
    if kind_of(panel) == "settled":
        if interval_hours is None:
            raise ValueError("settlements pay for their interval: give interval_hours (see infer_interval)")
        if max_gap_hours is not None or step_hours is not None:
            raise ValueError("max_gap_hours and step_hours are for sampled rates; this panel is settled")
        interval = beside(panel, interval_hours, units=HOUR_UNIT, name="interval_hours")
        rates, interval = merge_late_stamps(panel, interval)
        arrays = (whole(rates, "time"), whole(interval, "time"))
        return PreparedPanel(arrays, hours(rates), rates["time"].to_numpy()[0], True, np.nan, np.nan)
    if interval_hours is not None:
        raise ValueError("interval_hours is for settlements; this panel is sampled and accrues over time")
    step = usual_step(since, step_hours)
    limit = 2.0 * step if max_gap_hours is None else positive(max_gap_hours, "max_gap_hours")
    return PreparedPanel((whole(panel, "time"),), since, panel["time"].to_numpy()[0], False, step, limit)


@typed
def cumulative(
    panel: xr.DataArray,
    *,
    interval_hours: Numbers | None = None,
    compound: bool = False,
    gaps: Literal["nan", "skip"] = "nan",
    max_gap_hours: float | None = None,
    step_hours: float | None = None,
) -> xr.Dataset:
    """Accrue funding since the start of each series: the integral of samples, the sum of settlements.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] whose ``kind`` is stated, dim ``time``, in memory or lazy (time is put into
        one chunk).
    interval_hours
        Settlements only, and needed there: hours that each one pays for, a number or a DataArray over dims
        of the panel, which may change in time. A settlement adds ``rate × interval_hours / 8``.
    compound
        Settlements only: every payment is added to the position.
    gaps
        ``"nan"``: unknown from the first hole on. ``"skip"``: holes are left out, and `missing_hours` says
        how much that is.
    max_gap_hours
        Samples only: how long a rate holds at most where samples are missing; by default two steps.
    step_hours
        Samples only: how long the last row holds; by default the median step.

    Returns
    -------
    Dataset, the panel's dims
        ``funding_bps`` [bps of notional, longs pay when positive], ``covered_hours``, ``missing_hours``,
        since the series' first value; NaN before it. Settlements stamped up to a minute past a whole hour
        stand at that hour. A sampled row includes the hours that it holds
        (the stamp is the start of its bucket), a settled one its own payment. A constant 1 bps/8h over 30
        days ends at 90 bps, whatever the step or the interval.

    Raises
    ------
    TypeError, ValueError
        The unit or the kind is not stated; an argument belongs to the other kind; settlements pay for more
        hours than have passed.

    Notes
    -----
    An unknown interval makes its settlement missing. What a sampled rate accrues is an estimate of payments
    on venues that settle at instants; on those that accrue by the second it is the payment.

    Examples
    --------
    >>> hours = pd.date_range("2026-01-01", periods=720, freq="h")
    >>> rates = xr.DataArray(np.ones(720), {"time": hours}, attrs={"units": "bps/8h", "kind": "sampled"})
    >>> dd.analysis.funding.cumulative(rates)["funding_bps"].values[-1].item()
    90.0
    """
    prepared = prepare(
        panel, interval_hours=interval_hours, max_gap_hours=max_gap_hours, step_hours=step_hours
    )
    if compound and not prepared.settled:
        raise ValueError("only payments compound: this panel is sampled")
    figures = xr.apply_ufunc(
        _cumulative,
        *prepared.arrays,
        input_core_dims=[["time"]] * len(prepared.arrays),
        output_core_dims=[["time"]] * 3,
        kwargs={"prepared": prepared._replace(arrays=()), "compound": compound, "strict": gaps == "nan"},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * 3,
    )
    result = xr.Dataset()
    names = {"funding_bps": BPS_UNIT, "covered_hours": HOUR_UNIT, "missing_hours": HOUR_UNIT}
    for (name, unit), figure in zip(names.items(), figures, strict=True):
        result[name] = like(figure, panel)
        result[name].attrs = {"units": unit, "kind": panel.attrs["kind"]}
    return result


def _cumulative(
    *arrays: Floats, prepared: PreparedPanel, compound: bool, strict: bool
) -> tuple[Floats, Floats, Floats]:
    ledger = prepared.ledger(*arrays)
    amount = ledger.amount
    if compound:
        amount = np.log1p(np.where(amount > -BPS, amount / BPS, np.nan))
    total, covered, missing = (np.cumsum(part, axis=-1) for part in (amount, ledger.covered, ledger.missing))
    if compound:
        total = BPS * np.expm1(total)
    unknown = ~ledger.begun | (missing > 0.0) if strict else ~ledger.begun
    hidden = np.where(unknown, np.nan, total)
    return hidden, np.where(ledger.begun, covered, np.nan), np.where(ledger.begun, missing, np.nan)
