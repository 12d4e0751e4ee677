"""Large sets of slices in pieces, so that memory is bounded by the piece."""

from __future__ import annotations

from collections.abc import Callable

import xarray as xr

__all__ = ["in_chunks"]


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
