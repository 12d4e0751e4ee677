"""Surfaces as labelled arrays: arguments, known parameters, units, and large sets of slices in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_same, require_variables
from derivdata.analysis.smile.essvi import ssvi_to_raw
from derivdata.analysis.smile.evaluate import Method, assemble
from derivdata.analysis.smile.quotes import quote_weights
from derivdata.analysis.smile.svi import Raw
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed

where: Any = xr.where
"""`xarray.where`, which has no annotations."""

NATURAL = ("theta", "rho", "psi")
_FACTS = ("year_fraction", "method", "status", "k_min", "k_max")


def labelled(
    log_moneyness: Any, iv: Any, year_fraction: Any, weights: Any, iv_bid: Any, iv_ask: Any, *, dim: str
) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray, xr.DataArray, xr.DataArray, xr.DataArray]:
    """Return the quotes as DataArrays, each with its core dims, in one chunk.

    They are log-moneyness, volatility, time, weight, bid and ask; a bid or ask that is not given is NaN.

    Raises
    ------
    ValueError
        A dimension is missing; an unknown weighting.
    """
    volatility = _named(iv, ("expiry", dim), "iv")
    missing = {"expiry", dim} - set(volatility.dims)
    if missing:
        raise ValueError(
            f"iv has dims {volatility.dims}; {', '.join(sorted(missing))} is missing (dim={dim!r})"
        )
    t = _named(year_fraction, ("expiry",), "year_fraction")
    if "expiry" not in t.dims or dim in t.dims:
        raise ValueError(f"year_fraction has dims {t.dims}; it needs expiry, and not {dim}")
    core = ("expiry", dim)
    k = _with_dims(_named(log_moneyness, core, "log_moneyness"), volatility, core)
    require_same({"log_moneyness": k, "year_fraction": t}, volatility, "iv")
    sides = {
        name: _with_dims(_named(np.nan if side is None else side, core, name), volatility, core)
        for name, side in (("iv_bid", iv_bid), ("iv_ask", iv_ask))
    }
    if weights is None or isinstance(weights, str):
        both = (None, None) if iv_bid is None and iv_ask is None else (sides["iv_bid"], sides["iv_ask"])
        weights = quote_weights(weights, k, volatility, t, both, core)
    weight = _with_dims(_named(weights, core, "weights"), volatility, core)
    require_same({"weights": weight, **sides}, volatility, "iv")
    parts = [_whole(part, dim) for part in (k, volatility, t, weight, sides["iv_bid"], sides["iv_ask"])]
    return parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]


@typed
def from_essvi(
    theta: Numbers,
    rho: Numbers,
    psi: Numbers,
    year_fraction: Numbers,
    *,
    k_min: Numbers = -np.inf,
    k_max: Numbers = np.inf,
    forward: Numbers | None = None,
) -> xr.Dataset:
    """Return a surface of known eSSVI parameters: a published one, a true one.

    Parameters
    ----------
    theta, rho, psi
        Total variance at the money, correlation, and ``ψ = θφ`` of each expiry, with dim ``expiry``; bare
        1-D arrays get it. Nothing is checked: see `calendar_check` and
        `derivdata.analysis.smile.butterfly_check`.
    year_fraction
        Time to expiry [years].
    k_min, k_max
        Range of log-moneyness that counts as data; by default everything does.
    forward
        Forward of each expiry, kept as a coordinate.

    Returns
    -------
    Dataset, as `fit` gives it
    """
    given = {"theta": theta, "rho": rho, "psi": psi, "year_fraction": year_fraction}
    given |= {"k_min": k_min, "k_max": k_max} | ({} if forward is None else {"forward": forward})
    named = {name: _over_expiry(value, name) for name, value in given.items()}
    sizes = {name: part.sizes["expiry"] for name, part in named.items() if "expiry" in part.dims}
    for (before, length), (name, own) in pairwise(sizes.items()):
        if own != length:
            raise ValueError(f"{name} has {own} expiries where {before} has {length}")
    *natural, t, low, high = xr.broadcast(*list(named.values())[:6])
    zero = xr.zeros_like(t, dtype=np.int32)
    variables = dict(zip(NATURAL, natural, strict=True)) | {
        **ssvi_to_raw(*natural)._asdict(),
        "method": (zero + Method.SSVI).astype(np.int8),
        "status": zero,
        "rmse_vol": xr.full_like(t, np.nan, dtype=np.float64),
        "n": zero,
        "nfev": zero,
        "k_min": low,
        "k_max": high,
    }
    return assemble(variables, named["year_fraction"], forward=named.get("forward"), surface="essvi")


def _over_expiry(value: Any, name: str) -> xr.DataArray:
    if not isinstance(value, xr.DataArray) and np.ndim(value) > 1:
        raise TypeError(f"{name} is a bare array of {np.ndim(value)} dimensions; wrap it in a DataArray")
    return _named(value, ("expiry",), name)


def _named(value: Any, last: tuple[str, ...], name: str) -> xr.DataArray:
    """Return a DataArray as it is; a bare array with `last` as the names of its last dims."""
    if isinstance(value, xr.DataArray):
        return value
    try:
        array = value if hasattr(value, "dask") else np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError):
        raise TypeError(f"{name} must be numbers, not {type(value).__name__}") from None
    lead = [f"dim_{i}" for i in range(len(last) - array.ndim, 0)]
    return xr.DataArray(array, dims=[*lead, *last[max(len(last) - array.ndim, 0) :]], name=name)


def _with_dims(part: xr.DataArray, like: xr.DataArray, dims: tuple[str, ...]) -> xr.DataArray:
    return part.expand_dims({dim: like.sizes[dim] for dim in dims if dim not in part.dims})


def _whole(part: xr.DataArray, dim: str) -> xr.DataArray:
    return part.chunk(dict.fromkeys({"expiry", dim} & set(part.dims), -1)) if part.chunks else part


def bare(value: Any, name: str, argument: str | None = None) -> xr.DataArray:
    """Return a DataArray as it is; a number; a 1-D array over a new dim `name`.

    Raises
    ------
    TypeError
        A bare array has more dimensions; the message names the argument, which is `name` without another.
    """
    if isinstance(value, xr.DataArray):
        return value
    array = np.asarray(value, dtype=np.float64)
    if array.ndim > 1:
        raise TypeError(
            f"{argument or name} is a bare array of {array.ndim} dimensions; wrap it in a DataArray"
        )
    return xr.DataArray(array, {name: array} if array.ndim else {}, [name][: array.ndim])


def with_units(result: xr.Dataset, units: Mapping[str, str]) -> xr.Dataset:
    """Return a result whose variables have these units as their only attributes, and CF flags."""
    out = result.copy()
    for name, part in out.data_vars.items():
        part.attrs = {"units": units[str(name)]} if name in units else {}
    if "status" in out:
        out["status"].attrs = flag_attrs()
    return out


def origin_attrs(surface: xr.Dataset) -> dict[str, Any]:
    """Return where a surface comes from, if it says so, as attributes of what is made from it."""
    return {name: surface.attrs[name] for name in ("provenance",) if name in surface.attrs}


def require_surface(surface: xr.Dataset) -> None:
    """Refuse what is no fit of ``dd.analysis.surface``.

    Raises
    ------
    ValueError
        A variable or the expiries are missing; the message names it and the argument ``surface``.
    """
    require_variables(surface, "surface", (*_FACTS, *Raw._fields), dims=("expiry",))
    if not surface.sizes["expiry"]:
        raise ValueError("surface has no expiries")


def in_chunks(
    kernel: Callable[[xr.Dataset], xr.Dataset], fit: xr.Dataset, *, most: int, whole: tuple[str, ...] = ()
) -> xr.Dataset:
    """`kernel` of a fit, of at most `most` slices at a time if they are in memory.

    Parameters
    ----------
    kernel
        What treats the labels of every dim but `whole` apart from each other; all variables of its result
        have those dims.
    fit
        Slices, with ``method``. Lazy ones are left to their chunks.
    most
        Slices that one call may hold.
    whole
        Dims that must not be cut.
    """
    slices = fit["method"]
    sizes = {str(dim): size for dim, size in slices.sizes.items() if dim not in whole and size > 1}
    if slices.chunks or slices.size <= most or not sizes:
        return kernel(fit)
    longest = max(sizes, key=sizes.__getitem__)
    step = max(sizes[longest] * most // slices.size, 1)
    cuts = (fit.isel({longest: slice(first, first + step)}) for first in range(0, sizes[longest], step))
    parts = [in_chunks(kernel, cut, most=most, whole=whole) for cut in cuts]
    return xr.concat(parts, longest, data_vars="all", coords="minimal", compat="override", join="override")
