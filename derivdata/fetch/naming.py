"""Names of symbols and venues: other spellings are read as the API's, misspelt ones are refused."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pandas as pd

from derivdata import api, transport
from derivdata.errors import DerivdataError, NotFound
from derivdata.tables import VENUES, contract, venue_slug

__all__ = ["names", "require_listed", "symbol_filter", "symbol_names", "symbol_of", "venue_names", "venue_of"]

_KNOWN_VENUES = sorted({*VENUES, *(venue for venues in api.OPTIONS_MATRIX.values() for venue in venues)})
_SHORTEST_MISSPELT = 5
"""Shorter names of venues are all alike: ``okx2`` may be a venue of one's own archive."""


class _Listed(msgspec.Struct):
    symbols: list[str]


def names(value: str | Sequence[str], argument: str) -> list[str]:
    """Return a list of names from one name or several.

    Raises
    ------
    TypeError, ValueError
        Something is not text, the list is empty, a name stands twice, or several stand in one text.
    """
    listed = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(name, str) and name for name in listed):
        raise TypeError(f"{argument} must be a name or a list of names, not {value!r}")
    if any("," in name for name in listed):
        raise ValueError(f"{argument}={value!r}: give several names as a list, one text each")
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must name at least one, and each once: {listed!r}")
    return listed


def symbol_of(name: str) -> str:
    """Return the base symbol of an asset or a contract: ``BTC`` of ``btc``, ``BTCUSDT``, ``BTC-PERP``."""
    return contract(name).symbol if isinstance(name, str) and name.strip() else name


def symbol_names(value: str | Sequence[str], argument: str = "symbols") -> list[str]:
    """Return the base symbols of one name or several.

    Raises
    ------
    TypeError, ValueError
        As in `names`; two names are of one symbol.
    """
    return names([symbol_of(name) for name in names(value, argument)], argument)


def symbol_filter(value: str | Sequence[str] | None, argument: str = "symbols") -> list[str] | None:
    """Return the base symbols of a filter; None is no filter."""
    return None if value is None else symbol_names(value, argument)


def venue_of(name: str, argument: str = "exchange") -> str:
    """Return the API's slug of a venue: ``huobi`` of ``htx``, ``binance`` of ``Binance``.

    Raises
    ------
    ValueError
        The name is no venue's, and nearly that of one.
    """
    if not isinstance(name, str) or not name.strip() or name == "all":
        return name
    slug = venue_slug(name)
    if slug in _KNOWN_VENUES:
        return slug
    near = difflib.get_close_matches(slug, _KNOWN_VENUES, n=1, cutoff=0.8)
    if near and len(slug) >= _SHORTEST_MISSPELT:
        raise ValueError(f"{argument}={name!r} is no venue; did you mean {near[0]!r}?")
    return name


def venue_names(value: Any, argument: str = "exchanges") -> Any:
    """Return the slugs of one venue or several; None, and what is no text, is the endpoint's to check."""
    if value is None:
        return None
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, Iterable):
        return value
    return [venue_of(name, argument) for name in listed]


def require_listed(path: str, symbols: Iterable[str], frame: pd.DataFrame) -> None:
    """Refuse symbols without rows in `frame` that the source's own list lacks, where it can be read.

    Raises
    ------
    NotFound
        The message names the nearest symbols of the list.
    """
    for symbol in symbols:
        if symbol in frame["symbol"].cat.categories:
            continue
        try:
            listed = transport.get(api.FUNDING_METADATA, {}, into=_Listed, quiet=True).body.symbols
        except DerivdataError:  # the tier, the recording or the archive does not have it
            return
        if listed and symbol not in listed:
            near = difflib.get_close_matches(symbol, listed, n=3) or listed[:3]
            raise NotFound(
                path,
                f"unknown symbol {symbol!r}: it has no rows in this window, and is not among the "
                f"{len(listed)} symbols of {api.FUNDING_METADATA.path}; did you mean {', '.join(near)}?",
            )
