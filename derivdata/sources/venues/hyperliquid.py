"""Hyperliquid, and its HIP-3 dexes.

A dex that is a venue of the API has its own slug, and its symbols are coins. Contracts of any other dex are
contracts of hyperliquid whose symbols are ``dex:COIN``.

The rate is hourly: a decimal of 0.0000125 is 1 bps in 8 hours. Until June 2023 it was paid every 8 hours and
quoted for them. Contexts are joined to names by position. There is no history of open interest and no public
feed of liquidations.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from derivdata.errors import VenueError
from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Interval, Records, State, StatedRate
from derivdata.sources.venues.wire import Figures, Level, PaymentRow, Stamp, Wire, change_pct, many, spelled
from derivdata.tables.contracts import HIP3_DEXES, hip3_contract

_HOUR_US = 3_600_000_000


def refuse(reading: Reading) -> None:
    """Raise a `VenueError` for ``null``, which an unknown coin or dex gives with HTTP 200."""
    if reading.body.strip() == b"null":
        raise VenueError(reading.where, "unknown coin or dex", code="null")


def _dex_of(name: str) -> str:
    """Return the dex of a contract's name, empty for the venue's own book."""
    return name.rpartition(":")[0]


def _named(name: str) -> Instrument:
    """Parse a contract name; on a dex that is a venue, the symbol is the coin."""
    return Instrument(name, hip3_contract("hyperliquid", name)[1], "USD", 1.0)


def venue_of_request(venue: str, params: Mapping[str, str]) -> str:
    """Return the slug of the dex in a request to Hyperliquid, if it is a venue of the API."""
    dex = params.get("dex") or _dex_of(params.get("coin", ""))
    if venue != "hyperliquid" or not dex:
        return venue
    return hip3_contract(venue, f"{dex}:")[0]


def _require_dex(reading: Reading, names: Iterable[str], *, is_of_one_dex: bool = True) -> None:
    """Raise if a name in the body is not of the dex of the venue, or else of the request.

    If neither has a dex, names must be of the venue's own book. Without `is_of_one_dex` they may then also be
    of dexes that are not venues of the API.
    """
    requested_dex = reading.params.get("dex") or _dex_of(reading.params.get("coin", ""))
    expected = HIP3_DEXES.get(reading.exchange, requested_dex)
    if requested_dex and requested_dex != expected:
        reading.fail(
            f"the request is of the dex {requested_dex}, and {reading.exchange} is the dex {expected}"
        )
    for name in names:
        slug = hip3_contract("hyperliquid", name)[0]
        if reading.exchange == "hyperliquid" and slug != "hyperliquid":
            reading.fail(f"{name} is a contract of the venue {slug}: read the body as venue={slug!r}")
        if _dex_of(name) == expected:
            continue
        if expected:
            reading.fail(f"expected contracts of the dex {expected}, got {name}")
        if is_of_one_dex:
            reading.fail(f"expected contracts of the venue's own book (the request names no dex), got {name}")


class _Coin(Wire):
    name: str
    szDecimals: int
    isDelisted: bool | None = False


class _Universe(Wire):
    universe: list[_Coin]


class _Context(Figures[str, int], kw_only=True):
    funding: str
    mean: str | None = None  # missing for coins that do not trade
    traded: str | None = None  # 24-hour volume in coins


_CONTEXT = spelled(
    _Context, funding="funding", contracts="openInterest", mark="markPx", index_price="oraclePx",
    opened="prevDayPx", volume_usd="dayNtlVlm", mean="midPx", traded="dayBaseVlm",
)  # fmt: skip


def _states(reading: Reading, pairs: Sequence[tuple[str, _Context]]) -> list[State]:
    """Return the states of traded coins; delisted ones have a frozen rate."""
    pairs = [(name, row) for name, row in pairs if row.mean is not None]
    _check_means(reading, [row for _, row in pairs])
    states = []
    for name, row in pairs:
        with reading.row():
            mark = reading.number(row.mark)
            change = change_pct(mark, reading.number(row.opened))
            state = reading.state(reading.instrument(name, _named), row, 1.0, change_pct=change)
            states.append(state._replace(rate=reading.required(row.funding)))
    return states


def _check_means(reading: Reading, rows: list[_Context]) -> None:
    """Raise if the mean price of the day is of a different order of magnitude than the mark, in the median.

    The median is used, because a single coin may lose nine tenths in a day.
    """
    logs = []
    for row in rows:
        mark = reading.number(row.mark) or 0.0
        volume = reading.number(row.volume_usd) or 0.0
        traded = reading.number(row.traded) or 0.0
        if traded > 0.0 and mark > 0.0 and volume > 1e4:
            logs.append(math.log(volume / traded / mark))
    if logs:
        ratio = math.exp(statistics.median(logs))
        # A tolerance of 0.9 of the larger value accepts ratios from a tenth to ten.
        reading.require_close(ratio, 1.0, 0.9, "mean price of the day over mark, median coin")


def meta_and_contexts(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all coins of a dex, which are in two lists."""
    meta, contexts = reading.decode(_META_AND_CONTEXTS)
    coins = meta.universe
    _require_dex(reading, [coin.name for coin in coins])
    if len(coins) != len(contexts):
        reading.fail(f"expected a context for each coin, got {len(coins)} coins and {len(contexts)} contexts")
    pairs = zip(coins, contexts, strict=True)
    return Records(states=_states(reading, [(c.name, row) for c, row in pairs if not c.isDelisted]))


_META_AND_CONTEXTS: Any = tuple[_Universe, many(_CONTEXT)]  # type: ignore[misc]
_OF_DEX: Any = tuple[str, many(_CONTEXT)]  # type: ignore[misc]


def all_contexts(reading: Reading) -> Records:
    """Read a frame without names, whose rows are in the order of the context's instruments of each dex.

    Without contracts of the venue's own book, only its first two, BTC and ETH, are known. Dexes that are
    venues are excluded.
    """
    listed: dict[str, list[str]] = {}
    for name in reading.context.instruments:
        listed.setdefault(_dex_of(name), []).append(name)
    listed.setdefault("", ["BTC", "ETH"])
    records = Records()
    for dex, contexts in reading.pushed(many(_OF_DEX), "data.ctxs"):
        is_of_venue = hip3_contract("hyperliquid", f"{dex}:")[0] == "hyperliquid"
        if is_of_venue and (not dex or len(listed.get(dex, ())) == len(contexts)):
            records.states += _states(reading, [*zip(listed[dex], contexts, strict=False)])
    return records


def meta(reading: Reading) -> Records:
    """Read the coins of one dex."""
    universe = reading.decode(_Universe)
    _require_dex(reading, [coin.name for coin in universe.universe])
    return Records(instruments=_listed(universe))


def all_metas(reading: Reading) -> Records:
    """Read the coins of every dex, each with the venue that it is."""
    return Records(instruments=[item for dex in reading.decode(list[_Universe]) for item in _listed(dex)])


class _Dex(Wire):
    name: str
    fullName: str | None = None
    full_name: str | None = None  # in samples of 2025
    deployer: str | None = None


def dexes(reading: Reading) -> Records:
    """Read the names of the dexes that others deploy; the first entry is null, the venue's own book.

    A dex that is a venue of the API must have a full name like the venue's slug. Layout: @nktkas/hyperliquid
    0.28.0, PerpDexsResponse.
    """
    listed = [dex for dex in reading.decode(list[_Dex | None]) if dex is not None]
    for dex in listed:
        stated = dex.fullName or dex.full_name
        if stated is None and dex.deployer is None:
            reading.fail(f"expected the full name or the deployer of the dex {dex.name}, got neither")
        slug = hip3_contract("hyperliquid", f"{dex.name}:")[0]
        full = "".join(letter for letter in (stated or slug).lower() if letter.isalnum())
        if slug != "hyperliquid" and not (full in slug or slug in full):
            reading.fail(f"expected the dex {dex.name} of the venue {slug}, got {stated!r}")
    return Records(dexes=[dex.name for dex in listed])


def _listed(universe: _Universe) -> list[Instrument]:
    return [_named(coin.name)._replace(active=not coin.isDelisted) for coin in universe.universe]


_PAID = spelled(PaymentRow[str, int], name="coin", rate="fundingRate", time="time")


def _payments(reading: Reading) -> Records:
    """Read payments of the contracts of one dex, or of the venue's own book."""
    records = payments(_PAID, "", _named)(reading)
    _require_dex(reading, {row.instrument.name for row in records.payments}, is_of_one_dex=False)
    return records


class _Predicted(Wire):
    fundingRate: str
    nextFundingTime: Stamp
    fundingIntervalHours: int | None = None


_PREDICTED_VENUES = {"BinPerp": "binance", "BybitPerp": "bybit", "HlPerp": "hyperliquid"}


def predicted_fundings(reading: Reading) -> Records:
    """Read the rates that Hyperliquid predicts for several venues, to check the venues' own rates.

    In bodies of 2026-09 the venue's own settlement is the start of the running hour: a settlement that is not
    after the body is omitted, and for the venue itself it is the next whole hour. Older bodies have no
    interval: the venue's own rate is then hourly, and rates of other venues are omitted.
    """
    records = Records()
    rows = reading.decode(list[tuple[str, list[tuple[str, _Predicted | None]]]])
    for coin, venues in rows:
        for name, predicted in venues:
            if predicted is None:
                continue
            if name not in _PREDICTED_VENUES:
                records.omitted.append(f"{reading.where}: {name} is not a known venue")
                continue
            hours = predicted.fundingIntervalHours
            if hours is None and name == "HlPerp":
                hours = 1
            if hours is None:
                records.omitted.append(f"{reading.where}: the interval of the rate of {name} is not stated")
                continue
            if name == "BinPerp":
                records.intervals.append(Interval(reading.instrument(coin, _named), hours))
            records.rates.append(_prediction(reading, coin, _PREDICTED_VENUES[name], predicted, float(hours)))
    return records


def _prediction(reading: Reading, coin: str, venue: str, predicted: _Predicted, hours: float) -> StatedRate:
    """Return a rate with its settlement, None if the stated one is in the past and the next is unknown."""
    if hours <= 0.0:
        reading.fail(f"{coin} on {venue}: expected an interval above 0 hours, got {hours:g}")
    settlement: int | None = reading.ms(predicted.nextFundingTime)
    if reading.at is not None and settlement is not None and settlement <= reading.at:
        settlement = None
        if venue == "hyperliquid":  # pays at each whole hour
            settlement = (reading.at // _HOUR_US + 1) * _HOUR_US
    rate = reading.required(predicted.fundingRate)
    item = reading.instrument(coin, _named)
    return StatedRate(item, "predicted", rate, settlement, reading.at, hours, hours, venue)


_LEVEL = spelled(Level[str], price="px", size="sz")


class _Book(Wire):
    coin: str
    levels: tuple[list[_LEVEL], list[_LEVEL]]  # type: ignore[valid-type]
    time: Stamp


def book(reading: Reading) -> Records:
    """Read a book of 20 levels a side, bids first; sizes are coins."""
    body = reading.decode(_Book)
    _require_dex(reading, [body.coin], is_of_one_dex=False)
    item = reading.instrument(body.coin, _named)
    return Records(books=[reading.book(item, reading.ms(body.time), *body.levels)])


def _requests(
    of: partial[VenueEndpoint], params: Mapping[str, str], dex: str = ""
) -> tuple[VenueEndpoint, ...]:
    """Return the requests that the venue's own book and those of its dexes share.

    `dex` is the parameter by which polls name the other dexes.
    """
    post = partial(of, method="POST")
    named = partial(post, params=params, weight=20, dex=dex)
    return (
        named("instruments", "/info meta", meta, lists=True),
        named("funding", "/info metaAndAssetCtxs", meta_and_contexts, every=60),
        post(
            "settlements", "/info fundingHistory", _payments, symbol="coin", weight=45,
            paging=Paging(limit=500, limit_name=""),
        ),
        post("book", "/info l2Book", book, symbol="coin", weight=2),
    )  # fmt: skip


_endpoint = partial(VenueEndpoint, "hyperliquid")

ENDPOINTS = (
    *_requests(_endpoint, {}, "dex"),
    _endpoint("instruments", "/info allPerpMetas", all_metas, method="POST", weight=20),
    _endpoint("dexes", "/info perpDexs", dexes, method="POST", weight=20),
    _endpoint(
        "intervals",
        "/info predictedFundings",
        predicted_fundings,
        tables=("funding_rates",),
        method="POST",
        weight=20,
        every=300,
    ),
    _endpoint("funding", "allDexsAssetCtxs", all_contexts, method="WS"),
)

VENUE = Venue(
    "hyperliquid",
    "https://api.hyperliquid.xyz",
    ENDPOINTS,
    refuse,
    budget=5.0,  # a quarter of 1,200 a minute, shared with the dexes at the same address
    socket="wss://api.hyperliquid.xyz/ws",
    ping=('{"method":"ping"}', 50.0),
    hourly=True,
    channel_at="channel",
)


def _dex(slug: str, dex: str) -> Venue:
    """Return a dex that is a venue: its contracts are named ``dex:COIN``, and its symbols are the coins."""
    of = partial(
        VenueEndpoint, slug, confirmed=False, note=f"the dex {dex}; the slug is inferred from its name"
    )
    return Venue(slug, VENUE.host, _requests(of, {"dex": dex}), refuse, budget=VENUE.budget, hourly=True)


DEX_VENUES = tuple(_dex(slug, dex) for slug, dex in HIP3_DEXES.items())
