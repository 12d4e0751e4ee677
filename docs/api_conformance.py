"""Sentences of the API document, each with a request and the local service's response to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import requests

from derivdata.sources import service

__all__ = ["CASES", "COLUMNS", "Case", "rows"]

COLUMNS = ("section", "the document", "request", "response of the local service")

_SECONDS = 120
_KEYS = {f"key-{tier}": tier for tier in ("free", "dev", "pro", "team")}
_AFTER_SUNSET = "2026-07-21"


class Case(NamedTuple):
    """One sentence, the request that tries it, and the figures of the response that show it."""

    section: str
    sentence: str
    request: str
    show: Callable[[requests.Response], str]
    tier: str = "pro"
    now: str = ""


def _field(path: str) -> Callable[[requests.Response], str]:
    """Show a value of the body: names and positions joined by dots; ``#`` counts."""

    def shown(response: requests.Response) -> str:
        value: Any = response.json()
        for name in path.split("."):
            if name == "#":
                value = len(value)
            elif isinstance(value, list):
                value = value[int(name)]
            else:
                value = value[name]
        return f"`{path}` = {value}"

    return shown


def _error(response: requests.Response) -> str:
    return str(response.json()["error"])


def _headers(*names: str) -> Callable[[requests.Response], str]:
    return lambda response: "; ".join(f"`{name}: {response.headers[name]}`" for name in names)


def _names(response: requests.Response) -> str:
    return f"fields {', '.join(f'`{name}`' for name in response.json())}"


def _times(response: requests.Response) -> str:
    points = next(iter(response.json()["series"].values()))
    return f"{points[0]['timestamp']} to {points[-1]['timestamp']}"


def _raw_against_bps(response: requests.Response) -> str:
    body = response.json()
    venue, symbol = "hyperliquid", "BTC"
    hours = body["funding_intervals"][venue][symbol]
    ratio = body["funding_rates"][venue][symbol] / (float(body["funding_rates_raw"][venue][symbol]) * 1e4)
    return f"hyperliquid pays every {hours} h; `funding_rates` / (`funding_rates_raw` × 10,000) = {ratio:.4g}"


def _min_volume(response: requests.Response) -> str:
    body = response.json()
    counts = f"{len(body['gainers'])} gainers, {len(body['losers'])} losers"
    return f"{counts}; first rank {body['gainers'][0]['rank']}"


def _order(response: requests.Response) -> str:
    totals = [row["total_oi_usd"] for row in response.json()["exchanges"]]
    shares = sum(row["market_share"] for row in response.json()["exchanges"])
    ranked = "largest first" if totals == sorted(totals, reverse=True) else "not ranked"
    return f"{len(totals)} rows, {ranked}; market shares add up to {shares:.4f}"


_HISTORY = "/funding/historical?symbol=BTC&exchanges=binance"
_LEGACY = ("Deprecation", "Sunset", "Link")

CASES = (
    Case(
        "1.4",
        "Venues with a 1-hour native interval have their rate multiplied by 8.",
        "/funding",
        _raw_against_bps,
    ),
    Case(
        "2.1",
        "On the Free tier only the symbols BTC and ETH are returned.",
        "/funding",
        _field("symbols"),
        "free",
    ),
    Case(
        "2.3",
        "`t` is the same value as `timestamp`.",
        f"{_HISTORY}&resolution=1h",
        lambda r: (
            f"{sum(p['t'] == p['timestamp'] for p in r.json()['series']['binance'])} of "
            f"{len(r.json()['series']['binance'])} points are equal"
        ),
    ),
    Case(
        "2.3",
        "A no-data notice mentions the start of historical funding.",
        "/funding/historical?symbol=NOPE",
        _field("notices.0"),
    ),
    Case(
        "2.3",
        "The notice names a venue that has no rows.",
        "/funding/historical?symbol=BTC&exchanges=kinetiq",
        _field("notices.0"),
    ),
    Case("4.2", "Free receives 403.", "/funding/metadata", _error, "free"),
    Case("4.3", "Start defaults to end minus 7 days.", f"{_HISTORY}&end=2026-06-20T00:00:00Z", _times),
    Case(
        "4.3",
        "End defaults to the current time; without a resolution, 7 days have 4-hour buckets.",
        _HISTORY,
        _field("resolution"),
    ),
    Case(
        "4.3", "Under 7 days: hourly buckets.", f"{_HISTORY}&start=2026-06-25T00:00:00Z", _field("resolution")
    ),
    Case("4.3", "Under 24 hours: raw.", f"{_HISTORY}&start=2026-06-30T00:00:00Z", _field("resolution")),
    Case(
        "4.3",
        "Dev: a start before the floor is raised to it, with a notice.",
        f"{_HISTORY}&start=2026-05-01T00:00:00Z",
        _field("notices.0"),
        "dev",
    ),
    Case(
        "4.3",
        "Dev: an end in the future is set to now.",
        f"{_HISTORY}&end=2027-01-01T00:00:00Z",
        _field("notices.0"),
        "dev",
    ),
    Case("4.3", "400: missing symbol.", "/funding/historical", _error),
    Case("4.3", "400: invalid date format.", f"{_HISTORY}&start=yesterday", _error),
    Case(
        "4.3", "400: unrecognized exchange slug.", "/funding/historical?symbol=BTC&exchanges=nasdaq", _error
    ),
    Case(
        "4.3",
        "403: Dev range entirely before the window.",
        f"{_HISTORY}&start=2026-03-01T00:00:00Z&end=2026-03-08T00:00:00Z",
        _error,
        "dev",
    ),
    Case(
        "4.3", "403: Dev range entirely after now.", f"{_HISTORY}&start=2027-01-01T00:00:00Z", _error, "dev"
    ),
    Case("4.4", "Dev receives the top 200 symbols by OI.", "/markets/symbols", _field("symbols.#"), "dev"),
    Case("4.4", "`exchanges` filters.", "/markets/symbols?exchanges=binance,okx", _field("exchanges_filter")),
    Case(
        "4.5",
        "Both lists are ranked from 1; the minimum volume is 10,000,000 USD.",
        "/markets/price-movers",
        _min_volume,
    ),
    Case("4.6", "Up to 10 entries.", "/markets/funding-leaders", _field("data.#")),
    Case(
        "4.6",
        "`exchanges_filter` is null when no filter was given.",
        "/markets/funding-leaders",
        _field("exchanges_filter"),
    ),
    Case("4.7", "Rows are ranked by OI, largest first.", "/oi/exchanges-summary", _order),
    Case("4.8", "Response: events and count.", "/liquidations/events?limit=5", _field("count")),
    Case(
        "4.8",
        "400 when both `symbol` and `exclude_symbol` are given.",
        "/liquidations/events?symbol=BTC&exclude_symbol=ETH",
        _error,
    ),
    Case("4.9", "Options endpoints require an explicit exchange.", "/options/snapshot", _error, "free"),
    Case(
        "4.9",
        "Unsupported pairs return 400; there is no fallback.",
        "/options/snapshot?symbol=DOGE&exchange=okx",
        _error,
    ),
    Case(
        "4.10",
        "Options histories accept 1d through 90d; only Pro and Team may ask for more.",
        "/options/surface-history?symbol=BTC&exchange=deribit&range=91d",
        _error,
        "dev",
    ),
    Case(
        "4.10",
        "Options histories keep `days` and return `range`.",
        "/options/atm-history?symbol=BTC&exchange=deribit&range=2d",
        lambda r: f"`days` = {r.json()['days']}, `range` = {r.json()['range']}",
    ),
    Case(
        "4.10",
        "Aggregates keep `period` and return `range`.",
        "/liquidations/aggregates?range=4h",
        lambda r: f"`period` = {r.json()['period']}, `range` = {r.json()['range']}",
    ),
    Case(
        "4.10",
        "`range` must not be combined with `start` or `end`.",
        "/oi/BTC/timeseries?range=7d&start=2026-06-20T00:00:00Z",
        _error,
    ),
    Case(
        "4.10", "Histories include `unit`, `resolution` and `notices`.", "/oi/BTC/timeseries?range=1d", _names
    ),
    Case(
        "4.10",
        "Dev order books of the past are clamped to 30 days.",
        "/orderbook/book?symbol=BTC&exchange=binance&end=2026-03-01T00:00:00Z",
        _error,
        "dev",
    ),
    Case("4.10", "Trading hours: Pro tier.", "/rwa/market-hours", _error, "dev"),
    Case("5.7", "Missing or invalid key: 401.", "/funding", _error, ""),
    Case(
        "9.4",
        "Legacy parameters are accepted until July 21, 2026, with four headers.",
        "/oi/BTC/timeseries?period=7d",
        _headers(*_LEGACY, "Warning"),
    ),
    Case(
        "9.4",
        "Legacy parameters are refused after that.",
        "/oi/BTC/timeseries?period=7d",
        _error,
        now=_AFTER_SUNSET,
    ),
    Case(
        "9.5",
        "Legacy paths return `Deprecation`, `Sunset` and a `Link` to the canonical path.",
        "/volume/coin?coin=BTC&range=1d",
        _headers(*_LEGACY),
    ),
    Case("9.5", "Legacy paths are refused after that.", "/oi/coin?coin=BTC", _error, now=_AFTER_SUNSET),
)


@contextmanager
def _services() -> Iterator[Callable[[str], str]]:
    """Serve the sample at each clock that a case needs; yield a function from clocks to addresses."""
    with (
        closing(service.start("sample", keys=_KEYS)) as current,
        closing(service.start("sample", keys=_KEYS, now=_AFTER_SUNSET)) as late,
    ):
        yield lambda now: (late if now else current).url


def rows() -> list[tuple[str, str, str, str]]:
    """Request every case; return section, sentence, request and response, ready for a table."""
    made = []
    with _services() as address:
        for case in CASES:
            headers = {"X-Api-Key": f"key-{case.tier}"} if case.tier else {}
            response = requests.get(address(case.now) + case.request, headers=headers, timeout=_SECONDS)
            who = case.tier.title() or "no key"
            clock = f", clock {case.now}" if case.now else ""
            request = f"`{re.sub(r'T00:00:00Z', '', case.request)}` ({who}{clock})"
            made.append(
                (case.section, case.sentence, request, f"{response.status_code}: {case.show(response)}")
            )
    return made
