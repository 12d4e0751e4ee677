"""Listed options of the sample, and their prices by the model of Bates (1996).

Under the forward measure ``x = ln(S_T/F)`` follows

- ``dx = −(v/2 + λ m) dt + √v dW + J dN``, ``J ~ N(μ, δ²)``, N Poisson of intensity λ,
  ``m = e^(μ + δ²/2) − 1``,
- ``dv = κ(θ − v) dt + σ √v dZ``, ``dW dZ = ρ dt``,

and ``M(z) = E[e^(zx)]`` has a closed form: Heston's factor in the form of Albrecher et al. (2007), which does
not jump between branches of the logarithm, times ``e^(λT(e^(μz + δ²z²/2) − 1 − mz))``.

Lewis (2001): with ``k = ln(K/F)`` a call is worth ``1 − e^(k/2)/π ∫₀^∞ Re[e^(−iuk) M(½ + iu)]/(u² + ¼) du``
in units of the forward. Two methods shorten the integral:

- *Two scales.* Shortly before expiry, paths without a jump spread over √(vT), about 0.01, and paths with a
  jump over δ, about 0.1. M is the sum of both, ``e^(−λT) M₀ + (M − e^(−λT) M₀)``; each term has its own grid.
- *A lognormal as control variate.* From each term the integrand of a lognormal with the same mass and mean is
  subtracted, whose options Black's formula gives. The remainder vanishes at ``u = ±i/2``, which cancels the
  poles of ``1/(u² + ¼)``, so the midpoint rule converges geometrically.

All strikes of an expiry share one characteristic function, and the sum over equally spaced nodes is a
polynomial in ``e^(−ik du)``, evaluated by Horner's rule. The error against adaptive quadrature is below
1e-11.

**Parameters** are from Bakshi, Cao and Chen (1997, table III, "SVJ", all options) for the S&P 500, with log
returns s times as large: sx follows the model with ``(s²v, s²θ, κ, sσ, ρ, λ, sμ, sδ)``, except for the drift.
The scale s makes the long-run variance ``θ + λ(μ² + δ²)`` equal to the symbol's price path; v moves, and θ
and λ move slowly. Their mean jump of −5 % is the relative jump; here it is μ, the mean of the log jump. None
of the forms that the library fits can represent these smiles exactly: shortly before expiry the jumps raise
the far wings.

References
----------
Bates (1996), Review of Financial Studies 9(1), 69-107. Bakshi, Cao and Chen (1997), "Empirical performance
of alternative option pricing models", Journal of Finance 52(5), 2003-2049. Lewis (2001), "A simple option
formula for general jump-diffusion and other exponential Lévy processes". Albrecher, Mayer, Schoutens and
Tistaert (2007), "The little Heston trap", Wilmott Magazine.

A trading day runs from 08:00 to 08:00. A listed strike remains listed until its expiry. A forward is
``F(T) = S e^(bT)``; slow paths move b and the parameters of every surface.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.analysis.black76.kernels import deviation, time_value
from derivdata.sources.sample import noise, universe
from derivdata.sources.sample.noise import ANCHOR_DAY, DAY_US, HOUR_US, STEP_US, STEPS, Keys, timestamps
from derivdata.sources.sample.universe import symbols
from derivdata.support.arrays import Bools, Floats, Ints
from derivdata.support.times import SECONDS_PER_YEAR

EXPIRY_US = 8 * HOUR_US
_CACHED_DAYS = 64
_HALF_LIFE_HOURS = 24.0 * 12.0  # of the slow paths that move the model's parameters
_BLOCK_DAYS = 32  # days of spot prices that are cached together


class Expiry(NamedTuple):
    """An expiry: day since 1970, ``daily``, ``weekly``, ``monthly`` or ``quarterly``, and first day."""

    day: int
    kind: str
    listed: int


class Listing(NamedTuple):
    """Options of one symbol on one venue during one trading day, by expiry, strike, call before put."""

    expiry: Ints  # days since 1970 of the expiries
    listed: Ints  # first days of the expiries
    expiry_row: Ints  # index of each option's expiry in `expiry`
    # `strike`, `call`: strike [USD] and whether it is a call
    strike: Floats
    call: Bools
    streams: Keys  # one stream of noise per option

    def take(self, options: Ints) -> Listing:
        """Return the options at some positions."""
        return self._replace(
            expiry_row=self.expiry_row[options],
            strike=self.strike[options],
            call=self.call[options],
            streams=self.streams[options],
        )


# By kind of expiry: days from listing to expiry; log distance of the outer strikes from the prices since the
# listing; and distance of strikes as a share of the price. The last is multiplied by a factor of the venue.
_DAYS_LISTED = {"daily": 3, "weekly": 28, "monthly": 90, "quarterly": 330}
_LOG_RANGE = {"daily": 0.14, "weekly": 0.32, "monthly": 0.55, "quarterly": 0.9}
_STEP_SHARE = {"daily": 0.0085, "weekly": 0.018, "monthly": 0.035, "quarterly": 0.05}
_KINDS = {
    "deribit": ("daily", "weekly", "monthly", "quarterly"),
    "binance": ("daily", "weekly", "monthly", "quarterly"),
    "bybit": ("daily", "weekly", "monthly", "quarterly"),
    "okx": ("daily", "weekly", "monthly", "quarterly"),
    "derive": ("weekly", "monthly", "quarterly"),
}
_STEP_FACTOR = {"deribit": 1.0, "okx": 1.5, "binance": 2.0, "bybit": 1.8, "derive": 2.5}
# Head and tail of an instrument's name, around strike and side.
_NAME_PARTS = {
    "deribit": ("{symbol}-{day}{month}{year}-", ""),
    "bybit": ("{symbol}-{day}{month}{year}-", "-USDT"),
    "binance": ("{symbol}-{year}{number:02}{day:02}-", ""),
    "okx": ("{symbol}-USD-{year}{number:02}{day:02}-", ""),
    "derive": ("{symbol}-20{year}{number:02}{day:02}-", ""),
}
_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()


def session(microseconds: Ints) -> Ints:
    """Return the trading day of times, as the day on which it begins."""
    return np.asarray((microseconds - EXPIRY_US) // DAY_US)


@lru_cache(maxsize=512)
def expiries(trading_day: int, kinds: tuple[str, ...]) -> tuple[Expiry, ...]:
    """Return the open expiries of a trading day; on a date with several kinds, the longest-lived one."""
    open_expiries: dict[int, Expiry] = {}
    for expiry in range(trading_day + 1, trading_day + _DAYS_LISTED["quarterly"] + 1):
        kind = _kind(expiry)
        listed = expiry - _DAYS_LISTED[kind]
        if kind in kinds and listed <= trading_day:
            open_expiries[expiry] = Expiry(expiry, kind, listed)
    return tuple(open_expiries.values())


@lru_cache(maxsize=64)
def listing(symbol: str, exchange: str, trading_day: int) -> Listing:
    """Return the options that a venue lists for a symbol during a trading day."""
    symbol_code = symbols().name.index(symbol)
    open_expiries = expiries(trading_day, _KINDS[exchange])
    ladders = [_strikes_of_expiry(symbol_code, exchange, e, trading_day) for e in open_expiries]
    expiry_row = np.repeat(np.arange(len(open_expiries)), [2 * len(ladder) for ladder in ladders])
    strike = np.repeat(np.concatenate(ladders), 2)
    call = np.arange(len(strike)) % 2 == 0
    expiry = np.array([e.day for e in open_expiries], dtype=np.int64)
    listed = np.array([e.listed for e in open_expiries], dtype=np.int64)
    # The stream depends on the option alone, so that it is the same on each day of the listing.
    of_expiry = noise.key("option", symbol, exchange) ^ (
        expiry[expiry_row].astype(np.uint64) << np.uint64(32)
    )
    strike_number = np.round(strike * 1e4).astype(np.uint64)
    streams = noise.bits(of_expiry, strike_number * 2 + call)
    return Listing(expiry, listed, expiry_row, strike, call, streams)


def instrument_names(symbol: str, exchange: str, listed: Listing) -> NDArray[np.object_]:
    """Return the venue's name of each option that it lists for a symbol."""
    ladders = np.split(listed.strike[::2], np.flatnonzero(np.diff(listed.expiry_row[::2])) + 1)
    names = []
    for day, ladder in zip(listed.expiry.tolist(), ladders, strict=True):
        names.append(_names_of_expiry(symbol, exchange, day, ladder.tobytes()))
    return np.concatenate(names)


@lru_cache(maxsize=4096)
def _kind(day: int) -> str:
    """Return the kind of an expiry: ``monthly`` on the last Friday of a month, ``weekly`` on another."""
    date = timestamps([day * DAY_US])[0]
    if date.weekday() != 4:
        return "daily"
    if (date + pd.Timedelta(7, "D")).month == date.month:
        return "weekly"
    if date.month % 3 == 0:
        return "quarterly"
    return "monthly"


def _strikes_of_expiry(symbol_code: int, exchange: str, expiry: Expiry, trading_day: int) -> Floats:
    """Return the strikes: multiples of a step around every midnight price since the listing."""
    first = max(expiry.listed, ANCHOR_DAY)
    stop = trading_day - ANCHOR_DAY + 1
    cached_days = -(-stop // _CACHED_DAYS) * _CACHED_DAYS  # rounded up, so that later days use the cache
    prices = _midnight_prices(symbol_code, cached_days)[first - ANCHOR_DAY : stop]
    # Symbols that are more volatile than BTC have wider and fewer strikes.
    bitcoin = symbols().name.index("BTC")
    relative_volatility = max(symbols().volatility[symbol_code] / symbols().volatility[bitcoin], 1.0)
    share = _STEP_SHARE[expiry.kind]
    step = nice(symbols().price[symbol_code] * share * _STEP_FACTOR[exchange] * relative_volatility)
    factor = np.exp(_LOG_RANGE[expiry.kind] * np.sqrt(relative_volatility))
    lowest = max(float(np.floor(np.min(prices) / factor / step)), 1.0)  # [steps]
    highest = float(np.ceil(np.max(prices) * factor / step))
    return np.asarray(np.round(np.arange(lowest, highest + 1.0) * step, 4))


@lru_cache(maxsize=64)
def _midnight_prices(symbol_code: int, days: int) -> Floats:
    """Return the prices at midnight of some days from the anchor day on."""
    return np.asarray(universe.price(np.array([symbol_code]), ANCHOR_DAY, days, 1)[0])


def nice(value: float) -> float:
    """Return the smallest number of at least `value` among 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(value))
    multiples = np.array([1.0, 2.0, 2.5, 5.0, 10.0]) * power
    return float(multiples[multiples >= value * (1.0 - 1e-9)][0])


@lru_cache(maxsize=512)
def _names_of_expiry(symbol: str, exchange: str, expiry: int, ladder: bytes) -> NDArray[np.object_]:
    """Return the venue's names of the options of one expiry: call and put of every strike."""
    head, tail = _NAME_PARTS[exchange]
    head = dated_name(head, symbol, expiry)
    strikes = [f"{strike:.4f}".rstrip("0").rstrip(".") for strike in np.frombuffer(ladder).tolist()]
    names = [f"{head}{strike}-{side}{tail}" for strike in strikes for side in "CP"]
    return np.array(names, dtype=object)


def dated_name(template: str, symbol: str, expiry: int) -> str:
    """Return a venue's name of a contract on a symbol that expires on a day since 1970."""
    date = timestamps([expiry * DAY_US])[0]
    month = _MONTHS[date.month - 1]
    return template.format(symbol=symbol, day=date.day, month=month, number=date.month, year=date.year % 100)


class Forwards(NamedTuple):
    """Times to expiry and forwards, shape ``(expiries, times)``, and `spot`, shape ``(times,)``."""

    year_fraction: Floats
    underlying_price: Floats
    spot: Floats


def forwards(symbol: str, exchange: str, expiry: Ints, time: Ints) -> Forwards:
    """Return the forwards of expiries (days since 1970) at times [µs]."""
    basis = 0.06 + 0.03 * bounded_paths(symbol, time)[5] + 0.004 * venue_offsets(symbol, exchange)[2]
    years = (expiry[:, None] * DAY_US + EXPIRY_US - time) / (SECONDS_PER_YEAR * 1e6)
    now = spot(symbol, time)
    return Forwards(years, now * np.exp(basis * years), now)


def bounded_paths(symbol: str, time: Ints) -> Floats:
    """Return six slow paths of a symbol, of unit scale and within ±√10, shape ``(6, times)``.

    Paths 0 to 2 move the variance, the long-run variance and the intensity of jumps; 5 moves the carry.
    """
    x = noise.smooth(_streams(symbol), _HALF_LIFE_HOURS, time / DAY_US)
    return np.asarray(x / np.sqrt(1.0 + 0.1 * x * x))


def venue_offsets(symbol: str, exchange: str) -> Floats:
    """Return three constant numbers of a venue within ±½, by which venues differ."""
    return noise.uniform(noise.key("surface", symbol, exchange), np.arange(3)) - 0.5


@lru_cache(maxsize=64)
def _streams(symbol: str) -> Keys:
    return np.array([noise.key("surface", symbol, n) for n in range(6)], dtype=np.uint64)


def spot(symbol: str, time: Ints) -> Floats:
    """Return the spot price at some times [µs], which is constant over five minutes."""
    since_anchor = time - ANCHOR_DAY * DAY_US
    blocks, place = np.unique(since_anchor // (_BLOCK_DAYS * DAY_US), return_inverse=True)
    prices = np.stack([_block_prices(symbol, block) for block in blocks.tolist()])
    return np.asarray(prices[place, since_anchor // STEP_US % (_BLOCK_DAYS * STEPS)])


@lru_cache(maxsize=128)
def _block_prices(symbol: str, number: int) -> Floats:
    """Return the prices at all steps of a block of days; requests often repeat the same days."""
    symbol_codes = np.array([symbols().name.index(symbol)])
    return np.asarray(universe.price(symbol_codes, ANCHOR_DAY + number * _BLOCK_DAYS, _BLOCK_DAYS)[0])


Complex = NDArray[np.complex128]

NODES_WITHOUT_JUMP = 160
NODES_WITH_JUMPS = 80
_NORMAL_TAIL = 8.2  # e^(−8.2²/2) = 2.5e-15
_EXPONENTIAL_TAIL = 34.0  # e^(−34) = 1.7e-15


class Bates(NamedTuple):
    """Parameters; numbers, or arrays that broadcast against the times to expiry."""

    # `variance`, `long_variance`: v now and θ [1/year]
    variance: Any
    long_variance: Any
    reversion: float  # κ [1/year]
    # `vol_of_variance`, `correlation`: σ [1/year] and ρ
    vol_of_variance: float
    correlation: float
    # `jumps_per_year`, `jump_mean`, `jump_deviation`: λ, and mean μ and deviation δ of the log jump
    jumps_per_year: Any
    jump_mean: float
    jump_deviation: float

    @property
    def compensator(self) -> float:
        """Return ``m = E[e^J] − 1``, which the drift compensates."""
        return float(np.expm1(self.jump_mean + 0.5 * self.jump_deviation**2))


PUBLISHED = Bates(
    variance=0.04,
    long_variance=0.04,
    reversion=2.03,
    vol_of_variance=0.38,
    correlation=-0.57,
    jumps_per_year=0.59,
    jump_mean=-0.05,
    jump_deviation=0.07,
)
"""Estimate of Bakshi, Cao and Chen, with the mean relative jump used for the log jump, and v at its mean."""

MIN_PRICE = 1e-9
"""Minimum price out of the money, in units of the forward. Cheaper options get the volatility of this
price."""


def diffusive_variance(model: Bates, years: Floats) -> Floats:
    """Return the expectation of ``∫ v dt`` up to each expiry."""
    faded = -np.expm1(-model.reversion * years) / model.reversion
    return np.asarray(model.long_variance * years + (model.variance - model.long_variance) * faded)


def expected_variance(model: Bates, years: Floats) -> Floats:
    """Return the expected quadratic variation of the log price up to each expiry, jumps included."""
    jumps = model.jumps_per_year * years * (model.jump_mean**2 + model.jump_deviation**2)
    return np.asarray(diffusive_variance(model, years) + jumps)


def out_of_the_money(model: Bates, years: Floats, k: Floats, expiry_row: Ints) -> Floats:
    """Return prices of options out of the money, in units of the forward: calls above it, puts below.

    `years` to expiry, and the parameters if they are arrays, have the shape ``(expiries, times)``. `k`, which
    is ``ln(K/F)``, has the shape ``(options, times)``; `expiry_row` is the row of `years` of each option.
    """
    model = model._replace(
        variance=np.broadcast_to(model.variance, years.shape),
        long_variance=np.broadcast_to(model.long_variance, years.shape),
        jumps_per_year=np.broadcast_to(model.jumps_per_year, years.shape),
    )
    expected_jumps = model.jumps_per_year * years  # λT
    w = diffusive_variance(model, years)
    drift = model.compensator * expected_jumps  # λTm
    with_jump = -np.expm1(-expected_jumps)  # probability of a jump
    jump_variance = w + model.jump_mean**2 + model.jump_deviation**2
    # 1. Compute mass, mean and variance of the control variates of both terms. S_T/F has mean 1, so the mean
    # with a jump follows from the mean without one.
    jump_log_mean = np.log(-np.expm1(-expected_jumps - drift) / with_jump)
    lognormals = ((1.0 - with_jump, -drift, w), (with_jump, jump_log_mean, jump_variance))
    # 2. Choose the ends of the integrals. |M₀(½ + iu)| decays as for a normal, and from u ≈ 1/σT on as
    # e^(−rate u).
    rate = (model.variance + model.reversion * model.long_variance * years) / model.vol_of_variance
    rate = rate * np.sqrt(1.0 - model.correlation**2)
    ends = (
        np.hypot(_NORMAL_TAIL / np.sqrt(w), _EXPONENTIAL_TAIL / rate),
        np.full(years.shape, _NORMAL_TAIL / model.jump_deviation),
    )
    # 3. Integrate both terms by the midpoint rule.
    price = np.zeros(k.shape)
    counts = (NODES_WITHOUT_JUMP, NODES_WITH_JUMPS)
    for term, (count, end, lognormal) in enumerate(zip(counts, ends, lognormals, strict=True)):
        step = end / count
        z = 0.5 + 1j * (np.arange(count)[:, None, None] + 0.5) * step
        mass, mean, variance = lognormal
        integrand = np.exp(_log_mgf_heston(model, z, years) - expected_jumps - drift * z)
        if term == 1:
            jump = np.exp(model.jump_mean * z + 0.5 * model.jump_deviation**2 * z * z)
            integrand *= np.expm1(expected_jumps * jump)
        integrand -= mass * np.exp(mean * z + 0.5 * variance * (z * z - z))
        integrand *= step / (np.pi * (0.25 + z.imag**2))
        price += mass[expiry_row] * _black(k, mean[expiry_row], variance[expiry_row])
        price -= np.exp(0.5 * k) * _fourier_sum(integrand, step, k, expiry_row)
    return price


def parameters(symbol: str, exchange: str, years: Floats, time: Ints) -> dict[str, Floats]:
    """Return the model's parameters and the at-the-money volatility by expiry and time."""
    model = _model_at(symbol, exchange, time)
    at_forward = np.zeros(years.shape)  # one option per expiry, with k = 0
    w = total_variance(symbol, exchange, years, time, at_forward, np.arange(len(years)))
    shared = {name: np.broadcast_to(value, years.shape) for name, value in model._asdict().items()}
    return shared | {"expected_variance": expected_variance(model, years), "atm_iv": np.sqrt(w / years)}


def total_variance(
    symbol: str, exchange: str, years: Floats, time: Ints, k: Floats, expiry_row: Ints
) -> Floats:
    """Return total implied variance at ``k = ln(K/F)``, shapes as in `out_of_the_money`, `time` in µs."""
    price = out_of_the_money(_model_at(symbol, exchange, time), years, k, expiry_row)
    # `deviation` expects the price in units of √(F K).
    x = np.abs(k).ravel()
    value = np.maximum(price, MIN_PRICE).ravel() * np.exp(-0.5 * k.ravel())
    return np.asarray(deviation(x, value).s.reshape(k.shape) ** 2)


def typical_variance(symbol: str, exchange: str, years: Floats, time: Ints) -> Floats:
    """Return the expected quadratic variation, which sets the spread of open interest over strikes."""
    return expected_variance(_model_at(symbol, exchange, time), years)


def log_contract_variance(symbol: str, exchange: str, years: Floats, time: Ints) -> Floats:
    """Return ``−2 E[ln(S_T/F)]``, the total variance that a strip of all options pays for."""
    model = _model_at(symbol, exchange, time)
    jumps = 2.0 * model.jumps_per_year * years * (model.compensator - model.jump_mean)
    return np.asarray(diffusive_variance(model, years) + jumps)


def _model_at(symbol: str, exchange: str, time: Ints) -> Bates:
    """Return the model of a symbol on a venue; parameters that move have the shape of `time`.

    It is the published one scaled to the symbol's volatility (see **Parameters** above).
    """
    paths = bounded_paths(symbol, time)
    offsets = venue_offsets(symbol, exchange)
    jump_variance = PUBLISHED.jumps_per_year * (PUBLISHED.jump_mean**2 + PUBLISHED.jump_deviation**2)
    target = symbols().volatility[symbols().name.index(symbol)] ** 2 * (1.0 + 0.06 * offsets[0])
    scale = float(np.sqrt(target / (PUBLISHED.long_variance + jump_variance)))
    return PUBLISHED._replace(
        variance=scale**2 * PUBLISHED.variance * np.exp(0.35 * paths[0]),
        long_variance=scale**2 * PUBLISHED.long_variance * np.exp(0.12 * paths[1]),
        vol_of_variance=scale * PUBLISHED.vol_of_variance,
        jumps_per_year=PUBLISHED.jumps_per_year * np.exp(0.15 * paths[2]),
        jump_mean=scale * PUBLISHED.jump_mean,
        jump_deviation=scale * PUBLISHED.jump_deviation,
    )


def _log_mgf_heston(model: Bates, z: Any, years: Any) -> Any:
    """Return the logarithm of Heston's factor of ``E[e^(zx)]``.

    The formula uses ``e^(−dT)``, because the one with ``e^(dT)`` crosses a branch cut (Albrecher et al.).
    """
    squared = model.vol_of_variance**2
    drift = model.reversion - model.correlation * model.vol_of_variance * z
    d = np.sqrt(drift * drift + squared * (z - z * z))
    ratio = (drift - d) / (drift + d)
    fade = np.exp(-d * years)
    rest = 1.0 - ratio * fade
    level = (drift - d) * years - 2.0 * np.log(rest / (1.0 - ratio))
    slope = (drift - d) * (1.0 - fade) / rest
    return (model.reversion * model.long_variance * level + slope * model.variance) / squared


def _black(k: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return the price of a call for k > 0, else of a put, in units of the forward.

    The price at expiry is lognormal with mean ``e^mean`` and this total variance.
    """
    forward = np.exp(mean)
    strike = np.exp(k)
    intrinsic = np.maximum(np.where(k > 0.0, forward - strike, strike - forward), 0.0)
    shape = np.broadcast_shapes(k.shape, variance.shape)
    x = np.broadcast_to(np.abs(k - mean), shape).ravel()
    s = np.sqrt(np.broadcast_to(variance, shape)).ravel()
    return np.asarray(intrinsic + np.exp(0.5 * (k + mean)) * time_value(x, s).reshape(shape))


def _fourier_sum(terms: Complex, step: Floats, k: Floats, expiry_row: Ints) -> Floats:
    """Return ``Re Σ_j terms_j e^(−i (j + ½) step k)`` for each option.

    The sum is periodic in k, and the integral is not: beyond half a period it is 0.
    """
    angle = step[expiry_row] * k
    z = np.exp(-1j * angle)
    total = terms[-1][expiry_row]
    for term in terms[-2::-1]:  # Horner's rule
        total *= z
        total += term[expiry_row]
    return np.where(np.abs(angle) < np.pi, (total * np.exp(-0.5j * angle)).real, 0.0)
