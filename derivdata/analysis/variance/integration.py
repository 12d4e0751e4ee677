"""Model-free total variance: from the strip of quotes, from the smile's prices, or from its volatilities."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis import smile
from derivdata.analysis.inputs import require_decimal_volatility
from derivdata.analysis.labelling import applied, elementwise, in_chunks, with_units
from derivdata.analysis.smile.strip import over_strike, strips, tails
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats

VarianceMethod = Literal["strip", "smile", "fukasawa"]

_OUT = ("total_variance", "inside", "lower", "upper", "k_low", "k_high", "status")
_UNITS = (
    dict.fromkeys(("total_variance", "inside", "lower", "upper", "wing_share"), "1")
    | dict.fromkeys(("k_low", "k_high"), "log-moneyness")
    | {"vol": "1/sqrt(year)"}
)
_MUCH = 0.1
_SLICES = 4096
_NARROW = 1e-3
_PANELS, _PER_PANEL = 4, 96
_FAR = 1e6
# Where the vertex is narrower than so many widths of the smile, panels end around it too.
_BENT, _BENDS = 0.1, np.sinh(np.array([-5.0, -3.0, -1.5, 0.0, 1.5, 3.0, 5.0]))


@typed
def model_free(
    source: xr.Dataset,
    *,
    method: VarianceMethod | None = None,
    k_range: tuple[Numbers, Numbers] | None = None,
    floor: float = 0.01,
    dim: str = "strike",
) -> xr.Dataset:
    """Compute the total variance that the options of each expiry price, whatever the dynamics.

    Parameters
    ----------
    source
        Quotes, a Dataset with ``log_moneyness`` and ``iv`` [per √year] over `dim` and others, one volatility
        per strike, and ``year_fraction``; or a fit of `derivdata.analysis.smile` or
        `derivdata.analysis.surface`.
    method
        None: ``"strip"`` of quotes and of surfaces fitted to quotes, which carry it, else ``"fukasawa"``.
        ``"strip"``: the integral of Black-76 prices at r = 0 between the quotes, with volatilities linear
        between two strikes, without options whose delta is below 0.001; it has no wings. ``"smile"``:
        ``2 ∫ OTM(k) e^(−k) dk`` over the fitted smile, wings and all. ``"fukasawa"``:
        ``∫ w(k) φ(d2) |d2'| dk``, the same number from volatilities;
        NaN with ``BUTTERFLY`` where d2 does not fall. The integrals hold wings that nobody has quoted: on
        days of stress they are half of the variance of some expiries.
    k_range
        Log-moneyness that counts as quoted; by default that of the quotes.
    floor
        Share of the forward below which the underlying is taken never to fall; only `upper` needs it.
    dim
        Name of the strikes' dimension of quotes.

    Returns
    -------
    Dataset over the dims of `source` without `dim`
        ``total_variance``; ``inside``, the part that options within ``[k_low, k_high]`` price;
        ``wing_share``, 1 less their ratio; ``vol``, ``√(total_variance/T)`` [per √year]. ``lower`` and
        ``upper`` bound what an end to the quotes leaves open: nothing beyond them, or the most that prices
        there can hold (calls no dearer than the last, puts no dearer per strike than the first; in the
        prices of the quotes, or of the smile at the ends). ``status`` adds ``EXTRAPOLATED`` where
        `wing_share` is above 0.1, ``TOO_FEW_STRIKES`` where a strip has fewer than three or lies on one
        side of the forward, and all that the fit's says. NaN where there is no fit. Lazy if `source` is.

    Raises
    ------
    ValueError
        Unknown method; `floor` is not between 0 and 1; the source lacks what the method needs.

    Notes
    -----
    Carr and Madan (1998); Fukasawa (2012), "The normalizing transformation of the implied volatility
    smile". Without a floor no price bounds the variance of puts: an underlying that may go to 0 has none.
    """
    if not 0.0 < floor < 1.0:
        raise ValueError(f"floor={floor!r} is a share of the forward: between 0 and 1")
    fitted, carries = "k_min" in source, "strip_variance" in source
    if method is None:
        method = "strip" if (carries and k_range is None) or not fitted else "fukasawa"
    quoted = method == "strip" and not carries
    _require(source, ("log_moneyness", "iv") if quoted else ("k_min", "k_max", "method", "status"))
    if quoted:
        result = _of_quotes(source, k_range, floor, dim)
    elif method == "strip":
        result = _carried(source, k_range, floor)
    else:
        ends = (source["k_min"], source["k_max"]) if k_range is None else map(xr.DataArray, k_range)
        ended = source.assign(dict(zip(("k_low", "k_high"), ends, strict=True)))
        result = in_chunks(lambda part: _of_fit(part, floor, str(method)), ended, most=_SLICES)
    t = source["year_fraction"]
    w = result["total_variance"]
    result["wing_share"] = 1.0 - result["inside"] / w
    result["vol"] = (w / t).where((w >= 0.0) & (t > 0.0)) ** 0.5
    wide = result["wing_share"] > _MUCH
    result["status"] = (result["status"] | wide * np.int32(Status.EXTRAPOLATED)).astype(np.int32)
    return with_units(result, _UNITS).assign_attrs(method=method, floor=floor)


def _require(source: xr.Dataset, names: tuple[str, ...]) -> None:
    missing = [name for name in (*names, "year_fraction") if name not in source]
    if missing:
        raise ValueError(
            f"the source has no {', '.join(missing)}: the strip takes quotes, the others take a fit"
        )


def _of_quotes(source: xr.Dataset, k_range: tuple[Any, Any] | None, floor: float, dim: str) -> xr.Dataset:
    k, iv = (source[name] for name in ("log_moneyness", "iv"))
    if iv.chunks is None:
        require_decimal_volatility(iv)
    k, iv = (part.chunk({dim: -1}) if part.chunks else part for part in (k, iv))
    w, *ends, status = strips(k, iv, source["year_fraction"], dim, k_range or (-np.inf, np.inf))
    return _of_strip(w, ends, status, floor)


def _carried(fit: xr.Dataset, k_range: Any, floor: float) -> xr.Dataset:
    """Return the strip of the quotes that a surface was fitted to; prices beyond are those of its smiles."""
    if k_range is not None:
        raise ValueError("k_range of a strip needs the quotes: model_free(quotes, method='strip', k_range=…)")
    places = [fit[f"strip_{end}"] for end in ("low", "high")]
    widths = [smile.total_variance(fit, end.fillna(0.0), extrapolate=True) ** 0.5 for end in places]
    w = fit["strip_variance"]
    none = (w.isnull() & (fit["method"] > 0)) * np.int32(Status.TOO_FEW_STRIKES)
    return _of_strip(w, [*places, *widths], fit["status"] | none, floor)


def _of_strip(w: xr.DataArray, ends: list[xr.DataArray], status: xr.DataArray, floor: float) -> xr.Dataset:
    beyond = elementwise(tails, *ends, floor)
    return xr.Dataset(dict(zip(_OUT, (w, w, w, w + beyond, *ends[:2], status), strict=True)))


def _of_fit(fit: xr.Dataset, floor: float, method: str) -> xr.Dataset:
    low, high = fit["k_low"], fit["k_high"]
    width = smile.total_variance(fit, 0.0, extrapolate=True).clip(_NARROW**2) ** 0.5
    vertex, bend = fit["m"].reset_coords(drop=True), fit["sigma"].reset_coords(drop=True)
    lazy = bend.chunks is not None
    bends = _BENDS if lazy or bool((bend < _BENT * width).any()) else _BENDS[:0]
    k, step, inside = applied(
        _nodes,
        *(width, low, high, vertex, bend),
        bends=bends,
        out=[["node"]] * 3,
        types=[np.float64, np.float64, np.bool_],
        sizes={"node": (_PANELS + bends.size) * _PER_PANEL},
    )
    whole, within, status = applied(
        _integrals,
        *(k, step, inside),
        *(smile.total_variance(fit, k, derivative=d, extrapolate=True) for d in (0, 1)),
        fukasawa=method == "fukasawa",
        core=[["node"]] * 5,
        out=[[]] * 3,
        types=[np.float64, np.float64, np.int32],
    )
    finite = [end.where(np.isfinite(end), 0.0) for end in (low, high)]
    ends = [smile.total_variance(fit, end, extrapolate=True) ** 0.5 for end in finite]
    beyond = elementwise(tails, low, high, *ends, floor).where(whole.notnull())
    outputs = (whole, within, within, within + beyond, low, high, status | fit["status"])
    return xr.Dataset(dict(zip(_OUT, outputs, strict=True)))


def _nodes(
    width: Floats, low: Floats, high: Floats, vertex: Floats, bend: Floats, *, bends: Floats
) -> tuple[Floats, Floats, Bools]:
    """Return Gauss-Legendre nodes in ``asinh(k/width)`` on panels, weights, and which are quoted.

    Panels also end at the vertex and on both sides of it, at `bends` of the slice's sigma.
    """
    width, low, high, vertex, bend = np.broadcast_arrays(width, low, high, vertex, bend)
    end = np.arcsinh(_FAR / width)
    cuts = [np.clip(np.arcsinh(each / width), -end, end) for each in (low, high)]
    near = np.where(np.isfinite(vertex), vertex, 0.0)[..., None] + bends * np.nan_to_num(bend)[..., None]
    turns = np.clip(np.arcsinh(near / width[..., None]), -end[..., None], end[..., None])
    whole = np.stack([-end, *cuts, np.zeros_like(end), end], axis=-1)
    edges = np.sort(np.concatenate([whole, turns], axis=-1), axis=-1)
    middle, half = (edges[..., 1:] + edges[..., :-1]) / 2.0, np.diff(edges, axis=-1) / 2.0
    x, weight = np.polynomial.legendre.leggauss(_PER_PANEL)
    u = middle[..., None] + half[..., None] * x
    scale = width[..., None, None]
    within = (middle > cuts[0][..., None]) & (middle < cuts[1][..., None])
    shape = (*width.shape, u.shape[-1] * u.shape[-2])
    inside = np.broadcast_to(within[..., None], u.shape)
    step = scale * np.cosh(u) * half[..., None] * weight
    return (scale * np.sinh(u)).reshape(shape), step.reshape(shape), inside.reshape(shape)


def _integrals(
    k: Floats, step: Floats, inside: Bools, w: Floats, slope: Floats, *, fukasawa: bool
) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Total variance on the whole line, what options inside price of it, ``BUTTERFLY`` where d2 rises."""
    s = np.sqrt(np.where(w > 0.0, w, np.nan))
    priced = 2.0 * over_strike(k, s) * step
    within = np.where(inside, priced, 0.0).sum(axis=-1)
    if not fukasawa:
        return priced.sum(axis=-1), within, np.zeros(within.shape, np.int32)
    d2 = -k / s - s / 2.0
    fall = 1.0 / s - k * slope / (2.0 * s * w) + slope / (4.0 * s)
    density = np.exp(-0.5 * d2 * d2) / np.sqrt(2.0 * np.pi)
    whole = (w * density * fall * step).sum(axis=-1)
    rises = (fall < 0.0).any(axis=-1)
    return np.where(rises, np.nan, whole), within, np.where(rises, np.int32(Status.BUTTERFLY), np.int32(0))
