"""The most common messages: each is triggered, and has its numbers, names and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import black76, chain, funding, oi, surface


class Data(NamedTuple):
    """Tables of the sample, read once, and an empty folder."""

    rates: pd.DataFrame
    options: pd.DataFrame
    folder: Path


class Case(NamedTuple):
    """A mistake, the error that it raises, and the facts that the message must state."""

    action: Callable[[Data], object]
    kind: type[BaseException]
    facts: tuple[str, ...]


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    dd.connect("sample", cache="off")
    rates = dd.funding.history("BTC", "2d", venues=["binance", "okx"])
    return rates, dd.options.snapshot("BTC", "deribit")


@pytest.fixture
def data(tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> Data:
    dd.connect("sample", cache="off")
    return Data(*tables, tmp_path)


def _panel(data: Data) -> Any:
    return dd.panel(data.rates)


def _archive(data: Data) -> Any:
    return dd.open_archive(data.folder / "archive")


def _damaged_bundle(data: Data) -> None:
    path = data.folder / "day.ddz"
    path.write_bytes(b"not a zip")
    dd.replay(path)


def _offline(data: Data) -> None:
    dd.connect("sample", offline=True)
    dd.funding.history("ETH", "2026-01-03T04:00", "2026-01-03T07:00", venues=["okx"])


def _disconnected(data: Data) -> None:
    dd.disconnect()
    dd.funding.snapshot()


FUNDING = dd.tables.TABLES["funding_history"]
CASES = {
    # Requests
    "unknown resolution": Case(
        lambda _: dd.funding.history("BTC", "1d", resolution="2d"),
        ValueError,
        ("resolution", "'2d'", "raw", "1h"),
    ),
    "reversed window": Case(
        lambda _: dd.funding.history("BTC", "2026-06-02", "2026-06-01"),
        ValueError,
        ("2026-06-02T00:00:00Z", "2026-06-01T00:00:00Z", "[start, end)"),
    ),
    "unreadable lookback": Case(
        lambda _: dd.funding.history("BTC", "1month"),
        ValueError,
        ("start", "'1month'", "2026-01-31T08:00", "'30d'"),
    ),
    "misspelt venue": Case(
        lambda _: dd.funding.history("BTC", "1d", venues=["binanse"]),
        ValueError,
        ("venues='binanse'", "did you mean 'binance'"),
    ),
    "names in one text": Case(
        lambda _: dd.funding.history("BTC,ETH", "1d"), ValueError, ("symbols='BTC,ETH'", "['BTC', 'ETH']")
    ),
    "unknown symbol": Case(
        lambda _: dd.oi.history("BTX", "1d"), dd.errors.NotFound, ("/oi/BTX", "'BTX'", "BTC", "HTTP 404")
    ),
    "no options": Case(
        lambda _: dd.options.snapshot("DOGE", "okx"),
        dd.errors.BadRequest,
        ("/options/snapshot", "DOGE", "okx", "request a venue that lists them", "HTTP 400"),
    ),
    "unknown kind": Case(
        lambda _: dd.prices.history("BTC", "1d", kind="mid"),  # type: ignore[arg-type]
        ValueError,
        ("kind", "'mid'", "mark", "index", "last"),
    ),
    "limit of zero": Case(
        lambda _: dd.liquidations.events(since="1h", limit=0),
        ValueError,
        ("limit", "positive integer", "got 0"),
    ),
    "rate of an unknown symbol": Case(
        lambda _: dd.funding.snapshot("NOSUCH"), dd.errors.NotFound, ("'NOSUCH'",)
    ),
    "offline": Case(
        _offline, dd.errors.NotCached, ("/funding/historical", "symbol=ETH", "without offline=True")
    ),
    # Connections
    "not connected": Case(
        _disconnected,
        dd.errors.NotConnected,
        ("dd.connect", "DERIVDATA_BASE_URL", "DERIVDATA_API_KEY", "dd.connect('sample')"),
    ),
    "key over http": Case(
        lambda _: dd.connect("http://api.example.com", api_key="k"),
        ValueError,
        ("api.example.com", "http", "use https://"),
    ),
    "unreadable clock": Case(
        lambda _: dd.connect("sample", now="yesterday"),
        ValueError,
        ("now", "'yesterday'", "2026-01-31T08:00"),
    ),
    "misspelt function": Case(
        lambda _: dd.funding.histroy,  # type: ignore[attr-defined]
        AttributeError,
        ("derivdata.funding", "'histroy'", "did you mean 'history'"),
    ),
    "missing archive": Case(
        lambda data: dd.connect(str(data.folder / "nothing")),
        dd.errors.ArchiveError,
        ("nothing", "derivdata import", "dd.open_archive"),
    ),
    "damaged bundle": Case(
        _damaged_bundle, dd.errors.BundleError, ("day.ddz", "not a bundle", "record it again")
    ),
    # Tables
    "missing column": Case(
        lambda data: _archive(data).append("funding_history", data.rates.drop(columns="rate_bps_8h")),
        dd.errors.SchemaError,
        ("funding_history.rate_bps_8h", "missing", "nothing was appended", "dd.tables.TABLES"),
    ),
    "duplicate rows": Case(
        lambda data: FUNDING.conform(pd.concat([data.rates, data.rates])),
        dd.errors.SchemaError,
        ("funding_history", "96 rows", "symbol=BTC", "exchange=binance", "2026-06-28 12:00"),
    ),
    "text in a number": Case(
        lambda data: FUNDING.conform(data.rates.assign(rate_bps_8h="a")),
        dd.errors.SchemaError,
        ("funding_history.rate_bps_8h", "expected numbers", "got str"),
    ),
    "unknown table": Case(
        lambda data: _archive(data).append("funding_histori", data.rates),
        ValueError,
        ("funding_histori", "funding_history"),
    ),
    "column of another table": Case(
        lambda data: dd.panel(data.rates, "oi_usd"), ValueError, ("'oi_usd'", "must have the column")
    ),
    "a statement that writes": Case(
        lambda data: _archive(data).sql("DROP TABLE funding_history"), ValueError, ("one SELECT", "append")
    ),
    # Analysis
    "converted unit": Case(
        lambda data: funding.cumulative(dd.units.convert(_panel(data), "bps_8h", "apr")),
        ValueError,
        ("panel", "'1/year'", "'bps/8h'", "convert it with dd.units"),
    ),
    "unit not stated": Case(
        lambda data: funding.best_pair(_panel(data).drop_attrs().rename(None)),
        ValueError,
        ("panel", "panel.attrs['units'] = 'bps/8h'"),
    ),
    "a rate as open interest": Case(
        lambda data: oi.market_share(_panel(data)), ValueError, ("oi", "'bps/8h'", "'USD'", "'coin'")
    ),
    "venue of another panel": Case(
        lambda data: funding.spread(_panel(data), "binance", "bybit"),
        ValueError,
        ("short", "'bybit'", "binance, okx"),
    ),
    "fee of one venue": Case(
        lambda data: funding.forecast_carry(_panel(data), hold="1d", fee_bps={"okx": 2.0}),
        ValueError,
        ("fee_bps", "binance", "add the bps of one trade"),
    ),
    "volatility in percent": Case(
        lambda data: surface.from_chain(data.options.assign(iv=100 * data.options["iv"])),
        ValueError,
        ("iv", "percent", "median is 47.", "0.55 for 55 %", "chain.clean(..., iv_unit="),
    ),
    "options that were not cleaned": Case(
        lambda data: chain.smiles(data.options), ValueError, ("must be clean", "chain.clean(options)")
    ),
    "quotes in place of a fit": Case(
        lambda _: surface.constant_maturity(dd.options.surface("BTC", "deribit"), tenors=["30d"]),
        ValueError,
        ("expected a fit", "got quotes", "dd.analysis.surface.from_chain"),
    ),
    "misspelt side": Case(
        lambda _: black76.price(100.0, 100.0, 1.0, 0.5, "cal"), ValueError, ("'cal'", "'call'", "'put'")
    ),
    "table of another figure": Case(
        lambda data: dd.plot.liquidations(data.rates),
        ValueError,
        ("plot.liquidations", "liquidations_events", "liquidations_history", "side", "value_usd"),
    ),
    "unknown unit": Case(
        lambda data: dd.units.convert(_panel(data), "bps_8h", "xyz"),  # type: ignore[arg-type]
        ValueError,
        ("new", "'xyz'", "bps_8h", "native", "apr", "apy"),
    ),
}


@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_message_states_its_numbers_names_and_remedy(case: Case, data: Data) -> None:
    with pytest.raises(case.kind) as caught:
        case.action(data)
    message = str(caught.value)
    assert [fact for fact in case.facts if fact not in message] == [], message
    assert "\n" not in message
    assert len(message) < 1_500


def test_a_notice_of_an_empty_window_states_the_clock_of_the_source(data: Data) -> None:
    with pytest.warns(dd.errors.DataNotice) as caught:
        dd.funding.history("BTC", "2027-01-01", "2027-01-02")
    message = str(caught[0].message)
    facts = ("/funding/historical", "symbol=BTC", "2027-01-01T00:00:00Z", "2026-06-30 12:00:00 UTC", "sample")
    assert [fact for fact in facts if fact not in message] == [], message
