"""The API document as data: endpoints, parameters, tiers, limits, and a request in canonical form."""

from __future__ import annotations

import string
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from derivdata.support.times import RESOLUTIONS

__all__ = [
    "ENDPOINTS",
    "LOCAL",
    "TIERS",
    "Endpoint",
    "Param",
    "ParamKind",
    "Request",
    "allows",
    "endpoint_of",
]

TIERS = ("free", "dev", "pro", "team")

LOCAL = "/local/"
"""Prefix of the library's own paths, which the API document does not have."""


def allows(tier: str, needed: str) -> bool:
    """Return whether a key of `tier` may use an endpoint that needs the tier `needed`."""
    return TIERS.index(tier) >= TIERS.index(needed)


class ParamKind(StrEnum):
    """Format of a parameter in a request."""

    TEXT = "text"
    LIST = "comma-separated text"
    INTEGER = "integer"
    NUMBER = "number"
    TICK = "ISO 8601 time"
    MILLIS = "Unix milliseconds"
    DAYS = "whole days, such as 30d"


@dataclass(frozen=True)
class Param:
    """A parameter of an endpoint: its name, format and meaning, and the values that it allows."""

    name: str
    kind: ParamKind
    doc: str
    required: bool = False
    default: str | float | None = None  # the service's default, by the document
    choices: tuple[str, ...] = ()  # known values
    documented: bool = True  # whether the document lists the choices; else a service may accept others
    in_path: bool = False  # a segment of the path instead of a part of the query


class Request(NamedTuple):
    """A request in canonical form: its path, and its query parameters sorted by name."""

    path: str
    query: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        pairs = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.path}?{pairs}" if pairs else self.path


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of the API document or of the local service: path, tier, table and parameters."""

    path: str  # ``{symbol}`` represents a parameter in the path
    tier: str  # the lowest tier that may use it
    table: str  # table that its fetcher returns
    doc: str
    params: tuple[Param, ...] = ()
    fresh_seconds: float = 60.0  # how long a cached response is used while the window is not closed
    per_second: float | None = None  # request rate that the service allows
    exclusive: tuple[tuple[str, str], ...] = ()  # pairs of parameters that exclude each other
    unit: str = ""  # unit of the figures, as in the response
    states_resolution: bool = False  # whether responses state the used resolution, by the document
    # For a local endpoint with the rows of a table by venue, how rows are brought to a resolution: "sampled"
    # is the newest row of each step at its end, "added" the sum; "single" rows are without a resolution
    rows: Literal["", "sampled", "added", "single"] = ""

    @cached_property
    def local(self) -> bool:
        """Whether only the local service has the endpoint, and the API document does not."""
        return self.path.startswith(LOCAL)

    def matches(self, path: str) -> bool:
        """Return whether a concrete path belongs to this endpoint."""
        names = [field for _, field, _, _ in string.Formatter().parse(self.path) if field]
        if not names:
            return path == self.path
        # The parameter is a single segment between a fixed head and tail.
        head, _, tail = self.path.partition("{" + names[0] + "}")
        value = path[len(head) : len(path) - len(tail)]
        return path.startswith(head) and path.endswith(tail) and bool(value) and "/" not in value

    def values(self, path: str) -> dict[str, str]:
        """Return the parameters in a concrete path of this endpoint, by name."""
        pairs = zip(self.path.split("/"), path.split("/"), strict=True)
        return {field[1:-1]: unquote(value) for field, value in pairs if field.startswith("{")}


SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", required=True)
PATH_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", required=True, in_path=True)
_SYMBOLS = Param("symbol", ParamKind.LIST, "Base symbols.")
EXCHANGES = Param("exchanges", ParamKind.LIST, "Venues' slugs, or 'all'.")
START = Param("start", ParamKind.TICK, "Start of the range; 7 days before its end unless given.")
END = Param("end", ParamKind.TICK, "End of the range; now unless given.")
RESOLUTION = Param(
    "resolution",
    ParamKind.TEXT,
    "Sampling step; if omitted, the service chooses it by the length of the range.",
    choices=("raw", *RESOLUTIONS),
)
_ROLLING = Param("range", ParamKind.TEXT, "Rolling window that ends now.")
RANGE = replace(_ROLLING, choices=("1d", "7d", "30d", "90d"), documented=False)
WEEK_TO_QUARTER = replace(RANGE, default="7d", choices=("7d", "30d", "90d"))

AGGREGATE_SECONDS = 600.0
EXCHANGE = Param("exchange", ParamKind.TEXT, "Venue's slug.", required=True)
PATH_EXCHANGE = Param("exchange", ParamKind.TEXT, "Venue's slug.", required=True, in_path=True)
LIMIT = Param("limit", ParamKind.INTEGER, "Maximum number of entries in a response.")
DAYS = Param(
    "range", ParamKind.DAYS, "Rolling window that ends now, 1d to 90d; longer from Pro.", default="30d"
)
WINDOW = (START, END, RANGE)


def _of(path: str, table: str, doc: str, *params: Param, tier: str = "dev", **how: Any) -> Endpoint:
    """Return an endpoint; a rolling window and an absolute window exclude each other."""
    both = {"range", "start"} <= {p.name for p in params}
    how.setdefault("exclusive", (("range", "start"), ("range", "end")) if both else ())
    return Endpoint(path, tier, table, doc, params=params, **how)


FUNDING = _of("/funding", "funding_snapshot", "Funding rate of every venue and symbol now.", tier="free")
FUNDING_METADATA = _of(
    "/funding/metadata", "funding_metadata", "Symbols and venues.", fresh_seconds=AGGREGATE_SECONDS
)
FUNDING_HISTORICAL = _of(
    "/funding/historical",
    "funding_history",
    "Funding rate of one symbol over time; not for P&L or backtesting.",
    *(SYMBOL, START, END, EXCHANGES, RESOLUTION),
    per_second=2.0,
    unit="bps_8h",
    states_resolution=True,
)
FUNDING_SETTLEMENT = _of(
    "/funding/settlement",
    "funding_settlements",
    "Funding payments of one symbol over time.",
    *(SYMBOL, START, END, EXCHANGES),
    unit="bps_8h",
)

LIQUIDATIONS_EVENTS = _of(
    "/liquidations/events",
    "liquidations_events",
    "Recent liquidation orders, or those since a time.",
    Param("since", ParamKind.MILLIS, "Only events after this time, from the event store."),
    Param("limit", ParamKind.INTEGER, "Maximum number of events in a response."),
    Param("min_usd", ParamKind.NUMBER, "Minimum value in USD; without effect if since is given."),
    Param("exchange", ParamKind.LIST, "Venues' slugs."),
    _SYMBOLS,
    Param("exclude_symbol", ParamKind.LIST, "Base symbols to exclude."),
    fresh_seconds=5.0,
    exclusive=(("symbol", "exclude_symbol"),),
)
LIQUIDATIONS_HISTORY = _of(
    "/liquidations/history",
    "liquidations_history",
    "Liquidated value by venue and side over time, of some symbols or of all together.",
    *WINDOW,
    _SYMBOLS,
    RESOLUTION,
    unit="usd",
)
LIQUIDATIONS_AGGREGATES = _of(
    "/liquidations/aggregates",
    "liquidations_aggregates",
    "Liquidations of the last hours by symbol, venue or both.",
    replace(_ROLLING, default="24h", choices=("1h", "4h", "12h", "24h")),
    Param(
        "group_by",
        ParamKind.TEXT,
        "The summed quantity.",
        default="symbol",
        choices=("symbol", "exchange", "symbol_exchange"),
        documented=False,
    ),
)

MARKETS_SYMBOLS = _of(
    "/markets/symbols", "markets_symbols", "Leaderboard of symbols by open interest.", EXCHANGES
)
MARKETS_PRICE_MOVERS = _of(
    "/markets/price-movers",
    "markets_price_movers",
    "Largest gainers and losers of 24 hours.",
    Param("min_value", ParamKind.NUMBER, "Smallest 24-hour volume in USD.", default=10_000_000.0),
    Param("limit", ParamKind.INTEGER, "Entries per list."),
    EXCHANGES,
)
MARKETS_FUNDING_LEADERS = _of(
    "/markets/funding-leaders", "markets_funding_leaders", "The ten highest funding rates.", EXCHANGES
)
MARKETS_EXCHANGE_TIMESERIES = _of(
    "/markets/exchanges/{exchange}/timeseries",
    "markets_exchange_history",
    "Volume and open interest of one venue over time.",
    *(PATH_EXCHANGE, *WINDOW),
    unit="usd",
)
MARKETS_PRICE_BUCKETS = _of(
    "/markets/price-buckets",
    "markets_price_buckets",
    "Number of symbols by size of their price change in 24 hours.",
    EXCHANGES,
)
MARKETS_EXCHANGES = _of(
    "/markets/exchanges/all",
    "markets_exchanges",
    "Current state of every venue.",
    fresh_seconds=AGGREGATE_SECONDS,
)
MARKETS_EXCHANGE_SYMBOLS = _of(
    "/markets/exchanges/{exchange}/symbols",
    "markets_exchange_symbols",
    "State of every symbol on one venue.",
    PATH_EXCHANGE,
)
MARKETS_SYMBOL_EXCHANGES = _of(
    "/markets/{symbol}/exchanges",
    "markets_symbol_exchanges",
    "State of one symbol on every venue.",
    PATH_SYMBOL,
)
MARKETS_SYMBOL_STATS = _of(
    "/markets/{symbol}/stats",
    "markets_symbol_stats",
    "State of one symbol; Free sees BTC and ETH.",
    PATH_SYMBOL,
    tier="free",
)


def _series(family: str, quantity: str) -> tuple[Endpoint, Endpoint, Endpoint]:
    """Return the endpoints that open interest and volume share: symbols, venues' totals, largest symbols."""
    return (
        _of(
            f"/{family}/{{symbol}}/timeseries",
            f"{family}_history",
            f"{quantity} of one symbol on every venue over time.",
            *(PATH_SYMBOL, *WINDOW, EXCHANGES, RESOLUTION),
            states_resolution=True,
            unit="usd",
        ),
        _of(
            f"/{family}/exchange-totals",
            f"{family}_exchange_totals",
            f"{quantity} of every venue over all symbols, over time.",
            *(*WINDOW, EXCHANGES, RESOLUTION),
            states_resolution=True,
            unit="usd",
        ),
        _of(
            f"/{family}/exchange-top-symbols-timeseries",
            f"{family}_top_symbols",
            f"{quantity} of a venue's largest symbols over time.",
            *(EXCHANGE, START, END, WEEK_TO_QUARTER, LIMIT),
            unit="usd",
        ),
    )


OI_EXCHANGES_SUMMARY = _of(
    "/oi/exchanges-summary", "oi_exchanges", "Open interest of every venue.", fresh_seconds=AGGREGATE_SECONDS
)
OI_TIMESERIES, OI_EXCHANGE_TOTALS, OI_TOP_SYMBOLS = _series("oi", "Open interest")
VOLUME_OI_RATIO = _of(
    "/volume-oi-ratio",
    "volume_oi_ratio",
    "Volume over open interest of every venue, over time.",
    *WINDOW,
    Param("window_days", ParamKind.INTEGER, "Days that volume is added up over; Dev at most 7.", default=1),
    EXCHANGES,
    RESOLUTION,
    unit="ratio",
    states_resolution=True,
)
VOLUME_TIMESERIES, VOLUME_EXCHANGE_TOTALS, VOLUME_TOP_SYMBOLS = _series("volume", "Volume")

_OPTIONS_EXCHANGES = ("deribit", "binance", "bybit", "okx", "derive")
_OPTIONS_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", default="BTC")

OPTIONS_SNAPSHOT = _of(
    "/options/snapshot",
    "options_snapshot",
    "Every active option of one symbol on one venue.",
    _OPTIONS_SYMBOL,
    Param("exchange", ParamKind.TEXT, "Venue; venues are added over time.", required=True),
    tier="free",
)
OPTIONS_SURFACE_HISTORY = _of(
    "/options/surface-history",
    "options_surface_history",
    "Hourly options surfaces.",
    *(_OPTIONS_SYMBOL, EXCHANGE, DAYS),
)
OPTIONS_ATM_HISTORY = _of(
    "/options/atm-history",
    "options_atm_history",
    "Hourly at-the-money volatility per expiry.",
    *(_OPTIONS_SYMBOL, EXCHANGE, DAYS),
)
OPTIONS_METRICS = _of(
    "/options/metrics",
    "options_metrics",
    "At-the-money volatility per expiry, now and one day earlier.",
    *(_OPTIONS_SYMBOL, EXCHANGE),
)
OPTIONS_OVERVIEW_HISTORY = _of(
    "/options/overview-history",
    "options_overview_history",
    "Hourly notional open interest and rolling 24-hour volume by venue and symbol.",
    DAYS,
    unit="usd",
)
OPTIONS_MATRIX: dict[str, tuple[str, ...]] = {
    "BTC": _OPTIONS_EXCHANGES,
    "ETH": _OPTIONS_EXCHANGES,
    "HYPE": ("deribit", "derive"),
    "SOL": ("deribit", "binance", "bybit", "derive"),
    "XRP": ("deribit", "binance", "bybit", "derive"),
    "DOGE": ("binance", "bybit"),
    "BNB": ("binance",),
    "ZEC": ("derive",),
}
"""Venues with options by symbol, as the document lists them: data that warns and never blocks."""

ORDERBOOK_BOOK = _of(
    "/orderbook/book",
    "orderbook_book",
    "Order book of one symbol on one venue, now or at a time.",
    *(SYMBOL, EXCHANGE, LIMIT),
    replace(START, doc="Rejected: a book has one time; use end."),
    replace(END, doc="Time of the book, at most an hour old; now unless given."),
    fresh_seconds=5.0,
)
ORDERBOOK_DEPTH_HISTORY = _of(
    "/orderbook/depth-history",
    "orderbook_depth_history",
    "Depth within 10, 25, 50 and 100 bps of the mid price over time.",
    *(SYMBOL, EXCHANGE, *WINDOW, RESOLUTION),
    unit="usd",
)

CATALOG = _of(
    "/local/catalog", "catalog", "Contents of the source, by table and venue.", tier="free", fresh_seconds=5.0
)


INSTRUMENTS = _of(
    "/local/instruments",
    "instruments",
    "Contracts that venues list or listed, as they were listed last.",
    *(Param("symbols", ParamKind.LIST, "Base symbols."), EXCHANGES),
    tier="free",
)


def _rows(
    table: str,
    rows: str,
    doc: str,
    *,
    unit: str = "usd",
    by: str = "kind",
    choices: tuple[str, ...] = (),
    **options: Any,
) -> Endpoint:
    """Return the local endpoint of a table's rows of one symbol and of one value of the column `by`."""
    choice = None
    if choices:
        doc_of_choice = f"{by.capitalize()} of the rows."
        choice = Param(by, ParamKind.TEXT, doc_of_choice, default=choices[0], choices=choices)
    resolution = RESOLUTION if rows != "single" else None
    params = [p for p in (SYMBOL, START, END, EXCHANGES, choice, resolution) if p is not None]
    path = f"{LOCAL}{table.replace('_', '/', 1)}"
    options.setdefault("states_resolution", rows != "single")
    return _of(path, table, doc, *params, rows=rows, unit=unit, **options)


DELIVERY_PRICES = _rows("delivery_prices", "single", "Prices at which a symbol's expiries were settled.")
FUTURES_HISTORY = _rows("futures_history", "sampled", "Dated futures of one symbol over time.")
OPTIONS_TRADES = _rows("options_trades", "single", "Trades of the options of one symbol.", unit="mixed")
POSITIONING_HISTORY = _rows(
    "positioning_history",
    "sampled",
    "Long against short accounts or positions of one symbol over time.",
    unit="ratio",
    choices=("accounts", "positions", "top_accounts", "top_positions"),
)
PRICES_HISTORY = _rows(
    "prices_history",
    "sampled",
    "Mark, index or last price of one symbol over time.",
    choices=("mark", "index", "last"),
)
PRICES_SPOT = _rows(
    "prices_spot",
    "sampled",
    "Spot price of one symbol in one currency over time.",
    unit="quote",
    by="quote",
    choices=("USDT", "USD", "USDC"),
)
VOLATILITY_INDEX_PUBLISHED = _rows(
    "volatility_index_published",
    "sampled",
    "Volatility index that venues publish of one symbol over time.",
    unit="percent",
)
VOLUME_TAKER = _rows("volume_taker", "added", "Value that takers bought and sold of one symbol over time.")

RWA_MARKET_HOURS = _of(
    "/rwa/market-hours",
    "rwa_market_hours",
    "Trading sessions and holidays of the exchanges behind real-world assets.",
    Param("exchange", ParamKind.LIST, "Exchanges' ids, short names or market identifier codes."),
    tier="pro",
    fresh_seconds=AGGREGATE_SECONDS,
)

_RANGE_OR_ALL = replace(
    RANGE, doc="Rolling window that ends now; all gives days.", choices=(*RANGE.choices, "all")
)
_DEX = Param("dex", ParamKind.TEXT, "HIP-3 dex, e.g. xyz.")
_ONE_DEX = replace(_DEX, required=True)
_DEX_SYMBOL = Param("symbol", ParamKind.TEXT, "Symbol, or dex:SYMBOL.")
_COIN = Param("coin", ParamKind.TEXT, "dex:SYMBOL.", required=True)
_INTERVAL = Param(
    "interval",
    ParamKind.TEXT,
    "Length of a candle.",
    default="1h",
    choices=("15m", "1h", "4h", "1d"),
    documented=False,
)
_OUTCOME = Param("outcome_id", ParamKind.TEXT, "Outcome's id.", required=True, in_path=True)
_OUT_OR_SKEW = Param("venue", ParamKind.TEXT, "Left out, both together.", choices=("out", "skew"))


_onchain = partial(_of, fresh_seconds=AGGREGATE_SECONDS)

HIP3_DASHBOARD = _onchain("/hip3-analytics/dashboard", "hip3_dashboard", "HIP-3 at a glance.", RANGE)
HIP3_DEX_DETAIL = _onchain(
    "/hip3-analytics/dex-detail", "hip3_dex_detail", "One dex of HIP-3.", _ONE_DEX, RANGE
)
HIP3_BY_DEX = _onchain("/hip3-analytics/by-dex", "hip3_by_dex", "Activity by dex.", RANGE)
HIP3_BY_SYMBOL = _onchain(
    "/hip3-analytics/by-symbol", "hip3_by_symbol", "Activity by symbol.", _DEX, LIMIT, RANGE
)
HIP3_TIMESERIES_SYMBOL = _onchain(
    "/hip3-analytics/timeseries/symbol",
    "hip3_timeseries_symbol",
    "Activity of a symbol over time.",
    *(_DEX_SYMBOL, _DEX, _RANGE_OR_ALL),
)
HIP3_TIMESERIES_DEX_BREAKDOWN = _onchain(
    "/hip3-analytics/timeseries/dex-breakdown",
    "hip3_timeseries_dex_breakdown",
    "Volume over time, by symbol or dex.",
    *(_DEX, RANGE),
)
HIP3_LEADERBOARD = _onchain(
    "/hip3-analytics/leaderboard", "hip3_leaderboard", "Largest traders.", _DEX, LIMIT, RANGE
)
HIP3_OI_TRENDS_TOTAL = _onchain(
    "/hip3-analytics/oi-trends/total", "hip3_oi_trends_total", "Open interest by day.", RANGE
)
HIP3_OI_TRENDS_DEX = _onchain(
    "/hip3-analytics/oi-trends/dex", "hip3_oi_trends_dex", "Open interest of one dex by day.", _ONE_DEX, RANGE
)
HIP3_CANDLES = _onchain(
    "/hip3-analytics/candles",
    "hip3_candles",
    "Open, high, low, close and volume of one coin.",
    *(_COIN, _INTERVAL, LIMIT, START, END, RANGE),
)
HIP4_DASHBOARD = _onchain(
    "/hip4-analytics/dashboard", "hip4_dashboard", "HIP-4 at a glance.", RANGE, _OUT_OR_SKEW
)
HIP4_OUTCOME = _onchain(
    "/hip4-analytics/outcome/{outcome_id}",
    "hip4_outcome",
    "One outcome of HIP-4.",
    *(_OUTCOME, RANGE, _OUT_OR_SKEW),
)
HIP4_OI_EOD = _onchain(
    "/hip4-analytics/oi-eod", "hip4_oi_eod", "Open interest at the end of each day.", START, _OUT_OR_SKEW
)
HIP4_LEADERBOARD = _onchain(
    "/hip4-analytics/leaderboard", "hip4_leaderboard", "Largest traders.", LIMIT, RANGE, _OUT_OR_SKEW
)
BUILDERS_DASHBOARD = _onchain(
    "/builder-analytics/dashboard", "builders_dashboard", "Builders at a glance.", RANGE
)


ENDPOINTS: tuple[Endpoint, ...] = tuple(value for value in globals().values() if isinstance(value, Endpoint))


@lru_cache(maxsize=1024)
def endpoint_of(path: str) -> Endpoint | None:
    """Return the endpoint that a request path belongs to, or None; exact paths are tried before templates."""
    candidates = [endpoint for endpoint in ENDPOINTS if endpoint.matches(path)]
    return min(candidates, key=lambda endpoint: endpoint.path.count("{"), default=None)
