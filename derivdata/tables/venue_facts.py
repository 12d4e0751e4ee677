"""Facts of venues about funding, fees, contracts and margin tiers, each with its date and source.

The facts are in ``venue_facts.json``. Each value comes from a venue's own response or documentation that can
be read again; values without such a source are absent, even if they are well known. Fees apply to an account
without volume or discounts. Venues change all of these facts, so the newest row up to the requested day is
used.

The rate of a tier applies to the entire position. Gate applies the rate of each tier to the position within
that tier, so above the first tier its requirement is lower than this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["DEFAULT_MAINTENANCE", "MaintenanceTiers", "stated_tiers"]


class VenueFact(NamedTuple):
    """A fact of a kind in `_UNITS`."""

    exchange: str
    symbol: str  # empty: all symbols of the venue
    fact: str
    value: float
    unit: str
    as_of: str  # the day on which it was recorded or documented
    nature: str  # "recorded" response, "sample" in a client's source, or "documentation"
    source: str  # request, and where its response can be read
    confirmed: bool  # False if there is only one source, or two sources differ


class _Source(msgspec.Struct):
    """Figures of one response or page, by symbol and fact."""

    exchange: str
    as_of: str
    nature: str
    source: str
    facts: dict[str, dict[str, float]]
    confirmed: bool = True


_UNITS = {
    "interval_hours": "h",
    "rate_period_hours": "h",  # period of a stated rate, if it is not the interval
    "rate_scale": "fraction",  # one unit of a stated rate: 0.01 for percentage points
    "open_interest_sides": "sides",  # sides that stated open interest counts
    "funding_cap_bps": "bps per interval",
    "funding_floor_bps": "bps per interval",
    "maker_fee_bps": "bps",
    "taker_fee_bps": "bps",
    "option_taker_fee_bps": "bps of the underlying",
    "option_fee_cap": "fraction of the option's price",
    "option_delivery_fee_bps": "bps of the underlying",  # options delivered in the money
    "daily_option_delivery_fee_bps": "bps of the underlying",  # options that do not expire on a Friday
    "option_averaging_minutes": "min",  # period before expiry over which the settlement price is averaged
    "future_averaging_minutes": "min",  # the same for dated futures
    "contract_coin": "coin",  # coins per linear contract
    "contract_usd": "USD",  # USD per inverse contract
    "multiplier": "coin",  # coins per unit of the symbol
    "stream_connections": "connections",  # WebSockets per address
    "stream_connections_per_second": "connections/s",  # per address
    "stream_connections_per_5_minutes": "connections/5 min",
    "stream_channels": "channels",  # per connection
    "stream_messages_per_second": "messages/s",  # sent by one connection, including subscriptions
    "stream_messages_per_hour": "messages/h",
    "stream_message_bytes": "bytes",
    "stream_interval_seconds": "s",  # between frames of the stream of rates, at most
    "requests_per_second": "requests/s",  # that were accepted, where no limit is published
}
_SOURCES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=list[_Source])


def _facts(source: _Source) -> Iterator[VenueFact]:
    for symbol, figures in source.facts.items():
        for fact, value in figures.items():
            yield VenueFact(
                exchange=source.exchange, symbol=symbol, fact=fact, value=value, unit=_UNITS[fact],
                as_of=source.as_of, nature=source.nature, source=source.source, confirmed=source.confirmed,
            )  # fmt: skip


FACTS = tuple(fact for source in _SOURCES for fact in _facts(source))
"""Every fact, in the order of venues."""


@cache
def fact_value(exchange: str, fact: str, symbol: str = "", day: str = "9999-12-31") -> float | None:
    """Return the newest value of a fact up to a day; the symbol's own value is preferred to the venue's."""
    of_venue = [row for row in FACTS if row.exchange == exchange and row.fact == fact and row.as_of <= day]
    rows = [row for row in of_venue if row.symbol == symbol] or [row for row in of_venue if not row.symbol]
    if not rows:
        return None
    return max(rows, key=lambda row: row.as_of).value


def frame() -> pd.DataFrame:
    """Return all facts as a table."""
    return pd.DataFrame(FACTS, columns=list(VenueFact._fields))


DEFAULT_MAINTENANCE = 0.01
"""Rate of contracts without a tier."""

_Array = NDArray[Any]
_REQUIRED_COLUMNS = ("symbol", "exchange", "max_notional_usd", "max_size_coins", "maintenance_margin")


class _Statement(NamedTuple):
    """Tiers of one contract as a venue stated them.

    A tier has its largest size, initial and maintenance margin [fraction of notional] and leverage. Sizes are
    in USD, or in coins if `is_in_coins`. NaN is not stated.
    """

    exchange: str
    symbol: str
    as_of: str
    nature: str
    source: str
    is_confirmed: bool
    is_in_coins: bool
    tiers: tuple[tuple[float, float, float, float], ...]


_NAN = float("nan")
_OKX = (
    "GET /api/v5/public/position-tiers?instType=SWAP, as freqtrade stored it that day in a public strategy "
    "repository (user_data/data/okx/futures/leverage_tiers_USDT.json)"
)
_OKX_AGAIN = "the first tier is the same in the tests of a public C# adapter of 2026-09-25"
_GATE = (
    "GET /futures/usdt/risk_limit_tiers?contract=BTC_USDT in the tests of a public trading bot, recorded "
    "that day; a public C# adapter has the same first five tiers. Above 3,000,000 USDT: those that a public "
    "notebook of 2026-06-16 lists, which leaves out tiers between them"
)
_BITGET = (
    "GET /api/v2/mix/market/query-position-lever, recorded that day in the tests of a public C# adapter, "
    "which has all tiers"
)
_KUCOIN = (
    "GET /api/v1/contracts/risk-limit/XBTUSDTM in tests of KuCoin's universal SDK, whose newest response is "
    "of that day; of isolated margin"
)


def _okx_ladder(
    first: float, second: float, step: float, count: int
) -> tuple[tuple[float, float, float, float], ...]:
    """Return OKX's tiers: from the third on, each is `step` coins larger and requires 0.5 % more margin."""
    tiers = [(first, 0.01, 0.004, 100.0), (second, 0.015, 0.005, 66.66)]
    for number in range(3, count + 1):
        initial = round(0.02 + 0.005 * (number - 3), 4)
        maintenance = round(0.0075 + 0.005 * (number - 3), 4)
        leverage = math.floor(100.0 / initial + 1e-6) / 100.0
        tiers.append((step * (number - 2), initial, maintenance, leverage))
    return tuple(tiers)


_STATEMENTS = (
    _Statement(
        exchange="okx", symbol="BTC", as_of="2026-05-28", nature="recorded",
        source=f"{_OKX}; {_OKX_AGAIN} (contracts of 0.01 BTC, all tiers)",
        is_confirmed=True, is_in_coins=True, tiers=_okx_ladder(10.0, 50.0, 200.0, 99),
    ),
    _Statement(
        exchange="okx", symbol="ETH", as_of="2026-05-28", nature="recorded",
        source=f"{_OKX}; {_OKX_AGAIN} (contracts of 0.1 ETH, the first 39 tiers)",
        is_confirmed=True, is_in_coins=True, tiers=_okx_ladder(500.0, 1_000.0, 2_500.0, 39),
    ),
    _Statement(
        exchange="gateio", symbol="BTC", as_of="2026-08-09", nature="recorded",
        source=_GATE, is_confirmed=True, is_in_coins=False,
        tiers=(
            (500_000.0, 0.005, 0.003, 200.0), (1_000_000.0, 0.006666, 0.0035, 150.01),
            (1_500_000.0, 0.008, 0.004, 125.0), (2_000_000.0, 0.00909, 0.0045, 110.01),
            (3_000_000.0, 0.01, 0.005, 100.0), (5_000_000.0, _NAN, 0.007, _NAN),
            (10_000_000.0, _NAN, 0.0085, _NAN), (15_000_000.0, _NAN, 0.01, _NAN),
        ),
    ),
    _Statement(
        exchange="kucoin", symbol="BTC", as_of="2024-10-21", nature="sample",
        source=_KUCOIN, is_confirmed=False, is_in_coins=False,
        tiers=(
            (100_000.0, 0.008, 0.004, 125.0), (500_000.0, 0.01, 0.005, 100.0),
            (1_000_000.0, 0.014, 0.007, 75.0), (2_000_000.0, 0.02, 0.01, 50.0),
            (3_000_000.0, 0.034, 0.017, 30.0), (5_000_000.0, 0.05, 0.025, 20.0),
            (8_000_000.0, 0.1, 0.05, 10.0), (12_000_000.0, 0.2, 0.1, 5.0),
            (20_000_000.0, 0.25, 0.125, 4.0), (30_000_000.0, 0.334, 0.167, 3.0),
            (40_000_000.0, 0.5, 0.25, 2.0), (50_000_000.0, 1.0, 0.5, 1.0),
        ),
    ),
    _Statement(
        exchange="bitget", symbol="BTC", as_of="2026-09-25", nature="recorded",
        source=_BITGET, is_confirmed=False, is_in_coins=False,
        tiers=(
            (200_000.0, _NAN, 0.004, 150.0), (1_000_000.0, _NAN, 0.005, 100.0),
            (5_000_000.0, _NAN, 0.007, 75.0), (15_000_000.0, _NAN, 0.01, 50.0),
            (50_000_000.0, _NAN, 0.02, 25.0), (100_000_000.0, _NAN, 0.03, 20.0),
            (150_000_000.0, _NAN, 0.06, 10.0), (300_000_000.0, _NAN, 0.12, 5.0),
            (500_000_000.0, _NAN, 0.15, 4.0), (700_000_000.0, _NAN, 0.2, 3.0),
            (900_000_000.0, _NAN, 0.3, 2.0), (1_200_000_000.0, _NAN, 0.6, 1.0),
        ),
    ),
)  # fmt: skip


def stated_tiers(venues: Sequence[str] | None = None, day: str = "9999-12-31") -> pd.DataFrame:
    """Return the newest margin tiers of each contract up to a day, one row per tier."""
    newest: dict[tuple[str, str], _Statement] = {}
    for statement in _STATEMENTS:
        key = (statement.exchange, statement.symbol)
        is_wanted = (venues is None or statement.exchange in venues) and statement.as_of <= day
        if is_wanted and (key not in newest or statement.as_of > newest[key].as_of):
            newest[key] = statement
    rows = []
    for statement in newest.values():
        for number, (size, initial, maintenance, leverage) in enumerate(statement.tiers, 1):
            rows.append(
                {
                    "symbol": statement.symbol,
                    "exchange": statement.exchange,
                    "tier": number,
                    "max_notional_usd": _NAN if statement.is_in_coins else size,
                    "max_size_coins": size if statement.is_in_coins else _NAN,
                    "initial_margin": initial,
                    "maintenance_margin": maintenance,
                    "max_leverage": leverage,
                    "as_of": statement.as_of,
                    "nature": statement.nature,
                    "source": statement.source,
                    "confirmed": statement.is_confirmed,
                }
            )
    columns = [
        "symbol", "exchange", "tier", "max_notional_usd", "max_size_coins", "initial_margin",
        "maintenance_margin", "max_leverage", "as_of", "nature", "source", "confirmed",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


class MaintenanceTiers:
    """Maintenance margin rates of contracts, which are given by their positions in `symbols` and `venues`.

    Raises `ValueError` if the table lacks a column, or if a rate is not above 0 and at most 1.
    """

    def __init__(self, table: pd.DataFrame, symbols: Sequence[str], venues: Sequence[str]) -> None:
        absent = [name for name in _REQUIRED_COLUMNS if name not in table]
        if absent:
            raise ValueError(
                f"maintenance: the table lacks {', '.join(absent)}: pass dd.venues.margin_tiers() or a table "
                "margin_tiers"
            )
        rates = table["maintenance_margin"].to_numpy(dtype=np.float64)
        if not ((rates > 0.0) & (rates <= 1.0)).all():
            raise ValueError("maintenance: expected each maintenance_margin above 0 and up to 1")
        if "time" in table:
            newest = table.groupby(["symbol", "exchange"], observed=True)["time"].transform("max")
            table = table[table["time"] == newest]
        self._tiers: dict[tuple[int, int], tuple[_Array, _Array, _Array]] = {}
        places = {name: place for place, name in enumerate(symbols)}
        venue_places = {name: place for place, name in enumerate(venues)}
        for (symbol, venue), rows in table.groupby(["symbol", "exchange"], observed=True):
            if symbol in places and venue in venue_places:
                ordered = rows.sort_values("maintenance_margin", kind="stable")
                columns = [ordered[name].to_numpy(dtype=np.float64) for name in _REQUIRED_COLUMNS[2:]]
                self._tiers[places[symbol], venue_places[venue]] = (columns[0], columns[1], columns[2])
        pairs = [(symbol, venue) for symbol in symbols for venue in venues]
        self.absent = [
            f"{symbol} on {venue}"
            for symbol, venue in pairs
            if (places[symbol], venue_places[venue]) not in self._tiers
        ]
        """Contracts without tiers, whose rate is `DEFAULT_MAINTENANCE`."""
        self._labels = {(places[symbol], venue_places[venue]): (symbol, venue) for symbol, venue in pairs}
        self._beyond: dict[tuple[int, int], str] = {}

    def rates(self, symbols: _Array, venues: _Array, coins: _Array, notional: _Array) -> NDArray[np.float64]:
        """Return the rate of each position, with its size in coins and in USD.

        A position larger than the last tier has the rate of the last tier; `beyond` names its contract.
        """
        symbols, venues, coins, notional = np.broadcast_arrays(symbols, venues, coins, notional)
        result = np.full(notional.shape, DEFAULT_MAINTENANCE)
        for (symbol, venue), (most_usd, most_coins, rates) in self._tiers.items():
            is_own = (symbols == symbol) & (venues == venue)
            if not is_own.any():
                continue
            is_beyond_usd = notional[is_own][:, None] > np.where(np.isnan(most_usd), np.inf, most_usd)
            is_beyond_coins = coins[is_own][:, None] > np.where(np.isnan(most_coins), np.inf, most_coins)
            number = (is_beyond_usd | is_beyond_coins).sum(axis=1)
            if (number == rates.size).any():
                is_in_coins = np.isnan(most_usd[-1])
                limit = f"{most_coins[-1]:,.0f} coins" if is_in_coins else f"{most_usd[-1]:,.0f} USD"
                self._beyond[symbol, venue] = limit
            result[is_own] = rates[np.minimum(number, rates.size - 1)]
        return result

    @property
    def beyond(self) -> list[str]:
        """Contracts that had a position larger than their last tier, with the size of the tier."""
        return [
            "{} on {} ({})".format(*self._labels[place], limit)
            for place, limit in sorted(self._beyond.items())
        ]

    def beyond_notice(self) -> str:
        """Return the text of a notice about positions larger than their last tier, or an empty text."""
        if not self._beyond:
            return ""
        return (
            "maintenance: positions exceed the last tier of the table, so its rate is used; the venue "
            f"may require more margin or reject the size: {', '.join(self.beyond)}"
        )

    def highest(self) -> float:
        """Return the highest rate of the first tier over all contracts."""
        firsts = [float(rates[0]) for _, _, rates in self._tiers.values()]
        return max([*firsts, DEFAULT_MAINTENANCE] if self.absent else firsts)
