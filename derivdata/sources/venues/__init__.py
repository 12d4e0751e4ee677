"""Requests to the venues' keyless public APIs, and conversion of their bodies to tables.

This package declares the requests (`endpoints`) and reads the responses (`read`), including old recordings.
It neither opens connections nor reads a clock; `derivdata.sources.collect` sends the requests. Each venue has
its own file. An unexpected body raises one error with its place. An error that a venue sends with HTTP 200
raises an error too, and never returns an empty table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, Literal
from urllib.parse import parse_qsl

import pandas as pd

from derivdata.sources.venues import hyperliquid
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.reading import Context, Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.row_checks import PageWindow, body_doubts, implied_price_doubts, size_doubts
from derivdata.sources.venues.tabulation import frames
from derivdata.sources.venues.wire import if_stated, refuse_event
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import did_you_mean, warn_caller
from derivdata.tables import venue_facts
from derivdata.tables.contracts import venue_of
from derivdata.tables.venue_facts import stated_tiers

__all__ = ["endpoints", "facts", "margin_tiers", "read"]
__dir__ = __all__.copy


@typed
def endpoints() -> pd.DataFrame:
    """Return the keyless requests of each venue, one row per endpoint or channel.

    Returns
    -------
    DataFrame
        ``exchange``, ``what`` (funding, settlements, oi, chain, ...), ``method`` (GET, POST, or WS),
        ``path_or_channel``, ``tables`` (tables that a body fills, joined by spaces), ``confirmed`` (False if
        the specification could not be confirmed), ``verified_on`` (missing: not yet compared with a live
        response on this machine) and ``note``.

    Examples
    --------
    >>> rows = dd.venues.endpoints()
    >>> rows.loc[rows["path_or_channel"] == "/fapi/v1/premiumIndex", "what"].tolist()
    ['funding']
    """
    rows = list(dict.fromkeys(e for venue in VENUES.values() for e in venue.endpoints))
    fields = ["exchange", "what", "method", "path", "tables", "confirmed", "note"]
    frame = pd.DataFrame(map(attrgetter(*fields), rows), columns=fields)
    frame = frame.rename(columns={"path": "path_or_channel"})
    frame["tables"] = frame["tables"].map(" ".join)
    frame.insert(6, "verified_on", pd.Series([None] * len(rows), dtype="str"))
    return frame.drop_duplicates(["exchange", "what", "method", "path_or_channel"], ignore_index=True)


@typed
def margin_tiers(venues: Sequence[str] | None = None, *, day: times.TimeLike | None = None) -> pd.DataFrame:
    """Return the maintenance margin that venues require by position size, as published by a given day.

    Parameters
    ----------
    venues
        Slugs or other names of venues; None takes all.
    day
        Date up to which the newest tiers are returned; None returns the newest.

    Returns
    -------
    DataFrame
        One row per tier: ``symbol``, ``exchange``, ``tier``, ``max_notional_usd`` or ``max_size_coins`` (the
        largest position, in the unit that the venue states), ``initial_margin`` and ``maintenance_margin``
        [fraction of notional], ``max_leverage``; NaN if the source does not state a value. ``as_of``,
        ``nature``, ``source`` and ``confirmed`` are as in `facts`. Tiers of other contracts can be read with
        `read` from the venue's response (table ``margin_tiers``).

    Raises
    ------
    ValueError
        `venues` has an unknown venue, or `day` is not a date.

    Notes
    -----
    For ``maintenance=`` of `derivdata.analysis.backtest.carry` and `derivdata.analysis.funding.portfolio`.
    Venues change tiers without notice. The tiers of OKX, KuCoin and Bitget for BTC are complete; those of
    Gate and of ETH on OKX end below the venue's last. Auto-deleveraging is not included: a venue may close a
    profitable leg when its insurance fund cannot take over liquidated positions.

    Examples
    --------
    >>> rows = dd.venues.margin_tiers(["bitget"]).head(2)
    >>> rows[["tier", "max_notional_usd", "maintenance_margin"]].to_numpy().tolist()
    [[1.0, 200000.0, 0.004], [2.0, 1000000.0, 0.005]]
    """
    slugs = if_stated(_slugs, venues)
    last = "9999-12-31" if day is None else f"{times.timestamp(day, 'day'):%Y-%m-%d}"
    rows = stated_tiers(slugs, last)
    return rows.assign(as_of=pd.to_datetime(rows["as_of"], utc=True).dt.as_unit("us"))


@typed
def facts(venues: Sequence[str] | None = None, *, day: times.TimeLike | None = None) -> pd.DataFrame:
    """Return facts of the venues: funding intervals, caps, floors, fees and contracts, with sources.

    Parameters
    ----------
    venues
        Slugs or other names of venues; None takes all.
    day
        Date for which the newest earlier fact is returned. None returns all facts, including replaced ones.

    Returns
    -------
    DataFrame
        One row per fact, with the columns:

        - ``exchange``, and ``symbol``, which is empty for all symbols of the venue.
        - ``fact``, ``value`` and ``unit``: see below.
        - ``as_of``: the date of the value.
        - ``nature``: ``recorded`` (a response of the venue), ``sample`` (quoted in a client's source) or
          ``documentation``. ``source`` is its reference.
        - ``confirmed``: False with only one source, or if two sources contradict each other.

        Values without an accessible source are absent. The facts are:

        - ``interval_hours``, ``funding_cap_bps`` and ``funding_floor_bps`` (of one interval).
        - ``maker_fee_bps`` and ``taker_fee_bps`` (of futures), ``option_taker_fee_bps``, and
          ``option_fee_cap`` (maximum as a share of an option's price).
        - ``option_delivery_fee_bps`` (of options delivered in the money) and
          ``daily_option_delivery_fee_bps`` (of those that do not expire on a Friday).
        - ``option_averaging_minutes`` and ``future_averaging_minutes``: length before expiry over which the
          settlement price is averaged.
        - ``contract_coin`` or ``contract_usd``: size of a linear or an inverse contract. ``multiplier``:
          coins per unit of a symbol such as 1000PEPE.
        - ``rate_period_hours``: period of a quoted rate, if it is not the interval. ``rate_scale``: the
          fraction that a stated rate of 1 means.
        - ``open_interest_sides``: 1 or 2.

    Raises
    ------
    ValueError
        `venues` has a venue without facts, or `day` is not a date.

    Examples
    --------
    >>> rows = dd.venues.facts(["okx"]).set_index(["symbol", "fact"])
    >>> rows.loc[("BTC", "funding_cap_bps"), ["value", "unit"]].tolist()
    [37.5, 'bps per interval']
    """
    rows = venue_facts.frame()
    if venues is not None:
        venues = _slugs(venues)
        unknown = [venue for venue in venues if venue not in set(rows["exchange"])]
        if unknown:
            with_facts = rows["exchange"].unique().tolist()
            raise ValueError(
                f"venues: expected venues with facts, {', '.join(with_facts)}; got {unknown[0]!r}"
                f"{did_you_mean(unknown[0], with_facts)}"
            )
        rows = rows[rows["exchange"].isin(venues)]
    if day is not None:
        until = f"{times.timestamp(day, 'day'):%Y-%m-%d}"
        rows = rows[rows["as_of"] <= until].sort_values("as_of", kind="stable")
        rows = rows.drop_duplicates(["exchange", "symbol", "fact"], keep="last").sort_index()
    rows = rows.reset_index(drop=True)
    return rows.assign(as_of=pd.to_datetime(rows["as_of"], utc=True).dt.as_unit("us"))


def _slugs(venues: Sequence[str] | str) -> list[str]:
    """Return the slugs of venues, which may be one text of names joined by commas."""
    listed = venues.split(",") if isinstance(venues, str) else venues
    return [venue_of(name, "venues") for name in listed]


@typed
def read(
    venue: str,
    request: str,
    body: bytes | str,
    *,
    at: times.TimeLike | None = None,
    context: Mapping[str, Any] | None = None,
    by: Literal["symbol", "coin"] = "symbol",
) -> dict[str, pd.DataFrame]:
    """Convert the body of a venue's response to tables of the library.

    Parameters
    ----------
    venue
        The venue's slug or another of its names, such as ``"htx"`` for ``"huobi"``. A HIP-3 dex of
        Hyperliquid that is a venue of the API has its own slug, such as ``"tradexyz"``, and its symbols
        are coins; contracts of other dexes have the symbol ``dex:COIN`` on ``"hyperliquid"``.
    request
        The path or channel, as in `endpoints`, with the parameters or the instrument if the body does not
        state them: ``"/v5/market/tickers?category=linear"``, ``"/orderbook?symbol=PF_XBTUSD"``,
        ``"allLiquidation.BTCUSDT"``. ``"any"`` only checks whether the body is an error.
    body
        The response, or a frame of a WebSocket, or a JSON array of frames.
    at
        Time of arrival, used for rows without a time in the body.
    context
        Frames of other responses: ``instruments``, ``intervals``, ``prices_history`` or
        ``markets_symbol_exchanges`` as this function returns them, or single values ``interval_hours``,
        ``contract_size`` (coins of a contract; USD of an inverse one), ``mark_price`` and ``instrument``.
        Values that depend on missing ones are missing.
    by
        ``"symbol"`` gives open interest of one contract for each symbol, as the API does. ``"coin"`` gives
        the sum of ``oi_history`` over all perpetuals of each coin in the body, in any currency and multiple;
        a coin of which a contract has no open interest has no row. Sums of several bodies, such as linear and
        inverse contracts, can be added.

    Returns
    -------
    dict of DataFrame
        Every table that the endpoint can fill, even if empty; with ``instruments`` and ``intervals`` if
        the body has them, ``oi_bars`` if it has the open interest of steps, and ``funding_rates`` if it has
        the settlement of a rate: ``rate_kind`` is ``settled``, ``next`` (the running rate of the coming
        settlement) or ``predicted``, and ``settlement_time`` that settlement. A row or a value that
        contradicts another is omitted, with a `DataNotice`. Rows that are doubtful next to others of their
        series (missing, off their step, in another unit, unchanged, above the venue's cap) are returned, and
        a `DataNotice` names the first.

    Raises
    ------
    VenueError
        The body is an error of the venue, with HTTP 200 or not.
    SchemaError
        The body is not as expected, or is in another unit; the message says where.
    ValueError
        The venue, path or channel does not exist.

    Examples
    --------
    >>> body = '[{"symbol": "BTCUSDT", "fundingTime": 1698768000000, "fundingRate": "0.0001"}]'
    >>> rows = dd.venues.read("binance", "/fapi/v1/fundingRate", body)["funding_settlements"]
    >>> rows["rate_bps_8h"].tolist()
    [1.0]
    """
    endpoint, reading = _opened(venue, request, body, at=at, context=context)
    if endpoint is None:
        return {}
    rows = _rows(endpoint, reading)
    for why in rows.omitted:
        warn_caller(f"omitted: {why}")
    result = _tabulate(endpoint, reading, rows, by_coin=by == "coin")
    window = PageWindow.of(endpoint.paging, reading.params)
    usual = None
    if rows.payments:
        usual = VENUES[reading.exchange].usual_hours(rows.payments[0].instrument)
    for doubt in implied_price_doubts(rows.oi):
        warn_caller(f"oi_history: {doubt}")
    for name, frame in result.items():
        for doubt in chain(body_doubts(reading.exchange, name, frame, window, usual), size_doubts(frame)):
            warn_caller(f"{name}: {doubt}")
    return result


def _tabulate(
    endpoint: VenueEndpoint,
    reading: Reading,
    rows: Records,
    *,
    by_coin: bool = False,
    only: Collection[str] | None = None,
) -> dict[str, pd.DataFrame]:
    """Return the tables that an endpoint fills, or `only` some of them."""
    venue = VENUES[reading.exchange]
    names: list[str] = []
    for other in venue.endpoints:
        if (other.path, other.read) == (endpoint.path, endpoint.read):
            names += other.tables
    names += _further_tables(endpoint.what, rows)
    names = [name for name in dict.fromkeys(names) if only is None or name in only]

    def listed(item: Instrument) -> float | None:
        return reading.interval(item) or venue.usual_hours(item)

    return frames(reading.exchange, rows, names, at=reading.at, listed=listed, by_coin=by_coin)


def _further_tables(what: str, rows: Records) -> list[str]:
    """Return the tables of a body besides those of its endpoint: lists of contracts, rates, and steps."""
    has_rates = any(state.rate is not None and state.next_payment for state in rows.states)
    has_intervals = any(state.settle_h is not None for state in rows.states)
    is_filled = {
        "instruments": rows.instruments or what == "instruments",
        "dexes": what == "dexes",
        "funding_rates": rows.rates or has_rates,
        "oi_bars": rows.oi_bars,
        "intervals": rows.intervals or has_intervals or what == "intervals",
    }
    return [name for name, filled in is_filled.items() if filled]


def records(
    venue: str,
    request: str,
    body: bytes | str,
    *,
    at: times.TimeLike | None = None,
    context: Mapping[str, Any] | Context | None = None,
) -> Records:
    """Read a body as records of all of its contracts; `context` may be a `Context`."""
    endpoint, reading = _opened(venue, request, body, at=at, context=context)
    if endpoint is None:
        return Records()
    return _rows(endpoint, reading)


def _rows(endpoint: VenueEndpoint, reading: Reading) -> Records:
    """Read a body; raise if all of its contracts have the margin of another path of the venue."""
    _require_channel(endpoint, reading)
    rows = reading.finish(endpoint.read(reading), is_pushed=endpoint.method == "WS")
    margin = _margin_at(reading.exchange, endpoint.path)
    if margin == "any":
        return rows
    of_contracts = chain(rows.states, rows.payments, rows.oi, rows.liquidations)
    items = chain(rows.instruments, map(attrgetter("instrument"), of_contracts))
    first = next(items, None)
    if first is not None and all(item.inverse != (margin == "inverse") for item in chain([first], items)):
        reading.fail(f"expected {margin} contracts, got {first.name}, which is {first.margin}")
    return rows


def _require_channel(endpoint: VenueEndpoint, reading: Reading) -> None:
    """Raise for a frame of another channel, or a response with another method than expected.

    A frame is not accepted for a request either: some frames of last prices look like responses of marks.
    """
    place = VENUES[reading.exchange].channel_at
    if not place:
        return
    is_request = endpoint.method != "WS" and place != "method"
    if is_request and f'"{place.rpartition(".")[2]}"'.encode() not in reading.body:
        return
    for channel in dict.fromkeys(reading.pushed(str | None, place, None)):
        if channel in (None, "subscribe"):  # a subscription is not a request
            continue
        if is_request:
            reading.fail(f"expected the response of a request, got a frame of the channel {channel!r}")
        if not _is_channel(reading.exchange, endpoint, channel):
            kind = "frame is of the channel" if endpoint.method == "WS" else "response is of the method"
            reading.fail(f"the {kind} {channel!r}: pass this as `request`")


@lru_cache(maxsize=4096)
def _is_channel(venue: str, endpoint: VenueEndpoint, channel: str) -> bool:
    """Return whether a channel is an endpoint's, or another one of its venue with the same frames."""
    # Lighter writes the first "/" of a channel as ":", and Kraken sends the first trades as trade_snapshot.
    name = channel.replace(":", "/").removesuffix("_snapshot")
    # Deribit's incremental channel starts with a full ticker and does not name an interval.
    if name.startswith("incremental_"):
        name = f"{name.removeprefix('incremental_')}.raw"
    # OKX sends the same frames at other depths and intervals, such as books5 and books-l2-tbt.
    name = re.sub(r"^books[-\w]+$", "books", name)
    if endpoint.path.startswith("/"):
        name = f"/{name}"
    alike = [e for e in VENUES[venue].endpoints if e.method == endpoint.method and e.read == endpoint.read]
    return any(e.pattern.fullmatch(name) or fnmatchcase(name, e.path) for e in (endpoint, *alike))


@lru_cache(maxsize=512)
def _margin_at(venue: str, path: str) -> str:
    """Return the margin of the contracts of a path; "any" if its requests have several margins."""
    margins = {endpoint.margin for endpoint in VENUES[venue].endpoints if endpoint.path == path}
    if len(margins) > 1:
        return "any"
    return margins.pop()


def _opened(
    venue: str,
    request: str,
    body: bytes | str,
    *,
    at: times.TimeLike | None = None,
    context: Mapping[str, Any] | Context | None = None,
) -> tuple[VenueEndpoint | None, Reading]:
    """Return the endpoint of a body, and the body ready to be read; raise for an error response."""
    venue = venue_of(venue)
    if venue not in VENUES:
        raise ValueError(f"venue={venue!r} is not one of {', '.join(VENUES)}{did_you_mean(venue, VENUES)}")
    place, params = _parsed(request)
    venue = hyperliquid.venue_of_request(venue, params)
    endpoint: VenueEndpoint | None = None
    path_params: dict[str, str] = {}
    if place != "any":
        endpoint, path_params = _endpoint_of(venue, place, params)
    if isinstance(body, str):
        # A lone surrogate is not valid UTF-8: the JSON reader rejects it with its place.
        body = body.encode(errors="surrogatepass")
    if not isinstance(context, Context):
        context = Context(context, venue)
    arrived = None if at is None else times.us(times.timestamp(at, "at"))
    reading = Reading(venue, place, params, bytes(body), at=arrived, context=context, path_params=path_params)
    VENUES[venue].refuse(reading)
    if endpoint is None:
        refuse_event(reading)
    return endpoint, reading


def _parsed(request: str) -> tuple[str, dict[str, str]]:
    """Return the path or channel and its parameters; a remaining ``{name}`` counts as missing."""
    place, _, query = re.sub(r"^(https?|wss?)://[^/]+", "", request).partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    return place, {name: value for name, value in pairs if not re.fullmatch(r"\{\w+\}", value)}


def _endpoint_of(
    venue: str, place: str, params: Mapping[str, str]
) -> tuple[VenueEndpoint | None, dict[str, str]]:
    """Return the endpoint of a request and the variable parts of its path.

    None if only errors can be read.
    """
    near = _endpoints_at(venue, place)
    if not near:
        paths = ", ".join(sorted({e.path for e in VENUES[venue].endpoints}))
        raise ValueError(f"request: {venue} has no endpoint {place!r}: it has {paths}")
    fitting = [(endpoint, values) for endpoint, values in near if _has_fixed(endpoint, params)]
    if not fitting:
        return None, {}
    # Choose the endpoint with the most fixed parameters and the fewest variable parts.
    endpoint, values = max(fitting, key=lambda row: len(row[0].fixed) - len(row[1]))
    return endpoint, {name: value for name, value in values.items() if not value.startswith("{")}


def _has_fixed(endpoint: VenueEndpoint, params: Mapping[str, str]) -> bool:
    """Return whether a request has the parameters that identify an endpoint."""
    return all(name in params and value in ("", params[name]) for name, value in endpoint.fixed.items())


@lru_cache(maxsize=512)  # cached, because a history has many bodies with the same path
def _endpoints_at(venue: str, place: str) -> list[tuple[VenueEndpoint, dict[str, str]]]:
    """Return the endpoints of a path, with its ``{name}`` parts."""
    matches = []
    for endpoint in VENUES[venue].endpoints:
        # A path may include that of the host's address, and the first slash may be missing in the endpoint.
        host_path, _ = _parsed(endpoint.host or VENUES[venue].host)
        short = place.removeprefix(host_path)
        spellings = (short, place, short.removeprefix("/"))
        match = next(filter(None, map(endpoint.pattern.fullmatch, spellings)), None)
        if match:
            matches.append((endpoint, match.groupdict()))
    return matches
