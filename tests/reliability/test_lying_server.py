"""A server whose answers are plausible and wrong: each lie is found by its rule, and none stays in the cache.

The server between the client and the sample changes the JSON of an answer. Every fetcher meets every lie that
its answer has room for.
"""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request as Ask
from urllib.request import urlopen

import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.client.rules import RULES
from derivdata.client.transport import SESSION
from derivdata.errors import DataNotice, SchemaError
from derivdata.tables import endpoints
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK
from tests.support import faults
from tests.test_fetch import FAMILIES
from tests.transport.conftest import KEY, Open
from tests.transport.server import Asked, Reply, serving

DAY = ("2026-06-01", "2026-06-02")
OKX = {"venues": ["okx"]}
STEP = {"resolution": "4h"}
NOON = pd.Timestamp("2026-06-30T12:00", tz="UTC")

CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "funding.snapshot": ((), {}),
    "funding.metadata": ((), {}),
    "funding.history": (("BTC", *DAY), OKX | STEP),
    "funding.settlements": (("BTC", *DAY), OKX),
    "markets.symbols": ((), OKX),
    "markets.price_movers": ((), {"limit": 2}),
    "markets.funding_leaders": ((), OKX),
    "markets.price_buckets": ((), OKX),
    "markets.exchanges": ((), {}),
    "markets.exchange_symbols": (("okx",), {}),
    "markets.symbol_exchanges": (("BTC",), {}),
    "markets.symbol_stats": (("BTC",), {}),
    "markets.exchange_history": (("okx", *DAY), {}),
    "oi.exchanges": ((), {}),
    "oi.sparklines": ((), {}),
    "oi.history": (("BTC", *DAY), OKX | STEP),
    "oi.exchange_totals": (DAY, OKX | STEP),
    "oi.top_symbols": (("okx", *DAY), {"limit": 2}),
    "volume.history": (("BTC", *DAY), OKX | STEP),
    "volume.exchange_totals": (DAY, OKX | STEP),
    "volume.top_symbols": (("okx", *DAY), {"limit": 2}),
    "volume.oi_ratio": (DAY, OKX | STEP | {"window_days": 1}),
    "liquidations.events": ((), {"since": "3h", "limit": 4000, "symbols": ["BTC", "ETH"]}),
    "liquidations.poll": (("10m",), {"limit": 400, "venues": ["binance", "okx", "bybit"]}),
    "liquidations.history": (DAY, STEP),
    "liquidations.aggregates": (("4h",), {"group_by": "exchange"}),
    "options.snapshot": (("BTC", "deribit"), {}),
    "options.surface": (("BTC", "deribit"), {}),
    "options.metrics": (("BTC", "deribit"), {}),
    "options.atm_history": (("BTC", "deribit", "6h"), {}),
    "options.surface_history": (("BTC", "deribit", "3h"), {}),
    "options.overview_history": (("6h",), {}),
    "orderbook.book": (("BTC", "binance"), {"limit": 3}),
    "orderbook.depth_history": (("BTC", "binance", *DAY), STEP),
    "prices.history": (("BTC", *DAY), OKX | STEP),
    "rwa.market_hours": (("XNYS",), {}),
    "hip3.dashboard": (("1d",), {}),
    "hip3.dex_detail": (("xyz", "1d"), {}),
    "hip3.by_dex": (("1d",), {}),
    "hip3.by_symbol": (("1d",), {"dex": "xyz", "limit": 2}),
    "hip3.timeseries_symbol": (("1d",), {"symbol": "xyz:TSLA"}),
    "hip3.timeseries_dex_breakdown": (("1d",), {"dex": "xyz"}),
    "hip3.leaderboard": (("1d",), {"limit": 2}),
    "hip3.oi_trends_total": (("1d",), {}),
    "hip3.oi_trends_dex": (("xyz", "1d"), {}),
    "hip3.candles": (("xyz:TSLA", *DAY), {}),
    "hip4.dashboard": (("1d",), {"venue": "out"}),
    "hip4.outcome": (("108", "7d"), {}),
    "hip4.oi_eod": (("2026-06-28",), {}),
    "hip4.leaderboard": (("1d",), {"limit": 2}),
    "builders.dashboard": (("1d",), {}),
}
"""A call of every fetcher with an answer of one request, small and not empty."""

Body = dict[str, Any]


class Unfit(Exception):
    """The answer has no room for this lie."""


def need(condition: object) -> None:
    if not condition:
        raise Unfit


# What a lie changes.


def rows_of(body: Body) -> list[Body]:
    """The objects that an answer's lists hold, at any depth."""
    found: list[Body] = []

    def walk(value: Any, *, row: bool) -> None:
        if isinstance(value, dict):
            if row and not any(isinstance(v, list) and v and isinstance(v[0], dict) for v in value.values()):
                found.append(value)
            for item in value.values():
                walk(item, row=False)
        elif isinstance(value, list):
            for item in value:
                walk(item, row=True)

    walk(body, row=False)
    return found


def series_of(body: Body) -> Body:
    """Rows by venue, for answers of that shape."""
    for name in ("series", "data"):
        if isinstance(body.get(name), dict):
            return body[name]  # type: ignore[no-any-return]
    raise Unfit


STAMPS = ("timestamp", "t", "date", "hour")


def stamped(body: Body) -> list[Body]:
    found = [row for row in rows_of(body) if any(isinstance(row.get(n), str) for n in STAMPS)]
    need(found)
    return found


def shift(row: Body, days: float) -> None:
    for name in STAMPS:
        if isinstance(row.get(name), str):
            moved = pd.Timestamp(row[name]) + pd.Timedelta(days, "D")
            row[name] = moved.strftime("%Y-%m-%dT%H:%M:%SZ")


def other_echo(name: str, value: Any, body: Body, query: Body) -> None:
    need(name in body and isinstance(body[name], str | int))
    asked = {"dex_name": "dex", "period": "range"}.get(name, name)
    need(asked in query)
    body[name] = value


def other_filter(body: Body, query: Body) -> None:
    need(isinstance(body.get("exchanges_filter"), list))
    body["exchanges_filter"] = ["bybit"]


def other_venue(body: Body, query: Body) -> None:
    need("exchanges" in query or "exchange" in query)
    for row in rows_of(body):
        if row.get("exchange") in ("okx", "binance"):
            row["exchange"] = "zo"
            return
    groups = series_of(body)
    groups["zo"] = groups.pop(next(iter(groups)))


def other_symbol(body: Body, query: Body) -> None:
    need("symbol" in query and "events" in body)
    rows_of(body)[0]["symbol"] = "DOGE"


def other_dex(body: Body, query: Body) -> None:
    for asked, names in {"dex": ("dex", "dex_name"), "venue": ("venue",)}.items():
        for row in rows_of(body) if asked in query else ():
            for name in names:
                if name in row:
                    row[name] = "flx"
                    return
    raise Unfit


def other_exchange(body: Body, query: Body) -> None:
    need("sessions" in body.get("exchanges", [{}])[0])
    body["exchanges"][0] |= {"id": "lse", "short_name": "LSE", "mic": "XLON"}


def twice(body: Body, query: Body) -> None:
    need("exchanges" not in query and "exchange" not in query)
    groups = body.get("funding_rates")
    if isinstance(groups, dict):
        groups["OKX"] = groups["okx"]
        return
    for row in rows_of(body):
        if row.get("exchange") == "okx":
            place = next(v for v in body.values() if isinstance(v, list) and row in v)
            place.append(row | {"exchange": "OKX ", "rank": 99, "oid": "x1"})
            return
    raise Unfit


def unit(word: str, body: Body, query: Body) -> None:
    need("unit" in body)
    body["unit"] = word


def resolution(word: str | None, body: Body, query: Body) -> None:
    need("resolution" in body and "resolution" in query)
    if word is None:
        endpoint = endpoints.endpoint_of(query["path"])
        need(endpoint and endpoint.states_resolution)
        del body["resolution"]
    else:
        body["resolution"] = word


def negative(body: Body, query: Body) -> None:
    wanted = re.compile(
        r"open_interest(_usd)?|total_open_interest_usd|(total_)?volume(_usd|_24h_usd)?|(total_)?oi_usd"
        r"|oi_contracts|usd_value|long_usd|atm_iv|iv|(bid|ask)_depth_10bps_usd|notional_oi_usd|price_usd|high|count|symbol_count"
    )
    for row in rows_of(body):
        for name, value in row.items():
            if wanted.fullmatch(name) and isinstance(value, int | float) and value:
                row[name] = -value
                if "sparkline_7d" in row:
                    row["sparkline_7d"][0] *= -1
                return
    if body.get("bids"):
        body["bids"][0][1] *= -1
        return
    if "timeseries" in body and "symbols" in body:
        row = body["timeseries"][0]
        row[body["symbols"][0]] = -1.0
        return
    need("price_usd" in body)
    body["price_usd"] *= -1


def price(value: float, body: Body, query: Body) -> None:
    need(body.get("kind") in ("mark", "index", "last"))
    series_of(body)["okx"][0]["y"] = value


def other_window(body: Body, query: Body) -> None:
    need("start" in query or "since" in query or ("range" in query and "success" not in body))
    need("success" not in body or "coin" in body)
    need("day" not in rows_of(body)[0])
    for row in stamped(body):
        shift(row, -900)
    for name in ("snapshots",):
        if name in body:
            body[name] = {
                (pd.Timestamp(k) - pd.Timedelta(900, "D")).strftime("%Y-%m-%dT%H:%M:%SZ"): v
                for k, v in body[name].items()
            }


def old_snapshots(body: Body, query: Body) -> None:
    need("snapshots" in body)
    body["snapshots"] = {f"2020-01-{n:02d}": v for n, v in enumerate(body["snapshots"].values(), 1)}


def edge(body: Body, query: Body) -> None:
    need("start" in query and "end" in query)
    rows = stamped(body)
    more = copy.deepcopy(rows[0])
    for name in STAMPS:
        if name in more:
            more[name] = query["end"][0]
    for value in [*body.values(), *(series_of(body).values() if "series" in body else ())]:
        if isinstance(value, list) and value and value[0] is rows[0]:
            value.append(more)
            return
    raise Unfit


def not_an_instant(word: str, body: Body, query: Body) -> None:
    for row in rows_of(body):
        for name in STAMPS:
            if isinstance(row.get(name), str) and "success" not in body:
                row[name] = word
                return
    need(isinstance(body.get("timestamp"), str) and "success" not in body)
    body["timestamp"] = word


def nothing(body: Body, query: Body) -> None:
    need("start" in query or "range" in query)
    need("success" not in body and "groups" not in body)
    for name in ("series", "data", "timeseries", "snapshots"):
        if name in body:
            body[name] = type(body[name])()
            return
    raise Unfit


def old_time(body: Body, query: Body) -> None:
    need(isinstance(body.get("timestamp"), str))
    body["timestamp"] = (pd.Timestamp(body["timestamp"]) - pd.Timedelta(365, "D")).strftime(
        "%Y-%m-%d %H:%M:%S"
    )


def option(change: dict[str, Any], body: Body, query: Body) -> None:
    need("instruments" in body)
    row = body["instruments"][10]
    row |= {name: value(row) if callable(value) else value for name, value in change.items()}


def date_only(body: Body, query: Body) -> None:
    rows = [row for row in rows_of(body) if isinstance(row.get("expiry"), str)]
    need(rows)
    for row in rows:
        row["expiry"] = row["expiry"][:10]


def minutes(value: float, body: Body, query: Body) -> None:
    rows = [row for row in rows_of(body) if "intervalMinutes" in row]
    need(rows)
    for row in rows:
        row["intervalMinutes"] = value


def raw_rate(factor: Any, body: Body, query: Body) -> None:
    need("funding_rates_raw" in body)
    natives, rates = body["funding_rates_raw"]["binance"], body["funding_rates"]["binance"]
    symbol = max(natives.keys() & rates.keys(), key=lambda s: abs(rates[s]))
    natives[symbol] = factor if isinstance(factor, str) else str(float(natives[symbol]) * factor)


def high_rate(body: Body, query: Body) -> None:
    if "funding_rates" in body:
        body["funding_rates"]["okx"]["BTC"] = -2048.0
        body["funding_rates_raw"]["okx"].pop("BTC", None)
        return
    rows = [row for row in rows_of(body) if "y" in row]
    need(rows)
    rows[0]["y"] = 2048.0


def shares(factor: float, body: Body, query: Body) -> None:
    rows = [row for row in rows_of(body) if "market_share" in row]
    need(rows)
    for row in rows:
        row["market_share"] *= factor


def reversed_bids(body: Body, query: Body) -> None:
    need("bids" in body)
    body["bids"].reverse()


def swapped_sides(body: Body, query: Body) -> None:
    need("bids" in body)
    body["bids"], body["asks"] = body["asks"], body["bids"]


def crossed(body: Body, query: Body) -> None:
    need("bids" in body)
    for level in body["asks"]:
        level[0] -= 1e4


def more_than_asked(body: Body, query: Body) -> None:
    need("limit" in query)
    if "bids" in body:
        worst = body["bids"][-1][0]
        body["bids"] += [[worst - n, 1.0] for n in range(1, 7)]
    elif "gainers" in body:
        last = body["gainers"][-1]
        body["gainers"].append(last | {"symbol": "ZZZ", "rank": last["rank"] + 1})
    else:
        need("timeseries" in body and "symbols" in body)
        body["symbols"].append("ZZZ")
        for row in body["timeseries"]:
            row["ZZZ"] = 1.0


def old_orders(body: Body, query: Body) -> None:
    need("events" in body and "since" in query)
    for row in stamped(body):
        shift(row, -2000)


def other_range(body: Body, query: Body) -> None:
    need("range" in query and ("range" in body or "period" in body))
    for name in ("range", "period"):
        body[name] = "77d"


class Lie(NamedTuple):
    change: Callable[[Body, Body], None]
    rule: str
    words: str
    """What the message says, as a pattern."""


LIES: dict[str, Lie] = {
    "another symbol": Lie(partial(other_echo, "symbol", "LTC"), "another subject", "asked for symbol '"),
    "a symbol of the same letters": Lie(
        partial(other_echo, "symbol", "BTCDOM"), "another subject", "the answer is about 'BTCDOM'"
    ),
    "the symbol in small letters": Lie(
        partial(other_echo, "symbol", "btc"), "another subject", "about 'btc'"
    ),
    "another venue": Lie(partial(other_echo, "exchange", "kraken"), "another subject", "about 'kraken'"),
    "another dex": Lie(partial(other_echo, "dex_name", "flx"), "another subject", "asked for dex 'xyz'"),
    "another coin": Lie(partial(other_echo, "coin", "xyz:NVDA"), "another subject", "about 'xyz:NVDA'"),
    "another outcome": Lie(partial(other_echo, "outcome_id", "109"), "another subject", "about '109'"),
    "another interval": Lie(partial(other_echo, "interval", "4h"), "another subject", "asked for interval"),
    "another grouping": Lie(partial(other_echo, "group_by", "symbol"), "another subject", "about 'symbol'"),
    "another kind of price": Lie(partial(other_echo, "kind", "last"), "another subject", "about 'last'"),
    "another length": Lie(partial(other_echo, "window_days", 30), "another subject", "asked for window_days"),
    "another filter": Lie(other_filter, "another subject", "about 'bybit'"),
    "another range": Lie(other_range, "another range", "about range '77d'"),
    "rows of a venue that was not asked for": Lie(other_venue, "another subject", "rows are of zo"),
    "orders of another symbol": Lie(other_symbol, "another subject", "rows are of DOGE"),
    "rows of another dex": Lie(other_dex, "another subject", "rows are of"),
    "another exchange behind assets": Lie(other_exchange, "another exchange", "rows are of lse"),
    "a venue twice": Lie(twice, "one venue twice", "stands twice, as"),
    "coins": Lie(partial(unit, "coins"), "another unit", "the answer says 'coins'"),
    "native": Lie(partial(unit, "native"), "another unit", "the answer says 'native'"),
    "percent": Lie(partial(unit, "percent"), "another unit", "the answer says 'percent'"),
    "bushels": Lie(partial(unit, "bushels"), "unknown unit", "the answer says 'bushels', which is not known"),
    "no resolution": Lie(partial(resolution, None), "another resolution", "the answer names none"),
    "a finer step": Lie(partial(resolution, "1m"), "another resolution", "the answer has '1m'"),
    "a coarser step": Lie(partial(resolution, "1d"), "coarser resolution", "the answer has '1d'"),
    "a name of another symbol": Lie(
        partial(option, {"instrument_name": lambda r: "ETH" + r["instrument_name"][3:]}),
        "name against option",
        "an instrument is 'ETH-",
    ),
    "a name of another side": Lie(
        partial(option, {"side": lambda r: "put" if r["side"] == "call" else "call"}),
        "name against option",
        "has the side",
    ),
    "a name of another strike": Lie(
        partial(option, {"strike": lambda r: r["strike"] * 10}), "name against option", "has the strike"
    ),
    "a name of another day": Lie(
        partial(option, {"expiry": "2027-09-24T08:00:00Z"}), "name against option", "expires on 2027-09-24"
    ),
    "expired options": Lie(
        partial(option, {"expiry": "2020-06-26T08:00:00Z", "instrument_name": "an option"}),
        "expired option",
        "1 instruments expired",
    ),
    "a negative figure": Lie(negative, "impossible figure", "it cannot be below 0"),
    "a negative price": Lie(
        partial(price, -1.0), "impossible figure", "price_usd is -1; it cannot be below 0"
    ),
    "a price of zero": Lie(partial(price, 0.0), "impossible figure", "price_usd is 0; it must be above 0"),
    "a negative strike": Lie(
        partial(option, {"strike": -360_000.0, "instrument_name": "an option"}),
        "impossible figure",
        "strike is -360000",
    ),
    "a negative volatility": Lie(partial(option, {"iv": -0.57}), "impossible figure", "iv is -0.57"),
    "no interval": Lie(partial(minutes, 0), "impossible figure", "interval_hours is 0; it must be above 0"),
    "a negative interval": Lie(
        partial(minutes, -480), "impossible figure", "interval_hours is -8; it cannot"
    ),
    "an interval of ages": Lie(partial(minutes, 1e9), "impossible figure", "it cannot be above 168: a week"),
    "hours for minutes": Lie(partial(minutes, 8), "interval against spacing", "each is for 0.133"),
    "eight hours for one": Lie(partial(minutes, 60), "unlikely spacing", "each is for 1 hours"),
    "a raw rate of nothing": Lie(partial(raw_rate, 5.0), "raw rate against rate", "agree by no reading"),
    "shares in percent": Lie(partial(shares, 100.0), "impossible figure", "shares are fractions from 0 to 1"),
    "half of the shares": Lie(partial(shares, 0.5), "shares that do not add up", r"add up to 0\.500"),
    "bids from the worst": Lie(reversed_bids, "unsorted book", "the bids are not sorted"),
    "sides that are swapped": Lie(swapped_sides, "unsorted book", "are not sorted from the best"),
    "a crossed book": Lie(crossed, "crossed book", "the book is crossed"),
    "more than was asked for": Lie(more_than_asked, "more than the limit", "the others were cut"),
    "another window": Lie(other_window, "another window", "rows are of 202"),
    "another window of surfaces": Lie(old_snapshots, "another window", "rows are of 2020"),
    "orders of years ago": Lie(old_orders, "another window", "rows are of 20"),
    "a row at the end": Lie(edge, "edge of the window", "dropped: it is half-open"),
    "a date for an expiry": Lie(date_only, "date as expiry", "taken as 08:00 UTC"),
    "a time of a year ago": Lie(old_time, "old snapshot", "hours before its Date"),
    "a rate of 20 percent": Lie(high_rate, "high rate", "beyond 4 % per interval"),
    "no rows": Lie(nothing, "", "has no rows, and no notice"),
    "now": Lie(partial(not_an_instant, "now"), "", "is not"),
    "today": Lie(partial(not_an_instant, "today"), "", "is not"),
    "a bare year": Lie(partial(not_an_instant, "2026"), "", "is not"),
    "a year and a month": Lie(partial(not_an_instant, "2026-06"), "", "is not"),
    "digits in a row": Lie(partial(not_an_instant, "20260601"), "", "is not"),
    "a number with a line": Lie(partial(raw_rate, "1_000"), "", "'1_000' is not a number"),
}
UNREAD = {
    ("oi.sparklines", "shares in percent"),
    ("oi.sparklines", "half of the shares"),
    ("prices.history", "a rate of 20 percent"),
}
"""Lies about fields that are no part of the table, or are no rates in it: 2,048 is a price like another."""

NOTICES = {rule.name for rule in RULES if rule.outcome == "notice"}
"""Rules whose breach leaves the table."""


@dataclass
class Liar:
    """What the server between changes, and how often it was asked."""

    upstream: str
    lie: Callable[[Body, Body], None] | None = None
    fitting: bool = False
    asked: int = 0

    def __post_init__(self) -> None:
        self._honest: dict[str, bytes] = {}

    def answer(self, request: Asked) -> Reply:
        if request.method == "HEAD":
            return Reply(b"", date=NOON)
        self.asked += 1
        # A question that starts now is another one at each call; the sample's clock stands.
        if request.path not in self._honest:
            ask = Ask(self.upstream + request.path, headers={"X-Api-Key": KEY})
            with urlopen(ask, timeout=600) as reply:
                self._honest[request.path] = reply.read()
        body = json.loads(self._honest[request.path])
        if self.lie is not None:
            url = urlsplit(request.path)
            query: Body = parse_qs(url.query) | {"path": url.path}
            parts = url.path.strip("/").split("/")
            if parts[0] in ("oi", "volume", "markets") and "BTC" in parts:
                query["symbol"] = ["BTC"]
            if parts[:2] == ["markets", "exchanges"] and "okx" in parts:
                query["exchange"] = ["okx"]
            if "outcome" in parts:
                query["outcome_id"] = [parts[-1]]
            try:
                self.lie(body, query)
                self.fitting = True
            except (Unfit, IndexError, KeyError, StopIteration):
                self.fitting = False
        return Reply(json.dumps(body).encode(), date=NOON)


@pytest.fixture(scope="module")
def liar() -> Iterator[tuple[Liar, str]]:
    with faults.serve({KEY: "team"}) as url:
        made = Liar(url)
        with serving(made.answer) as server:
            yield made, server.url


def fetch(name: str) -> Any:
    family, function = name.split(".")
    args, options = CALLS[name]
    found = getattr(getattr(dd, family), function)(*args, **options)
    return next(found) if name == "liquidations.poll" else found


def honest(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        return fetch(name)


def outcome(name: str) -> tuple[Any, SchemaError | None, list[str]]:
    """The table, or the error, and the notices."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        try:
            table = fetch(name)
            return table, None, [str(w.message) for w in caught]
        except SchemaError as error:
            return None, error, []


def same(one: Any, other: Any) -> bool:
    if isinstance(one, xr.Dataset):
        return bool(one.drop_attrs().identical(other.drop_attrs()))
    return bool(one.equals(other))


def test_every_fetcher_meets_the_liar_and_every_rule_has_a_lie_that_is_told() -> None:
    public = {f"{family}.{name}" for family, module in FAMILIES.items() for name in module.__all__}
    assert set(CALLS) == public
    assert {lie.rule for lie in LIES.values()} == {rule.name for rule in RULES} | {""}
    assert {lie for name in CALLS for lie in chosen(name)} == set(LIES)


def chosen(name: str) -> list[str]:
    """The lies to a fetcher: in the gate a quarter of its rules, different ones for each."""
    lies = [lie for lie in LIES if (name, lie) not in UNREAD]
    start = sorted(CALLS).index(name)
    return lies if SOAK else [lie for place, lie in enumerate(lies) if (place + start) % 4 == 0]


@pytest.fixture(scope="module")
def tally() -> Counter[str]:
    """How many lies each fetcher was told."""
    return Counter()


@pytest.mark.parametrize("name", CALLS)
def test_a_lie_is_found_and_not_kept(
    name: str, liar: tuple[Liar, str], opened: Open, monkeypatch: pytest.MonkeyPatch, tally: Counter[str]
) -> None:
    server, url = liar
    connection = opened(url, paced=False)
    monkeypatch.setattr(SESSION, "connection", connection)
    server.lie = None
    truth = honest(name)
    for title in chosen(name):
        lie = LIES[title]
        connection = opened(url, paced=False, cache="refresh")
        monkeypatch.setattr(SESSION, "connection", connection)
        server.lie, server.fitting = lie.change, False
        is_notice = lie.rule in NOTICES or title == "no rows"
        table, error, warned = outcome(name)
        if not server.fitting:
            assert error is None, (title, error)
            continue
        tally[name] += 1
        if is_notice:
            assert error is None, (title, error)
            assert any(re.search(lie.words, text) for text in warned), (title, warned)
            assert any(re.search(lie.words, text) for text in dd.provenance(table)["notices"]), title
            continue
        assert error is not None, f"{title}: the lie became a table"
        assert re.search(lie.words, str(error)), (title, str(error))
        # What broke a rule is asked for again, and an honest answer is the table.
        server.lie, before = None, server.asked
        monkeypatch.setattr(SESSION, "connection", opened(url, paced=False))
        assert same(honest(name), truth), title
        assert server.asked > before, f"{title}: the lie was kept in the cache"


def test_lies_were_told(tally: Counter[str], measured: Measured) -> None:
    assert len(tally) > len(CALLS) / 2
    measured(
        "lying server",
        f"{len(tally)} fetchers, {tally.total()} lies: 0 tables from a contradiction, 0 kept",
    )


def test_a_lie_that_a_killed_process_left_in_the_cache_is_found_when_it_is_read(
    liar: tuple[Liar, str], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer is stored before it is checked: a process may end in between."""
    server, url = liar
    server.lie = LIES["another symbol"].change
    monkeypatch.setattr(SESSION, "connection", opened(url, paced=False))
    with monkeypatch.context() as killed:
        killed.setattr(SESSION, "forget", lambda request: None)
        assert outcome("funding.history")[1] is not None
    server.lie, before = None, server.asked
    monkeypatch.setattr(SESSION, "connection", opened(url, paced=False))
    error = outcome("funding.history")[1]
    assert error is not None
    assert "asked for symbol 'BTC'" in str(error)
    assert server.asked == before, "it was to come from the cache"
    assert set(honest("funding.history")["symbol"]) == {"BTC"}
    assert server.asked > before
