"""Nado: the archive's contracts are one response; its rate covers 24 hours and is paid each hour.

Snapshots of the market have past hourly payments and open interest, in USD, both times 1e18. A snapshot's
timestamp is that of the last transaction before the end of its hour.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Paging, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, OiPoint, Payment, Records
from derivdata.sources.venues.wire import Fault, Figures, Wire, keyed, refusal, spelled

_DAY_HOURS = 24.0
_X18 = 1e18
_HOUR_US = 3_600_000_000


class _Fault(Wire):
    status: str | None = None
    error: str | None = None
    error_code: int | None = None

    @property
    def fault(self) -> Fault:
        if self.status != "failure" and self.error is None:
            return None
        return self.error_code, self.error or ""


def _named(name: str) -> Instrument:
    """Parse a contract name such as 2:BTC-PERP_USDT0, which begins with its number."""
    base, _, quote = name.rpartition(":")[2].rpartition("_")
    return Instrument(name, base.removesuffix("-PERP"), quote, 1.0, perpetual=base.endswith("-PERP"))


class _Contract(Figures[float, int], kw_only=True):
    product_id: int
    kind: str


_CONTRACT = spelled(
    _Contract, name="ticker_id", product_id="product_id", kind="product_type", mark="mark_price",
    index_price="index_price", last="last_price", oi_usd="open_interest_usd", coins="open_interest",
    volume_usd="quote_volume", change_pct="price_change_percent_24h", rate="funding_rate",
    next_payment="next_funding_rate_timestamp",
)  # fmt: skip


def contracts(reading: Reading) -> Records:
    """Read contracts, rates of 24 hours, open interest in USD and coins, prices and volume."""
    records = Records()
    rows = reading.decode(keyed(_CONTRACT))
    if not rows:
        reading.fail("expected the contracts of the venue, got an empty object")
    for name, row in rows.items():
        with reading.row():
            if row.name not in (None, name):
                reading.fail(f"expected the row of {name}, got the row of {row.name}")
            item = _named(f"{row.product_id}:{name}")._replace(perpetual=row.kind == "perpetual")
            records.instruments.append(item)
            if not item.perpetual:
                continue
            state = reading.state(item, row, unit="seconds")._replace(period_h=_DAY_HOURS, settle_h=1.0)
            if state.oi_coins is not None and state.mark is not None:
                value = state.oi_coins * state.mark
                reading.require_close(state.oi_usd, value, 0.5, f"{name}: open interest in USD and coins")
            records.states.append(state)
    return records


class _Snapshot(Wire):
    timestamp: int | str
    funding_rates: dict[str, str]
    open_interests: dict[str, str]


_PRODUCT = "market_snapshots.product_ids[]"


def _snapshots(reading: Reading) -> tuple[Instrument, str, list[tuple[int, _Snapshot]]]:
    """Return the requested contract, its number, and the snapshots with their timestamps."""
    number = reading.requested(_PRODUCT).partition(":")[0]
    listed = reading.context.instruments.values()
    item = next((listed_item for listed_item in listed if listed_item.name.partition(":")[0] == number), None)
    if item is None:
        reading.fail(f"product {number} is not in context['instruments']: pass the list of /v2/contracts")
    rows = reading.rows(_Snapshot, "snapshots")
    return item, number, [(reading.seconds(float(row.timestamp)), row) for row in rows]


def snapshots(reading: Reading) -> Records:
    """Read payments and open interest in USD of the hours in which the snapshots fall, the newest first.

    Open interest refers to the end of the hour, because no transaction followed the timestamp. The current
    hour is omitted.
    """
    item, number, rows = _snapshots(reading)
    records = Records()
    for stamp, row in rows:
        records.times.append(stamp)
        hour = (stamp - 1) // _HOUR_US * _HOUR_US  # a timestamp on the hour belongs to the previous hour
        if number in row.funding_rates:
            rate = reading.required(row.funding_rates[number]) / _X18
            records.payments.append(Payment(item, hour, rate, 1.0))
        if number in row.open_interests and reading.has_ended(hour, "1h"):
            usd = reading.required(row.open_interests[number]) / _X18
            records.oi.append(OiPoint(item, hour + _HOUR_US, usd, "1h"))
    return records


_endpoint = partial(VenueEndpoint, "nado")
_snapshot = partial(
    _endpoint,
    method="POST",
    symbol=_PRODUCT,
    params={"market_snapshots.interval.granularity": "3600"},
    paging=Paging(
        descending=True, start="", end="market_snapshots.interval.max_time", unit="s", limit=100,
        limit_name="market_snapshots.interval.count",
    ),
    weight=45,  # cost of 100 snapshots
    confirmed=False,
)  # fmt: skip

ENDPOINTS = (
    _endpoint(
        "funding", "/v2/contracts", contracts, tables=STATE_TABLES, lists=True, every=60,
        note="rates of 24 hours, paid hourly; which sides open interest counts is not known",
    ),
    _snapshot(
        "settlements", "/v1", snapshots,
        note="the hour's rate as paid; that it was paid at the start of the hour is inferred from the stamps",
    ),
    _snapshot("oi_history", "/v1", snapshots, note="USD, one snapshot an hour"),
)  # fmt: skip

VENUE = Venue(
    "nado",
    "https://archive.prod.nado.xyz",
    ENDPOINTS,
    refusal(_Fault, {1000: "limit", 1015: "limit"}.get),
    budget=9.0,  # a quarter of 2,400 a minute, minus the maximum excess of one request
    hourly=True,
)
