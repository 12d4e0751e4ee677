"""Funding rates: what each venue shows every five minutes, and what it pays.

A pair's premium is its symbol's base rate plus a spread of its own, both Ornstein–Uhlenbeck (the base with
fat tails and, for smaller symbols, squeezes). A free venue shows the premium; the others
``p + clamp(1 − p, ±band)``. A payment is the mean rate over its interval.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.noise import DAY_US, HOUR_US, START_DAY, STEPS
from derivdata.sources.sample.universe import MODELS, Pairs, exchange_names, pairs, symbols, venue_values
from derivdata.support.arrays import Bools, Floats, Ints

_MARKET = 1000
_SPIKES = noise.key("spikes")
_HOLES = noise.key("holes")


def formed(chosen: Pairs, first: int, days: int) -> Floats:
    """Return rates as formed [bps/8h], rounded, every five minutes, shape ``(pairs, days × 288)``."""
    if len(chosen) > _MARKET and days == 1:
        return _market_day(first)[chosen.row]
    return _formed(chosen, first, days)


def premium(chosen: Pairs, first: int, days: int) -> Floats:
    """Return the premium that rates are formed from [bps/8h], before the clamp; unrounded, as `formed`."""
    scale = symbols().scale[chosen.symbol]
    p = paths.ou(chosen.streams, venue_values("half_life")[chosen.exchange], first, days, STEPS)
    p *= (scale * venue_values("deviation")[chosen.exchange])[:, None, None]
    p += (scale * venue_values("offset")[chosen.exchange])[:, None, None]
    own, place = np.unique(chosen.symbol, return_inverse=True)
    p += _base(own, first, days)[place]
    wild = np.flatnonzero(np.array([MODELS[v].style == "wild" for v in exchange_names()])[chosen.exchange])
    if wild.size:
        p[wild] += _spikes(chosen.streams[wild], 0.05, 12.0 * scale[wild], first, days)
    return np.ascontiguousarray(p.reshape(len(chosen), days * STEPS))


def recorded(chosen: Pairs, first: int, days: int) -> Floats:
    """Return rates as recorded [bps/8h]; NaN where the pair did not trade or the sample is missing."""
    rate = formed(chosen, first, days)
    streams = noise.keys("outage", exchange_names())[chosen.exchange]
    missing = _holes(streams, np.full(len(chosen), 0.02), 72, first, days)
    missing |= _holes(chosen.streams, venue_values("gaps")[chosen.exchange], 24, first, days)
    there = _trading(chosen, first, days)[..., None] & ~missing
    return np.where(there.reshape(len(chosen), days * STEPS), rate, np.nan)


def settled(chosen: Pairs, first: int, days: int) -> tuple[Ints, Floats, Floats]:
    """Return payments of whole days: ends of hours [µs]; rates [bps/8h], NaN for none; intervals [h]."""
    hourly = formed(chosen, first, days).reshape(len(chosen), days, 24, STEPS // 24).mean(axis=-1)
    interval = chosen.interval_on(first + np.arange(days))
    rate = np.full(hourly.shape, np.nan)
    for hours in np.unique(interval).tolist():
        mean = hourly.reshape(len(chosen), days, 24 // hours, hours).mean(axis=-1)
        target = rate[:, :, hours - 1 :: hours]
        np.copyto(target, mean, where=(interval == hours)[..., None])
    rate[~_trading(chosen, first, days)] = np.nan
    ends = np.asarray(first * DAY_US + np.arange(1, days * 24 + 1) * HOUR_US)
    flat = np.round(rate.reshape(len(chosen), -1), 6) + 0.0
    return ends, np.asarray(flat), np.repeat(interval, 24, axis=1).astype(np.float64)


def totals(chosen: Pairs, day: int) -> tuple[Floats, Ints]:
    """Return the sum and count of each pair's recorded rates on one day."""
    if len(chosen) > _MARKET:
        total, count = _market_totals(day)
        return total[chosen.row], count[chosen.row]
    rate = recorded(chosen, day, 1)
    return np.nansum(rate, axis=1), np.count_nonzero(~np.isnan(rate), axis=1)


@lru_cache(maxsize=64)
def _market_totals(day: int) -> tuple[Floats, Ints]:
    rate = recorded(pairs(), day, 1)
    return np.nansum(rate, axis=1), np.count_nonzero(~np.isnan(rate), axis=1)


@lru_cache(maxsize=3)
def _market_day(first: int) -> Floats:
    rate = _formed(pairs(), first, 1)
    rate.flags.writeable = False
    return rate


def _formed(chosen: Pairs, first: int, days: int) -> Floats:
    rate = premium(chosen, first, days)
    band = venue_values("band")[chosen.exchange][:, None]
    rate += np.clip(1.0 - rate, -band, band)
    np.round(rate, 6, out=rate)
    rate += 0.0
    return rate


def crowding(own: Ints, first: int, days: int) -> Floats:
    """Return the unit process of symbols' base rates every five minutes, ``(symbols, days, 288)``."""
    s = symbols()
    return paths.ou(s.streams[own], s.base_half_life[own], first, days, STEPS)


def _base(own: Ints, first: int, days: int) -> Floats:
    s = symbols()
    x = crowding(own, first, days)
    x += s.base_tail[own, None, None] * (x * x * x)
    x *= s.base_deviation[own, None, None]
    x += s.base[own, None, None]
    squeezed = np.flatnonzero(s.squeezed[own])
    if squeezed.size:
        scale = 6.0 * s.scale[own[squeezed]]
        x[squeezed] += _spikes(s.streams[own[squeezed]], 0.012, scale, first, days)
    return x


def _spikes(streams: noise.Keys, chance: float, scale: Floats, first: int, days: int) -> Floats:
    """Draw jumps, four in five downward, that fade as ``(1 − age / 24 h)³``; at most one begins a day."""
    day = first - 1 + np.arange(days + 1)
    u = noise.uniform((streams ^ _SPIKES)[:, None, None], day[:, None] * 8 + np.arange(4))
    size = np.minimum(scale[:, None] * (1.0 - u[..., 2]) ** -0.6, 2000.0)
    jump = np.where(u[..., 0] < chance, np.where(u[..., 3] < 0.8, -size, size), 0.0)
    start = np.floor(u[..., 1] * STEPS)
    age = np.arange(STEPS) - start[..., None]
    fade = np.clip(1.0 - age / STEPS, 0.0, 1.0) ** 3 * (age >= 0)
    tail = np.clip(1.0 - (age + STEPS) / STEPS, 0.0, 1.0) ** 3
    return np.asarray((jump[..., None] * fade)[:, 1:] + (jump[..., None] * tail)[:, :-1])


def _trading(chosen: Pairs, first: int, days: int) -> Bools:
    day = first + np.arange(days)
    return np.asarray((day >= np.maximum(chosen.since, START_DAY)[:, None]) & (day < chosen.until[:, None]))


def _holes(streams: noise.Keys, chance: Floats, longest: int, first: int, days: int) -> Bools:
    """Draw at most one run of missing samples a day, of up to `longest` steps."""
    day = first + np.arange(days)
    u = noise.uniform((streams ^ _HOLES)[:, None, None], day[:, None] * 8 + np.arange(3))
    start = np.where(u[..., 0] < chance[:, None], np.floor(u[..., 1] * STEPS), STEPS).astype(np.int16)
    stop = start + 1 + np.floor(u[..., 2] * longest).astype(np.int16)
    step = np.arange(STEPS, dtype=np.int16)
    return np.asarray((step >= start[..., None]) & (step < stop[..., None]))
