"""The index of results over pairs of venues: ``result.sel(long="okx", short="bybit")``."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from xarray.core.indexing import IndexSelResult


class PairIndex(xr.Index):
    """Index of pairs by their legs.

    Notes
    -----
    xarray's own index of several labels (`pandas.MultiIndex`) cannot be written to netCDF or zarr. This one
    can: its coordinates are plain text. A file that was read has them without the index:
    ``result.set_xindex(["long", "short"], PairIndex)`` sets it again. The coordinate ``pair`` is not part of
    it, because xarray 2026.9 could then not assign a variable (``result["double"] = 2 * result["net_bps"]``).
    """

    def __init__(self, legs: Mapping[str, Any], dim: str = "pair") -> None:
        self.legs = {name: np.asarray(venues, dtype=object) for name, venues in legs.items()}
        self.dim = dim

    @classmethod
    def from_variables(cls, variables: Mapping[Any, xr.Variable], *, options: Mapping[str, Any]) -> PairIndex:
        """Return the index of coordinates ``long`` and ``short``."""
        missing = [leg for leg in ("long", "short") if leg not in variables]
        if missing:
            raise ValueError(f"PairIndex needs the coordinates long and short; {missing[0]} is missing")
        dim = str(variables["long"].dims[0])
        return cls({leg: variables[leg].values for leg in ("long", "short")}, dim)

    def create_variables(
        self, variables: Mapping[Any, xr.Variable] | None = None
    ) -> dict[Hashable, xr.Variable]:
        """Return the legs as coordinates."""
        before = variables or {}
        made: dict[Hashable, xr.Variable] = {}
        for name, words in self.legs.items():
            attrs = before[name].attrs if name in before else None
            made[name] = xr.Variable((self.dim,), words, attrs)
        return made

    def _pairs(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_arrays(list(self.legs.values()), names=list(self.legs))

    def to_pandas_index(self) -> pd.Index:
        """Return the pairs as labels of two levels, for ``result.indexes``."""
        return self._pairs()

    def isel(self, indexers: Mapping[Any, Any]) -> PairIndex | None:
        """Return the index of some pairs; None where one pair is selected."""
        places = indexers.get(self.dim)
        if places is None:
            return self
        if isinstance(places, xr.Variable):
            places = places.values
        if not isinstance(places, slice) and np.ndim(places) != 1:
            return None
        return type(self)({leg: venues[places] for leg, venues in self.legs.items()}, self.dim)

    def sel(self, labels: dict[Any, Any], **_: Any) -> IndexSelResult:
        """Return the place of a pair, or the places of all pairs with one leg or one of several legs."""
        chosen = np.ones(len(self._pairs()), dtype=bool)
        for leg, label in labels.items():
            if isinstance(label, slice):
                raise TypeError(f"{leg} takes a venue or a list of venues, not a slice")
            chosen &= np.isin(self.legs[leg], np.asarray(label, dtype=object))
        places = np.flatnonzero(chosen)
        if not places.size:
            wanted = ", ".join(f"{leg}={label!r}" for leg, label in labels.items())
            listed = ", ".join("/".join(pair) for pair in self._pairs()[:5])
            raise KeyError(f"no pair has {wanted}; pairs are {listed}, ...")
        is_single = len(labels) == len(self.legs) and all(np.ndim(label) == 0 for label in labels.values())
        return IndexSelResult({self.dim: int(places[0]) if is_single else places})

    def equals(self, other: xr.Index, **_: Any) -> bool:
        """Return whether the pairs are the same in the same order."""
        return isinstance(other, PairIndex) and self._pairs().equals(other._pairs())

    def join(self, other: PairIndex, how: Any = "inner") -> PairIndex:
        """Return the pairs of both, or of either."""
        joined = self._pairs().join(other._pairs(), how=how)
        return type(self)({leg: joined.get_level_values(leg) for leg in self.legs}, self.dim)

    def reindex_like(self, other: PairIndex) -> dict[Hashable, Any]:
        """Return where the pairs of another index are in this one, −1 for a pair that is not in it."""
        return {self.dim: self._pairs().get_indexer(other._pairs())}

    @classmethod
    def concat(cls, indexes: Sequence[PairIndex], dim: Hashable, positions: Any = None) -> PairIndex:
        """Return the pairs of several indexes, one after the other."""
        names = indexes[0].legs
        return cls({leg: np.concatenate([index.legs[leg] for index in indexes]) for leg in names}, str(dim))

    def rename(self, name_dict: Mapping[Any, Hashable], dims_dict: Mapping[Any, Hashable]) -> PairIndex:
        """Return the index under other names of its dim and its legs."""
        legs = {str(name_dict.get(leg, leg)): venues for leg, venues in self.legs.items()}
        return type(self)(legs, str(dims_dict.get(self.dim, self.dim)))


def pair_coordinates(long: Iterable[Any], short: Iterable[Any]) -> xr.Coordinates:
    """Return the coordinates ``long`` and ``short`` with their index, and ``pair``: ``"okx/bybit"``."""
    labels = np.array([f"{bought}/{sold}" for bought, sold in zip(long, short, strict=True)], dtype=object)
    coordinates = xr.Coordinates.from_xindex(PairIndex({"long": [*long], "short": [*short]}))
    return coordinates.assign(pair=("pair", labels))
