"""BitMEX, which closed on 2026-09-23: its bodies are read for archives, and it is not requested by default.

One response contains every contract.

Contracts are 1 USD (inverse), a power of ten of a coin (linear), or pay in a third coin (quanto, with a value
in that coin). ``XBt`` is a hundred-millionth of a bitcoin, ``USDt`` a millionth of a dollar. Its list of
liquidations is not read: it has open orders, without a time or a fill.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import Fault, Figures, PaymentRow, Wire, refusal, spelled
from derivdata.tables import contract

_ALIASES = {"XBT": "BTC"}
_QUOTES = ("USD", "USDT", "USDC")
_PERPETUAL = "FFWCSX"
_SATOSHI = 1e-8
_MILLIONTH = 1e-6
_REASONS = {"RateLimitError": "limit", "HTTPError": "refused"}


class _Reason(Wire):
    name: str = ""
    message: str = ""


class _Fault(Wire):
    error: _Reason | str | None = None

    @property
    def fault(self) -> Fault:
        """Return code and message of the error of a request or a subscription, or None."""
        if self.error is None:
            return None
        if isinstance(self.error, str):
            return "subscription", self.error
        return self.error.name, self.error.message


def _named(name: str) -> Instrument:
    """Parse a contract name such as XBTUSD or XBTUSDT; only the list has the contract size."""
    plain = contract(name)
    return Instrument(
        name,
        _ALIASES.get(plain.symbol, plain.symbol),
        plain.quote,
        1.0 if name == "XBTUSD" else None,
        name == "XBTUSD",
        plain.quote in _QUOTES,
    )


class _Contract(Figures[float, str], kw_only=True):
    kind: str
    state: str
    underlying: str
    quote: str
    inverse: bool
    quanto: bool
    root: str | None = None
    multiplier: float | None = None
    interval: str | None = None
    value: float | None = None  # open interest in a hundred-millionth or a millionth of a coin
    tick: float | None = None
    lot: float | None = None
    listed: str | None = None


_CONTRACT = spelled(
    _Contract, name="symbol", kind="typ", state="state", underlying="underlying", quote="quoteCurrency",
    inverse="isInverse", quanto="isQuanto", root="rootSymbol", multiplier="underlyingToPositionMultiplier",
    interval="fundingInterval", value="openValue", tick="tickSize", lot="lotSize", listed="listing",
    time="timestamp", rate="fundingRate", mark="markPrice", index_price="indicativeSettlePrice",
    last="lastPrice", contracts="openInterest", volume_usd="foreignNotional24h", change="lastChangePcnt",
)  # fmt: skip


def instruments(reading: Reading) -> Records:
    """Read contracts, rates, open interest, prices and volume of all contracts that are open."""
    rows = reading.rows(_CONTRACT)
    records = Records()
    bitcoin = next((row.mark for row in rows if row.name == "XBTUSD"), None)
    for row in rows:
        with reading.row():
            item = _listed(reading, row)
            records.instruments.append(item)
            if not item.perpetual or not item.active:
                continue
            hours = None if row.interval is None else _hours(reading, row.interval)
            value = _value(reading, item, row, bitcoin)
            records.states.append(reading.state(item, row, hours, unit="iso", oi_usd=value))
    return records


def _listed(reading: Reading, row: _Contract) -> Instrument:
    """Return a contract; the size of a quanto contract is not a number of coins, and is missing."""
    size = 1.0 if row.inverse else None
    if not row.inverse and not row.quanto and row.multiplier:
        size = 1 / row.multiplier
    base = row.root or row.underlying
    return Instrument(
        row.name,
        _ALIASES.get(base, base),
        row.quote,
        size,
        row.inverse,
        row.kind == _PERPETUAL and row.quote in _QUOTES,
        row.state == "Open",
        listed=reading.day(row.listed),
        tick=row.tick,
        step=row.lot,
    )


def _hours(reading: Reading, interval: str) -> float:
    """Return the hours of an interval, which is written as its end if it starts on 2000-01-01."""
    date, _, clock = interval.partition("T")
    days = reading.required(date[8:10]) - 1
    hours = 24 * days + reading.required(clock[:2]) + reading.required(clock[3:5]) / 60
    if not 0 < hours <= 24:
        reading.fail(f"expected an interval, got {interval!r}")
    return hours


def _value(reading: Reading, item: Instrument, row: _Contract, bitcoin: float | None) -> float | None:
    """Return open interest [USD]; a quanto contract states it in bitcoin, which has the price `bitcoin`."""
    if row.quanto:
        if row.value is None or bitcoin is None:
            return None
        return row.value * _SATOSHI * bitcoin
    usd = item.usd(row.contracts, row.mark)
    if not item.inverse and row.value is not None:
        stated = row.value * _MILLIONTH
        reading.require_close(usd, stated, 0.05, f"{row.name}: interest and openValue", step=_MILLIONTH)
    return usd


class _Paid(PaymentRow[float, str], kw_only=True):
    daily: float | None = None  # rate per 24 hours
    state: str | None = None  # only in instruments, which are rows of another response


_PAID = spelled(
    _Paid, name="symbol", time="timestamp", rate="fundingRate", hours="fundingInterval",
    daily="fundingRateDaily", state="state",
)  # fmt: skip


def payments(reading: Reading) -> Records:
    """Read payments, whose rate, interval and rate of a day must agree."""
    rows = []
    for row in reading.rows(_PAID):
        with reading.row():
            if row.state is not None:
                reading.fail(f"{row.name} has a state: expected a payment, got an instrument")
            if row.hours:
                daily = row.rate * 24 / _hours(reading, str(row.hours))
                reading.require_close(daily, row.daily, 1e-6, "fundingRate of a day and fundingRateDaily")
            rows.append((row.name, row.time, row.rate, row.hours))
    return reading.payments(rows, _named, unit="iso")


class _Level(Wire):
    symbol: str
    id: int  # trades do not have it
    side: str
    size: float
    price: float
    timestamp: str | None = None


def book(reading: Reading) -> Records:
    """Read a book with a row per level and side; sizes are contracts."""
    rows = reading.decode(list[_Level])
    if not rows:
        return Records()
    item = reading.instrument(rows[0].symbol, _named)
    stamps = [row.timestamp for row in rows if row.timestamp]
    sides: dict[str, list[tuple[float, float]]] = {"Buy": [], "Sell": []}
    for row in rows:
        reading.word(row.side, sides).append((row.price, row.size))
    time = max(map(reading.iso, stamps), default=None)
    return Records(books=[reading.book(item, time, sides["Buy"], sides["Sell"])])


_endpoint = partial(VenueEndpoint, "bitmex")
ENDPOINTS = (
    _endpoint("funding", "/instrument/active", instruments, lists=True, every=60),
    _endpoint(
        "settlements", "/funding", payments, symbol="symbol",
        paging=Paging(unit="iso", limit=500, limit_name="count"),
    ),
    _endpoint("book", "/orderBook/L2", book, params={"depth": "500"}, symbol="symbol"),
)  # fmt: skip

# Closing date by the venue's notice; ccxt 4.5.90 (2026-10-23) removed the venue.
VENUE = Venue(
    "bitmex",
    "https://www.bitmex.com/api/v1",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    closed_on="2026-09-23",
    budget=0.125,  # a quarter of 30 a minute without a key
    socket="wss://ws.bitmex.com/realtime",
    terms="Refuses accounts of the United States and others; no text on public data was found.",
)
