"""Plausible but wrong responses: each error is found by its rule and never cached.

Between the client and the sample the JSON of a response is changed: by the changes of a list, each for
applicable fetchers, and by changes of each number and word in turn. `UNSEEN` lists the fields that a response
cannot verify.
"""

from __future__ import annotations

import copy
import json
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request as Ask
from urllib.request import urlopen

import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.client import earlier
from derivdata.client.rules import RULES
from derivdata.client.transport import SESSION, Response
from derivdata.errors import DataNotice, SchemaError
from derivdata.tables import endpoints
from derivdata.tables.endpoints import Request
from tests.reliability.calls.fetchers import FETCHERS as CALLS
from tests.reliability.conftest import Measured
from tests.reliability.promises import SOAK
from tests.support import faults
from tests.test_fetch import FAMILIES
from tests.transport.conftest import KEY, Open
from tests.transport.server import ReceivedRequest, Reply, serving

NOON = pd.Timestamp("2026-06-30T12:00", tz="UTC")

Body = dict[str, Any]


Change = Callable[[Body, Body], object]
"""Changes a response in place, given the parameters of its request."""


class Unfit(Exception):
    """The change does not apply to the response."""


def need(condition: object) -> None:
    if not condition:
        raise Unfit


def only(condition: Callable[[Body], object], change: Change) -> Change:
    """A change of the responses that fulfil a condition."""

    def made(body: Body, query: Body) -> None:
        need(condition(body))
        change(body, query)

    return made


# What a lie changes.


def rows_of(body: Body) -> list[Body]:
    """The objects that a response's lists hold, at any depth."""
    results: list[Body] = []

    def walk(value: Any, *, row: bool) -> None:
        if isinstance(value, dict):
            if row and not any(isinstance(v, list) and v and isinstance(v[0], dict) for v in value.values()):
                results.append(value)
            for item in value.values():
                walk(item, row=False)
        elif isinstance(value, list):
            for item in value:
                walk(item, row=True)

    walk(body, row=False)
    return results


def series_of(body: Body) -> Body:
    """Return the rows by venue, for responses of that shape."""
    for name in ("series", "data"):
        if isinstance(body.get(name), dict):
            return body[name]  # type: ignore[no-any-return]
    raise Unfit


STAMPS = ("timestamp", "t", "date", "hour")


def stamped(body: Body) -> list[Body]:
    results = [row for row in rows_of(body) if any(isinstance(row.get(n), str) for n in STAMPS)]
    need(results)
    return results


def shift(row: Body, days: float) -> None:
    for name in STAMPS:
        if isinstance(row.get(name), str):
            moved = pd.Timestamp(row[name]) + pd.Timedelta(days, "D")
            row[name] = moved.strftime("%Y-%m-%dT%H:%M:%SZ")


def other_echo(name: str, value: Any, body: Body, query: Body) -> None:
    need(name in body and isinstance(body[name], type(value)))
    need({"dex_name": "dex", "exchanges_filter": "exchanges"}.get(name, name) in query)
    body[name] = value


def other_row(name: str, word: str, body: Body, query: Body) -> None:
    need(name in query)
    next(row for row in rows_of(body) if name in row)[name] = word


def other_venue(body: Body, query: Body) -> None:
    need("exchanges" in query or "exchange" in query)
    for row in rows_of(body):
        if row.get("exchange") in ("okx", "binance"):
            row["exchange"] = "zo"
            return
    groups = series_of(body)
    groups["zo"] = groups.pop(next(iter(groups)))


def other_exchange(body: Body, query: Body) -> None:
    need("sessions" in body.get("exchanges", [{}])[0])
    body["exchanges"][0] |= {"id": "lse", "short_name": "LSE", "mic": "XLON"}


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
            body |= {"count": 0} if "count" in body else {}
            return
    raise Unfit


def lists_of(body: Body, query: Body) -> dict[str, list[Body]]:
    """Rows at times, by venue where the body has them so, else as one list under \"\"."""
    need("success" not in body and ("start" in query or "range" in query))
    for name in ("series", "data"):
        if isinstance(body.get(name), dict):
            return body[name]  # type: ignore[no-any-return]
    for name in ("data", "timeseries"):
        if isinstance(body.get(name), list):
            need(body[name] and isinstance(body[name][0], dict))
            return {name: body[name]}
    raise Unfit


def kept_where(kept: Callable[[float, Body], bool], body: Body, query: Body) -> None:
    """Remove the rows at places of the window (0 is its first row, 1 its last one), by a condition."""
    lists = lists_of(body, query)
    stamps = sorted({stamp_of(row) for rows in lists.values() for row in rows})
    need(len(stamps) > 5)
    need("exchanges" not in stamped(body)[0])  # liquidations: steps without one have no row
    span = stamps[-1] - stamps[0]
    for rows in lists.values():
        rows[:] = [row for row in rows if kept((stamp_of(row) - stamps[0]) / span, row)]
    body |= {"count": sum(map(len, lists.values()))} if "count" in body else {}


def false_interval(minutes: float, first: int, last: int, body: Body, query: Body) -> None:
    """Another interval in a run of payments."""
    for rows in series_of(body).values():
        need(len(rows) >= 3 and "intervalMinutes" in rows[0])
        for row in rows[first:last]:
            row["intervalMinutes"] = minutes


def off_the_hour(body: Body, query: Body) -> None:
    """Payments half an hour late."""
    for rows in series_of(body).values():
        need(rows and "intervalMinutes" in rows[0])
        for row in rows:
            shift(row, 0.5 / 24)


def other_unit_from(field: str, factor: float, start: float, body: Body, query: Body) -> None:
    """Multiply a field from a point of the window on."""
    for rows in lists_of(body, query).values():
        results = [row for row in rows if isinstance(row.get(field), int | float)]
        need(len(results) > 12 and len({str(row.get("exchange")) for row in results}) == 1)
        for row in results[int(start * len(results)) :]:
            row[field] *= factor


def unlisted(where: str, body: Body, query: Body) -> None:
    """Nothing of a venue or a symbol that the response lists."""
    need("funding_rates" in body)
    for name in ("funding_rates", "funding_rates_raw", "funding_intervals"):
        if where == "venue":
            body[name].pop("binance", None)
        for venue in body[name].values():
            if where == "symbol":
                venue.pop("BTC", None)


def old_time(body: Body, query: Body) -> None:
    need(isinstance(body.get("timestamp"), str))
    body["timestamp"] = (pd.Timestamp(body["timestamp"]) - pd.Timedelta(365, "D")).strftime(
        "%Y-%m-%d %H:%M:%S"
    )


def option(change: dict[str, Any], body: Body, query: Body) -> None:
    need("instruments" in body)
    row = body["instruments"][10]
    row |= {name: value(row) if callable(value) else value for name, value in change.items()}


def future(change: dict[str, str], body: Body, query: Body) -> None:
    rows = [row for row in rows_of(body) if "instrument_name" in row and "side" not in row]
    need(rows)
    rows[0] |= change


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
    rows[0]["y"] = 2048.0 if "intervalMinutes" in rows[0] else 8 * 2048.0


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


# Lies about figures, which other figures of the same response disprove.


def each(field: str, change: Callable[[Any], Any], body: Body, query: Body, *, every: int = 1) -> None:
    """Change a field of each row, or of every second row and so on."""
    results = [row for row in rows_of(body) if isinstance(row.get(field), int | float)]
    need(results)
    for row in results[::every]:
        row[field] = change(row[field])


def rows_at(body: Body, query: Body) -> list[list[Body]]:
    """Return lists of rows with times; for tables whose response has a resolution."""
    need("resolution" in body and "success" not in body and "snapshots" not in body)
    lists = [value for value in [*body.values(), *series_values(body)] if isinstance(value, list)]
    results = [rows for rows in lists if len(rows) > 3 and isinstance(rows[0], dict)]
    need(results)
    for rows in results:
        need(any(isinstance(rows[0].get(n), str) for n in STAMPS))
        need(len({str(r.get("exchange")) for r in rows}) == 1)
        need(len({str(r.get("expiry")) for r in rows}) == 1)
    return results


def series_values(body: Body) -> list[Any]:
    return [v for name in ("series", "data") if isinstance(body.get(name), dict) for v in body[name].values()]


def halved(body: Body, query: Body) -> None:
    """A row in the middle of each step, next to the others."""
    for rows in rows_at(body, query):
        step = (stamp_of(rows[1]) - stamp_of(rows[0])) / 2
        for row in [*rows[:-1]]:
            rows.append(copy.deepcopy(row))
            shift(rows[-1], step / pd.Timedelta(1, "D"))


def stamp_of(row: Body) -> pd.Timestamp:
    return pd.Timestamp(next(row[n] for n in STAMPS if isinstance(row.get(n), str)))


def aside(seconds: float, body: Body, query: Body) -> None:
    for rows in rows_at(body, query):
        for row in rows:
            shift(row, seconds / 86400)


def thinned(body: Body, query: Body) -> None:
    for rows in rows_at(body, query):
        need(len(rows) > 9)
        del rows[1::2]


def coarser(body: Body, query: Body) -> None:
    """Days, where hours were requested."""
    resolution("1d", body, query)
    for rows in [value for value in [*body.values(), *series_values(body)] if isinstance(value, list)]:
        rows[:] = [row for row in rows if stamp_of(row).hour == 0]


def second_name(name: str, body: Body, query: Body) -> None:
    """Another spelling of a venue, next to it."""
    need("exchanges" not in query and "exchange" not in query)
    for rows in body.values():
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("exchange") == "okx":
                rows.append(copy.deepcopy(row) | {"exchange": name, "rank": 99, "oid": "x1"})
                body |= {total: body[total] + 1 for total in ("total", "count") if total in body}
                return
    groups = body.get("funding_rates", {})
    need("okx" in groups)
    groups[name] = groups["okx"]


def half_of(name: str, body: Body, query: Body) -> None:
    need(name in body and ("count" in body or "total" in body))
    need(len(body[name]) > 1)
    del body[name][1::2]


def again(body: Body, query: Body) -> None:
    """Each third payment is repeated 20 seconds later."""
    for rows in series_of(body).values():
        need(rows and "intervalMinutes" in rows[0])
        for row in rows[::3]:
            rows.append(copy.deepcopy(row))
            shift(rows[-1], 20 / 86400)


def options(change: Callable[[Body], Body], every: int, body: Body, query: Body) -> None:
    need("instruments" in body)
    for row in body["instruments"][::every]:
        row |= change(row)


def twice_named(body: Body, query: Body) -> None:
    need("instruments" in body)
    body["instruments"] += [
        r | {"instrument_name": r["instrument_name"] + "-X"} for r in body["instruments"][:300]
    ]
    body["count"] = len(body["instruments"])


def late_orders(body: Body, query: Body) -> None:
    need("events" in body)
    for row in body["events"][::2]:
        shift(row, 3 / 24)


def exchanged(one: str, other: str, body: Body, query: Body) -> None:
    """Two fields of each row, or two lists, take each other's place."""
    rows = [body] if one in body and other in body else rows_of(body)
    results = [row for row in rows if row.get(one) is not None and row.get(other) is not None]
    need(results)
    for row in results:
        row[one], row[other] = row[other], row[one]


def neighbours(field: str, body: Body, query: Body) -> None:
    results = [row for row in rows_of(body) if isinstance(row.get(field), int | float)]
    need(len(results) > 1)
    values = [row[field] for row in results]
    for row, value in zip(results, values[1:] + values[:1], strict=True):
        row[field] = value


def row_again(body: Body, query: Body) -> None:
    need(body.get("success"))
    listed = next(
        value for value in body.values() if isinstance(value, list) and value and isinstance(value[0], dict)
    )
    listed.append(copy.deepcopy(listed[0]))


def far_levels(body: Body, query: Body) -> None:
    need("asks" in body)
    for level in body["asks"]:
        level[0] *= 3


def repeated_level(body: Body, query: Body) -> None:
    need("bids" in body)
    body["bids"][1:1] = [[*body["bids"][0]], [*body["bids"][0]]]
    query.pop("limit", None)


def coins(value: float) -> float:
    return value / 1e5


def calls_only(body: Body, query: Body) -> None:
    need("instruments" in body)
    body["instruments"] = [row for row in body["instruments"] if row["side"] == "call"]
    body["count"] = len(body["instruments"])


def one_side_missing(body: Body, query: Body) -> None:
    need("instruments" in body and len(body["instruments"]) > 200)
    del body["instruments"][10]
    if "count" in body:
        body["count"] -= 1


def sizes_in_usd(body: Body, query: Body) -> None:
    need("bids" in body)
    for level in [*body["bids"], *body["asks"]]:
        level[1] *= level[0]


def constant_venue(body: Body, query: Body) -> None:
    """One venue has the interest for all of its symbols."""
    need("funding_rates_raw" in body)
    hours = body["funding_intervals"]["gateio"]
    for symbol in body["funding_rates"]["gateio"]:
        body["funding_rates"]["gateio"][symbol] = 1.0
        body["funding_rates_raw"]["gateio"][symbol] = str(hours.get(symbol, 8) / 8e4)


def orders_again(body: Body, query: Body) -> None:
    need("events" in body and len(body["events"]) > 12)
    body["events"] += [row | {"oid": row["oid"] + "b"} for row in body["events"]]
    body["count"] = len(body["events"])
    query.pop("limit", None)


def copied_volume(body: Body, query: Body) -> None:
    rows = [row for row in rows_of(body) if "volume_24h_usd" in row and "oi_usd" in row]
    need(len(rows) >= 20)
    for row in rows:
        row["oi_usd"] = row["volume_24h_usd"]


class Lie(NamedTuple):
    change: Change
    rule: str
    words: str
    """Pattern of the message."""


LIES: dict[str, Lie] = {
    "another symbol": Lie(partial(other_echo, "symbol", "LTC"), "another subject", "requested symbol '"),
    "a symbol of the same letters": Lie(
        partial(other_echo, "symbol", "BTCDOM"), "another subject", "the response is about 'BTCDOM'"
    ),
    "the symbol in small letters": Lie(
        partial(other_echo, "symbol", "btc"), "another subject", "about 'btc'"
    ),
    "another kind of price": Lie(
        only(lambda body: body.get("kind") == "mark", partial(other_echo, "kind", "last")),
        "another subject",
        "about 'last'",
    ),
    "another filter": Lie(
        partial(other_echo, "exchanges_filter", ["bybit"]), "another subject", "about 'bybit'"
    ),
    "another range": Lie(other_range, "another range", "about range '77d'"),
    "rows of a venue that was not asked for": Lie(
        other_venue, "another subject", "the response has rows of zo"
    ),
    "another exchange behind assets": Lie(other_exchange, "another exchange", "the response has rows of lse"),
    "coins": Lie(partial(unit, "coins"), "another unit", "the response has 'coins'"),
    "bushels": Lie(partial(unit, "bushels"), "unknown unit", "the response has 'bushels', which is unknown"),
    "no resolution": Lie(
        partial(resolution, None),
        "another resolution",
        "the resolution is missing, although the API document requires it",
    ),
    "a finer step": Lie(partial(resolution, "1m"), "another resolution", "the response has '1m'"),
    "a coarser step": Lie(coarser, "coarser resolution", "the response has '1d'"),
    "a name of another symbol": Lie(
        partial(option, {"instrument_name": lambda r: "ETH" + r["instrument_name"][3:]}),
        "name against option",
        "has the instrument 'ETH-",
    ),
    "a name in small letters of another side": Lie(
        partial(
            option,
            {
                "instrument_name": lambda r: r["instrument_name"].lower(),
                "side": lambda r: "put" if r["side"] == "call" else "call",
            },
        ),
        "name against option",
        "has the side",
    ),
    "a name of another day": Lie(
        partial(option, {"expiry": "2027-09-24T08:00:00Z"}), "name against option", "expires on 2027-09-24"
    ),
    "a name with a long year of another strike": Lie(
        partial(
            option,
            {
                "instrument_name": lambda r: r["instrument_name"].replace("26-", "2026-"),
                "strike": lambda r: r["strike"] * 10,
            },
        ),
        "name against option",
        "2026-.* has the strike",
    ),
    "a future of another day": Lie(
        partial(future, {"expiry": "2027-09-24T08:00:00Z"}), "name against expiry", "expires on 2027-09-24"
    ),
    "a future of another coin": Lie(
        partial(future, {"instrument_name": "DOGEUSDT_270924"}),
        "name against expiry",
        "instrument 'DOGEUSDT_270924'",
    ),
    "expired options": Lie(
        partial(option, {"expiry": "2020-06-26T08:00:00Z", "instrument_name": "an option"}),
        "expired option",
        "expired option: expiry",
    ),
    "a price of zero": Lie(partial(price, 0.0), "impossible figure", "price_usd must be above 0, got 0"),
    "no interval": Lie(partial(minutes, 0), "impossible figure", "interval_hours must be above 0, got 0"),
    "an interval of ages": Lie(
        partial(minutes, 1e9), "impossible figure", "must be at most 168: a week, got"
    ),
    "hours for minutes": Lie(
        partial(minutes, 8), "interval against spacing", r"hours_apart 8, typical interval_hours 0\.133"
    ),
    "eight hours for one": Lie(
        partial(minutes, 60),
        "interval against payments",
        "interval_hours is 1 h at .*, 8 h after the previous payment",
    ),
    "a raw rate of nothing": Lie(
        partial(raw_rate, 5.0), "raw rate against rate", "do not agree in any reading"
    ),
    "shares in percent": Lie(partial(shares, 100.0), "impossible figure", "shares are fractions from 0 to 1"),
    "half of the shares": Lie(partial(shares, 0.5), "stated total", r"sum market_share 0\.5"),
    "bids from the worst": Lie(reversed_bids, "unsorted book", "next:level price_usd"),
    "sides that are swapped": Lie(swapped_sides, "unsorted book", "next:level price_usd"),
    "a crossed book": Lie(crossed, "unlikely book", "best:bid price_usd .*, best:ask"),
    "more than was asked for": Lie(more_than_asked, "more than the limit", "the rest was dropped"),
    "another window": Lie(other_window, "another window", "the response has rows from 202"),
    "another window of surfaces": Lie(old_snapshots, "another window", "the response has rows from 2020"),
    "orders of years ago": Lie(old_orders, "another window", "the response has rows from 20"),
    "a row at the end": Lie(edge, "edge of the window", "dropped, because the window is half-open"),
    "a date for an expiry": Lie(date_only, "date as expiry", "08:00 UTC is used"),
    "a time of a year ago": Lie(old_time, "old snapshot", "hours before its Date"),
    "a rate of 20 percent": Lie(
        high_rate, "high rate", "high rate: rate_bps_8h|high rate: funding_current_bps_8h"
    ),
    "no rows": Lie(nothing, "", "has no rows and no notice"),
    "only the first third of the window": Lie(
        partial(kept_where, lambda place, row: place < 0.34),
        "missing rows",
        "rows end at .* are missing, first",
    ),
    "only the last third of the window": Lie(
        partial(kept_where, lambda place, row: place > 0.66),
        "missing rows",
        "rows begin at .* are missing, first",
    ),
    "a hole in the middle": Lie(
        partial(kept_where, lambda place, row: not 0.3 < place < 0.7),
        "missing rows",
        r"\d+ of \d+ (rows of the \d+ \w+ grid|payments) are missing, first 2026-06",
    ),
    "intervals of 4 hours for 8": Lie(
        partial(false_interval, 240, 1, 4), "interval against payments", "interval_hours is 4 h at"
    ),
    "open interest in thousands from the middle on": Lie(
        partial(other_unit_from, "oi_usd", 0.001, 0.5), "unit change", "oi_usd of okx .* another unit"
    ),
    "payments half an hour late": Lie(
        off_the_hour, "payments off the hour", "are not at a whole hour from 2026-06-01 00:(29|30)"
    ),
    "one payment of 48 minutes": Lie(
        partial(false_interval, 48, 1, 2),
        "unlikely interval",
        r"interval_hours 0\.8, typical interval_hours 8",
    ),
    "a listed venue without rates": Lie(
        partial(unlisted, "venue"), "listed without rows", "1 of 43 listed exchanges have no rows: binance"
    ),
    "a listed symbol without rates": Lie(
        partial(unlisted, "symbol"), "listed without rows", r"1 of \d+ listed symbols have no rows: BTC"
    ),
    "a number with a line": Lie(partial(raw_rate, "1_000"), "", "expected a number, got '1_000'"),
    "a row between each two": Lie(
        halved, "closer than the resolution", r"step_hours \d, hours_apart [0-2]\b"
    ),
    "rows some seconds aside": Lie(partial(aside, 17), "off the resolution", r"step_hours \d, time 2026"),
    "every second row": Lie(thinned, "off the resolution", r"step_hours \d, median hours_apart \d"),
    "a venue twice": Lie(partial(second_name, "OKX "), "one venue twice", "one venue has two names"),
    "okex next to okx": Lie(partial(second_name, "okex"), "one venue twice", "one venue has two names"),
    "a venue in wide letters": Lie(
        partial(second_name, "\uff4fkx"), "one venue twice", "one venue has two names"
    ),
    "a venue with a blank of no width": Lie(
        partial(second_name, "okx\u200b"), "one venue twice", "one venue has two names"
    ),
    "a venue in Cyrillic": Lie(partial(second_name, "\u043ekx"), "odd venue", "is not a valid slug"),
    "a total among venues": Lie(partial(second_name, "Total"), "one venue twice", "is listed as a venue"),
    "half of the orders": Lie(partial(half_of, "events"), "stated count", r"\$count \d+, # \d+"),
    "half of the venues": Lie(partial(half_of, "exchanges"), "stated count", r"\$total \d+, # \d+"),
    "open interest in thousands": Lie(
        partial(each, "total_oi_usd", lambda v: v / 1000),
        "stated total",
        r"\$total_market_oi .*, sum total_oi_usd",
    ),
    "shares of the neighbour": Lie(
        partial(neighbours, "market_share"), "figure against its parts", "market_share .*, total_oi_usd"
    ),
    "depths exchanged": Lie(
        partial(exchanged, "bid_depth_10bps_usd", "bid_depth_100bps_usd"),
        "figure against its parts",
        "next:depth_bps bid_depth_usd",
    ),
    "high below low": Lie(partial(exchanged, "high", "low"), "figure against its parts", "low .*, open"),
    "billions from no symbols": Lie(
        partial(each, "symbol_count", lambda v: 0), "figure against its parts", "symbol_count 0"
    ),
    "gainers and losers exchanged": Lie(
        partial(exchanged, "gainers", "losers"), "mover against rank", "next:rank price_24h_change_pct"
    ),
    "leaders from the last": Lie(
        only(
            lambda body: "data" in body and "funding_current_bps" in body["data"][0],
            partial(neighbours, "funding_current_bps"),
        ),
        "leader against rank",
        "next:rank funding_current_bps_8h",
    ),
    "a board from the last": Lie(
        only(
            lambda body: "symbols" in body and "top_funding_bps" in body["symbols"][0],
            partial(neighbours, "oi_usd"),
        ),
        "symbol against rank",
        "next:rank oi_usd",
    ),
    "minus 250 percent": Lie(
        partial(each, "price_24h_change_pct", lambda v: -250.0),
        "impossible figure",
        "must be at least -100, got -250",
    ),
    "volatility in percent": Lie(partial(each, "iv", lambda v: 12.0), "volatility in percent", "median iv"),
    "volatility at the money in percent": Lie(
        partial(each, "atm_iv", lambda v: 12.0), "volatility in percent", "median atm_iv"
    ),
    "one volatility in percent": Lie(
        partial(options, lambda r: {"iv": 27.0}, 99), "unlikely volatility", "iv 27"
    ),
    "deltas of the other side": Lie(
        partial(each, "delta", lambda v: -v), "unlikely greek", "delta .*, side=call"
    ),
    "negative gammas": Lie(partial(each, "gamma", lambda v: -v), "unlikely greek", "gamma -"),
    "negative vegas": Lie(partial(each, "vega", lambda v: -v), "unlikely greek", "vega -"),
    "bid and ask exchanged": Lie(
        partial(exchanged, "bid_coin", "ask_coin"), "figure against its parts", "bid_coin .*, ask_coin"
    ),
    "marks in USD": Lie(
        partial(options, lambda r: {"mark_coin": r["mark_coin"] * r["underlying_price"]}, 1),
        "unlikely price of an option",
        "mark_coin .*, strike",
    ),
    "another underlying": Lie(
        partial(options, lambda r: {"underlying_price": r["underlying_price"] / 30}, 2),
        "far from the usual",
        "underlying_price",
    ),
    "options under another name": Lie(twice_named, "option twice", "300 options have"),
    "names of no pattern": Lie(
        partial(options, lambda r: {"instrument_name": "option " + r["instrument_name"]}, 50),
        "unread name",
        "option names cannot be read",
    ),
    "expiries before midnight": Lie(
        partial(options, lambda r: {"expiry": r["expiry"].replace("08:00:00", "23:59:59")}, 1),
        "unlikely hour of expiry",
        "expiry",
    ),
    "payments again": Lie(again, "interval against spacing", "min hours_apart 0, min interval_hours 8"),
    "payments without an interval": Lie(
        partial(each, "intervalMinutes", lambda v: None), "payment without an interval", "interval_hours nan"
    ),
    "orders of the future": Lie(late_orders, "old snapshot", "later than the Date header of the response"),
    "sessions that end first": Lie(
        partial(exchanged, "start", "end"), "interval that ends first", "start .*, end"
    ),
    "a price a hundred times as high": Lie(
        only(lambda body: body.get("kind") == "mark", partial(each, "y", lambda v: 100 * v, every=4)),
        "far from the usual",
        "price_usd",
    ),
    "eight zeros in open interest": Lie(
        partial(each, "open_interest_usd", lambda v: 0.0, every=4), "far from the usual", "oi_usd 0, usual"
    ),
    "a row of an open table twice": Lie(row_again, "rows in disorder", "rows are duplicates"),
    "asks at three times the bids": Lie(far_levels, "unlikely book", "best:bid price_usd .*, best:ask"),
    "open interest in coins": Lie(
        only(
            lambda body: "exchanges" in body and body.get("symbol") == "BTC", partial(each, "oi_usd", coins)
        ),
        "beyond all markets",
        "oi_usd of BTC at binance is .*: it has been above 2e.07 since 2021",
    ),
    "a chain of calls": Lie(
        calls_only, "beyond all markets", "of the chain are calls: options of the other side are"
    ),
    "sizes of a book in USD": Lie(
        sizes_in_usd, "beyond all markets", "a level of the book is worth .* USD .*: the size may be in USD"
    ),
    "volatilities of a day": Lie(
        only(lambda body: "instruments" in body, partial(each, "iv", lambda v: v / 19.1)),
        "unlike Black 1976",
        r"delta of the options of 2026-.* differs from the volatility by .* options .*, Black 1976\)",
    ),
    "one rate for all symbols": Lie(
        constant_venue, "unlikely snapshot", r"rate_bps_8h of gateio is 1 bps for all \d+ symbols"
    ),
    "volume in place of open interest": Lie(
        copied_volume,
        "unlikely column",
        r"(volume_24h_usd and oi_usd|oi_usd and volume_24h_usd) are equal in \d+ of \d+ rows",
    ),
    "orders again under other ids": Lie(
        orders_again, "other size", r"\d+ of \d+ orders differ from another order only in their id"
    ),
    "an option without its counterpart": Lie(
        one_side_missing, "unlikely chain", r"1 of \d+ strikes have only a call or only a put"
    ),
    "lows of a tenth": Lie(
        partial(each, "low", lambda v: v / 10),
        "unlikely value",
        "low differs from open and close by over 5 times",
    ),
    "a best bid that stands three times": Lie(repeated_level, "unlikely book", "next:level price_usd"),
}
LIES |= {
    f"a row of another {name}": Lie(partial(other_row, name, word), "another subject", f"has rows of {word}")
    for name, word in {"symbol": "DOGE", "dex": "flx"}.items()
} | {
    word: Lie(partial(not_an_instant, word), "", "is not")
    for word in ("now", "today", "2026", "2026-06", "20260601")
} | {
    f"another {name}": Lie(partial(other_echo, name, value), "another subject", f"about '?{value}")
    for name, value in {
        "exchange": "kraken", "dex_name": "flx", "coin": "xyz:NVDA", "outcome_id": "109", "interval": "4h",
        "group_by": "symbol", "window_days": 30,
    }.items()
} | {
    f"{factor} times {field}": Lie(
        partial(each, field, partial(operator.mul, factor)), rule, words
    )
    for field, factor, rule, words in (
        ("total_usd", 3, "figure against its parts", "total_usd .*, long_usd"),
        ("total_usd", 4, "stated total", r"\$totals\.total_usd"),
        ("total_count", 3, "figure against its parts", "total_count .*, long_count"),
        ("total_count", 4, "stated total", r"\$totals\.total_count"),
        ("long_usd", 4, "stated total", r"\$totals\.long_usd"),
        ("short_count", 4, "stated total", r"\$totals\.short_count"),
        ("usd_value", 1000, "figure against its parts", "value_usd .*, fill_price_usd"),
        ("filled_quantity", 7, "figure against its parts", "filled_quantity .*, quantity"),
        ("ratio", 100, "figure against its parts", "volume_oi_ratio"),
        ("count", 3, "figure against its parts", "symbol_count .*, #symbols"),
        ("delta", 100, "unlikely greek", "delta .*, strike"),
    )
}  # fmt: skip
UNREAD = {
    ("oi.sparklines", "shares in percent"),
    ("oi.sparklines", "half of the shares"),
    ("oi.sparklines", "shares of the neighbour"),
    ("oi.sparklines", "half of the venues"),
    ("oi.sparklines", "open interest in thousands"),
    ("oi.sparklines", "billions from no symbols"),
    ("prices.history", "a rate of 20 percent"),
    ("prices.spot", "a rate of 20 percent"),
    # These tables have the last hours of a response of a day.
    *(
        (f"options.{name}", title)
        for name in ("atm_history", "overview_history")
        for title in (
            "only the first third of the window",
            "only the last third of the window",
            "a hole in the middle",
        )
    ),
    ("options.trades", "only the first third of the window"),  # trades have no grid
    ("options.trades", "only the last third of the window"),
    ("futures.history", "open interest in thousands from the middle on"),  # found as far from the usual
}
"""Changes of fields or rows outside the table, or of fields that are not rates: 2,048 is a valid price."""

MISSING = "missing rows"
"""Comparisons across all responses to one call, in addition to the rules for each response."""

NOTICES = {rule.name for rule in RULES if rule.outcome == "notice"} | {MISSING}
"""Rules whose breach leaves the table."""


@dataclass
class Liar:
    """The sample behind a change of its responses, in this process or as a server.

    Attributes
    ----------
    change
        Changes the next responses; None leaves them.
    paths
        Requests received.
    unchanged
        Correct response of each request.
    """

    upstream: str
    change: Change | None = None
    paths: list[str] = field(default_factory=list)
    unchanged: dict[str, bytes] = field(default_factory=dict)

    def body(self, path: str) -> bytes:
        # The sample's clock is fixed, so each path has one correct response.
        if path not in self.unchanged:
            with urlopen(Ask(self.upstream + path, headers={"X-Api-Key": KEY}), timeout=600) as reply:
                self.unchanged[path] = reply.read()
        self.paths.append(path)
        if self.change is None:
            return self.unchanged[path]
        body = json.loads(self.unchanged[path])
        try:
            self.change(body, requested_parameters(path))
        except Unfit:  # a second request of the fetcher
            return self.unchanged[path]
        return json.dumps(body).encode()

    def answer(self, request: ReceivedRequest) -> Reply:
        return Reply(b"" if request.method == "HEAD" else self.body(request.path), date=NOON)

    def respond(self, request: Request) -> Response:
        body = self.body(request.path + ("?" + urlencode(request.query) if request.query else ""))
        return Response(
            request=request,
            status=200,
            headers={},
            body=body,
            as_of=NOON,
            source="liar",
            synthetic=False,
            sha256="0" * 64,
        )


def requested_parameters(path: str) -> Body:
    """Return the parameters of a request, including those in its path."""
    url = urlsplit(path)
    query: Body = parse_qs(url.query) | {"path": url.path}
    parts = url.path.strip("/").split("/")
    if parts[0] in ("oi", "volume", "markets") and "BTC" in parts:
        query["symbol"] = ["BTC"]
    if parts[:2] == ["markets", "exchanges"] and "okx" in parts:
        query["exchange"] = ["okx"]
    if "outcome" in parts:
        query["outcome_id"] = [parts[-1]]
    return query


@pytest.fixture(scope="module")
def upstream() -> Iterator[Liar]:
    with faults.serve({KEY: "team"}) as url:
        yield Liar(url)


@pytest.fixture
def liar(upstream: Liar) -> Iterator[Liar]:
    """Responds to every request of this process, with a fixed clock."""
    upstream.change = None
    restore = SESSION.install(responder=upstream.respond, clock=lambda: NOON)
    yield upstream
    restore()
    upstream.change = None


@pytest.fixture
def server(upstream: Liar) -> Iterator[str]:
    """Serve the changed responses and yield the address."""
    upstream.change = None
    with serving(upstream.answer) as made:
        yield made.url


def fetch(name: str) -> Any:
    family, function = name.split(".")
    result = getattr(getattr(dd, family), function)(**CALLS[name])
    return next(result) if name == "liquidations.poll" else result


def outcome(name: str) -> tuple[Any, SchemaError | None, list[str]]:
    """The table, or the error, and the notices."""
    earlier.clear()
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


TRUTHS: dict[str, tuple[Any, list[str], str]] = {}


def truth(name: str, liar: Liar) -> tuple[Any, list[str], str]:
    """The correct table, its notices, and its request."""
    if name not in TRUTHS:
        liar.change = None
        liar.paths.clear()
        table, error, warned = outcome(name)
        assert error is None, error
        TRUTHS[name] = table, warned, liar.paths[0]
    return TRUTHS[name]


def fits(lie: Lie, name: str, liar: Liar) -> bool:
    """Return whether a change applies to a response."""
    path = truth(name, liar)[2]
    body = json.loads(liar.unchanged[path])
    before = copy.deepcopy(body)
    try:
        lie.change(body, requested_parameters(path))
    except (Unfit, IndexError, KeyError, StopIteration, TypeError, AttributeError):
        return False
    return bool(body != before)


def test_every_fetcher_and_every_rule_has_a_false_response() -> None:
    public = {f"{family}.{name}" for family, module in FAMILIES.items() for name in module.__all__}
    assert set(CALLS) == public
    of_several_venues = {"unlike peers", "impossible pattern"}  # in test_wrong_histories.py
    assert {lie.rule for lie in LIES.values()} == {rule.name for rule in RULES} - of_several_venues | {
        "",
        MISSING,
    }


def test_unchanged_response_gives_no_notice(liar: Liar) -> None:
    assert {name: truth(name, liar)[1] for name in CALLS if truth(name, liar)[1]} == {}


@pytest.mark.parametrize("title", LIES)
def test_false_response_is_detected(title: str, liar: Liar) -> None:
    """In the gate by the first fetcher that it fits and every fourth one."""
    lie = LIES[title]
    fitting = [name for name in CALLS if (name, title) not in UNREAD and fits(lie, name, liar)]
    assert fitting
    for name in fitting if SOAK else fitting[::4]:
        liar.change = lie.change
        table, error, warned = outcome(name)
        if lie.rule in NOTICES or title == "no rows":
            assert error is None, (name, error)
            kept = dd.provenance(table)["notices"]
            assert any(re.search(lie.words, text) for text in warned), (name, warned)
            assert any(re.search(lie.words, text) for text in kept), (name, kept)
        else:
            assert error is not None, f"{name}: the lie became a table"
            assert re.search(lie.words, str(error)), (name, str(error))


@pytest.mark.parametrize("name", CALLS if SOAK else ["funding.history", "options.surface", "hip3.candles"])
def test_false_response_is_not_cached(
    name: str, upstream: Liar, server: str, open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that broke a rule is requested again, and a correct one is the table."""
    monkeypatch.setattr(SESSION, "connection", open_connection(server, paced=False))
    refused = [title for title, lie in LIES.items() if lie.rule and lie.rule not in NOTICES]
    read = [LIES[title] for title in refused if (name, title) not in UNREAD]
    result = next((lie for lie in read if fits(lie, name, upstream)), None)
    if result is None:
        pytest.skip("no lie about this answer is an error")
    monkeypatch.setattr(SESSION, "connection", open_connection(server, paced=False, cache="refresh"))
    upstream.change = result.change
    assert outcome(name)[1] is not None
    upstream.change, before = None, len(upstream.paths)
    monkeypatch.setattr(SESSION, "connection", open_connection(server, paced=False))
    assert same(outcome(name)[0], TRUTHS[name][0])
    assert len(upstream.paths) > before, "the lie was kept in the cache"


def test_false_record_in_the_cache_is_detected_when_read(
    upstream: Liar, server: str, open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response is stored before it is checked: a process may end in between."""
    upstream.change = LIES["another symbol"].change
    monkeypatch.setattr(SESSION, "connection", open_connection(server, paced=False))
    with monkeypatch.context() as killed:
        killed.setattr(SESSION, "forget", lambda request: None)
        assert outcome("funding.history")[1] is not None
    upstream.change, before = None, len(upstream.paths)
    monkeypatch.setattr(SESSION, "connection", open_connection(server, paced=False))
    error = outcome("funding.history")[1]
    assert error is not None
    assert "requested symbol 'BTC'" in str(error)
    assert len(upstream.paths) == before, "it was to come from the cache"
    assert set(fetch("funding.history")["symbol"]) == {"BTC"}
    assert len(upstream.paths) > before


def set_in_rows(field: str, value: Any, body: Body, query: Body) -> None:
    for row in rows_of(body):
        row[field] = value


ODD: dict[str, tuple[str, Change, str]] = {
    "an amount that may have a sign": (
        "hip3.by_dex",
        lambda body, query: body["data"][0].update(net_volume=-5.0, account_value=-1.0, oi_change=-2.0),
        "",
    ),
    "signed figures next to the rows": (
        "hip3.leaderboard",
        lambda body, query: body.update(net_volume=-5.0, total_account_value=-1.0),
        "",
    ),
    "a rank of none": (
        "builders.dashboard",
        partial(set_in_rows, "rank", -1),
        "symbol against rank: rank -1",
    ),
    "an expiry in words": ("hip3.by_dex", partial(set_in_rows, "expiry", "perpetual"), ""),
    "totals that are no number": (
        "liquidations.aggregates",
        lambda body, query: body.update(totals={"total_usd": {"long": 1.0}, "total_count": "many"}),
        "",
    ),
    "a count of rows that are not there": (
        "options.atm_history",
        lambda body, query: body.update(data=[], count=5),
        r"stated count: \$count 5, # 0",
    ),
    "volatilities that are all missing": ("options.snapshot", partial(set_in_rows, "iv", None), ""),
}
"""Odd responses that break at most one rule: fetcher, change, and the message."""


@pytest.mark.parametrize("title", ODD)
def test_unusual_but_valid_response_breaks_no_rule(title: str, liar: Liar) -> None:
    name, change, words = ODD[title]
    quiet = truth(name, liar)[1]
    liar.change = change
    table, error, warned = outcome(name)
    said = [str(error)] if error else [text for text in warned if text not in quiet]
    assert bool(said) == bool(words), said
    assert all(re.search(words, text) for text in said), said
    assert error is not None or table is not None


# Each number and word in turn.


class Place(NamedTuple):
    """A value in a response: its field, without the numbers of rows, and the way to it."""

    field: str
    steps: tuple[str | int, ...]


def places(body: Body) -> list[Place]:
    """Every field of a response once, in the second row of each list and the first part of each map."""
    results: dict[str, Place] = {}
    for place in every_place(body, (), ()):
        if place.field not in results or not at(body, results[place.field].steps):  # a zero has no other size
            results[place.field] = place
    return list(results.values())


def every_place(value: Any, steps: tuple[str | int, ...], names: tuple[str, ...]) -> Iterator[Place]:
    if isinstance(value, dict):
        kinds = {type(v) if isinstance(v, dict | list) else str for v in value.values()}
        keyed = bool(names) and len(kinds) == 1 and len(value) > (12 if str in kinds else 1)
        for key in [*value][:1] if keyed else value:
            yield from every_place(value[key], (*steps, key), (*names, "*" if keyed else key))
    elif isinstance(value, list) and value:
        rows = range(len(value)) if isinstance(value[0], dict) else range(1)
        for place in sorted(rows, key=lambda row: row != 1)[:20]:
            yield from every_place(value[place], (*steps, place), names)
        yield Place(".".join((*names, "[]")), steps)
    elif value not in (None, []):
        yield Place(".".join(names), steps)


def at(body: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        body = body[step]
    return body


def changes_of(body: Body, place: Place) -> dict[str, Change]:
    """Return the changes that apply to a value, by name."""
    holder, last = at(body, place.steps[:-1]), place.steps[-1]
    value = holder[last]
    if isinstance(value, list):
        return {
            "again": lambda b, _: at(b, place.steps).insert(0, value[0]),
            "drop": lambda b, _: at(b, place.steps).pop(),
        }
    results: dict[str, Change] = {"drop": lambda b, _: at(b, place.steps[:-1]).pop(last)}
    if (other := neighbour(body, place)) is not None:
        theirs = at(body, other)
        results["swap"] = lambda b, _: put(put(b, place.steps, theirs), other, value)
    number = as_number(value)
    if isinstance(value, bool):
        results["-1"] = lambda b, _: put(b, place.steps, not value)
    elif number is None:
        results["shift"] = lambda b, _: put(b, place.steps, moved(value))
    elif number:
        for name, factor in FACTORS.items():
            changed = type(number)(number * factor)
            results[name] = partial(lambda b, _, new: put(b, place.steps, new), new=type(value)(changed))
    return results


def put(body: Body, steps: tuple[str | int, ...], value: Any) -> Body:
    at(body, steps[:-1])[steps[-1]] = value
    return body


FACTORS = {"x10": 10, "x0.01": 0.01, "-1": -1}


def as_number(value: Any) -> float | int | None:
    try:
        return value if isinstance(value, int | float) else float(value)
    except ValueError:
        return None


def moved(text: str) -> str:
    """A time a step later; another word."""
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return text + "x"
    later = pd.Timestamp(text) + pd.Timedelta(1, "D" if len(text) == 10 else "h")
    form = "%Y-%m-%d" if len(text) == 10 else "%Y-%m-%dT%H:%M:%SZ" if "T" in text else "%Y-%m-%d %H:%M:%S"
    return str(later.strftime(form))


def neighbour(body: Body, place: Place) -> tuple[str | int, ...] | None:
    """Where another row has another value."""
    rows = [n for n, step in enumerate(place.steps) if isinstance(step, int)]
    if not rows:
        return None
    n, mine = rows[-1], at(body, place.steps)
    for row in range(len(at(body, place.steps[:n]))):
        steps = (*place.steps[:n], row, *place.steps[n + 1 :])
        try:
            theirs = at(body, steps)
        except (KeyError, IndexError, TypeError):
            continue
        if theirs != mine and theirs is not None:
            return steps
    return None


def detection(name: str, change: Change, liar: Liar) -> str:
    """Outcome of a change: "error", "notice", "same" table, or "unseen"."""
    expected, quiet, _ = truth(name, liar)
    liar.change = change
    table, error, warned = outcome(name)
    if error is not None:
        return "error"
    if same(table, expected):
        return "same"
    return "notice" if set(warned) - set(quiet) else "unseen"


UNSEEN: dict[str, str] = json.loads(
    (Path(__file__).parents[1] / "baseline" / "unseen_changes.json").read_text("utf-8")
)
"""By fetcher and field, the single changes that a response cannot reveal."""

MAX_BLIND = 0.1
"""The part of all fields of which no change is seen, at most."""


def cases(name: str, liar: Liar) -> Iterator[tuple[str, str, Change]]:
    """Field, name of the change, and the change."""
    body = json.loads(liar.unchanged[truth(name, liar)[2]])
    for place in places(body):
        for lie, change in changes_of(body, place).items():
            yield place.field, lie, change


@pytest.mark.parametrize("name", CALLS)
def test_every_changed_value_is_detected_or_listed(name: str, liar: Liar) -> None:
    """In the gate one change of each field, another one for each; the whole in the long form."""
    for number, (where, lie, change) in enumerate(cases(name, liar)):
        if SOAK or number % 5 == len(name) % 5:
            seen = detection(name, change, liar)
            listed = lie in UNSEEN.get(f"{name} {where}", "").split()
            assert (seen == "unseen") is listed, (where, lie, seen)


def test_most_changed_fields_are_detected(liar: Liar, measured: Measured) -> None:
    fields: dict[str, set[str]] = {}
    for name in CALLS:
        for where, lie, _ in cases(name, liar):
            fields.setdefault(f"{name} {where}", set()).add(lie)
    blind = [field for field, lies in fields.items() if lies <= set(UNSEEN.get(field, "").split())]
    assert len(blind) <= MAX_BLIND * len(fields)
    result = sum(map(len, fields.values()))
    unseen = sum(len(changes.split()) for changes in UNSEEN.values())
    measured(
        "lying server",
        f"{len(LIES)} lies: 0 tables from a contradiction, 0 kept; {result} changes of {len(fields)} fields: "
        f"{unseen} unseen, {len(blind)} fields blind",
    )
    assert set(UNSEEN) <= set(fields)
