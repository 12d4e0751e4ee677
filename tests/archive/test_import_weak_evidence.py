"""Files whose columns may be read in several ways: weak evidence raises a question and stores nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z
_BOOK = [("bid", "67000"), ("bid", "66999"), ("ask", "67001"), ("ask", "67002")]


def _import(folder: Path, name: str, content: str, **said: Any) -> Any:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


@pytest.mark.parametrize("header", ["time,side,price", "time,id,side,price"])
def test_levels_of_a_book_without_sizes_are_rejected(tmp_path: Path, header: str) -> None:
    number = "7," if ",id," in header else ""
    lines = [header, *(f"{_START},{number}{side},{price}" for side, price in _BOOK)]
    with pytest.raises(ArchiveError, match=r"order book levels .+ no column is recognised as the size"):
        _import(tmp_path, "book.csv", "\n".join(lines) + "\n", market="gateio:BTC")


@pytest.mark.parametrize("fields", [{}, {"contract": "BTC_USDT", "id": 5}])
def test_prices_of_a_book_of_gate_without_sizes_are_rejected(tmp_path: Path, fields: dict[str, Any]) -> None:
    body = {
        **fields,
        "t": _START,
        "asks": [{"p": "67001"}, {"p": "67002"}],
        "bids": [{"p": "67000"}, {"p": "66999"}],
    }
    with pytest.raises(ArchiveError, match=r"order book levels .+ no column is recognised as the size"):
        _import(tmp_path, "book.json", json.dumps(body), set={"exchange": "gateio"})


def _rates(header: str, hours: int = 1) -> str:
    rates = ["0.0000135", "0.0000213", "-0.0000071", "0.0000160"]
    lines = [f"{_START + 3600 * hours * number},{rate}" for number, rate in enumerate(rates * 3)]
    return "\n".join([header, *lines]) + "\n"


@pytest.mark.parametrize(
    ("name", "header", "hours"),
    [
        ("hyperliquid_BTC.csv", "timestamp,avg_funding_rate", 1),
        ("hyperliquid_BTC.csv", "timestamp,funding_rate_mean", 1),
        ("hyperliquid_BTC_hourly_avg.csv", "timestamp,funding_rate", 1),
        ("hyperliquid_BTC.csv", "time_bucket,funding_rate", 1),
        ("binance_BTC.csv", "timestamp,avg_funding_rate", 8),
    ],
)
def test_averages_of_rates_are_not_taken_for_payments(
    tmp_path: Path, name: str, header: str, hours: int
) -> None:
    with pytest.raises(Unclear, match="may be the average rate of each period") as caught:
        _import(tmp_path, name, _rates(header, hours))
    assert caught.value.choices == ["funding_history", "funding_settlements"]


def test_hourly_averages_of_rates_of_eight_hours_are_samples(tmp_path: Path) -> None:
    """Binance pays BTC every 8 hours: an hourly average of 0.0000135 is 0.135 bps per 8 hours."""
    _import(tmp_path, "binance_BTC.csv", _rates("timestamp,avg_funding_rate"))
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].iloc[0] == pytest.approx(0.135)


_QUOTES = (
    "timestamp,exchange,symbol{names},bid,ask,bid_vol,ask_vol\n"
    "{start},bybit,{market}{values},2100,2200,0.55,0.57\n"
)


@pytest.mark.parametrize(
    ("market", "kind"), [("BTC-27MAR26-70000-C", "an option"), ("BTC-27MAR26", "a dated future")]
)
@pytest.mark.parametrize("sizes", ["bid_vol,ask_vol", "bid_size,ask_size"])
def test_quotes_of_instruments_are_not_books_of_the_perpetual(
    tmp_path: Path, market: str, kind: str, sizes: str
) -> None:
    content = _QUOTES.format(names="", start=_START, market=market, values="")
    content = content.replace("bid_vol,ask_vol", sizes)
    with pytest.raises(ArchiveError, match=f"is {kind}, but orderbook_book is for perpetual contracts"):
        _import(tmp_path, "quotes.csv", content)


@pytest.mark.parametrize(
    ("name", "value"), [("expiry", "2026-03-27"), ("delta", "0.25"), ("mark_iv", "0.56")]
)
def test_volatilities_of_quotes_are_not_sizes(tmp_path: Path, name: str, value: str) -> None:
    content = _QUOTES.format(names=f",{name}", start=_START, market="BTC", values=f",{value}")
    with pytest.raises(ArchiveError, match=r"not recognised|not in the file"):
        _import(tmp_path, "quotes.csv", content)


def test_quotes_in_a_file_of_options_are_asked_about(tmp_path: Path) -> None:
    content = _QUOTES.format(names="", start=_START, market="BTC", values="")
    with pytest.raises(
        Unclear, match="the file name indicates options, but orderbook_book is for perpetual contracts"
    ):
        _import(tmp_path, "bybit_options.csv", content)
    _import(tmp_path, "bybit_BTC.csv", content)
    assert _rows(tmp_path, "orderbook_book")["size"].tolist() == [0.57, 0.55]  # ask, bid


def _liquidation(contract: str) -> dict[str, Any]:
    return {
        "time": _START,
        "contract": contract,
        "left": 0,
        "size": -50,
        "fill_price": "3780",
        "order_price": "3700",
    }


def test_one_size_of_several_contracts_is_rejected(tmp_path: Path) -> None:
    """A contract of Gate is 0.0001 BTC or 0.01 ETH: one size of both is 100 times too low for one."""
    body = json.dumps([_liquidation("BTC_USDT"), _liquidation("ETH_USDT")])
    said: dict[str, Any] = {"exchange": "gateio"}
    with pytest.raises(ArchiveError, match="write one file for each contract, and pass the contract size"):
        _import(tmp_path, "liq_orders.json", body, set=said)
    with pytest.raises(ArchiveError, match=r"0\.0001 cannot apply to all rows, which belong to BTC, ETH"):
        _import(tmp_path, "liq_orders.json", body, set={**said, "contract_size": "0.0001"})
    single = json.dumps([_liquidation("ETH_USDT")])
    _import(tmp_path, "liq_orders.json", single, set={**said, "contract_size": "0.01"})
    assert _rows(tmp_path, "liquidations_fills")["value_usd"].tolist() == [1890.0]  # 50 × 0.01 × 3780


def _running(symbol: str, hours: int) -> list[str]:
    lines = []
    for hour in range(24):
        following = _START + 3600 * hours * (hour // hours + 1)
        lines.append(f"{symbol},0.0001,{following * 1000},{(_START + 3600 * hour + 60) * 1000}")
    return lines


def test_an_interval_that_next_payments_contradict_is_rejected(tmp_path: Path) -> None:
    """0.0001 of TRB, which pays every 4 hours, is 2 bps per 8 hours, and not 1."""
    header = "symbol,lastFundingRate,nextFundingTime,time"
    of_trb = "\n".join([header, *_running("TRBUSDT", 4)]) + "\n"
    both = of_trb + "\n".join(_running("BTCUSDT", 8)) + "\n"
    for content in (of_trb, both):
        with pytest.raises(ArchiveError, match="interval_hours=8 does not fit all rows"):
            _import(tmp_path, "binance.csv", content, set={"interval_hours": "8"})
    with pytest.raises(ArchiveError, match="consecutive payments are 4 or 8 hours apart"):
        _import(tmp_path, "binance.csv", both)
    _import(tmp_path, "binance.csv", of_trb)
    assert {*_rows(tmp_path, "funding_history")["rate_bps_8h"]} == {2.0}


def test_closes_without_opens_are_asked_about(tmp_path: Path) -> None:
    """The close of the hour from 00:00 is known at 01:00, so that it is not the price at its label."""
    content = f"timestamp,close\n{_START},67000\n{_START + 3600},67100\n"
    with pytest.raises(
        Unclear, match="column close is the close of a bar, which is known only when the bar ends"
    ) as caught:
        _import(tmp_path, "binance_BTC_1h.csv", content)
    assert caught.value.choices == ["price_usd=close"]
    _import(tmp_path, "binance_BTC_1h.csv", content, map={"price_usd": "close"})
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.0, 67100.0]
    _import(tmp_path, "okx_BTC_1h.csv", content.replace("timestamp", "close_time"))
    assert len(_rows(tmp_path, "prices_history")) == 4


@pytest.mark.parametrize("ending", [", 60.csv", ", 60_3f2a1.csv", ", 60 (2).csv"])
def test_a_chart_of_a_spot_market_is_not_of_the_perpetual(tmp_path: Path, ending: str) -> None:
    """Tickers of TradingView end in .P if they are of perpetual contracts."""
    content = f"time,open,high,low,close,Volume\n{_START},67010.5,67100,66900,67050,213.5\n"
    _import(tmp_path, f"BINANCE_BTCUSDT{ending}", content)
    assert _rows(tmp_path, "prices_spot")["price"].tolist() == [67010.5]
    _import(tmp_path, f"BINANCE_BTCUSDT.P{ending}", content)
    assert _rows(tmp_path, "prices_history")["resolution"].tolist() == ["1h"]


@pytest.mark.parametrize(
    ("bar", "resolution"), [("120", "2h"), ("1D", "1d"), ("45", "raw"), ("1W", "raw"), ("1M", "raw")]
)
def test_bars_of_a_chart_have_their_step(tmp_path: Path, bar: str, resolution: str) -> None:
    content = f"time,open,high,low,close\n{_START},67010.5,67100,66900,67050\n"
    _import(tmp_path, f"BYBIT_BTCUSDT.P, {bar}_ab12c.csv", content)
    assert _rows(tmp_path, "prices_history")["resolution"].tolist() == [resolution]


def test_a_chart_of_open_interest_needs_its_unit(tmp_path: Path) -> None:
    """An open interest of SOL of 6,000,000 may be in coins or USD; 90,000 of BTC can only be coins."""
    content = f"time,open,high,low,close\n{_START},6000000,1,1,1\n"
    with pytest.raises(Unclear, match="open may be in USD, coins or contracts"):
        _import(tmp_path, "BINANCE_SOLUSDT.P_OI, 60.csv", content)
    _import(tmp_path, "BINANCE_SOLUSDT.P_OI, 60.csv", content, unit="usd")
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [6e6]
    price = f"time,exchange,symbol,price_usd,kind\n{_START},binance,BTC,67000,mark\n"
    _import(tmp_path, "prices.csv", price, table="prices_history")
    _import(tmp_path, "BINANCE_BTCUSDT.P_OI, 60.csv", content.replace("6000000", "90000"))
    rows = _rows(tmp_path, "oi_history")
    assert rows[rows["symbol"] == "BTC"]["oi_usd"].tolist() == [90_000 * 67_000]


def _ticker(values: list[str], symbol: str = "") -> str:
    header = "time,symbol,open,high,low,close" if symbol else "time,open,high,low,close"
    lines = [header]
    for number, value in enumerate(values):
        cells = [str(_START + 3600 * number), *([symbol] if symbol else []), value, "1", "1", "1"]
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def test_the_ticker_of_candles_says_their_quantity(tmp_path: Path) -> None:
    """Candles of TradingView are of funding rates, ratios or prices, by the end of their ticker."""
    _import(tmp_path, "BYBIT_BTCUSDT.P_FR_1h.csv", _ticker(["0.0001", "0.00005"] * 6), unit="native")
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist()[:2] == [1.0, 0.5]
    _import(tmp_path, "ratio.csv", _ticker(["1.5"], "BINANCE:ETHUSDT.P_LSR"))
    row = _rows(tmp_path, "positioning_history").iloc[0]
    assert (row["exchange"], row["symbol"], row["long_short_ratio"]) == ("binance", "ETH", 1.5)
    assert "prices_history" not in open_archive(tmp_path / "to").tables()


def test_tickers_of_several_or_unknown_quantities_are_not_prices(tmp_path: Path) -> None:
    several = _ticker(["67000"], "BINANCE:BTCUSDT.P") + (
        f"{_START},BINANCE:BTCUSDT.P_FR,0.0001,0.0001,0.0001,0.0001\n"
    )
    with pytest.raises(ArchiveError, match=r"tickers of one quantity, got the endings \.P and FR"):
        _import(tmp_path, "mixed.csv", several)
    with pytest.raises(Unclear, match="the ticker ends in LIQ, so the candles may not be prices"):
        _import(tmp_path, "BINANCE_BTCUSDT.P_LIQ, 60.csv", _ticker(["67000"]))


@pytest.mark.parametrize(
    ("name", "symbol"),
    [("BINANCE_ETHBTC, 60", "ETH"), ("KUCOIN_LINK-BTC", "LINK"), ("kraken_BTC-EUR", "BTC")],
)
def test_the_question_about_a_pair_offers_its_own_coin(tmp_path: Path, name: str, symbol: str) -> None:
    with pytest.raises(Unclear, match="may not be in USD") as raised:
        _import(tmp_path, f"{name}.csv", _ticker(["0.05"]))
    assert raised.value.choices == [f"symbol={symbol}"]


def test_open_interest_of_both_margins_of_deribit_is_rejected(tmp_path: Path) -> None:
    """1.1e9 of BTC-PERPETUAL are USD; 180,000 of SOL_USDC-PERPETUAL are coins."""
    rows = [f"{_START},BTC-PERPETUAL,1100000000,67000", f"{_START},SOL_USDC-PERPETUAL,180000.5,165"]
    content = "\n".join(["timestamp,instrument_name,open_interest,mark_price", *rows]) + "\n"
    for unit in ("usd", "coins"):
        with pytest.raises(ArchiveError, match="in coins for SOL_USDC-PERPETUAL, and in USD"):
            _import(tmp_path, "deribit.csv", content, unit=unit, table="oi_history")


def test_rates_named_t_and_r_are_not_of_gate_without_its_name(tmp_path: Path) -> None:
    rows = [{"t": _START + 28_800 * number, "r": 0.0001} for number in range(4)]
    with pytest.raises(ArchiveError, match="exchange"):
        _import(tmp_path, "BTC_USDT_funding.json", json.dumps(rows))
    _import(tmp_path, "gate_BTC_USDT_funding.json", json.dumps(rows))
    assert {*_rows(tmp_path, "funding_settlements")["exchange"]} == {"gateio"}
    in_ms = [{**row, "t": row["t"] * 1000} for row in rows]
    with pytest.raises(ArchiveError, match="--set exchange=VALUE"):
        _import(tmp_path, "BTC_USDT_ms.json", json.dumps(in_ms))
    _import(tmp_path, "BTC_USDT_ms.json", json.dumps(in_ms), set={"exchange": "bybit"})
    assert {*_rows(tmp_path, "funding_settlements")["exchange"]} == {"bybit", "gateio"}


def test_the_writer_of_a_file_states_its_venue(tmp_path: Path) -> None:
    """The slug of Gate is gateio."""
    rows = [{"t": _START + 28_800 * number, "r": 0.0001} for number in range(4)]
    _import(tmp_path, "BTC_USDT.json", json.dumps(rows), source="gate")
    assert {*_rows(tmp_path, "funding_settlements")["exchange"]} == {"gateio"}


def test_two_numbers_without_names_are_not_payments_of_gate(tmp_path: Path) -> None:
    content = "".join(f"{_START + 28_800 * number},{67000 + number}\n" for number in range(4))
    _import(tmp_path, "binance_BTCUSDT_mark.csv", content)
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.0, 67001.0, 67002.0, 67003.0]


def test_sizes_of_contracts_in_usd_are_not_coins(tmp_path: Path) -> None:
    """200,000 contracts of 0.1 ETH are 50,000,000 USD at 2,500; those of 0.1 USD are 20,000 USD."""
    header = "timestamp,open_interest_contracts,ctVal,ctValCcy,mark_price"
    content = f"{header}\n{_START},200000,0.1,USD,2500\n"
    with pytest.raises(ArchiveError, match="has contract sizes in USD, as ctValCcy shows"):
        _import(tmp_path, "okx_ETH.csv", content)
    _import(tmp_path, "okx_ETH.csv", content.replace("USD", "ETH"))
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [50_000_000.0]


def test_the_absolute_rate_of_kraken_is_not_a_fraction(tmp_path: Path) -> None:
    """1e-5 USD an hour of a coin of 2 USD is a fraction of 5e-6, and not of 1e-5 (0.8 bps per 8 hours)."""
    content = _rates("timestamp,fundingRate")
    with pytest.raises(Unclear, match="fundingRate of kraken may be in USD per contract and hour"):
        _import(tmp_path, "kraken_XRP.csv", content)
    _import(tmp_path, "kraken_XRP.csv", content, unit="native")
    rates = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert rates.iloc[0] == pytest.approx(1.08)  # 0.0000135 × 8


def test_rates_of_venues_with_several_intervals_are_not_samples(tmp_path: Path) -> None:
    """binance pays every 8 hours, dydx each hour at the time of a block; 0.0000125 an hour is 1 bps."""
    binance = [f"{_START + 28_800 * number},binance,BTC,0.0001" for number in range(9)]
    dydx = [f"{_START + 3600 * number}.403,dydx,BTC,0.0000125" for number in range(72)]
    content = "\n".join(["timestamp,venue,coin,funding_rate", *binance, *dydx]) + "\n"
    _import(tmp_path, "rates.csv", content)
    rows = _rows(tmp_path, "funding_settlements")
    assert rows.groupby("exchange", observed=True).size().to_dict() == {"binance": 9, "dydx": 72}
    assert rows.groupby("exchange", observed=True)["interval_hours"].unique().map(list).to_dict() == {
        "binance": [8.0],
        "dydx": [1.0],
    }
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0] * 81)


def test_hourly_rows_of_a_venue_that_pays_every_8_hours_are_samples(tmp_path: Path) -> None:
    rows = [
        f"{_START + 3600 * number}.403,{venue},BTC,0.00001"
        for venue in ("okx", "dydx")
        for number in range(72)
    ]
    _import(tmp_path, "rates.csv", "\n".join(["timestamp,venue,coin,funding_rate", *rows]) + "\n")
    assert len(_rows(tmp_path, "funding_history")) == 144


def test_the_first_payment_after_a_change_of_the_interval_is_no_contradiction(tmp_path: Path) -> None:
    """MEXC states the next interval in the row of a payment that ends an earlier one (2024-12-12)."""
    times = [_START + 4 * 3600 * number for number in range(7)]
    times += [times[-1] + 8 * 3600 * number for number in range(1, 7)]
    hours = [4] * 6 + [8] * 7
    rows = [f"{time},GIGA_USDT,0.0001,{interval}" for time, interval in zip(times, hours, strict=True)]
    content = "\n".join(["ts,symbol,funding_rate,collect_cycle", *rows]) + "\n"
    _import(tmp_path, "mexc.csv", content)
    assert _rows(tmp_path, "funding_settlements")["interval_hours"].tolist() == hours


def test_intervals_that_alternate_contradict_the_time_between_rows(tmp_path: Path) -> None:
    rows = [f"{_START + 4 * 3600 * number},GIGA_USDT,0.0001,{4 + 4 * (number % 2)}" for number in range(12)]
    content = "\n".join(["ts,symbol,funding_rate,collect_cycle", *rows]) + "\n"
    with pytest.raises(ArchiveError, match="the rows are 4 hours apart"):
        _import(tmp_path, "mexc.csv", content, table="funding_settlements")


def test_sides_of_venues_with_different_meanings_need_a_file_for_each(tmp_path: Path) -> None:
    rows = [f"{venue},BTCUSDT,BUY,91000,0.1,{_START}" for venue in ("binance", "bybit")]
    content = "\n".join(["exchange,symbol,side,price,qty,ts", *rows]) + "\n"
    with pytest.raises(
        ArchiveError, match=r"bybit publishes the side of the closed position.+ one file for each"
    ):
        _import(tmp_path, "liquidations.csv", content)


def test_rates_of_one_poll_between_the_hours_are_samples(tmp_path: Path) -> None:
    """No venue pays at 06:30; 0.0100% of 8 hours is 1 bps."""
    content = "Symbol,Funding (8h),Updated\nBTCUSDT,0.0100%,2026-10-05T06:30:00Z\n"
    _import(tmp_path, "binance_screener.csv", content)
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0])


def test_a_stated_interval_is_not_asked_for_again(tmp_path: Path) -> None:
    content = "Symbol,Funding (8h),Updated\nBTCUSDT,0.0100%,2026-10-05T06:00:00Z\n"
    with pytest.raises(Unclear, match=r"choose one$"):
        _import(tmp_path, "binance_screener.csv", content, set={"interval_hours": "8"})


def test_the_kind_of_klines_without_volume_selects_the_table_of_prices(tmp_path: Path) -> None:
    fields = "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume"
    content = (
        f"{fields},taker_buy_quote_volume,ignore\n{_START}000,67000.5,67100,66900,67010,0,{_START + 3599}999,"
        "0,720,0,0,0\n"
    )
    result = _import(tmp_path, "BTCUSDT-1h-2026-03.csv", content, set={"kind": "mark"})
    assert result.written == 1
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.5]


def test_rates_without_a_venue_are_asked_for_it_before_their_interval(tmp_path: Path) -> None:
    record = {"ts": _START * 1000 + 230, "channel": "ctx", "data": {"coin": "BTC", "funding": "0.0000125"}}
    lines = [json.dumps({**record, "ts": record["ts"] + 60_000 * number}) for number in range(4)]
    with pytest.raises(ArchiveError, match="pass the venue first, with --set exchange=VENUE"):
        _import(tmp_path, "stream.jsonl", "\n".join(lines) + "\n", unit="native")


def test_polls_of_ccxt_have_the_time_next_to_their_rates(tmp_path: Path) -> None:
    """0.00015 of 4 hours is 3 bps per 8 hours."""
    rate = {"timestamp": None, "datetime": None, "markPrice": 9.5, "indexPrice": 9.5, "fundingRate": 0.0001}
    rate |= {"fundingTimestamp": (_START + 28_800) * 1000, "nextFundingRate": None, "interval": "8h"}
    lines = []
    for number in range(2):
        rates = {
            "BTC/USDT:USDT": {"symbol": "BTC/USDT:USDT", **rate},
            "TRB/USDT:USDT": {"symbol": "TRB/USDT:USDT", **rate, "fundingRate": 0.00015, "interval": "4h"},
        }
        poll = {"ts": (_START + 60 * number) * 1000, "exchange": "bybit", "rates": rates}
        lines.append(json.dumps(poll))
    _import(tmp_path, "rates.jsonl", "\n".join(lines) + "\n")
    rows = _rows(tmp_path, "funding_history")
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, 1.0, 3.0, 3.0])
    first = pd.Timestamp("2026-03-01T00:00Z")
    assert rows["time"].unique().tolist() == [first, first + pd.Timedelta(1, "min")]
