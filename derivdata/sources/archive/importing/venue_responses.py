"""Read saved responses of venues with the adapters for live responses."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError, DerivdataError
from derivdata.sources import venues
from derivdata.sources.archive.importing.buffered_rows import joined
from derivdata.sources.archive.importing.cells import Rejections
from derivdata.sources.archive.importing.column_meanings import kind_of_ratio
from derivdata.sources.archive.importing.json_bodies import is_reply, records_of
from derivdata.sources.archive.importing.market_names import (
    known_interval,
    names_in_path,
    plain_name,
    venue_of_word,
)
from derivdata.sources.archive.importing.plan import Given, Unclear
from derivdata.sources.archive.importing.readers import explained
from derivdata.sources.archive.importing.source_files import Source, opened
from derivdata.sources.archive.importing.timestamps import to_timestamps
from derivdata.sources.archive.schemas import archive_tables
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.registry import VENUES
from derivdata.tables.venue_facts import fact_value

_MAX_BYTES = 64 << 20
_INVERSE = re.compile(rb'"[A-Z0-9]+[-_]?USD(_PERP|_\d{6}|-SWAP)?"')
_LINEAR = re.compile(rb'"[A-Z0-9]+[-_]?(USDT|USDC)')


class VenueResponse(NamedTuple):
    """A response that an adapter reads: the venue, the path, its tables, and omitted rows."""

    venue: str
    path: str
    tables: Mapping[str, pd.DataFrame]
    notices: tuple[str, ...]


def read_response(source: Source, writer: str | None, given: Given) -> VenueResponse | None:
    """Return the tables of a saved response or its pages; None for any other file."""
    body = _body(source)
    if not body:
        return None
    stated = given.set.get("exchange", writer)
    named = stated or names_in_path(source.name).get("exchange")
    candidates = _possible_venues(stated, body)
    if candidates is None:
        return None
    responses: list[VenueResponse] = []
    for venue in candidates:
        responses += _of_venue(venue, body, given)
    responses = _of_market(source, responses, body, given)
    responses = [_with_execution(source, response, given) for response in _of_kind(source, responses, given)]
    if not responses and named in VENUES:
        responses = _of_market(source, _of_coin(source, named, body, given), body, given)
        responses = _of_kind(source, responses, given)
    if len(responses) > 1:
        responses = [response for response in responses if response.venue == named] or responses
    elif responses and stated is None and _is_unnamed(body):
        _refuse_unnamed(source, responses[0], named, given)
    if len(responses) > 1:
        names = [response.venue for response in responses]
        raise Unclear(
            f"{source}: the file may be a response of {' or of '.join(names)}: select one with "
            f"{' or '.join(f'--from {name}' for name in names)}",
            "--from",
            names,
        )
    return next(iter(responses), None)


def _body(source: Source) -> bytes:
    """Return the JSON of a file; empty for another format, or a file that is too large for a response."""
    with explained(source), opened(source) as (kind, stream):
        if kind != "json":
            return b""
        body = stream.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        return b""
    return body


def _possible_venues(stated: str | None, body: bytes) -> list[str] | None:
    """Return the venues whose adapters may read a body; None if its rows are of venues without an adapter.

    Venues in the rows take precedence over a folder with a venue's name.
    """
    if stated in VENUES:
        return [stated]
    if stated is not None:
        return []
    named = _stated_venues(body)
    if not named:
        return [*VENUES]
    return [venue for venue in VENUES if venue in named] or None


def _refuse_unnamed(source: Source, response: VenueResponse, named: str | None, given: Given) -> None:
    """Raise `Unclear` for rows without names, unless the file name or an option states their response."""
    is_of_ratio = "positioning_history" in response.tables and kind_of_ratio(source.file_name) is not None
    has_stated_kind = ("kind" in given.set or is_of_ratio) and named == response.venue
    if has_stated_kind or _names_path(source, response.path):
        return
    raise Unclear(
        f"{source}: the rows have no column names. They may be a response of {response.venue} "
        f"{response.path}: pass --from {response.venue} if they are",
        "--from",
        [response.venue],
    )


def refuse_size_of_several(source: Source, answer: VenueResponse, given: Given) -> None:
    """Raise for a contract size of the caller with rows of several contracts, whose sizes differ."""
    # Open interest of Gate's tickers is converted with the size, if it is stated.
    for name in ("liquidations_fills", _BOOK, "oi_history"):
        symbols = sorted(_symbols_of(answer.tables.get(name)))
        if "contract_size" in given.set and len(symbols) > 1:
            raise ArchiveError(
                f"{source}: contract_size={given.set['contract_size']} cannot apply to all rows, which "
                f"belong to {', '.join(symbols[:_SHOWN])}: write one file for each contract"
            )


_SHOWN = 5


def _symbols_of(frame: pd.DataFrame | None) -> set[str]:
    return set() if frame is None else {str(symbol) for symbol in frame["symbol"].unique()}


_VENUE_FIELDS = ("exchange", "exchangename", "venue")
_FIRST_ROWS = 50


def _stated_venues(body: bytes) -> set[str]:
    """Return the venues in the rows of a body, known or not; empty without any.

    Messages of tardis-machine, which name their venue, have the fields of BitMEX's payments.
    """
    rows = _rows_in(body)
    if rows is None:
        rows = []
        for line in body.split(b"\n", _FIRST_ROWS)[:_FIRST_ROWS]:
            rows += _rows_in(line) or []
    venues: set[str] = set()
    for row in rows[:_FIRST_ROWS]:
        if not isinstance(row, dict):
            continue
        for name, value in row.items():
            if plain_name(name) in _VENUE_FIELDS and isinstance(value, str) and value:
                venues.add(venue_of_word(value))
    return venues


def _rows_in(text: bytes) -> list[Any] | None:
    """Return the records in JSON; None for other text, and for the error of a service."""
    try:
        return records_of(msgspec.json.decode(text)).rows
    except (msgspec.DecodeError, ArchiveError):
        return None


_MAX_UNNAMED = 6
"""Values of a row without names that may be of several responses; rows of candles have more."""


def _is_unnamed(body: bytes) -> bool:
    """Return whether the rows of a response are short lists of unnamed values."""
    row = _first_row(body)
    if not isinstance(row, list) or len(row) > _MAX_UNNAMED:
        return False
    return not any(isinstance(value, list | dict) for value in row)


def _names_path(source: Source, path: str) -> bool:
    """Return whether the name of a file has the last word of a response's path."""
    last = path.partition("?")[0].rsplit("/", 1)[-1]
    return plain_name(last) in plain_name(source.name)


_SPELLINGS = (
    "{}",
    "{}-PERP",
    "{}-PERPETUAL",
    "{}USDT",
    "{}-USD",
    "{}-USDT",
    "{}_USDT",
    "{}-USDT-SWAP",
    "{}USDTM",
    "PF_{}USD",
    "PERP_{}_USDC",
    "{}_USDT_Perp",
)
"""How venues write the perpetual of a coin, where a response does not name its contract."""


def _of_coin(source: Source, venue: str, body: bytes, given: Given) -> list[VenueResponse]:
    """Return the reading of a response about one contract, with the coin from the caller or the path."""
    coin = given.set.get("symbol", names_in_path(source.name).get("symbol"))
    if coin is None or not coin.isalnum():
        return []
    for spelling in _SPELLINGS:
        named = given._replace(set={**given.set, "symbol": spelling.format(coin)})
        responses = _of_venue(venue, body, named)
        if responses and (not responses[0].tables or _symbols(responses[0]) == {coin}):
            return responses
    return []


def _symbols(response: VenueResponse) -> set[str]:
    """Return the symbols of a response's rows."""
    symbols: set[str] = set()
    for frame in response.tables.values():
        symbols.update(frame["symbol"].astype(str))
    return symbols


def _of_venue(venue: str, body: bytes, given: Given) -> list[VenueResponse]:
    """Return the first reading of a response by an endpoint of a venue, or each kind of positions."""
    responses: list[VenueResponse] = []
    tried = set[Any]()
    beginning = _beginning(body)
    # Requests come before streams, and endpoints of the margin of the contracts before others.
    endpoints = sorted(
        VENUES[venue].endpoints, key=lambda e: (e.method == "WS", _is_other_margin(e, beginning))
    )
    for endpoint in endpoints:
        request = _request(endpoint, given)
        if (request, endpoint.read) in tried or _is_other(endpoint, beginning):
            continue
        tried.add((request, endpoint.read))
        response = _read_or_pages(venue, request, beginning, given)
        if response is not None and beginning is not body:
            response = _read_or_pages(venue, request, body, given)
        if response is None:
            continue
        if _BOOK in response.tables:
            return [_with_state(response, endpoints, body, given)]
        if not {"positioning_history", "prices_history", "prices_spot"} & response.tables.keys():
            return [response]
        responses.append(response)
    return responses


_BOOK = "orderbook_book"
_DEPTHS = "orderbook_depth_history"


_OF_DATED = frozenset({"futures_history", "options_snapshot"})


def _with_state(
    book: VenueResponse, endpoints: list[VenueEndpoint], body: bytes, given: Given
) -> VenueResponse:
    """Return a book with the figures of the contract next to it, without the book of a dated contract.

    Deribit's ``get_order_book`` has the fields of its ``ticker``, such as ``mark_price``, ``open_interest``
    and ``funding_8h`` (API v2, 2026).
    """
    for endpoint in endpoints:
        if endpoint.what not in ("funding", "chain") or endpoint.method == "WS":
            continue
        state = _read_or_pages(book.venue, _request(endpoint, given), body, given)
        if state is None:
            continue
        notices = dict.fromkeys([*book.notices, *state.notices])
        tables = {**state.tables, **book.tables}
        if not _OF_DATED.isdisjoint(state.tables):
            del tables[_BOOK]
            tables.pop(_DEPTHS, None)
            notices[
                "order books of dated contracts are not stored, because the table is for perpetual "
                "contracts: write those of perpetual contracts into their own file"
            ] = None
        return book._replace(tables=tables, notices=tuple(notices))
    return book


_WORDS_OF_MARKETS = {
    kind: re.compile(rf"(?<![a-z]){kind}(?!et)", re.IGNORECASE) for kind in ("mark", "index", "spot")
}


_NAMES_OF_CANDLES = frozenset({"open", "high", "low", "close"})


def _of_market(
    source: Source, responses: list[VenueResponse], body: bytes, given: Given
) -> list[VenueResponse]:
    """Return the first reading of each venue with the kind of prices in the file name or the options.

    Candles have the same fields for trades, the mark price, the index and spot markets. Candles with field
    names are read by their names if no kind of price is given.
    """
    priced: list[VenueResponse] = []
    others: list[VenueResponse] = []
    for response in responses:
        if {"prices_history", "prices_spot"} & response.tables.keys():
            priced.append(response)
        else:
            others.append(response)
    venues_of_others = {response.venue for response in others}
    priced = [response for response in priced if response.venue not in venues_of_others]
    row = _first_row(body)
    has_names = not isinstance(row, list)
    has_prices = isinstance(row, dict) and _NAMES_OF_CANDLES.issubset(map(plain_name, row))
    if not priced or others or (has_names and not has_prices):
        return [*others, *_firsts(priced)]
    if given.set.get("kind"):
        kinds = [given.set["kind"]]
    else:
        kinds = [kind for kind, pattern in _WORDS_OF_MARKETS.items() if pattern.search(source.name)]
    chosen = [response for response in priced if _prices_of(response) in kinds]
    if not chosen and not has_names:
        raise ArchiveError(
            f"{source}: the rows are candles without column names, which may be of last, mark, index or "
            "spot prices: pass --set kind=mark or --set kind=index if they are mark or index prices, or "
            "save the candles as CSV with the columns time, open, high, low and close"
        )
    return _firsts(chosen)


def _firsts(responses: list[VenueResponse]) -> list[VenueResponse]:
    """Return the first response of each venue."""
    firsts: dict[str, VenueResponse] = {}
    for response in responses:
        firsts.setdefault(response.venue, response)
    return [*firsts.values()]


def _prices_of(response: VenueResponse) -> str:
    """Return ``spot``, or the kind of the prices of a response."""
    history = response.tables.get("prices_history")
    if history is None:
        return "spot"
    return str(history["kind"].iloc[0])


def _first_row(body: bytes) -> Any:
    """Return the first row of a response; None without one."""
    rows = _rows_in(body)
    if not rows:
        return None
    return rows[0]


def _of_kind(source: Source, responses: list[VenueResponse], given: Given) -> list[VenueResponse]:
    """Return only the response of the kind that the options or the file name state.

    Ratios of accounts, top accounts and top positions have the same fields, so one body has several readings.
    Raise `Unclear` if several kinds remain.
    """
    kinds: dict[str, VenueResponse] = {}
    for response in responses:
        frame = response.tables.get("positioning_history")
        if frame is not None and frame["kind"].nunique() == 1:
            kinds.setdefault(str(frame["kind"].iloc[0]), response)
    if not kinds:
        return responses
    if len(kinds) == 1:
        return responses[:1]
    stated = given.set.get("kind")
    if stated in kinds:
        return [kinds[stated]]
    named = [response for response in kinds.values() if _names_path(source, response.path)]
    if len(named) == 1:
        return named
    kind = kind_of_ratio(source.file_name)
    if kind in kinds:
        return [kinds[kind]]
    raise Unclear(
        f"{source}: the positions may be of {' or of '.join(kinds)}: select one with "
        f"{' or '.join(f'--set kind={kind}' for kind in kinds)}",
        "--set",
        [f"kind={kind}" for kind in kinds],
    )


_TRADES_OF_OPTIONS = "options_trades"


def _with_execution(source: Source, response: VenueResponse, given: Given) -> VenueResponse:
    """Return trades of options with their execution by the name of the file.

    Binance's ``trades`` and ``blockTrades`` have the same fields.
    """
    frame = response.tables.get(_TRADES_OF_OPTIONS)
    if frame is None or response.venue != "binance":
        return response
    name = source.file_name.lower()
    execution = given.set.get("execution", "")
    if not execution and "block" in name:
        execution = "block"
    elif not execution and "trades" in name:
        execution = "book"
    if not execution:
        raise Unclear(
            f"{source}: the trades may be order book trades or negotiated blocks, because trades and "
            "blockTrades of binance have the same fields: pass --set execution=book or --set "
            "execution=block",
            "--set",
            ["execution=book", "execution=block"],
        )
    path = response.path
    if execution != "block":
        path = path.replace("blockTrades", "trades")
    tables = {**response.tables, _TRADES_OF_OPTIONS: frame.assign(execution=execution)}
    return response._replace(path=path, tables=tables)


def _is_other_margin(endpoint: VenueEndpoint, body: bytes) -> bool:
    """Return whether an endpoint is for contracts of another margin than the names in a response."""
    is_inverse = _INVERSE.search(body) is not None and _LINEAR.search(body) is None
    if is_inverse:
        return endpoint.margin == "linear"
    return endpoint.margin == "inverse"


def _is_other(endpoint: VenueEndpoint, body: bytes) -> bool:
    """Return whether a response has another value of a fixed parameter of the endpoint's request."""
    for name, value in endpoint.fixed.items():
        stated = re.search(rb'"%b":\s*"([^"]*)"' % name.encode(), body)
        if stated is not None and value and stated[1].decode() != value:
            return True
    return False


def _request(endpoint: VenueEndpoint, given: Given) -> str:
    """Return the path with the caller's contract, if rows do not name it."""
    name = given.set.get("symbol")
    if name is None or not endpoint.symbol or endpoint.symbol.startswith("{"):
        return endpoint.path
    if endpoint.symbol == "index_name" and name.isalnum():
        name = f"{name.lower()}_usd"  # Deribit's name of the index of a coin
    separator = "&" if "?" in endpoint.path else "?"
    return f"{endpoint.path}{separator}{endpoint.symbol}={name}"


def _read(venue: str, request: str, body: bytes, given: Given) -> VenueResponse | None:
    """Return the tables of one response to a request; None if it is not of this request or has no rows."""
    stated = {name: given.set[name] for name in ("interval_hours", "contract_size") if name in given.set}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tables = venues.read(
                venue,
                request,
                body,
                at=given.set.get("time"),
                context={name: float(value) for name, value in stated.items()},
            )
        except (DerivdataError, ValueError):
            return None
    table_names = {*archive_tables()} - {"instruments"}
    full = {name: frame for name, frame in tables.items() if len(frame) and name in table_names}
    if not full:
        return None
    facts = _facts_of(venue, request, full, body)
    if facts.keys() - given.set.keys():
        return _read(venue, request, body, given._replace(set={**facts, **given.set}))
    notices = [str(warning.message) for warning in caught]
    notices += _omit_without_figures(full)
    return VenueResponse(venue, request, full, tuple(notices))


_RATES = ("rate_bps_8h", "rate_native")
_SIZES = (("liquidations_fills", "value_usd"), (_BOOK, "size"))


def _facts_of(venue: str, request: str, tables: Mapping[str, pd.DataFrame], body: bytes) -> dict[str, str]:
    """Return the interval and contract size that a response lacks, from the facts of its venue."""
    facts: dict[str, str] = {}
    rates = tables.get("funding_rates")
    if rates is not None and rates[[*_RATES]].isna().all(axis=None):
        hours = {known_interval(venue, str(symbol)) for symbol in rates["symbol"].unique()}
        if len(hours) == 1 and None not in hours:
            facts["interval_hours"] = f"{hours.pop():g}"
    for name, column in _SIZES:
        frame = tables.get(name)
        if frame is not None and frame[column].isna().all():
            size = _contract_size(venue, request, frame, body)
            if size is not None:
                facts["contract_size"] = f"{size:.12g}"
    return facts


def _contract_size(venue: str, request: str, rows: pd.DataFrame, body: bytes) -> float | None:
    """Return the coins per contract of the one symbol of a response; None if the facts do not have it."""
    symbols = rows["symbol"].unique()
    is_linear = _LINEAR.search(body) is not None or "usdt" in request.lower()
    # Facts are of contracts in USDT: those in USDC have other sizes.
    if len(symbols) != 1 or not is_linear or _INVERSE.search(body) is not None or b"USDC" in body:
        return None
    return fact_value(venue, "contract_coin", str(symbols[0]))


def _omit_without_figures(tables: dict[str, pd.DataFrame]) -> list[str]:
    """Remove tables whose rows have no figures, and return the reasons."""
    notices: list[str] = []
    depths = tables.get(_DEPTHS)
    if depths is not None:
        # A short book ends before the distance, so that its depth there is unknown on both sides.
        depths = depths.dropna(subset=["bid_depth_usd", "ask_depth_usd"], how="all")
        tables[_DEPTHS] = depths
        if depths.empty:
            del tables[_DEPTHS]
    rates = tables.get("funding_rates")
    if rates is not None and rates[[*_RATES]].isna().all(axis=None):
        del tables["funding_rates"]
        notices.append(
            "running rates are omitted, because their interval is unknown: pass --set interval_hours=8"
        )
    for name, column in _SIZES:
        frame = tables.get(name)
        if frame is None or not frame[column].isna().all():
            continue
        del tables[name]
        tables.pop(_DEPTHS, None)
        first = "write one file for each contract, and " if len(_symbols_of(frame)) > 1 else ""
        notices.append(
            f"sizes are in contracts and are omitted: {first}pass the contract size in coins with --set "
            "contract_size=COINS"
        )
    return notices


_FIRST_RECORDS = 200
"""Records of a long list that show whether a response is of an endpoint, of which there are hundreds."""


def _beginning(body: bytes) -> bytes:
    """Return the first records of a long list; other bodies are returned unchanged."""
    try:
        listed = msgspec.json.decode(body, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return body
    if len(listed) <= _FIRST_RECORDS:
        return body
    return msgspec.json.encode(listed[:_FIRST_RECORDS])


def _read_or_pages(venue: str, request: str, body: bytes, given: Given) -> VenueResponse | None:
    """Read a body as one response, or else as pages."""
    return _read(venue, request, body, given) or _read_pages(venue, request, body, given)


def _read_pages(venue: str, request: str, body: bytes, given: Given) -> VenueResponse | None:
    """Read one response per line, or a list of responses, as one response."""
    responses = []
    for page in _pages(body):
        stated = given
        if page.received is not None and "time" not in given.set:
            stated = given._replace(set={**given.set, "time": page.received.isoformat()})
        response = _read(venue, request, page.body, stated)
        if response is None:
            return None
        responses.append(response)
    if not responses:
        return None
    frames_by_table: dict[str, list[pd.DataFrame]] = {}
    notices: list[str] = []
    for response in responses:
        notices += response.notices
        for name, frame in response.tables.items():
            frames_by_table.setdefault(name, []).append(frame)
    tables = {name: joined(frames) for name, frames in frames_by_table.items()}
    return VenueResponse(venue, request, tables, tuple(notices))


class _Page(NamedTuple):
    """A response without the envelope of a collector, and the time at which it was received."""

    body: bytes
    received: pd.Timestamp | None = None

    def received_at(self, time: pd.Timestamp | None) -> _Page:
        """Return the page with the time of an outer envelope, unless it has one."""
        return self if self.received is not None else self._replace(received=time)


def _pages(body: bytes) -> Iterator[_Page]:
    """Yield the responses of a file with one per line, or of a list of them."""
    lines = [line.strip() for line in body.splitlines()]
    pages = list(filter(None, lines))
    if len(pages) <= 1 or not all(page[:1] in b"{[" and page[-1:] in b"}]" for page in pages):
        pages = _objects_in(body)
    for page in map(_message, pages):
        if page.body:
            yield page


def _objects_in(body: bytes) -> list[bytes]:
    """Return the objects of a list; empty for another body, and a list of too many to be responses."""
    try:
        listed = msgspec.json.decode(body, type=list[msgspec.Raw])
    except msgspec.DecodeError:
        return []
    if len(listed) >= _MAX_PAGES or not all(bytes(item).lstrip()[:1] == b"{" for item in listed[:3]):
        return []
    return list(map(bytes, listed))


_MAX_PAGES = 10_000
_MESSAGES = ("message", "msg", "raw", "payload", "data")
"""Names under which collectors keep a message next to the time at which they received it."""
_NAMES_OF_STREAMS = ("stream", "topic")
_OF_RECEIPT = re.compile(r"recv|receiv|local|arriv|ingest|collect|capture|^(ts|time|timestamp|stream|topic)$")


def _message(line: bytes) -> _Page:
    """Return a message without the envelope of a collector; empty for the reply to a subscription."""
    try:
        message = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return _Page(line)
    if not isinstance(message, dict):
        return _Page(line)
    name = next((name for name in _MESSAGES if name in message), None)
    if name is not None and all(_OF_RECEIPT.search(other.lower()) for other in {*message} - {name}):
        content = message[name]
        time = _time_of_receipt(message)
        if isinstance(content, str) and content[:1] in ("{", "["):
            return _message(content.encode()).received_at(time)
        if isinstance(content, dict | list):
            return _message(msgspec.json.encode(content)).received_at(time)
    if is_reply(message):
        return _Page(b"")
    return _Page(line)


def _time_of_receipt(envelope: dict[str, Any]) -> pd.Timestamp | None:
    """Return the only time next to the message of a collector; None for several, and for other text."""
    cells = [value for name, value in envelope.items() if name not in (*_MESSAGES, *_NAMES_OF_STREAMS)]
    if len(cells) != 1 or isinstance(cells[0], bool) or not isinstance(cells[0], str | int | float):
        return None
    column = pa.chunked_array([pa.array([cells[0]])])
    time = to_timestamps(column, "time", Rejections(1), tz=None)[0]
    return None if pd.isna(time) else time
