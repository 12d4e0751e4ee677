"""The synthetic properties of each venue: size, growth, breadth, and how its funding rate is formed."""

from __future__ import annotations

from typing import NamedTuple


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


_TEXT = """
aster        clamp   0.10 0.50  24 0.50 190 0.160  0.50 1.40 0.05 -
binance      clamp  -0.15 0.40  48 0.35 380 1.000 -0.05 0.80 0.02 -
bingx        clamp   0.05 0.45  12 0.80 400 0.140  0.10 1.10 0.05 -
bitget       clamp   0.00 0.45  24 0.75 400 0.380  0.15 0.70 0.04 -
bluefin      wild   -2.00 3.00  48 0.80  25 0.004 -0.30 0.50 0.20 -
bullet       wild   -0.50 1.50   6 0.40  12 0.002  0.80 0.60 0.20 2025-12-01
bybit        clamp  -0.05 0.45  24 0.60 390 0.560  0.00 0.70 0.02 -
coinbase     free   -0.20 0.35  48 0.00 130 0.060  0.30 0.40 0.05 -
coinbaseus   free   -0.40 0.45  24 0.00  35 0.020  0.60 0.30 0.08 -
cryptocom    free   -0.30 0.70   6 0.00 120 0.080 -0.10 0.50 0.05 -
decibel      free    0.30 0.20  12 0.00  20 0.004  1.20 0.90 0.15 2026-03-01
edgex        clamp   0.20 0.60  24 1.50 130 0.070  0.40 1.60 0.05 -
ethereal     free    1.00 0.60  72 0.00  18 0.003  0.50 0.80 0.10 -
extended     free    0.10 0.45   6 0.00  60 0.012  0.50 1.20 0.10 -
gateio       clamp  -0.10 0.50  12 0.45 410 0.340  0.20 0.80 0.04 -
grvt         clamp   0.10 0.30  72 4.00  60 0.015  0.70 1.50 0.06 -
hibachi      free   -0.30 0.50  12 0.00  16 0.002  0.40 0.80 0.15 -
hotstuff     wild    0.40 2.00   3 0.30  14 0.002  0.90 1.10 0.25 2025-10-20
huobi        clamp  -0.10 0.45  12 0.60 180 0.110 -0.30 0.40 0.06 -
hyena        wild    0.20 1.20  24 0.70  20 0.003  0.30 0.90 0.20 -
hyperliquid  clamp   0.20 0.60  12 1.20 185 0.330  0.50 0.70 0.02 -
kalshi       free    0.80 0.80  72 0.00  14 0.003  0.90 0.30 0.10 2026-01-12
kinetiq      free    0.30 0.60  12 0.00  10 0.001  0.60 0.50 0.15 -
kucoin       clamp  -0.05 0.45  24 0.65 380 0.100  0.00 0.60 0.05 -
lighter      free    0.00 0.50   3 0.00 115 0.120  0.60 2.00 0.05 -
mexc         clamp  -0.10 0.40  48 0.40 420 0.200  0.15 1.20 0.04 -
nado         clamp   0.00 0.50   6 0.55  25 0.006  0.70 1.30 0.12 -
okx          clamp  -0.05 0.35  48 0.55 265 0.440 -0.10 0.60 0.02 -
ondo         clamp  -0.10 0.70   6 0.50  22 0.003  1.00 0.40 0.15 2026-02-10
pacifica     clamp   0.20 0.30  24 3.00  45 0.008  0.60 1.60 0.08 -
paradex      free    0.10 0.25  24 0.00  95 0.030  0.20 1.00 0.06 -
paragon      free    0.40 0.60  24 0.00   9 0.001  0.40 0.40 0.20 -
phemex       clamp  -0.20 0.55   6 0.45 300 0.030 -0.40 0.50 0.06 -
phoenix      free   -0.10 0.80  12 0.00  20 0.002  0.50 0.60 0.20 2025-11-10
qfex         free    0.20 0.50   6 0.00  16 0.001  0.70 0.70 0.20 -
reya         free    0.20 0.60  24 0.00  40 0.003  0.10 0.50 0.12 -
risex        free    0.70 0.90   6 0.00  16 0.002  1.10 0.90 0.20 2026-01-15
tradexyz     free    0.30 0.50   3 0.00  24 0.020  0.90 0.90 0.08 2025-10-13
txflow       clamp  -0.30 0.40  12 0.20  12 0.001  0.80 0.70 0.60 2026-02-01
variational  clamp  -0.20 0.40  24 0.25  90 0.020  0.50 0.80 0.08 -
vest         clamp  -0.90 0.70  24 0.60  28 0.002 -0.20 0.40 0.70 -
woofipro     clamp   0.20 0.10  72 0.02  60 0.004 -0.20 0.60 0.10 -
zo           free   -0.10 0.40   3 0.00  18 0.003  0.60 0.90 0.12 -
"""


def _model(style: str, *rest: str) -> Model:
    *numbers, since = rest
    offset, deviation, half_life, band, breadth, weight, growth, turnover, gaps = map(float, numbers)
    opened = "" if since == "-" else since
    return Model(style, offset, deviation, half_life, band, breadth, weight, growth, turnover, gaps, opened)


MODELS: dict[str, Model] = {
    name: _model(*rest) for name, *rest in (line.split() for line in _TEXT.strip().splitlines())
}
