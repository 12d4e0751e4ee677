"""An axis of time to expiry that is labelled by the listed expiries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.plot.style import cell_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["expiry_axis"]


def expiry_axis(ax: Axes, days: Any, expiries: Any) -> None:
    """Make x a logarithmic axis of time to expiry, labelled at listed expiries by date and days.

    Expiries too close to one another for their labels have a tick without one.
    """
    days, dates = np.asarray(days, dtype=np.float64), pd.DatetimeIndex(np.asarray(expiries))
    ax.set_xscale("log")
    low, high = days.min() / 1.15, days.max() * 1.15
    ax.set_xlim(low, high)
    # A label takes about 36 points of the axes, which are some three quarters of the figure wide.
    apart = np.log(high / low) * 36.0 / (0.72 * cell_width(ax))
    chosen: list[int] = []
    for place in range(len(days) - 1, -1, -1):  # the last one and the long ones first: short ones crowd
        if not chosen or np.log(days[chosen[-1]] / days[place]) >= apart:
            chosen.append(place)
    ax.set_xticks(days[chosen], [_expiry_label(dates[place], float(days[place])) for place in chosen])
    ax.set_xticks(days, minor=True, labels=[])
    ax.set_xlabel("expiry [UTC], time to expiry [days]")


def _expiry_label(date: pd.Timestamp, days: float) -> str:
    length = f"{24.0 * days:.0f} h" if days < 1.0 else f"{days:.1f} d" if days < 10.0 else f"{days:.0f} d"
    return f"{date.day} {date:%b}\n{date:%Y}\n{length}"
