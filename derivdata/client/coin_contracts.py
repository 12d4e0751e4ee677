"""Contracts of one coin under other symbols: ``PEPE`` is also ``1000PEPE``, and ``POL`` was ``MATIC``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from derivdata.client import transport
from derivdata.client.retrieval import listed_symbols
from derivdata.errors import DerivdataError
from derivdata.tables.contracts import BUNDLED_COINS, base
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.tickers import other_tickers
from derivdata.tables.venue_facts import FACTS

By: TypeAlias = Literal["symbol", "coin"]


@functools.cache
def _bundled() -> frozenset[str]:
    """Return the coins of which contracts of several coins are known."""
    stated = {base(fact.symbol)[0] for fact in FACTS if fact.fact == "multiplier"}
    return frozenset({*BUNDLED_COINS, *stated})


def _contracts(symbol: str, listed: Iterable[str]) -> list[str]:
    """Return the listed symbols that are contracts of a symbol's coin, or of one that it was renamed from."""
    coin = base(symbol)[0]
    coins = {coin, *other_tickers(coin)}
    return [name for name in listed if base(name)[0] in coins]


def symbols_to_request(endpoint: Endpoint, symbols: Sequence[str], by: By) -> list[str]:
    """Return the symbols to request: with ``by="coin"`` all contracts of their coins that the source lists.

    By symbol they are the symbols given. Where the source lists other contracts of their coins, a notice
    names these.
    """
    if by == "coin":
        listed = listed_symbols()
        contracts = [_contracts(symbol, listed) or [symbol] for symbol in symbols]
        return list(dict.fromkeys(name for names in contracts for name in names))
    suspects = [s for s in symbols if base(s)[0] in _bundled() or other_tickers(base(s)[0])]
    if suspects:
        try:
            listed = listed_symbols()
        except DerivdataError:  # the tier, the recording or the archive does not have the list
            return list(symbols)
        for symbol in suspects:
            others = [name for name in _contracts(symbol, listed) if name not in symbols]
            if others:
                transport.notify(
                    endpoint.path,
                    f"{symbol} is also traded as {', '.join(others)}, which are other symbols: by='coin' "
                    "returns them too, and dd.panel(table, by='coin') joins them",
                )
    return list(symbols)
