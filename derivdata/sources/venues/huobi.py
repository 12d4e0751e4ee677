"""HTX (slug huobi): linear and inverse swaps.

The venue's pages say "sum of both buy and sell sides" for open interest, its value, and the volume and
turnover of 24 hours: each is halved here for comparison with other venues. ``amount`` of a liquidation is in
coins in v3 and the stream, and in contracts in v5, where it equals ``volume``. The list of linear contracts
has their intervals; for inverse ones they follow from two polls around a payment.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec

from derivdata.sources.venues.endpoint import RATE_TABLES, Paging, Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.readers import contracts, payments, positioning, states
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Liquidation, OiPoint, Records, State, StatedRate
from derivdata.sources.venues.wire import (
    ContractRow,
    Fault,
    Figures,
    LongShortRow,
    PaymentRow,
    Stamp,
    Wire,
    as_rows,
    if_stated,
    one_side,
    refusal,
    spelled,
)
from derivdata.support.forking import DECODERS

_HOUR_US = 3_600_000_000
_CENT = 0.01  # coarsest rounding of turnovers [USD]
_REASONS = dict.fromkeys((1032, 1084), "limit")
_USD_SIZES = {"BTC": 100.0}  # USD per inverse contract; other coins have 10 USD


class _Fault(Wire):
    status: str | None = None
    code: int | None = None
    err_code: int | str | None = None
    err_msg: str = ""
    dashed_code: int | str | None = msgspec.field(default=None, name="err-code")
    dashed_msg: str = msgspec.field(default="", name="err-msg")
    message: str = ""
    msg: str = ""
    op: str = ""

    @property
    def fault(self) -> Fault:
        """Return the fault of a body: ``"status": "error"``, a ``code`` other than 200 (v5), or a topic."""
        refused = self.op != "" and self.dashed_code not in (None, 0)
        if self.status != "error" and self.code in (None, 200) and not refused:
            return None
        codes = (self.err_code, self.dashed_code, self.code)
        code = next((code for code in codes if code is not None), None)
        return code, self.err_msg or self.dashed_msg or self.message or self.msg


def _named(name: str) -> Instrument:
    """Parse a contract name: BTC-USDT (linear) or BTC-USD (inverse), with a third part if dated."""
    base, _, rest = name.partition("-")
    quote, _, dated = rest.partition("-")
    perpetual = not dated and quote in ("USDT", "USD")
    if quote != "USD":
        return Instrument(name, base, quote, perpetual=perpetual)
    return Instrument(name, base, quote, _USD_SIZES.get(base, 10.0), inverse=True, perpetual=perpetual)


class _Rate(Wire):
    contract_code: str
    funding_rate: str | None
    funding_time: Stamp | None
    next_funding_time: Stamp | None = None
    estimated_rate: str | None = None
    id: str | None = None  # only in payments of v5, which are rows of another response


class _Rates(Wire):
    data: list[_Rate] | _Rate
    ts: Stamp | None = None


def funding_rates(reading: Reading) -> Records:
    """Read running rates, without those of dated and delisted contracts.

    A contract with its next payment in the past is delisted.

    Only v5, which is requested for some contracts, has the payment after the next, and so the interval.
    """
    body = reading.decode(_Rates)
    time = if_stated(reading.ms, body.ts) or reading.at
    records = Records()
    for row in as_rows(body.data):
        with reading.row():
            item = reading.instrument(row.contract_code, _named)
            if row.id is not None:
                reading.fail(f"{item.name} has an id: expected the running rate, got a payment")
            if row.funding_rate is None or row.funding_time is None or not item.perpetual:
                continue
            next_payment = reading.ms(row.funding_time)
            if time is not None and next_payment < time:
                continue
            hours: float | None = None
            after: int | None = None
            if row.next_funding_time:
                after = reading.ms(row.next_funding_time)
                hours = (after - next_payment) / _HOUR_US
            elif time is not None:
                hours = reading.current_interval(item, time, next_payment)
            rate = reading.required(row.funding_rate)
            records.states.append(State(item, time, rate, hours, hours, next_payment=next_payment))
            estimate = reading.number(row.estimated_rate)
            if estimate is not None:
                records.rates.append(StatedRate(item, "predicted", estimate, after, time, hours, hours))
    return records


class _Paid(PaymentRow[str, str], kw_only=True):
    upcoming: Stamp | None = None  # only in running rates, which are rows of another response


_PAID = spelled(
    _Paid, name="contract_code", rate="funding_rate", time="funding_time", upcoming="next_funding_time"
)


def funding_history(path: str, reading: Reading) -> Records:
    """Read payments at a path of the body; raise for running rates, which belong to a coming payment."""
    now = if_stated(reading.ms, reading.value(Stamp | None, "ts", None)) or reading.at
    for row in reading.rows(_PAID, path, or_null=True):
        if row.upcoming is not None or (now is not None and reading.ms(row.time) > now):
            reading.fail(f"{row.name}: expected a payment, got the rate of a coming payment")
    return payments(_PAID, path, _named)(reading)


class _Oi(Wire):
    contract_code: str
    volume: float
    amount: float
    business_type: str = "swap"  # only linear lists contain both swaps and dated futures
    value: float | None = None
    trade_turnover: float | None = None


def open_interest(reading: Reading) -> Records:
    """Read open interest: coins and contracts, and USD of linear swaps."""
    time = reading.ms(reading.value(Stamp, "ts"))
    states = []
    for row in reading.rows(_Oi, "data"):
        with reading.row():
            item = reading.instrument(row.contract_code, _named)
            if row.business_type != "swap" or not item.perpetual:
                continue
            usd = row.value
            if item.inverse:
                usd = item.usd(row.volume, None)
            states.append(
                State(
                    item,
                    time,
                    oi_usd=one_side(usd),
                    oi_coins=one_side(row.amount),
                    volume_usd=one_side(row.trade_turnover) or None,
                )
            )
    return Records(states=states)


class _OiTick(Wire):
    volume: float | str
    amount_type: int | str  # 1: contracts, 2: coins; text in ccxt 4.5.90, htx.py
    ts: Stamp
    value: float | str | None = None  # USD; missing for inverse contracts


class _OiSeries(Wire):
    contract_code: str
    tick: list[_OiTick]


def open_interest_history(reading: Reading) -> Records:
    """Read open interest of the past in USD, of both sides."""
    data = reading.value(_OiSeries, "data")
    item = reading.instrument(data.contract_code, _named)
    resolution = reading.resolution("period")
    records = Records()
    for row in data.tick:
        with reading.row():
            time = reading.ms(row.ts)
            volume = reading.required(row.volume)
            value = reading.number(row.value)
            is_coins = reading.word(str(row.amount_type), {"1": False, "2": True})
            if item.inverse and not is_coins:
                value = item.usd(volume, None)
            if value is None:
                reading.fail(f"open interest of {item.name} lacks its value in USD")
            coins: float | None = volume
            if not is_coins:
                coins = item.coins(volume, None)
            records.add_past(OiPoint(item, time, one_side(value), resolution, one_side(coins)))
    return records


_MERGED = spelled(
    Figures[str, int], name="contract_code", last="close", price="close", opened="open",
    volume_usd="trade_turnover",
)  # fmt: skip


def merged(reading: Reading) -> Records:
    """Read last prices and 24-hour statistics of all contracts.

    A bulk mark does not exist, so the last price is used.
    """
    records = states(_MERGED, "ticks", _named, stamp="ts")(reading)
    records.states = [row._replace(volume_usd=one_side(row.volume_usd)) for row in records.states]
    return records


class _Liquidated(Wire):
    id: str
    contract_code: str
    liquidation_time: Stamp
    position_side: str
    side: str
    volume: str
    amount: str
    bankrupt_price: str
    trade_turnover: str


def liquidations(reading: Reading) -> Records:
    """Read liquidations of v5, whose volume and amount are both contracts."""
    records = Records()
    for row in reading.rows(_Liquidated, "data"):
        with reading.row():
            item = reading.instrument(row.contract_code, _named)
            side = reading.word(row.position_side, {"long": "long", "short": "short"})
            if reading.word(row.side, {"sell": "long", "buy": "short"}) != side:
                reading.fail(
                    f"a {row.position_side} position is closed by an order to {row.side}, which is "
                    "the wrong side"
                )
            price = reading.required(row.bankrupt_price)
            contracts = reading.required(row.volume)
            turnover = reading.required(row.trade_turnover)
            usd = item.usd(contracts, price)
            reading.require_close(usd, turnover, 0.01, "contracts × price and trade_turnover", step=_CENT)
            time = reading.ms(row.liquidation_time)
            records.add_past(
                Liquidation.of(
                    item,
                    time,
                    side,
                    contracts,
                    order_price=price,
                    value_usd=turnover,
                    order_id=f"{row.id}-{side}",
                )
            )
    return records


class _Forced(Wire):
    contract_code: str
    direction: str
    created_at: Stamp
    price: float
    volume: float
    amount: float
    trade_turnover: float | None = None


def liquidation_frames(reading: Reading) -> Records:
    """Read liquidations of the stream or of v3: the order's side, and amounts in coins."""
    records = Records()
    for row in reading.pushed(_Forced, "data"):
        with reading.row():
            item = reading.instrument(row.contract_code, _named)
            side = reading.word(row.direction, {"sell": "long", "buy": "short"})
            usd = row.trade_turnover
            if item.inverse:
                usd = item.usd(row.volume, None)
            else:
                value = row.amount * row.price
                reading.require_close(value, usd, 0.01, "amount × price and turnover", step=_CENT)
            native = (row.price, row.volume)
            time = reading.ms(row.created_at)
            records.add_past(
                Liquidation(item, time, side, row.price, None, row.amount, row.amount, usd, native)
            )
    return records


class _Contract(ContractRow[float | str, str, int]):
    business: str = "swap"  # only linear lists contain both swaps and dated futures


_CONTRACT = spelled(
    _Contract, name="contract_code", symbol="symbol", size="contract_size", status="contract_status",
    business="business_type", expiry="delivery_time", tick="price_tick", hours="settlement_period",
    listed="create_date",
)  # fmt: skip


def _contract(reading: Reading, row: _Contract) -> Instrument:
    item = _named(row.name)
    item = reading.contract(
        row,
        quote=item.quote,
        inverse=item.inverse,
        perpetual=row.business in ("swap", None),
        active=row.status == 1,
    )
    return item.without_expiry()


_RATIO = spelled(LongShortRow[float, int], long="buy_ratio", short="sell_ratio", time="ts")
_ELITE = Paging(descending=True, start="", end="", limit=30, limit_name="", reach_days=1.2)

_endpoint = partial(VenueEndpoint, "huobi")
_PAGES = Paging(
    "page", descending=True, start="", end="", cursor="page_index", limit=50, limit_name="page_size"
)


class _Bar(Wire):
    id: int
    open: str


def mark_klines(reading: Reading) -> Records:
    """Read mark prices at the start of each bar; bars of rates and of other prices have the same shape."""
    channel = reading.value(str | None, "ch", None)
    if channel is not None and ".mark_price." not in channel:
        reading.fail(f"expected bars of mark prices, got those of {channel}")
    rows = [(1000 * row.id, row.open) for row in reading.rows(_Bar, "data")]
    item = reading.instrument(reading.requested("contract_code"), _named)
    return reading.prices(rows, item, "mark", reading.resolution("period"))


def _of_margin(base: str, margin: Literal["linear", "inverse"]) -> tuple[VenueEndpoint, ...]:
    """Return the requests that linear and inverse swaps share, below their own paths."""
    of = partial(_endpoint, margin=margin)
    return (
        of(
            "instruments", f"{base}/v1/swap_contract_info", contracts(_CONTRACT, "data", _contract),
            lists=True,
        ),
        of("funding", f"{base}/v1/swap_batch_funding_rate", funding_rates, tables=RATE_TABLES, every=60),
        of(
            "settlements", f"{base}/v1/swap_historical_funding_rate", partial(funding_history, "data.data"),
            symbol="contract_code", paging=_PAGES,
        ),
        of("oi", f"{base}/v1/swap_open_interest", open_interest, every=60),
        of(
            "liquidations", f"{base}/v3/swap_liquidation_orders", liquidation_frames,
            params={"trade_type": "0"}, symbol="contract", confirmed=False,
            note="v5 is requested instead; the two do not share ids",
            paging=Paging(descending=True, start="start_time", end="end_time"),
        ),
        *(
            of(
                "positioning", f"{base}/v1/swap_elite_{name}_ratio",
                positioning(_RATIO, "data.list", _named, kind, by="contract_code"),
                params={"period": "60min"}, symbol="contract_code", paging=_ELITE,
                note="the newest 30 hours or so",
            )
            for name, kind in (("account", "top_accounts"), ("position", "top_positions"))
        ),
    )  # fmt: skip


_OI_HISTORIES: tuple[tuple[str, Literal["linear", "inverse"], str], ...] = (
    ("/linear-swap-api", "linear", "2"),
    ("/swap-api", "inverse", "1"),
)

ENDPOINTS = (
    _endpoint(
        "liquidations", "/v5/market/liquidation_orders", liquidations, symbol="contract_code", every=60,
        margin="linear", note="the newest 100 of a contract, no window",
        paging=Paging(descending=True, start="", end="", limit=100),
    ),
    *_of_margin("/linear-swap-api", "linear"),
    *_of_margin("/swap-api", "inverse"),
    _endpoint(
        "funding", "/v5/market/funding_rate", funding_rates, tables=RATE_TABLES, symbol="contract_code",
        margin="linear", note="of ten contracts at most",
    ),
    *(
        _endpoint(
            "oi_history", f"{base}/v1/swap_his_open_interest", open_interest_history,
            params={"period": "5min", "amount_type": amount, "size": "200"}, symbol="contract_code",
            margin=margin, confirmed=margin == "linear",
            note="the newest 200 steps of 5 minutes, as perp-md 0.5.3 (2026-10) requests it",
            paging=Paging(descending=True, start="", end="", limit=200, limit_name="", reach_days=0.69),
        )
        for base, margin, amount in _OI_HISTORIES
    ),
    _endpoint(
        "settlements", "/v5/market/funding_rate_history", partial(funding_history, "data"),
        params={"direct": "next"}, symbol="contract_code", margin="linear", confirmed=False,
        note="100 a page; shape and window as gocryptotrader and HTX.Net request it (2026)",
        paging=Paging(descending=True, start="start_time", end="end_time", limit=100),
    ),
    _endpoint("tickers", "/linear-swap-ex/market/detail/batch_merged", merged, every=60),
    _endpoint(
        "prices", "/index/market/history/linear_swap_mark_price_kline", mark_klines,
        params={"period": "60min", "size": "2000"}, symbol="contract_code", margin="linear",
        paging=Paging(descending=True, start="", end="", limit=2000, limit_name="", reach_days=83),
        confirmed=False, note="the specification names the path alone",
    ),
    _endpoint("liquidations", "public.*.liquidation_orders", liquidation_frames, method="WS"),
)  # fmt: skip

_SOCKET = "wss://api.hbdm.com/linear-swap-notification"


class _Ping(Wire):
    op: str = ""
    ts: int | str | None = None
    ping: int | None = None


def _answer(frame: bytes) -> str | None:
    """Return the pong to a ping, with the same number."""
    ping = DECODERS[_Ping].decode(frame)
    if ping.op == "ping":
        return msgspec.json.encode({"op": "pong", "ts": ping.ts}).decode()
    if ping.ping is None:
        return None
    return msgspec.json.encode({"pong": ping.ping}).decode()


_SUBSCRIBE = '{"op":"sub","cid":"1","topic":"public.*.liquidation_orders"}'


VENUE = Venue(
    "huobi",
    "https://api.hbdm.com",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=5.0,
    socket=_SOCKET,
    stream=Stream(
        "public.*.liquidation_orders", lambda *_: [Socket(_SOCKET, [_SUBSCRIBE])], b'"notify"', _answer
    ),
    channel_at="topic",
)
