"""Quotes of many slices as arrays, errors of a fit relative to them, and variance integrals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import xarray as xr
from scipy import special

from derivdata.analysis.labelling import applied, named
from derivdata.analysis.panels import require_same
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.analysis.status import Status
from derivdata.support.arrays import Bools, Floats, Indices

Weights = Literal["equal", "vega", "price", "variance"]
_INSIDE = 1e-3  # weight of a residual between bid and ask, which is a millionth in the squared loss
_NARROWEST = 1e-3  # minimum spread in volatility, because a narrower market would determine the smile alone


class SmileQuotes(NamedTuple):
    """Quotes ``(slices, strikes)``, with weight 0 for missing ones; `weight` applies to squares of w."""

    k: Floats
    iv: Floats
    w: Floats
    weight: Floats
    used: Bools
    t: Floats
    distinct: Indices
    k_min: Floats
    k_max: Floats

    def rows(self, index: Indices | Bools) -> SmileQuotes:
        """Return the selected slices."""
        arrays: list[Any] = [array[index] for array in self]
        return SmileQuotes(*arrays)


class SurfaceQuotes(NamedTuple):
    """Quotes of surfaces as total variances ``(surfaces, expiries, strikes)``, with scale 0 for missing ones.

    `low` and `high` are bid and ask, and `w` is between them; None if no quote has a side.
    """

    k: Floats
    w: Floats
    scale: Floats
    low: Floats | None = None
    high: Floats | None = None

    def rows(self, index: Indices | Bools) -> SurfaceQuotes:
        """Return the quotes of the selected surfaces."""
        low = None if self.low is None else self.low[index]
        high = None if self.high is None else self.high[index]
        return SurfaceQuotes(self.k[index], self.w[index], self.scale[index], low, high)

    def errors(self, w: Floats) -> tuple[Floats, Floats]:
        """Return scaled residuals of model variances `w`, and the factor of their derivative by `w`.

        The distance outside bid and ask counts in full. A thousandth of the distance to the middle is added
        to make the minimum unique.
        """
        if self.low is None or self.high is None:
            return (w - self.w) * self.scale, self.scale
        outside = w - np.clip(w, self.low, self.high)
        inside = (self.low < w) & (w < self.high)
        residual = outside + _INSIDE * (w - self.w - outside)
        return residual * self.scale, np.where(inside, _INSIDE, 1.0) * self.scale


class Scaling(NamedTuple):
    """``k = centre + half × scaled k`` and ``w = height × scaled w``."""

    centre: Floats
    half: Floats
    height: Floats


class LabelledQuotes(NamedTuple):
    """Quotes over slices and strikes, each in one chunk; a missing bid or ask is NaN."""

    k: xr.DataArray
    iv: xr.DataArray
    weight: xr.DataArray
    bid: xr.DataArray
    ask: xr.DataArray
    t: xr.DataArray


_UNITS = {
    "log_moneyness": ("1", "log-moneyness"),
    "iv": ("1/√year",),
    "iv_bid": ("1/√year",),
    "iv_ask": ("1/√year",),
    "year_fraction": ("years", "year"),
}
"""Allowed units of labelled arrays."""


def _require_unit(data: Any, name: str) -> None:
    """Raise for a labelled array in another unit."""
    stated = data.attrs.get("units") if isinstance(data, xr.DataArray) else None
    if stated is not None and stated not in _UNITS[name]:
        raise ValueError(f"{name} must be in {' or '.join(map(repr, _UNITS[name]))}, got {stated!r}")


def labelled(
    log_moneyness: Any,
    iv: Any,
    year_fraction: Any,
    weights: Any,
    iv_bid: Any,
    iv_ask: Any,
    *,
    core: tuple[str, ...],
    lead: str,
) -> LabelledQuotes:
    """Return quotes given as arrays of any kind with their `core` dims; the last dim is the strikes.

    The last dims of a bare `iv` are `core`. A single dim before them is named `lead`, and several are named
    `lead` with a number each. Other bare arrays have the last of these dims, or if `iv` is labelled, the core
    dims; times do not have the dim of strikes.
    """
    # 1. Read the dims of the quotes from the volatilities.
    arrays = {"log_moneyness": log_moneyness, "iv": iv, "year_fraction": year_fraction}
    for name, data in (arrays | {"iv_bid": iv_bid, "iv_ask": iv_ask}).items():
        _require_unit(data, name)
    dim = core[-1]
    quote_dims: list[str] = list(core)
    if not isinstance(iv, xr.DataArray):
        lead_count = np.ndim(iv) - len(core)
        leads = [lead] if lead_count == 1 else [f"{lead}_{number}" for number in range(lead_count)]
        quote_dims = [*leads, *core]
    volatility = named(iv, quote_dims, "iv")
    if missing := [name for name in core if name not in volatility.dims]:
        hint = "; pass the dim of the quotes as dim=" if dim in missing else ""
        raise ValueError(f"iv must have the dim {missing[0]!r}, got dims {volatility.dims}{hint}")

    # 2. Label the other arrays with these dims.
    slices = [name for name in quote_dims if name != dim]
    if not slices and volatility.ndim == 2:
        slices = [str(name) for name in volatility.dims if name != dim]
    t = named(year_fraction, slices, "year_fraction")
    if dim in t.dims or not set(core[:-1]) <= set(t.dims):
        needs = " and ".join(f"the dim {name!r}" for name in core[:-1]) or "only dims of the slices"
        raise ValueError(f"year_fraction must have {needs}, and not the dim {dim!r}, got dims {t.dims}")
    k = named(log_moneyness, quote_dims, "log_moneyness")
    if dim not in k.dims:
        raise ValueError(
            f"log_moneyness must have the dim {dim!r}, got dims {k.dims}; pass the dim of the quotes as dim="
        )
    bid = _positive(iv_bid, quote_dims, "iv_bid")
    ask = _positive(iv_ask, quote_dims, "iv_ask")
    require_same({"log_moneyness": k, "year_fraction": t}, volatility, "iv")
    if weights is None or isinstance(weights, str):
        sides = (None, None) if iv_bid is None and iv_ask is None else (bid, ask)
        weights = quote_weights(weights, k, volatility, t, sides, core)
    weight = named(weights, quote_dims, "weights")
    require_same({"weights": weight, "iv_bid": bid, "iv_ask": ask}, volatility, "iv")

    # 3. Broadcast all to the core dims, each in one chunk.
    size = {name: volatility.sizes[name] for name in core}
    return LabelledQuotes(
        k=_over_core(k, size), iv=_over_core(volatility, size), weight=_over_core(weight, size),
        bid=_over_core(bid, size), ask=_over_core(ask, size), t=_in_one_chunk(t, core),
    )  # fmt: skip


def _positive(side: Any, dims: Sequence[str], name: str) -> xr.DataArray:
    """Return the volatilities of a side, NaN if missing or not positive."""
    array = named(np.nan if side is None else side, dims, name)
    return array.where(array > 0.0)


def _over_core(array: xr.DataArray, size: dict[str, int]) -> xr.DataArray:
    """Return an array with all core dims, each in one chunk."""
    missing = {name: length for name, length in size.items() if name not in array.dims}
    return _in_one_chunk(array.expand_dims(missing), tuple(size))


def _in_one_chunk(array: xr.DataArray, core: tuple[str, ...]) -> xr.DataArray:
    """Put each of the core dims into one chunk; arrays in memory are returned as they are."""
    if not array.chunks:
        return array
    return array.chunk({name: -1 for name in core if name in array.dims})


def in_rows(
    kernel: Callable[..., Sequence[Any]],
    quotes: Sequence[Any],
    slices: Sequence[Any],
    *,
    core: int,
    most: int,
) -> tuple[Any, ...]:
    """Apply a kernel to quotes and slices in blocks of rows, with all dims before the last `core` stacked."""
    # 1. Stack the dims before the core.
    shape = np.broadcast_shapes(*map(np.shape, quotes), *((*np.shape(values), 1) for values in slices))
    lead = shape[: len(shape) - core]
    core_shape = shape[len(shape) - core :]
    count = int(np.prod(lead))
    rows = [np.broadcast_to(values, shape).reshape(count, *core_shape) for values in quotes]
    rows += [np.broadcast_to(values, shape[:-1]).reshape(count, *core_shape[:-1]) for values in slices]

    # 2. Apply the kernel block by block, and restore the dims.
    starts = range(0, max(count, 1), most)
    blocks = [kernel(*(values[start : start + most] for values in rows)) for start in starts]
    outputs = (np.concatenate(output) for output in zip(*blocks, strict=True))
    return tuple(output.reshape((*lead, *output.shape[1:])) for output in outputs)


def prepare(k: Floats, iv: Floats, t: Floats, weight: Floats) -> SmileQuotes:
    """Return the quotes (slice, strike) whose volatility, weight and time are positive.

    `weight` applies to squared residuals of volatility, and is converted to total variance.
    """
    has_time = np.isfinite(t) & (t > 0.0)
    with np.errstate(invalid="ignore"):
        has_volatility = np.isfinite(iv) & (iv > 0.0)
        has_weight = np.isfinite(weight) & (weight > 0.0)
    used = np.isfinite(k) & has_volatility & has_weight & has_time[:, None]
    k = np.where(used, k, 0.0)
    iv = np.where(used, iv, 1.0)
    w = iv * iv * np.where(has_time, t, 1.0)[:, None]
    weight = np.where(used, weight / w, 0.0)
    k_min = np.where(used, k, np.inf).min(axis=1, initial=np.inf)
    k_max = np.where(used, k, -np.inf).max(axis=1, initial=-np.inf)
    is_empty = ~used.any(axis=1)
    k_min[is_empty] = np.nan
    k_max[is_empty] = np.nan
    return SmileQuotes(k, iv, w, weight, used, t, _distinct(k, used), k_min, k_max)


def scaled_quotes(quotes: SmileQuotes) -> tuple[SmileQuotes, Scaling]:
    """Return scaled quotes (k in [−1, 1], w and weights with a mean of 1), and the scaling."""
    half = (quotes.k_max - quotes.k_min) / 2.0
    centre = (quotes.k_max + quotes.k_min) / 2.0
    count = quotes.used.sum(axis=1)
    height = np.where(quotes.used, quotes.w, 0.0).sum(axis=1) / count
    k = np.where(quotes.used, (quotes.k - centre[:, None]) / half[:, None], 0.0)
    w = quotes.w / height[:, None]
    weight = quotes.weight * (count / quotes.weight.sum(axis=1))[:, None]
    return quotes._replace(k=k, w=w, weight=weight), Scaling(centre, half, height)


def _distinct(k: Floats, used: Bools) -> Indices:
    """Return the number of different strikes of each slice."""
    ordered = np.sort(np.where(used, k, np.inf), axis=1)
    with np.errstate(invalid="ignore"):
        steps = (np.diff(ordered, axis=1) > 0.0).sum(axis=1)
    full = used.all(axis=1) & used.any(axis=1)
    return np.asarray(steps + full, dtype=np.int64)


def quote_weights(
    weights: str | None,
    log_moneyness: xr.DataArray,
    iv: xr.DataArray,
    year_fraction: xr.DataArray,
    sides: tuple[xr.DataArray | None, xr.DataArray | None] = (None, None),
    dims: tuple[str, ...] = (),
) -> Any:
    """Return the weight of the squared residuals of volatility under a named weighting.

    None is ``"vega"`` without bid and ask. With them in `sides` it is one over the square of half the spread,
    so that residuals are measured in half spreads. A missing bid counts as a volatility of 0. A quote that
    lacks bid and ask gets the weight of the widest quote along `dims`, over which quotes are fitted together.
    If all quotes lack them, the weight is vega.

    Vega divided by the forward and √T is ``φ(d1) = e^(−d1²/2)/√(2π)``. The constant is omitted, because only
    ratios of weights matter. A residual of price is the residual of volatility times vega, and a residual of
    total variance is that of volatility times ``2 iv T``.
    """
    bid, ask = sides
    if weights is None and bid is not None and ask is not None:
        width = (ask - bid.fillna(0.0)).where(ask.notnull(), bid)
        together = [dim for dim in dims if dim in width.dims]
        quoted = width.notnull().any(together)
        narrow = 4.0 / width.where(width >= 0.0).clip(_NARROWEST) ** 2
        narrow = narrow.fillna(narrow.min(together))
        return narrow.where(quoted, quote_weights("vega", log_moneyness, iv, year_fraction))
    weights = "vega" if weights is None else weights
    if weights == "equal":
        return 1.0
    if weights == "variance":
        return 4.0 * (iv * year_fraction) ** 2
    if weights not in get_args(Weights):
        raise ValueError(
            f"weights must be one of {', '.join(get_args(Weights))} or an array over the quotes, got "
            f"{weights!r}"
        )
    deviation = (iv * year_fraction**0.5).where((iv > 0.0) & (year_fraction > 0.0))
    d1 = deviation / 2.0 - log_moneyness / deviation
    vega: Any = np.exp(-(d1**2) / 2.0)
    return vega if weights == "vega" else vega**2


_DIMS = ("parameter", "other_parameter")
_DETERMINED = 1e-10  # eigenvalue of the scaled Gram matrix below which a direction counts as undetermined


def with_covariance(fit: xr.Dataset, quotes: LabelledQuotes, dim: str, free: tuple[str, ...]) -> xr.Dataset:
    """Return a fit with the covariance of its raw parameters; `free` of them were fitted."""
    size = len(Raw._fields)
    parameters = [fit[name].reset_coords(drop=True) for name in dict.fromkeys((*Raw._fields, *free))]
    covariance = applied(
        _covariance,
        *(quotes.k, quotes.iv, quotes.weight, quotes.t),
        *parameters,
        core=[[dim]] * 3 + [[]] * (1 + len(parameters)),
        out=[_DIMS],
        sizes=dict.fromkeys(_DIMS, size),
    )
    return fit.assign(covariance=covariance.reset_coords(drop=True))


def _covariance(k: Floats, iv: Floats, weight: Floats, t: Floats, *parameters: Floats) -> Floats:
    """Return the Huber-White covariance, which allows for unequal errors, of arrays ``(…, strikes)``."""
    # 1. Compute the derivatives of the model volatility by the raw parameters at each quote, and the errors.
    raw = Raw(*(np.asarray(parameter)[..., None] for parameter in parameters[:5]))
    used = np.isfinite(k) & (iv > 0.0) & (weight > 0.0) & np.isfinite(weight)
    with np.errstate(all="ignore"):
        w = total_variance(k, raw)
        x = k - raw.m
        radius = np.sqrt(x * x + raw.sigma**2)
        slopes = (1.0 + 0.0 * x, raw.rho * x + radius, raw.b * x, -raw.b * (raw.rho + x / radius),
                  raw.b * raw.sigma / radius)  # fmt: skip
        root = 2.0 * np.sqrt(w * np.asarray(t)[..., None])
        jacobian = np.stack([np.where(used, slope / root, 0.0) for slope in np.broadcast_arrays(*slopes)], -2)
        error = np.where(used, np.sqrt(w / np.asarray(t)[..., None]) - iv, 0.0)

    # 2. Convert them to derivatives by the fitted parameters.
    into = _from_natural(*parameters) if len(parameters) > 5 else np.eye(5)
    jacobian = np.swapaxes(into, -1, -2) @ jacobian

    # 3. Combine the inverse Gram matrix and the squared errors (sandwich estimator).
    count = used.sum(axis=-1)
    free = jacobian.shape[-2]
    weighted = jacobian * np.where(used, weight, 0.0)[..., None, :]
    gram = weighted @ jacobian.swapaxes(-1, -2)
    spread = (weighted * error[..., None, :] ** 2) @ weighted.swapaxes(-1, -2)
    is_determined = (count > free) & np.isfinite(gram).all(axis=(-1, -2))
    gram = np.where(is_determined[..., None, None], gram, np.eye(free))
    size = np.sqrt(np.maximum(np.einsum("...ii->...i", gram), 1e-300))
    scale = size[..., :, None] * size[..., None, :]
    inverse = np.linalg.pinv(gram / scale, rcond=_DETERMINED, hermitian=True) / scale
    factor = np.where(is_determined, count / np.maximum(count - free, 1), np.nan)[..., None, None]
    return np.asarray(into @ (inverse @ spread @ inverse * factor) @ np.swapaxes(into, -1, -2))


def _from_natural(*parameters: Floats) -> Floats:
    """Return the derivatives of raw parameters by θ, ρ and ψ, followed by θ and ψ: ``(…, 5, 3)``."""
    a, _, rho, _, _, theta, psi = np.broadcast_arrays(*parameters)
    with np.errstate(all="ignore"):
        flat = np.sqrt(1.0 - rho**2)
        width = theta / psi
        zero = 0.0 * a
        unit = 1.0 + 0.0 * a
        columns = [
            [(1.0 - rho**2) / 2.0, zero, zero, -rho / psi, flat / psi],
            [-theta * rho, zero, unit, -width, -width * rho / flat],
            [zero, unit / 2.0, zero, rho * width / psi, -flat * width / psi],
        ]
    return np.moveaxis(np.array(columns), (0, 1), (-1, -2))


_MIN_ERROR = 0.01  # volatility
_MIN_RELATIVE_ERROR = 0.02  # of the mean volatility
_SYSTEMATIC = 0.4  # minimum share of the mean squared error


def off_quotes(model: Floats, k: Floats, iv: Floats, t: Floats, bid: Floats, ask: Floats) -> Bools:
    """Return a mask of slices that miss their quotes by over a volatility point and 2 % in one direction.

    The error of each quote is its distance to the model, or the distance outside bid and ask, weighted by
    vega. Noise changes its sign from strike to strike, so products of the errors of adjacent strikes have a
    mean near 0. A slice that other expiries keep away from its quotes, or whose form cannot follow them, has
    errors of one sign over many strikes: the mean of the products is most of the mean square, and its root
    the size of the error.
    """
    # 1. Compute error and vega of each quote, sorted by strike.
    order = np.argsort(np.where(np.isfinite(iv), k, np.inf), axis=-1, kind="stable")
    model, k, iv, bid, ask = (np.take_along_axis(values, order, -1) for values in (model, k, iv, bid, ask))
    with np.errstate(invalid="ignore", divide="ignore"):
        has_side = (np.isfinite(bid) | np.isfinite(ask)) & ~(bid > ask)
        low = np.where(has_side, np.where(np.isfinite(bid), bid, 0.0), iv)
        high = np.where(has_side, np.where(np.isfinite(ask), ask, np.inf), iv)
        error = model - np.clip(model, low, high)
        deviation = iv * np.sqrt(t)[..., None]
        d1 = deviation / 2.0 - k / deviation
        vega = np.exp(-d1 * d1 / 2.0)
        used = np.isfinite(error) & np.isfinite(vega)
        error = np.where(used, error, 0.0)
        vega = np.where(used, vega, 0.0)

        # 2. Compare the mean product of neighbours with the mean square.
        pair_vega = np.minimum(vega[..., 1:], vega[..., :-1])
        products = pair_vega * error[..., 1:] * error[..., :-1]
        mean_product = products.sum(axis=-1) / pair_vega.sum(axis=-1)
        mean_square = (vega * error * error).sum(axis=-1) / vega.sum(axis=-1)
        mean_iv = (vega * np.where(used, iv, 0.0)).sum(axis=-1) / vega.sum(axis=-1)
        limit = np.maximum(_MIN_ERROR, _MIN_RELATIVE_ERROR * mean_iv)
        is_large = mean_product > limit * limit
        return np.asarray(is_large & (mean_product > _SYSTEMATIC * mean_square))


_MIN_DELTA = 1e-3
_NODES, _WEIGHTS = (part / 2.0 for part in np.polynomial.legendre.leggauss(6))
_NODES = _NODES + 0.5  # integration nodes within an interval between two strikes


def over_strike(k: Floats, s: Floats) -> Floats:
    """Return the undiscounted out-of-the-money price over the strike, at ``s = iv √T``, without overflow."""
    side = np.where(k > 0.0, 1.0, -1.0)
    d1 = -k / s + s / 2.0
    d2 = -k / s - s / 2.0
    return np.asarray(side * (np.exp(-k + special.log_ndtr(side * d1)) - special.ndtr(side * d2)))


def tails(k_low: Floats, k_high: Floats, s_low: Floats, s_high: Floats, floor: float) -> Floats:
    """Return the maximum total variance of options beyond the ends, if the underlying stays above `floor`.

    Calls beyond the last strike cost at most the last call, and puts below the first at most the first put in
    proportion to their strike: ``2 C/K`` and ``2 P/K ln(K/floor)``. The result is 0 for an infinite end. NaN
    if the forward is not between the ends.
    """
    with np.errstate(invalid="ignore"):
        call = np.where(np.isinf(k_high), 0.0, 2.0 * over_strike(k_high, s_high))
        room = np.maximum(k_low - np.log(floor), 0.0)
        put = np.where(np.isinf(k_low), 0.0, 2.0 * over_strike(k_low, s_low) * room)
        return np.where((k_low <= 0.0) & (k_high > 0.0), call + put, np.nan)


def strips(
    k: xr.DataArray, iv: xr.DataArray, t: xr.DataArray, dim: str, ends: tuple[Any, Any] = (-np.inf, np.inf)
) -> tuple[xr.DataArray, ...]:
    """Sum the strips of labelled quotes between two ends; see `strip` for the results."""
    outputs: tuple[xr.DataArray, ...] = applied(
        strip,
        *(k, iv, t, *ends),
        core=[[dim], [dim], [], [], []],
        out=[[]] * 6,
        types=[np.float64] * 5 + [np.int32],
    )
    return outputs


def strip(k: Floats, iv: Floats, t: Floats, low: Floats, high: Floats) -> tuple[Any, ...]:
    """Integrate prices between the quotes of each slice.

    Returns total variance, both ends, the deviations at them, and a status.

    Between two strikes the volatility is linear in log-moneyness. A sum over distant strikes would be too
    high, because prices are convex.
    """
    # 1. Select quotes within the ends that are not far out of the money.
    t, low, high = (np.asarray(values)[..., None] for values in (t, low, high))
    with np.errstate(invalid="ignore", divide="ignore"):
        s = iv * np.sqrt(t)
        x, s = np.broadcast_arrays(k, np.where(s > 0.0, s, np.nan))
        delta = special.ndtr(-np.abs(x) / s + np.sign(x) * s / 2.0)
    used = np.isfinite(x) & (delta >= _MIN_DELTA) & (x >= low) & (x <= high)
    x = np.where(used, x, np.nan)
    s = np.where(used, s, np.nan)

    # 2. Add a point at the money, where prices have a kink between puts and calls.
    s_at_money = at_the_money_of(x, s)
    has_few = (used.sum(axis=-1) < 3) | np.isnan(s_at_money)
    x = np.concatenate([x, np.where(np.isnan(s_at_money), np.nan, 0.0)[..., None]], axis=-1)
    s = np.concatenate([s, s_at_money[..., None]], axis=-1)
    order = np.argsort(x, axis=-1)  # argsort puts NaN last
    x = np.take_along_axis(x, order, -1)
    s = np.take_along_axis(s, order, -1)

    # 3. Integrate between neighbouring points.
    step = np.diff(x)
    has_step = np.isfinite(step)  # most cells of a history are empty
    width = step[has_step][:, None]
    nodes = x[..., :-1][has_step][:, None] + width * _NODES
    deviations = s[..., :-1][has_step][:, None] + np.diff(s)[has_step][:, None] * _NODES
    priced = np.zeros((*step.shape, _NODES.size))
    priced[has_step] = 2.0 * over_strike(nodes, deviations) * width * _WEIGHTS
    w = np.where(has_few, np.nan, priced.sum(axis=(-1, -2)))
    status = np.where(has_few, np.int32(Status.TOO_FEW_STRIKES), np.int32(0))
    last = np.maximum(np.isfinite(x).sum(axis=-1) - 1, 0)[..., None]
    first = np.zeros_like(last)

    def end(values: Floats, place: Indices) -> Floats:
        return np.where(has_few, np.nan, np.take_along_axis(values, place, -1)[..., 0])

    return w, end(x, first), end(x, last), end(s, first), end(s, last), status


def at_the_money_of(k: Floats, values: Floats) -> Floats:
    """Return values of the quotes at k = 0, interpolated linearly; NaN without a quote on each side."""
    k, values = np.broadcast_arrays(k, values)
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    is_quote = np.isfinite(k) & np.isfinite(values)
    below = np.where(is_quote & (k <= 0.0), k, -np.inf)
    above = np.where(is_quote & (k > 0.0), k, np.inf)
    left = below.argmax(axis=-1)[..., None]
    right = above.argmin(axis=-1)[..., None]
    k0 = np.take_along_axis(below, left, -1)[..., 0]
    k1 = np.take_along_axis(above, right, -1)[..., 0]
    v0 = np.take_along_axis(values, left, -1)[..., 0]
    v1 = np.take_along_axis(values, right, -1)[..., 0]
    both = np.isfinite(k0) & np.isfinite(k1)
    share = np.divide(-k0, k1 - k0, out=np.zeros_like(v0), where=both)
    return np.where(both, v0 + share * (v1 - v0), np.nan)
