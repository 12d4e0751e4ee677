"""One poll of all venues: each running rate and open interest, and nothing of delisted contracts."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from derivdata.sources.archive import open_archive
from derivdata.sources.collect import backfill
from derivdata.sources.collect.collector import Collector
from tests.collect import state_bodies
from tests.collect.direct import faked
from tests.collect.fakes import SYMBOLS, VENUES, SimulatedClock
from tests.collect.state_bodies import RUNNING_BPS

DAY = pd.Timestamp("2026-01-20", tz="UTC")


def test_a_poll_of_all_venues_is_the_truth_and_leaves_out_what_is_none_to_collect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inverse and delisted contracts stand beside forty, whose last lacks what a venue may leave out."""
    clock = SimulatedClock("2026-01-20T10:30:30")
    fakes = faked(int(DAY.timestamp()) + 86_400, clock, monkeypatch)
    fakes.symbols, fakes.extras = (*SYMBOLS, *(f"C{number:02}" for number in range(38))), True
    fakes.delisted = True
    tables = ["funding_history", "oi_history", "markets_symbol_exchanges", "futures_history"]
    archive = open_archive(tmp_path / "market")
    collector = Collector(
        archive, venues=[*VENUES], symbols=(), names=tables, clock=clock, addresses=fakes.addresses,
        unconfirmed=True, share_seconds=None,
    )  # fmt: skip
    collector.once()
    assert collector.failed == {}
    rates, held = (archive.read(table, DAY, DAY + pd.Timedelta(1, "D")) for table in tables[:2])
    for table in (rates, held):
        told = {str(venue): sorted(of) for venue, of in table.groupby("exchange", observed=True)["symbol"]}
        # Deribit is asked for a currency, and lists the others inverse, too
        of_futures = [venue for venue in VENUES if venue != "coinbase"]
        assert told == {v: sorted(SYMBOLS if v == "deribit" else fakes.symbols) for v in of_futures}
    wanted = [RUNNING_BPS[venue] for venue in rates["exchange"]]
    assert rates["rate_bps_8h"].tolist() == pytest.approx(wanted)
    seconds = held["time"].map(lambda at: int(at.timestamp()))
    truth = [fakes.truth.oi_at(s, at) for s, at in zip(held["symbol"], seconds, strict=True)]
    assert held["oi_usd"].tolist() == pytest.approx([coins * mark for _, coins, mark in truth])
    market = archive.read("markets_symbol_exchanges", DAY, DAY + pd.Timedelta(1, "D"))
    assert set(market["exchange"]) == {*of_futures}
    assert set(market["symbol"]) == set(fakes.symbols)
    dated = archive.read("futures_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert dated["exchange"].tolist() == ["binance", "bybit", "deribit", "kraken", "okx"]
    assert set(dated["expiry"]) == {pd.Timestamp("2026-03-27T08:00Z")}
    figures = dated[["price_usd", "index_price_usd", "oi_usd"]]
    assert (figures == [50_600.0, 50_000.0, 7 * 50_600.0]).all(axis=None)


def test_a_coin_that_bitget_lists_coin_margined_is_polled_and_its_payments_are_asked_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_bodies, "BITGET_OTHERS", ("BTC", "XYZ"))
    clock = SimulatedClock("2026-01-20T10:30:30")
    fakes = faked(int(DAY.timestamp()) + 86_400, clock, monkeypatch)
    archive = open_archive(tmp_path / "market")
    where = {"clock": clock, "addresses": fakes.addresses}
    collector = Collector(archive, venues=["bitget"], symbols=(), names=["funding_history"], **where)
    collector.once()
    assert collector.failed == {}
    rates = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert rates.set_index("symbol")["rate_bps_8h"].round(9).to_dict() == {"BTC": 2.0, "ETH": 2.0, "XYZ": 2.0}
    done = backfill(archive, ["BTC", "XYZ"], DAY - pd.Timedelta(1, "D"), DAY, venues=["bitget"],
                    names=["funding_settlements"], **where)  # fmt: skip
    assert done.failed == []
    asked = {
        (p["symbol"], p["productType"]) for _, at, p, _ in fakes.log if at.endswith("/history-fund-rate")
    }
    assert asked == {("BTCUSDT", "USDT-FUTURES"), ("XYZUSD", "COIN-FUTURES")}, "USD before USDC"
