"""Questions to tables, units, venues and an archive of one table."""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

import derivdata as dd
from benchmarks.functions import inputs
from benchmarks.functions.inputs import SIZE, archive, history, rates, table
from benchmarks.functions.question import Question
from derivdata import bundle, units
from derivdata.sources import Query

__all__ = ["QUESTIONS"]

_ROWS = f"the rows of {SIZE}"
_START, _END = pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-31", tz="UTC")
_BODY = '[{"symbol": "BTCUSDT", "fundingTime": 1698768000000, "fundingRate": "0.0001"}]'


def _corrected() -> object:
    """Replace an hour of one symbol and take it back, so that the next time finds the same."""
    part = history()
    part = part[(part["symbol"] == "SYM001") & (part["time"] == _START)]
    where = {"symbol": "SYM001"}
    archive().replace(
        "funding_history", part, where, start=_START, end=_START + pd.Timedelta("1h"), reason="unit"
    )
    return archive().undo(int(archive().corrections().index.max()))


@functools.cache
def _bundle() -> Path:
    """A recording of a month of one symbol and of a snapshot."""
    path = inputs.folder() / "morning.ddz"
    with dd.record(path):
        dd.funding.history("BTC", "30d")
        dd.raw("/oi/exchanges-summary")
    return path


def _recorded() -> Path:
    path = inputs.folder() / "one.ddz"
    with dd.record(path):
        dd.raw("/oi/exchanges-summary")
    return path


_small_bundle = functools.cache(_recorded)


QUESTIONS = {
    "units.convert": Question(SIZE, lambda: units.convert(rates(), "bps_8h", "apy", hours=8.0)),
    "concat": Question(
        "two symbols, hours of 30 days on all venues",
        lambda: dd.concat([table("funding.history", "BTC", "30d"), table("funding.history", "ETH", "30d")]),
    ),
    "plan": Question("200 symbols, 30 days", lambda: dd.plan([f"S{i}" for i in range(200)], "30d")),
    "provenance": Question("one table", lambda: dd.provenance(table("options.snapshot", "BTC", "deribit"))),
    "gaps": Question(
        "hours of one symbol on all venues, 30 days", lambda: dd.gaps(table("funding.history", "BTC", "30d"))
    ),
    "quality": Question(
        "hours of one symbol on all venues, 30 days",
        lambda: dd.quality(table("funding.history", "BTC", "30d")),
    ),
    "bundle_diff": Question(
        "two recordings, each of a month of one symbol", lambda: dd.bundle_diff(_bundle(), _bundle())
    ),
    "bundle.info": Question("a recording of a month of one symbol", lambda: bundle.info(_bundle())),
    "bundle.verify": Question("a recording of a month of one symbol", lambda: bundle.verify(_bundle())),
    "cache_clear": Question("older than a year; there is none", lambda: dd.cache_clear(older_than="365d")),
    "cache_info": Question("a few answers", dd.cache_info),
    "record": Question("one answer", _recorded),
    "replay": Question("a recording of a month of one symbol", lambda: dd.replay(_bundle()).close()),
    "open_archive": Question(f"an archive of {SIZE}", lambda: dd.open_archive(inputs.folder() / "derivs")),
    "sample.open": Question("no tables yet", dd.sample.open),
    "sample.truth": Question("funding of all pairs", lambda: dd.sample.truth("funding")),
    "venues.endpoints": Question("all", dd.venues.endpoints),
    "venues.facts": Question("all venues", dd.venues.facts),
    "venues.margin_tiers": Question("all venues", dd.venues.margin_tiers),
    "venues.read": Question(
        "one answer of one payment",
        lambda: dd.venues.read(
            "binance", "/fapi/v1/fundingRate", _BODY, at="2023-11-01", context={"interval_hours": 8.0}
        ),
    ),
    "tables.base": Question("one name", lambda: dd.tables.base("1000PEPEUSDT")),
    "tables.contract": Question("one name", lambda: dd.tables.contract("BTC-USDT")),
    "tables.expiry": Question("one label", lambda: dd.tables.expiry("27MAR26")),
    "tables.snapshots": Question(
        "six chains of one asset on one venue", lambda: dd.tables.snapshots(_chains())
    ),
    "tables.surface": Question(
        "six chains of one asset on one venue",
        lambda: dd.tables.surface(_chains().drop(columns="delta")),
    ),
    "archive.corrections": Question("no corrections", lambda: archive().corrections()),
    "archive.exchanges": Question(_ROWS, lambda: archive().exchanges("funding_history")),
    "archive.info": Question(_ROWS, lambda: archive().info()),
    "archive.latest": Question(
        _ROWS, lambda: archive().latest("funding_history", _END, within=pd.Timedelta(1, "D"))
    ),
    "archive.lazy": Question(_ROWS, lambda: archive().lazy("funding_history")),
    "archive.newest": Question(
        f"the last day of {_ROWS}",
        lambda: archive().newest(Query("funding_history", _END - pd.Timedelta(1, "D"), _END)),
    ),
    "archive.panel": Question(
        f"one symbol of {_ROWS}, planned and computed",
        lambda: (
            archive()
            .panel("funding_history", "rate_bps_8h", start=_START, end=_END, step="1h", symbols=["SYM001"])
            .compute()
        ),
    ),
    "archive.files": Question("no files", lambda: archive().files("oi_history", "okx", "BTC")),
    "archive.requests": Question("no requests", lambda: archive().requests()),
    "archive.rows": Question(
        f"a column of one symbol in {_ROWS}",
        lambda: archive().rows(
            Query("funding_history", _START, _END, symbols="SYM001", columns=["rate_bps_8h"])
        ),
    ),
    "archive.sql": Question(
        f"the mean by venue of one symbol in {_ROWS}",
        lambda: archive().sql(
            "SELECT exchange, avg(rate_bps_8h) FROM funding_history WHERE symbol = 'SYM001' GROUP BY ALL"
        ),
    ),
    "archive.symbols": Question(_ROWS, lambda: archive().symbols("funding_history")),
    "archive.tables": Question("one table", lambda: archive().tables()),
    "archive.unanswered": Question(
        "one series", lambda: archive().unanswered("funding_history", "venue00", "SYM001", _START, _END)
    ),
    "archive.replace": Question(f"an hour of one symbol in {_ROWS}, and taken back", _corrected),
    "archive.merge": Question(
        f"an hour of all pairs, again, to {_ROWS}",
        lambda: archive().merge("funding_history", history()[history()["time"] == _START]),
    ),
    "archive.drop_before": Question(f"nothing, of {_ROWS}", lambda: archive().drop_before("2025-01-01")),
}


def _chains() -> pd.DataFrame:
    rows = table("options.snapshot", "BTC", "deribit")
    later = [rows.assign(time=rows["time"] + pd.Timedelta(n, "h")) for n in range(6)]
    return dd.concat(later)
