"""The parameters behind the sample, so that analysis can be tested against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from derivdata.sources.sample.grid import NOW, micros
from derivdata.sources.sample.ground_truth import parameters, realisations
from derivdata.sources.sample.store import Name, surface_of
from derivdata.sources.sample.universe import Pairs, select
from derivdata.support import times

__all__ = ["TOPICS", "truth"]


def __dir__() -> list[str]:
    return __all__


_TIMELESS: dict[str, Callable[[Pairs], pd.DataFrame]] = {
    "funding": parameters.funding,
    "funding_base": parameters.funding_base,
    "spreads": parameters.spreads,
    "intervals": parameters.intervals,
    "oi": parameters.oi,
    "prices": parameters.prices,
    "liquidations": parameters.liquidations,
    "shocks": parameters.shocks,
}
_PAIRS = {"clusters": realisations.clusters, "premium": realisations.premium}
_OPTIONS = {"surface": realisations.surface, "volatilities": realisations.volatilities}
TOPICS = (*_TIMELESS, *_PAIRS, *_OPTIONS)


def truth(
    topic: str,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
    start: times.Instant | None = None,
    end: times.Instant | None = None,
    source: Name = "sample",
) -> pd.DataFrame:
    """Return what the sample was made from.

    Parameters
    ----------
    topic
        ``"funding"``
            Per pair, its spread over the symbol's base rate, an OU process: mean and standard deviation
            [bps/8h], half-life [h]. A venue whose style is not ``free`` shows ``p + clamp(1 − p, ±band)`` of
            the sum p. `start` and `end` of trading; no end is missing.
        ``"funding_base"``
            Per symbol, the base rate ``mean + deviation (x + tail x³)`` [bps/8h] of a unit OU process x;
            `squeezed` says that jumps which fade within a day are added.
        ``"spreads"``
            Pairs of free venues with one half-life: the rate on `exchange` less that on `other_exchange` is
            an OU process with this mean, standard deviation and half-life.
        ``"intervals"``
            Native intervals, one row per pair and instant from which one holds.
        ``"oi"``
            Per pair, ``oi_usd = level_usd × e^(growth t) × price/centre × e^z``: t in years of 365 days from
            the sample's start, z an OU process.
        ``"prices"``
            Per symbol, centre, volatility [1/√year] and half-life of the log price.
        ``"liquidations"``
            Per symbol, clusters a day, branching ratio, mean delay to a child [s], Pareto law of the values.
        ``"shocks"``
            Instants of the market-wide shocks.
        ``"clusters"``
            Clusters of liquidations that begin in the window.
        ``"premium"``
            Per pair and five minutes of the window, the mark over the index less one [bps]: the premium from
            which the funding rate is formed, before its clamp.
        ``"surface"``
            Parameters of the options' model, forward and spot of every expiry open at each full hour of the
            window. Of the sample: the parameters of `derivdata.sources.sample.options.bates.Bates`, the
            same for all expiries of an instant; ``expected_variance``, the expected quadratic variation;
            ``atm_iv``, the volatility at the forward. Of ``sample@1``: the eSSVI parameters ``theta``,
            ``rho``, ``psi`` (θφ).
        ``"volatilities"``
            Volatility and log-moneyness of every strike, expiry and full hour of the window.
    symbols, venues
        What to keep; None is everything.
    start, end
        Half-open window, for the last four topics alone; unless given, the last hour up to the sample's
        clock and that instant itself.
    source
        Which sample; they differ in their options alone.

    Returns
    -------
    DataFrame
        Rows sorted by symbol, exchange and time, as far as the topic has them. Numbers are not rounded.

    Raises
    ------
    ValueError
        The topic or the sample is unknown, or the topic has no time and a window was given.
    """
    model = surface_of(source)
    if topic in _TIMELESS:
        if start is not None or end is not None:
            raise ValueError(f"topic {topic!r} has no time: leave out start and end")
        return _TIMELESS[topic](select(symbols, venues))
    if topic not in TOPICS:
        raise ValueError(f"topic={topic!r} is not one of {', '.join(TOPICS)}")
    window = times.window(
        NOW - pd.Timedelta(1, "h") if start is None else start,
        NOW + pd.Timedelta(1, "us") if end is None else end,
    )
    first, last = micros(window.start), micros(window.end)
    if topic in _PAIRS:
        return _PAIRS[topic](first, last, symbols, venues)
    return _OPTIONS[topic](model, first, last, symbols, venues)
