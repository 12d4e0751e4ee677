"""What the market consists of, from ``market.toml``, and how each venue's funding rate is formed."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any, NamedTuple

MARKET: dict[str, Any] = tomllib.loads(
    resources.files("derivdata.sources.sample").joinpath("market.toml").read_text(encoding="utf-8")
)


class Model(NamedTuple):
    """One venue's made-up traits."""

    # ``free``: the rate is the premium. ``clamp``: ``p + clamp(1 − p, ±band)``, exactly 1 bps/8h while the
    # premium p is within `band` of it. ``wild``: clamped, with spikes of its own
    style: str
    # `offset`, `deviation`: mean and standard deviation of its spread over the symbol's base rate [bps/8h],
    # for BTC
    offset: float
    deviation: float
    half_life: float  # of that spread [h]
    band: float  # of the clamp [bps/8h]
    breadth: float  # about how many symbols it lists
    weight: float  # its part of a symbol's open interest at the start, relative to the others'
    growth: float  # of its open interest, as a rate of the logarithm [1/year]
    turnover: float  # volume of a day as a multiple of open interest
    gaps: float  # chance of a run of missing samples per pair and day
    since: str  # day it opened; empty where it was there from the start


MODELS = {name: Model(*traits) for name, traits in MARKET["venues"].items()}
