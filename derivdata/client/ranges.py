"""Rolling windows: the ``range`` of a request whose window ends now."""

from __future__ import annotations

import pandas as pd

from derivdata.client import transport
from derivdata.support import times
from derivdata.tables.endpoints import Endpoint

_MINUTE = pd.Timedelta(1, "min")
_DAY = pd.Timedelta(1, "D")
_CAP_DAYS = 90


def rolling(endpoint: Endpoint, window: times.Instant | None) -> str | None:
    """Return the endpoint's ``range`` for a window that ends now: the shortest known one that contains it."""
    choices = next(p.choices for p in endpoint.params if p.name == "range")
    if window is None or (isinstance(window, str) and window in choices):
        return window
    length = times.lookback(window) if isinstance(window, str) else None
    if length is None:
        try:
            length = times.asof() - times.instant(window, "window")
        except ValueError:  # text that is no lookback and no instant: the service judges it
            return str(window)
    lengths = {name: times.lookback(name) or pd.Timedelta.max for name in choices}
    holding = [name for name in choices if lengths[name] >= length]
    if not holding:
        return str(window) if isinstance(window, str) else f"{-(-length // pd.Timedelta(1, 'D'))}d"
    chosen = min(holding, key=lengths.__getitem__)
    if lengths[chosen] != length:
        transport.notify(
            endpoint.path, f"window={window!s} is answered by range={chosen}: known are {', '.join(choices)}"
        )
    return chosen


def days_back(window: times.Window, *, spare: pd.Timedelta = _MINUTE) -> str:
    """Return the rolling range in whole days, ending now, that contains a window.

    `asof` is floored to the minute and the service counts from its own second: `spare` makes up for it, but
    not beyond the 90 days that are the most below Pro.
    """
    now = times.asof()
    if window.start >= now:
        shown = f"the window from start {times.iso(window.start)} to end {times.iso(window.end)}"
        raise ValueError(f"{shown} is not before dd.asof(), {times.iso(now)}")
    exact, ample = (-((window.start - now - more) // _DAY) for more in (pd.Timedelta(0), spare))
    return f"{exact if exact == _CAP_DAYS else ample}d"
