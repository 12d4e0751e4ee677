"""The venues on one port, written from the specification of their APIs and not from the adapters.

Each venue has a slug in the path: ``http://127.0.0.1:port/binance/fapi/v1/fundingRate``. All serve the same
truth (`Truth`), in their formats, units and paging.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pandas as pd

from derivdata.tables.contracts import HIP3_DEXES as DEXES
from tests.collect import books, chains, lists, positions
from tests.collect.clocks import SimulatedClock as SimulatedClock
from tests.collect.histories import history
from tests.collect.state_bodies import (
    OKX_STRIKES,
    filled_row,
    state_body,
    with_delisted,
    with_extras,
)
from tests.collect.truth import HOUR, Truth, interval
from tests.venues.test_read import ERRORS

PAGE = b"<html><body>We are down for maintenance.</body></html>"
SYMBOLS = ("BTC", "ETH")
ERROR_200 = {venue: json.loads(body) for venue, body, _, reason in ERRORS if reason in ("limit", "busy")}


class Dropped(Exception):
    """The venue hangs up without a response."""


class DecodedResponse(NamedTuple):
    """Kinds of responses of a venue: `cut` omits the second half of the body, `reset` ends with an RST."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool = False
    reset: bool = False


class Fakes:
    """The server, a context manager. `answer` gives the same responses without sockets.

    Attributes
    ----------
    faults
        By venue, the next response instead: None (no fault), ``"drop"``, ``"silence"`` (of 10 s, without
        sockets), ``"reset"``, ``"cut"``, ``"page"`` (a page of HTML with status 200), a (status, headers,
        body), or a body.
    random_faults
        The part of each venue's requests that fail, each in a way of its venue: the same ones in every run.
    held, delays
        What to wait for before a response, and how long one takes [s, without sockets], by the beginning of
        venue and path.
    skew, skews
        Offsets of the venues' clocks; for some venues also in the rows.
    listed_after
        How long after a payment some venues list it.
    refusals
        Permanent replacement responses, by the start of venue and path: (status, headers, body).
    altered
        What makes another body, or status and body, of the parameters and the body, by the end of the path.
    delisted, delisted_at
        Whether bulk responses still include OLD, which was delisted, and until when it trades.
    outages
        By venue, when it is down for maintenance.
    out_of_reach
        Venues at whose address no one listens.
    symbols
        Bases of the contracts in bulk responses; histories cover BTC and ETH.
    extras
        Whether pre-market and test symbols are included, and fields of one contract omitted.
    chains
        Whether deribit, bybit and binance list options; okx always has three.
    """

    def __init__(self, end: int, now: Callable[[], pd.Timestamp]) -> None:
        self.truth, self._clock, self._of = Truth(end), now, threading.local()
        self.log: list[tuple[str, str, dict[str, Any], pd.Timestamp]] = []
        self.faults: dict[str, list[Any]] = {}
        self.random_faults = 0.0
        self.altered: dict[str, Callable[[dict[str, Any], Any], Any]] = {}
        self.held: dict[str, threading.Event] = {}
        self.delays: dict[str, float] = {}
        self.skew = pd.Timedelta(0)
        self.skews: dict[str, pd.Timedelta] = {}
        self.listed_after: dict[str, pd.Timedelta] = {}
        self.refusals: dict[str, tuple[int, dict[str, str], Any]] = {}
        self.delisted = False
        self.delisted_at: pd.Timestamp | None = None
        self.chains, self.extras = False, False
        self.symbols: tuple[str, ...] = SYMBOLS
        self.out_of_reach: set[str] = set()
        self.outages: dict[str, tuple[pd.Timestamp, pd.Timestamp]] = {}
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        fakes = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body in one write: two would wait 40 ms for each other
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                fakes._serve(self, {})

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                fakes._serve(self, json.loads(self.rfile.read(size) or b"{}"))

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._handler = Handler
        self._server: ThreadingHTTPServer | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """Return the address of each venue; sessions without sockets need no server."""
        host = "venues.test" if self._server is None else f"127.0.0.1:{self._server.server_port}"
        nobody = "http://127.0.0.1:9"
        return {n: nobody if n in self.out_of_reach else f"http://{host}/{n}" for n in (*VENUES, *DEXES)}

    def now(self) -> pd.Timestamp:
        """Time of the venue that responds in this thread."""
        return self._clock() + self.skews.get(getattr(self._of, "exchange", ""), pd.Timedelta(0))

    def payments(self, exchange: str, symbol: str) -> list[tuple[int, int, float]]:
        """Payments of `Truth` that a venue lists so far."""
        rows = self.truth.payments(exchange, symbol)
        listed = (self.now() - self.listed_after.get(exchange, pd.Timedelta(0))).timestamp()
        return [row for row in rows if row[0] <= listed]

    def __enter__(self) -> Fakes:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for event in self.held.values():
            event.set()
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def states(self) -> list[tuple[str, tuple[int, float, float]]]:
        """(second, coins, mark) of each symbol now."""
        second = int(self.now().timestamp())
        return [(s, self.truth.oi_at(s, second)) for s in self.symbols]

    def answer(
        self, exchange: str, place: str, params: dict[str, Any], *, encoded: bool = False
    ) -> DecodedResponse:
        """Respond to a request by venue, path and parameters; `encoded` enables gzip.

        Raises
        ------
        Dropped
            No response is sent.
        """
        params = _flat(params)
        self._of.exchange = exchange
        with self._lock:
            self.log.append((exchange, place, params, self._clock()))
            self._counts[exchange] += 1
            fault = self._fault(exchange, place)
        for start, event in self.held.items():
            if f"{exchange}{place}".startswith(start):
                event.wait()
        if fault in ("drop", "silence"):
            raise Dropped(fault)
        status, headers, body = 200, {}, fault
        if isinstance(fault, tuple):
            status, headers, body = fault
        elif fault in (None, "cut", "reset"):
            status, body = self._altered(exchange, place, params)
        raw = (
            PAGE if fault == "page" else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        if encoded:
            raw, headers = gzip.compress(raw), {**headers, "Content-Encoding": "gzip"}
        date = format_datetime((self.now() + self.skew).floor("s").to_pydatetime(), usegmt=True)
        return DecodedResponse(status, {"Date": date, **headers}, raw, fault == "cut", fault == "reset")

    def _serve(self, handler: BaseHTTPRequestHandler, post: dict[str, Any]) -> None:
        parts = urlsplit(handler.path)
        _, exchange, place = parts.path.split("/", 2)
        told: dict[str, Any] = {}
        for name, value in parse_qsl(parts.query):
            told[name] = f"{told[name]},{value}" if name in told else value
        params = {**told, **post}
        encoded = "gzip" in handler.headers.get("Accept-Encoding", "")
        try:
            answer = self.answer(exchange, f"/{place}", params, encoded=encoded)
        except Dropped:
            handler.close_connection = True
            handler.connection.close()
            return
        handler.send_response_only(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        broken = answer.cut or answer.reset
        handler.wfile.write(answer.body[: len(answer.body) // 2] if broken else answer.body)
        if broken:
            handler.wfile.flush()
            handler.close_connection = True
            if answer.reset:
                now = struct.pack("ii", 1, 0)  # lingers for no time: what was not read is thrown away
                handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
            handler.connection.close()

    def _altered(self, exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        status, body = self._body(exchange, place, params)
        alter = next((a for end, a in self.altered.items() if f"{exchange}{place}".endswith(end)), None)
        changed = body if alter is None else alter(params, body)
        return changed if isinstance(changed, tuple) else (status, changed)

    def _body(self, exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        try:
            ms = int(self.now().timestamp() * 1000)
            if place.startswith("/futures/usd1/"):
                return 200, []
            body = books.book(exchange, place, params, ms)
            body = chains.chain(exchange, place, params, ms) if body is None and self.chains else body
            body = lists.answer(self, exchange, place, params) if body is None else body
            body = positions.answer(self, exchange, place, params) if body is None else body
            body = state_body(self, exchange, place, params) if body is None else body
            body = history(self, exchange, place, params) if body is None else body
            made = VENUES["hyperliquid" if exchange in DEXES else exchange]
            body = made(self, place, params) if body is None else body
        except KeyError:
            return 404, {"message": f"no such path: {place}"}
        if self.extras:
            body = with_extras(exchange, place, params, body)
        if self.delisted:
            gone = self.delisted_at is None or self.now() >= self.delisted_at
            body = with_delisted(exchange, place, params, body, gone=gone)
        return 200, body

    def _fault(self, exchange: str, place: str) -> Any:
        down = self.outages.get(exchange)
        if down is not None and down[0] <= self.now() < down[1]:
            return 503, {}, {"msg": "maintenance"}
        refused = [text for start, text in self.refusals.items() if f"{exchange}{place}".startswith(start)]
        if refused:
            return refused[0]
        planned = self.faults.get(exchange)
        if planned:
            return planned.pop(0)
        count = self._counts[exchange]
        if self.random_faults and count * 2654435761 % 1000 < 1000 * self.random_faults:
            kinds = ["drop", (429, {"Retry-After": "1"}, {}), (503, {}, {"msg": "maintenance"})]
            if exchange in ERROR_200:
                kinds.append(ERROR_200[exchange])
            return kinds[count % len(kinds)]
        return None


def _binance(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    now = int(fakes.now().timestamp() * 1000)
    if place.endswith("fundingInfo"):
        hours = interval("binance", now // 1000)  # what is adjusted is listed, other contracts are not
        named = [] if hours == 8 or place.startswith("/dapi") else fakes.symbols
        return [{"symbol": f"{s}USDT", "fundingIntervalHours": hours} for s in named]
    if place.startswith(("/dapi", "/eapi")):
        return []
    if place.endswith("/openInterest"):
        held = {f"{s}USDT": coins for s, (_, coins, _) in fakes.states()} | {"BTCUSDT_260327": 7.0}
        if params["symbol"] not in held:
            return {"code": -1121, "msg": "Invalid symbol."}
        return {"symbol": params["symbol"], "openInterest": str(held[params["symbol"]]), "time": now}
    raise KeyError(place)


def _bybit(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    linear = params["category"] == "linear"
    result: dict[str, Any] = {"category": params["category"]}
    if place.endswith("instruments-info"):
        kind, quote = ("Linear", "USDT") if linear else ("Inverse", "USD")
        one = 1 if params.get("cursor") else 0  # two pages, by a cursor
        half = len(fakes.symbols) // 2
        named = fakes.symbols[half:] if one and linear else fakes.symbols[:half] if linear else fakes.symbols
        result["list"] = [filled_row("bybit instrument", s=s, kind=kind, quote=quote) for s in named]
        result["nextPageCursor"] = "next" if linear and not one else ""
    elif place.endswith("/tickers"):
        result["list"] = [
            filled_row(
                "bybit ticker",
                s=s,
                quote="USDT" if linear else "USD",
                rate="0.0002" if linear else "0.0009",
                mark=mark,
                both=2 * coins if linear else 2e6,  # an inverse market counts USD
                one=coins if linear else 1e6,
                value=coins * mark if linear else 1e6 / mark,
                due=(int(fakes.now().timestamp()) // (4 * HOUR) + 1) * 4 * HOUR * 1000,
            )
            for s, (_, coins, mark) in (fakes.states() if params["category"] != "option" else [])
        ]
    else:
        raise KeyError(place)
    return {"retCode": 0, "retMsg": "OK", "result": result, "time": int(fakes.now().timestamp() * 1000)}


def _okx(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    now = int(fakes.now().timestamp() * 1000)
    if params.get("instType") == "FUTURES":
        data: list[Any] = [filled_row("okx dated", now=now)]
    elif place.endswith("/index-tickers"):
        data = [
            {"instId": f"{s}-{params['quoteCcy']}", "idxPx": "50000", "ts": str(now)} for s in fakes.symbols
        ]
    elif place.endswith("/instruments"):
        kinds = ("okx instrument", "okx inverse instrument")
        data = [filled_row(kind, s=s) for kind in kinds for s in fakes.symbols]
    elif place.endswith("/opt-summary"):
        base = params["instFamily"][:3]
        data = [
            filled_row("okx option summary", base=base, strike=strike, at=now - i)
            for i, strike in enumerate(OKX_STRIKES)
        ]
    elif place.endswith("/open-interest") and params["instType"] == "OPTION":
        base = params["instFamily"][:3]
        data = [filled_row("okx option interest", base=base, strike=strike, at=now) for strike in OKX_STRIKES]
    else:
        due = now + HOUR * 1000 * interval("okx", now // 1000)
        data = [
            filled_row(
                f"okx {place.rpartition('/')[2]}",
                s=s,
                quote=quote,
                rate=rate,
                now=now,
                due=due,
                coins=coins if quote == "USDT" else 5.0,
                contracts=coins * 100 if quote == "USDT" else 50,
                usd=coins * mark if quote == "USDT" else 5000,
                mark=mark,
                half=mark / 2,
            )
            for quote, rate in (("USDT", "0.0003"), ("USD", "0.0009"))
            for s, (_, coins, mark) in fakes.states()
        ]
    return {"code": "0", "msg": "", "data": data}


def _hyperliquid(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    dex = params.get("dex", "")
    if dex not in ("", *DEXES.values()):
        return None
    named = f"{dex}:" if dex else ""
    if params["type"] == "perpDexs":
        return [None, *({"name": name, "fullName": slug} for slug, name in DEXES.items())]
    if params["type"] == "meta":
        return {"universe": [{"name": f"{named}{s}", "szDecimals": 3} for s in fakes.symbols]}
    if params["type"] == "metaAndAssetCtxs":
        return [
            {"universe": [{"name": f"{named}{s}", "szDecimals": 3} for s in fakes.symbols]},
            [
                filled_row("hyperliquid context", coins=coins, mark=mark)
                for _, (_, coins, mark) in fakes.states()
            ],
        ]
    raise KeyError(params["type"])


def _none(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    """Return an empty response for endpoints other than lists, books and payments."""
    raise KeyError(place)


def _paradex(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    if place.endswith("/funding/data"):
        start, end = int(params["start_at"]), int(params["end_at"])
        size = min(int(params.get("page_size", 100)), 5000)
        every_five = range(end // 5000 * 5, start // 1000 - 1, -5)  # seconds, the newest first
        row = {"market": params["market"], "funding_rate_8h": "", "funding_period_hours": 8}
        rows = [
            {**row, "funding_rate": f"{s % 1000 * 1e-7:.8f}", "created_at": s * 1000}
            for s in every_five[:size]
            if start <= s * 1000 <= end
        ]
        return {"results": rows, "next": "older"}
    raise KeyError(place)


def _cryptocom(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    if place != "/public/get-valuations":
        raise KeyError(place)
    symbol, now = params["instrument_name"][:3], int(fakes.now().timestamp() * 1000)
    told = {"funding_rate": "0.0000125", "mark_price": str(fakes.truth.oi_at(symbol, now // 1000)[2])}
    data = [{"v": told[params["valuation_type"]], "t": now // 14_400_000 * 14_400_000}]
    return {"id": 1, "code": 0, "result": {"instrument_name": params["instrument_name"], "data": data}}


def _nado(fakes: Fakes, place: str, params: dict[str, Any]) -> Any:
    """Return snapshots, the newest first: one of each hour, at its last second, and one of now."""
    if place != "/v1":
        raise KeyError(place)
    asked = {name.removeprefix("market_snapshots."): value for name, value in params.items()}
    number, now = str(asked["product_ids"]), int(fakes.now().timestamp())
    symbol = SYMBOLS[int(number[-1])]
    rows = []
    for second, _, rate in fakes.payments("nado", symbol):
        stamp = min(second + HOUR - 1, now)
        _, coins, mark = fakes.truth.oi_at(symbol, stamp)
        held = str(round(coins * mark * 10**6) * 10**12)
        row = {"timestamp": stamp, "funding_rates": {number: str(round(rate * 10**10) * 10**8)}}
        rows.append({**row, "open_interests": {number: held}})
    until = int(asked.get("interval.max_time", now))
    listed = [row for row in rows[::-1] if row["timestamp"] <= until]
    return {"snapshots": listed[: int(asked["interval.count"])]}


VENUES: dict[str, Callable[[Fakes, str, dict[str, Any]], Any]] = {
    "binance": _binance,
    "bybit": _bybit,
    "okx": _okx,
    "hyperliquid": _hyperliquid,
    **dict.fromkeys(("gateio", "bitget", "deribit", "lighter"), _none),
    "paradex": _paradex,
    "aster": _binance,
    **dict.fromkeys("kraken dydx kucoin mexc huobi derive bingx phemex bitmex".split(), _none),
    "cryptocom": _cryptocom,
    **dict.fromkeys(("edgex", "backpack", "coinbase"), _none),
    **dict.fromkeys("variational extended grvt pacifica woofipro ethereal apex".split(), _none),
    "nado": _nado,
}


def _flat(params: dict[str, Any], outer: str = "") -> dict[str, Any]:
    """Return parameters without others inside: ``interval.count``; the values of a list joined by commas."""
    flat: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{outer}{name}.")
        else:
            flat[outer + name] = ",".join(map(str, value)) if isinstance(value, list) else value
    return flat
