"""Variational Omni: one response has every listing; its rate is a fraction per year, without history.

A listing of BTC with ``0.1095`` pays 0.01 % in 8 hours, and so does an hourly one: the rate is annual for
every interval. Each trade has the venue's own pool as its counterparty, so the listing has the customers'
long and short positions separately: open interest is their sum, in USD.
"""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import STATE_TABLES, Venue, VenueEndpoint
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.wire import Figures, WordedBody, refusal, spelled

_HOUR_S = 3600.0
_YEAR_HOURS = 8760.0


class _Listing(Figures[str, str], kw_only=True):
    interval_s: int
    longs: str | None = None
    shorts: str | None = None


_LISTING = spelled(
    _Listing, name="ticker", mark="mark_price", volume_usd="volume_24h", rate="funding_rate",
    interval_s="funding_interval_s", longs="open_interest.long_open_interest",
    shorts="open_interest.short_open_interest",
)  # fmt: skip


def stats(reading: Reading) -> Records:
    """Read rates, marks, open interest and volume of all listings; one without an interval is a swap."""
    records = Records()
    for row in reading.rows(_LISTING, "listings"):
        with reading.row():
            is_perpetual = row.interval_s > 0
            item = Instrument(row.name, row.name, "USDC", 1.0, perpetual=is_perpetual, active=is_perpetual)
            records.instruments.append(item)
            if not is_perpetual:
                continue
            hours = row.interval_s / _HOUR_S
            rate = reading.required(row.rate) * hours / _YEAR_HOURS
            longs = reading.number(row.longs)
            shorts = reading.number(row.shorts)
            held = None if longs is None or shorts is None else longs + shorts
            records.states.append(reading.state(item, row, hours, rate=rate, oi_usd=held))
    return records


_endpoint = partial(VenueEndpoint, "variational")
ENDPOINTS = (
    _endpoint(
        "funding", "/metadata/stats", stats, tables=STATE_TABLES, lists=True, every=60,
        note="rates per year; open interest is long plus short positions of customers, whose counterparty is "
        "the venue's pool; responses are cached for up to 60 seconds",
    ),
)  # fmt: skip

VENUE = Venue(
    "variational",
    "https://omni-client-api.prod.ap-northeast-1.variational.io",
    ENDPOINTS,
    refusal(WordedBody, {}.get),
    budget=0.25,  # a quarter of 10 in 10 seconds
)
