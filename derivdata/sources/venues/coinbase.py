"""Coinbase: spot pairs in USD, without perpetuals; an hour without a trade has no candle."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import Paging, Venue, VenueEndpoint
from derivdata.sources.venues.readers import candles, contracts
from derivdata.sources.venues.reading import Reading, named
from derivdata.sources.venues.record_types import Instrument
from derivdata.sources.venues.wire import ContractRow, Fault, Wire, refusal, spelled

_REASONS = {"Public rate limit exceeded": "limit", "Internal server error": "busy"}


class _Fault(Wire):
    message: str = ""

    @property
    def fault(self) -> Fault:
        if not self.message:
            return None
        return self.message, self.message


_PRODUCT = spelled(
    ContractRow[str, str, str], name="id", symbol="base_currency", quote="quote_currency", status="status",
    tick="quote_increment", step="base_increment",
)  # fmt: skip


def _product(reading: Reading, row: ContractRow[str, str, str]) -> Instrument | None:
    """Return a pair in USD. Pairs in USDC have the same book, and others trade little."""
    if row.quote != "USD":
        return None
    return reading.contract(row, active=row.status == "online")


_candles = candles(
    "", named, "spot", by="product_id", step="granularity", number_unit="s", unit="seconds", opened=3
)
_endpoint = partial(VenueEndpoint, "coinbase")

ENDPOINTS = (
    _endpoint("instruments", "/products", contracts(_PRODUCT, "", _product), lists=True),
    _endpoint(
        "spot", "/products/{product_id}/candles", _candles, params={"granularity": "3600"},
        symbol="product_id",
        paging=Paging(descending=True, start="start", end="end", unit="iso", limit=300, limit_name="",
                      span_hours=299),
        note="in USD; hours without a trade have no row",
    ),
)  # fmt: skip

VENUE = Venue(
    "coinbase",
    "https://api.exchange.coinbase.com",
    ENDPOINTS,
    refusal(_Fault, _REASONS.get),
    budget=2.5,  # a quarter of 10 a second, as clients assume
)
