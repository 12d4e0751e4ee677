"""Hyperliquid, and its HIP-3 dexes, which are venues of their own.

The rate is hourly: a decimal of 0.0000125 is 1 bps in 8 hours. Until June 2023 it was paid every 8 hours and
quoted for them. Contexts are joined to names by position. There is no history of open interest and no public
feed of liquidations.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from derivdata.errors import VenueError
from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import payments
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Interval, Records, State
from derivdata.sources.venues.shapes import Figures, Level, Paid, many, spelled
from derivdata.sources.venues.wire import Stamp, Wire


def refuse(reading: Reading) -> None:
    """Raise a `VenueError` for ``null``, which an unknown coin or dex gives with HTTP 200."""
    if reading.body.strip() == b"null":
        raise VenueError(reading.where, "no such coin or dex", code="null")


def _named(name: str) -> Instrument:
    """Return the contract of a coin; of ``dex:COIN`` the symbol is the coin."""
    return Instrument(name, name.rpartition(":")[2], "USD", 1.0)


class _Coin(Wire):
    name: str
    szDecimals: int
    isDelisted: bool | None = False


class _Universe(Wire):
    universe: list[_Coin]


class _Context(Figures[str, int], kw_only=True):
    funding: str
    mean: str | None = None  # a coin without one does not trade
    traded: str | None = None  # coins of 24 hours


_CONTEXT = spelled(
    _Context, funding="funding", contracts="openInterest", mark="markPx", index_price="oraclePx",
    opened="prevDayPx", volume_usd="dayNtlVlm", mean="midPx", traded="dayBaseVlm",
)  # fmt: skip


def _states(reading: Reading, pairs: Sequence[tuple[str, _Context]]) -> list[State]:
    """Return the states of the coins that trade; delisted ones stay with a frozen rate."""
    pairs = [(name, row) for name, row in pairs if row.mean is not None]
    _check_means(reading, [row for _, row in pairs])
    states = []
    for name, row in pairs:
        with reading.row():
            mark, before = reading.number(row.mark), reading.number(row.opened)
            change = (mark / before - 1) * 100 if mark and before else None
            state = reading.state(reading.instrument(name, _named), row, 1.0, change_pct=change)
            states.append(state._replace(rate=reading.required(row.funding)))
    return states


def _check_means(reading: Reading, rows: list[_Context]) -> None:
    """Refuse contexts whose mean price of the day is not of the order of the mark, for the median coin.

    A single coin may well lose nine tenths in a day.
    """
    logs = []
    for row in rows:
        mark, volume = reading.number(row.mark) or 0.0, reading.number(row.volume_usd) or 0.0
        traded = reading.number(row.traded) or 0.0
        if traded > 0.0 and mark > 0.0 and volume > 1e4:
            logs.append(math.log(volume / traded / mark))
    if logs:
        ratio = math.exp(statistics.median(logs))
        reading.require_close(ratio, 1.0, 0.9, "mean price of the day over mark, median coin")


def meta_and_contexts(reading: Reading) -> Records:
    """Read rates, open interest, prices and volume of all coins of a dex, which stand in two lists."""
    meta, contexts = reading.decode(_META_AND_CONTEXTS)
    coins = meta.universe
    if len(coins) != len(contexts):
        reading.fail(f"{len(coins)} coins and {len(contexts)} contexts cannot be joined by position")
    pairs = zip(coins, contexts, strict=True)
    return Records(states=_states(reading, [(c.name, row) for c, row in pairs if not c.isDelisted]))


_META_AND_CONTEXTS: Any = tuple[_Universe, many(_CONTEXT)]  # type: ignore[misc]
_OF_DEX: Any = tuple[str, many(_CONTEXT)]  # type: ignore[misc]


def all_contexts(reading: Reading) -> Records:
    """Read the main dex of a frame without names: they are the context's instruments, in their order.

    Without them the first two, BTC and ETH, are all that is known.
    """
    names = [*reading.context.instruments] or ["BTC", "ETH"]
    records = Records()
    for dex, contexts in reading.pushed(many(_OF_DEX), "data.ctxs"):
        if dex == "":
            records.states += _states(reading, [*zip(names, contexts, strict=False)])
    return records


def meta(reading: Reading) -> Records:
    """Read the coins of one dex."""
    return Records(instruments=_listed(reading.decode(_Universe)))


def all_metas(reading: Reading) -> Records:
    """Read the coins of every dex."""
    return Records(instruments=[item for dex in reading.decode(list[_Universe]) for item in _listed(dex)])


def _listed(universe: _Universe) -> list[Instrument]:
    return [_named(coin.name)._replace(active=not coin.isDelisted) for coin in universe.universe]


_PAID = spelled(Paid[str, int], name="coin", rate="fundingRate", time="time")


class _Predicted(Wire):
    fundingRate: str
    nextFundingTime: Stamp
    fundingIntervalHours: int = 8


def predicted_fundings(reading: Reading) -> Records:
    """Read the intervals that it names of Binance: a cross-check, no rows."""
    records = Records()
    rows = reading.decode(list[tuple[str, list[tuple[str, _Predicted | None]]]])
    for coin, venues in rows:
        for name, predicted in venues:
            if name == "BinPerp" and predicted is not None:
                item = reading.instrument(coin, _named)
                records.intervals.append(Interval(item, predicted.fundingIntervalHours))
    return records


_LEVEL = spelled(Level[str], price="px", size="sz")


class _Book(Wire):
    coin: str
    levels: tuple[list[_LEVEL], list[_LEVEL]]  # type: ignore[valid-type]
    time: Stamp


def book(reading: Reading) -> Records:
    """Read a book of 20 levels a side, bids first; sizes are coins."""
    body = reading.decode(_Book)
    item = reading.instrument(body.coin, _named)
    return Records(books=[reading.book(item, reading.ms(body.time), *body.levels)])


def _requests(of: partial[VenueEndpoint], params: Mapping[str, str]) -> tuple[VenueEndpoint, ...]:
    """Return the requests that the venue's own book and those of its dexes have alike."""
    post = partial(of, method="POST")
    return (
        post("instruments", "/info meta", meta, params=params, weight=20, lists=True),
        post("funding", "/info metaAndAssetCtxs", meta_and_contexts, params=params, weight=20, every=60),
        post(
            "settlements", "/info fundingHistory", payments(_PAID, "", _named), symbol="coin", weight=45,
            paging=Paging(limit=500, limit_name=""),
        ),
        post("book", "/info l2Book", book, symbol="coin", weight=2),
    )  # fmt: skip


_endpoint = partial(VenueEndpoint, "hyperliquid")

ENDPOINTS = (
    *_requests(_endpoint, {}),
    _endpoint("instruments", "/info allPerpMetas", all_metas, method="POST", weight=20),
    _endpoint("intervals", "/info predictedFundings", predicted_fundings, method="POST", weight=20),
    _endpoint("funding", "allDexsAssetCtxs", all_contexts, method="WS"),
)

VENUE = Venue(
    "hyperliquid",
    "https://api.hyperliquid.xyz",
    ENDPOINTS,
    refuse,
    budget=5.0,  # of 1,200 a minute, for the dexes too, which take turns with it at one address
    socket="wss://api.hyperliquid.xyz/ws",
    ping=('{"method":"ping"}', 50.0),
    hourly=True,
)

DEXES = {"tradexyz": "xyz", "hyena": "hyna", "kinetiq": "km", "paragon": "para"}
"""Dexes that others deploy, which are venues of their own: slug to the dex's name, inferred from names."""


def _dex(slug: str, dex: str) -> Venue:
    """Return a dex as a venue: its contracts are named ``dex:COIN``, and its symbols are the coins."""
    of = partial(
        VenueEndpoint, slug, confirmed=False, note=f"the dex {dex}; the slug is inferred from its name"
    )
    return Venue(slug, VENUE.host, _requests(of, {"dex": dex}), refuse, budget=VENUE.budget, hourly=True)


DEX_VENUES = tuple(_dex(slug, dex) for slug, dex in DEXES.items())
