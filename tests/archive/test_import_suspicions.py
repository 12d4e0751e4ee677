"""Files that look like those of another venue, contract, kind or unit: a question, not a guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z


def _import(folder: Path, name: str, content: str, **said: Any) -> Any:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _hourly(header: str, row: str) -> str:
    return "\n".join([header, *(row.format(time=_START + 3_600 * hour) for hour in range(4))]) + "\n"


@pytest.mark.parametrize(("kind", "price"), [("mark", 61_000.0), ("index", 62_000.0), ("last", 63_000.0)])
def test_the_kind_of_the_caller_selects_its_column(tmp_path: Path, kind: str, price: float) -> None:
    content = _hourly("time,symbol,markPrice,indexPrice,lastPrice", "{time},BTCUSDT,61000,62000,63000")
    _import(tmp_path, "okx_prices.csv", content, table="prices_history", set={"kind": kind})
    stored = open_archive(tmp_path / "to").read("prices_history", *EVER)
    assert {*stored["price_usd"]} == {price}


def test_mark_prices_are_not_stored_as_another_kind(tmp_path: Path) -> None:
    content = _hourly("time,symbol,markPrice", "{time},BTCUSDT,61000")
    with pytest.raises(ArchiveError, match="expected a column of index prices"):
        _import(tmp_path, "okx_prices.csv", content, set={"kind": "index"})


def test_candles_have_the_kind_of_the_caller(tmp_path: Path) -> None:
    content = _hourly("time,symbol,open,high,low,close", "{time},BTCUSDT,61000,61900,60900,61500")
    _import(tmp_path, "okx_candles.csv", content, set={"kind": "mark"})
    stored = open_archive(tmp_path / "to").read("prices_history", *EVER)
    assert {*stored["kind"]} == {"mark"}
    assert {*stored["price_usd"]} == {61_000.0}


@pytest.mark.parametrize("name", ["BTCUSD_PERP", "BTC/USD:BTC", "BTCUSD"])
def test_contracts_of_usd_are_not_read_as_usd_by_their_size(tmp_path: Path, name: str) -> None:
    content = _hourly("time,symbol,mark_price,open_interest", f"{{time}},{name},67000,12000000")
    with pytest.raises(ArchiveError, match="may be in USD, coins or contracts"):
        _import(tmp_path, "binance_oi.csv", content)


def test_open_interest_of_bybit_is_that_of_one_side(tmp_path: Path) -> None:
    answer = {
        "retCode": 0, "retMsg": "OK", "retExtInfo": {}, "time": 1_772_326_900_000,
        "result": {
            "symbol": "BTCUSDT", "category": "linear", "nextPageCursor": "",
            "list": [{"openInterest": "52000", "timestamp": f"{_START}000"}],
        },
    }  # fmt: skip
    options: dict[str, Any] = {"unit": "coins", "set": {"price_usd": "67000", "exchange": "bybit"}}
    header = "timestamp,symbol,openInterest"
    for name, content in (
        ("answer.json", json.dumps(answer)),
        ("history.csv", _hourly(header, "{time},BTCUSDT,52000")),
    ):
        counts = _import(tmp_path / name, name, content, **options)
        stored = open_archive(tmp_path / name / "to").read("oi_history", *EVER)
        assert {*stored["oi_usd"]} == {26_000.0 * 67_000}
    assert "counts both sides" in counts.notices[0]
    options["set"]["exchange"] = "binance"
    counts = _import(tmp_path / "other", "history.csv", _hourly(header, "{time},BTCUSDT,52000"), **options)
    stored = open_archive(tmp_path / "other" / "to").read("oi_history", *EVER)
    assert {*stored["oi_usd"]} == {52_000.0 * 67_000}
    assert not counts.notices


@pytest.mark.parametrize(
    ("venue", "header", "row"),
    [
        ("gateio", "time,contract,lsr_taker,open_interest_usd", "{time},BTC_USDT,1.1,4287580124"),
        ("huobi", "ts,contract_code,amount_type,value,trade_turnover", "{time},BTC-USDT,2,4287580124,9"),
    ],
)
def test_open_interest_of_gate_and_htx_is_that_of_one_side(
    tmp_path: Path, venue: str, header: str, row: str
) -> None:
    """Gate's `contract_stats` and HTX's `value` are twice the open contracts: docs/venues.md."""
    options: dict[str, Any] = {"table": "oi_history", "unit": "usd", "set": {"exchange": venue}}
    counts = _import(tmp_path, "history.csv", _hourly(header, row), **options)
    stored = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert {*stored["oi_usd"]} == {2_143_790_062.0}
    assert "counts both sides" in counts.notices[0]


@pytest.mark.parametrize(
    ("venue", "usd"), [("bybit", 0.5e9), ("gate", 0.5e9), ("htx", 0.5e9), ("binance", 1e9), ("okx", 1e9)]
)
def test_open_interest_of_ccxt_is_that_of_one_side(tmp_path: Path, venue: str, usd: float) -> None:
    row = {"symbol": "BTC/USDT:USDT", "openInterestAmount": 15_000.0, "openInterestValue": 1e9, "info": {}}
    stamps = {"timestamp": 1_772_323_200_000, "datetime": "2026-03-01T00:00:00.000Z"}
    _import(tmp_path, f"{venue}-oi.json", json.dumps([row | stamps]))
    assert open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"].tolist() == [usd]


def test_open_interest_of_tardis_is_that_of_one_side(tmp_path: Path) -> None:
    """639,937,332 contracts of 0.0001 BTC and 1,000,000 of 0.001 BTC at 67,000 USD, both sides each."""
    content = (
        "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,"
        "open_interest,last_price,index_price,mark_price\n"
    )
    for market, contracts in (
        ("gate-io-futures,BTC_USDT", 639937332),
        ("huobi-dm-linear-swap,BTC-USDT", 1000000),
    ):
        stamp = f"{_START}000000"
        content += f"{market},{stamp},{stamp},1772352000000000,0.0001,,{contracts},67000,67000,67000\n"
    _import(tmp_path, "derivative_ticker.csv", content, table="oi_history")
    stored = open_archive(tmp_path / "to").read("oi_history", *EVER).set_index("exchange")["oi_usd"]
    assert stored["gateio"] == pytest.approx(639_937_332 * 0.0001 * 67_000 / 2, rel=1e-12)
    assert stored["huobi"] == pytest.approx(1_000_000 * 0.001 * 67_000 / 2, rel=1e-12)


def test_open_interest_column_of_another_venue_than_gate_is_unchanged(tmp_path: Path) -> None:
    content = _hourly("time,symbol,open_interest_usd", "{time},BTC,4287580124")
    counts = _import(tmp_path, "gate_oi.csv", content)
    assert {*open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"]} == {4_287_580_124.0}
    assert "open_interest_usd is stored unchanged" in counts.notices[0]


@pytest.mark.parametrize("clock", ["", " 0:00", " 00:00:00", " 12:00:00 AM"])
def test_first_days_of_months_are_not_days_of_january(tmp_path: Path, clock: str) -> None:
    content = "Date,Symbol,Mark Price\n" + "".join(f"{m}/1/2026{clock},BTCUSDT,67000\n" for m in (3, 4, 5))
    with pytest.raises(ArchiveError, match="the file does not show the order of day and month"):
        _import(tmp_path, "okx_prices.csv", content)


@pytest.mark.parametrize("column", ["oi_usd", "open_interest_usd", "volume_usd"])
def test_figures_of_venues_may_be_of_one_coin(tmp_path: Path, column: str) -> None:
    content = _hourly(f"time,exchange,{column}", "{time},binance,50000000")
    with pytest.raises(ArchiveError, match="the rows have a venue but no contract"):
        _import(tmp_path, "figures_by_exchange.csv", content)


def test_figures_of_venues_that_are_totals_are_stored(tmp_path: Path) -> None:
    content = _hourly("time,exchange,oi_usd", "{time},binance,25000000000")
    assert _import(tmp_path, "total_oi.csv", content).table == "oi_exchange_totals"


@pytest.mark.parametrize("name", ["btc_research/turbo_binance_funding.csv", "ETH/link_binance_funding.csv"])
def test_a_folder_does_not_name_the_coin_of_a_file_of_another(tmp_path: Path, name: str) -> None:
    content = _hourly("time,funding_rate_8h", "{time},0.0001")
    with pytest.raises(ArchiveError, match="symbol is not in the file"):
        _import(tmp_path, name, content, table="funding_history")


def test_folder_names_the_coin_if_the_file_has_none(tmp_path: Path) -> None:
    content = _hourly("time,funding_rate_8h", "{time},0.0001")
    _import(tmp_path, "ETH/binance_funding_rates_1h.csv", content, table="funding_history")
    stored = open_archive(tmp_path / "to").read("funding_history", *EVER)
    assert {*stored["symbol"]} == {"ETH"}


_LIQUIDATION = "exchange,market,symbol,side,qty,price,notional,ts_exch_ms,ts_ingest_ms\n"


@pytest.mark.parametrize(
    ("row", "usd", "coins"),
    [
        # 150 contracts of 0.01 BTC at 66,900.10 USD; 1,000 of 1 USD; 10 of 100 USD; 1,000 of 0.0001 BTC.
        ("okx,usdt,BTC-USDT-SWAP,long,150,66900.1,10035015.0", 100_350.15, 1.5),
        ("bybit,coin,BTCUSD,long,1000,67000,67000000", 1_000.0, 1_000 / 67_000),
        ("binance,coin,BTCUSD_PERP,long,10,67000,670000", 1_000.0, 1_000 / 67_000),
        ("gate,usdt,BTC_USDT,long,1000,67000,67000000", 6_700.0, 0.1),
    ],
)
def test_value_computed_with_contracts_as_coins_raises_a_question(
    tmp_path: Path, row: str, usd: float, coins: float
) -> None:
    content = f"{_LIQUIDATION}{row},{_START}000,{_START}080\n"
    with pytest.raises(Unclear, match="its values are right only if they are coins"):
        _import(tmp_path, "liquidations.csv", content)
    _import(tmp_path, "liquidations.csv", content, unit="contracts")
    stored = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).iloc[0]
    assert stored["value_usd"] == pytest.approx(usd, rel=1e-12)
    assert stored["quantity"] == pytest.approx(coins, rel=1e-12)


@pytest.mark.parametrize(
    ("row", "usd", "coins"),
    [
        ("okx,usdt,BTC-USDT-SWAP,long,150,66900.1,100350.15", 100_350.15, 1.5),
        ("bybit,coin,BTCUSD,long,1000,67000,1000", 1_000.0, 1_000 / 67_000),
        ("binance,usdt,BTCUSDT,long,0.5,67000,33500", 33_500.0, 0.5),
    ],
)
def test_a_value_proves_the_unit_of_amounts(tmp_path: Path, row: str, usd: float, coins: float) -> None:
    _import(tmp_path, "liquidations.csv", f"{_LIQUIDATION}{row},{_START}000,{_START}080\n")
    stored = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).iloc[0]
    assert stored["value_usd"] == pytest.approx(usd, rel=1e-12)
    assert stored["quantity"] == pytest.approx(coins, rel=1e-12)


def test_a_stated_contract_size_replaces_values_of_coins(tmp_path: Path) -> None:
    row = f"okx,usdt,BTC-USDT-SWAP,long,150,66900.1,10035015.0,{_START}000,{_START}080"
    _import(tmp_path, "liquidations.csv", f"{_LIQUIDATION}{row}\n", set={"contract_size": "0.01"})
    stored = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).iloc[0]
    assert stored["value_usd"] == pytest.approx(100_350.15)
    assert stored["quantity"] == pytest.approx(1.5)


def test_sizes_of_a_contract_of_unknown_size_are_asked_about(tmp_path: Path) -> None:
    content = f"time,symbol,side,price,qty\n{_START},DOGE-USDT-SWAP,long,0.1,12\n"
    with pytest.raises(Unclear, match=r"sizes of DOGE-USDT-SWAP on okx .* in coins or in another unit"):
        _import(tmp_path, "okx_liquidations.csv", content)
    _import(tmp_path, "okx_liquidations.csv", content, set={"contract_size": "1000"})
    assert open_archive(tmp_path / "to").read("liquidations_fills", *EVER)["value_usd"].tolist() == [1_200.0]


def test_orders_of_binance_state_the_position_that_they_close(tmp_path: Path) -> None:
    rows = f"{_START}000,BTCUSDT,BUY,66900,0.1\n{_START}001,BTCUSDT,SELL,66900,0.2\n"
    content = f"timestamp_ms,symbol,side,price,qty\n{rows}"
    _import(tmp_path, "liquidations.csv", content, set={"exchange": "binance"})
    stored = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).sort_values("time")
    assert stored["side"].tolist() == ["short", "long"]
    with pytest.raises(ArchiveError, match="--map-value side:BUY=long"):
        _import(tmp_path, "liquidations.csv", content, set={"exchange": "bybit"})


def test_name_without_a_quote_is_accepted_if_values_prove_coins(
    tmp_path: Path,
) -> None:
    """Rows of moon-dev's collector, 2025: 2.45 SOL at 141.30 USD; its usd_size is of the order's price."""
    header = (
        "symbol,side,order_type,time_in_force,original_quantity,price,average_price,order_status,"
        "order_last_filled_quantity,order_filled_accumulated_quantity,order_trade_time"
    )
    row = f"SOL,BUY,LIMIT,IOC,2.45,141.99,141.3,FILLED,2.45,2.45,{_START}000"
    _import(tmp_path, "liq_data.csv", f"{header},usd_size\n{row},347.8755\n")
    stored = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).iloc[0]
    assert (stored["side"], stored["value_usd"]) == ("short", pytest.approx(346.185))
    with pytest.raises(
        ArchiveError,
        match="amounts of SOL on binance are in contracts, and the file does not state their size",
    ):
        _import(tmp_path, "liq_data.csv", f"{header}\n{row}\n")
    _import(tmp_path, "liq_data.csv", f"{header}\n{row}\n", set={"contract_size": "1"})


@pytest.mark.parametrize(
    ("column", "cell", "usd"),
    [
        ("Open Interest (Mio. USD)", '"6.041,50"', 6_041_500_000.0),
        ("Open Interest (in millions of USD)", "6041.5", 6_041_500_000.0),
        ("OI (Mrd. USD)", '"6,0415"', 6_041_500_000.0),
        ("建玉（百万USD）", "6041.5", 6_041_500_000.0),
        ("Open Interest (mil millones USD)", "6.0415", 6_041_500_000.0),
    ],
)
def test_words_of_scales_multiply(tmp_path: Path, column: str, cell: str, usd: float) -> None:
    content = _hourly(f"time,exchange,symbol,{column}", f"{{time}},binance,BTCUSDT,{cell}")
    _import(tmp_path, "oi.csv", content)
    assert {*open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"]} == {usd}


def test_a_scale_without_a_unit_multiplies_in_the_unit_of_the_caller(tmp_path: Path) -> None:
    content = _hourly("time,exchange,symbol,Open Interest (Millions)", "{time},binance,BTCUSDT,6041.5")
    content = content.replace("binance", "myvenue")
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, "oi.csv", content)
    _import(tmp_path, "oi.csv", content, unit="usd")
    assert {*open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"]} == {6_041_500_000.0}


def test_ambiguous_scale_word_is_rejected(tmp_path: Path) -> None:
    """``mil`` is a thousand in Spanish, and a million in English."""
    content = _hourly("time,exchange,symbol,OI (mil USD)", "{time},binance,BTCUSDT,6041500")
    with pytest.raises(ArchiveError, match="because it has the word 'mil'"):
        _import(tmp_path, "oi.csv", content, unit="usd")


def test_stated_unit_does_not_allow_an_impossible_size(tmp_path: Path) -> None:
    content = _hourly("time,exchange,symbol,open_interest", "{time},binance,BTCUSDT,6041.5")
    with pytest.raises(Unclear, match="is rarely below one million"):
        _import(tmp_path, "oi.csv", content, unit="usd")
    _import(tmp_path, "oi.csv", content, unit="usd", accept=["unit"])
    assert {*open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"]} == {6041.5}


def test_quotes_of_one_option_in_rows_of_their_own_are_refused(tmp_path: Path) -> None:
    content = "timestamp,option_type,expiration,strike,underlying,data_type,price,underlying_price,iv\n"
    for minute in range(3):
        for word, iv in (("bid", 0.519), ("ask", 0.531)):
            content += f"{_START + 60 * minute},C,27MAR26,70000,BTC,{word},0.05,67100.5,{iv}\n"
    with pytest.raises(ArchiveError, match=r"the column data_type distinguishes rows \(bid, ask\)"):
        _import(tmp_path, "deribit_greeks.csv", content)


@pytest.mark.parametrize("name", ["rows.json", "rows.csv"])
def test_venue_of_rows_precedes_venue_of_folders(tmp_path: Path, name: str) -> None:
    rows = [
        {
            "platform_name": "bitunix",
            "symbol": "BTCUSDT",
            "fundingTime": (_START + 28_800 * n) * 1000,
            "fundingRate": "0.0001",
        }
        for n in range(4)
    ]
    content = json.dumps({"data": rows})
    if name.endswith("csv"):
        content = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\n"
    _import(tmp_path, f"binance/{name}", content)
    assert {*open_archive(tmp_path / "to").read("funding_settlements", *EVER)["exchange"]} == {"bitunix"}


def test_an_unknown_venue_in_rows_of_a_layout_is_named(tmp_path: Path) -> None:
    row = {
        "exchange": "bitunix", "symbol": "BTCUSDT", "fundingTime": _START * 1000, "fundingRate": "0.0001",
        "markPrice": "67000",
    }  # fmt: skip
    with pytest.raises(Unclear, match="column exchange has bitunix"):
        _import(tmp_path, "rates.json", json.dumps([row]))


@pytest.mark.parametrize("name", ["pepe_vs_btc.csv", "PEPE-BTC.csv", "link_btc.csv", "ETHBTC_1h.csv"])
def test_pair_quoted_in_coins_is_not_priced_in_usd(tmp_path: Path, name: str) -> None:
    content = _hourly("time,mark_price", "{time},0.0000001")
    with pytest.raises(Unclear, match="the prices may not be in USD"):
        _import(tmp_path, name, content, set={"exchange": "binance"})
    content = _hourly("time,funding_rate_8h", "{time},0.0001")
    with pytest.raises(ArchiveError, match="symbol is not in the file"):
        _import(tmp_path, name, content, table="funding_history", set={"exchange": "binance"})


@pytest.mark.parametrize(
    ("name", "symbol"), [("okx_btc_swap.csv", "BTC"), ("LINK_okx.csv", "LINK"), ("pepe_okx.csv", "PEPE")]
)
def test_coin_is_read_from_the_file_name(tmp_path: Path, name: str, symbol: str) -> None:
    _import(tmp_path, name, _hourly("time,mark_price", "{time},67000"))
    assert {*open_archive(tmp_path / "to").read("prices_history", *EVER)["symbol"]} == {symbol}


def _interest(values: list[str], head: str = "time,open_interest,price", tail: str = "67000") -> str:
    lines = [head]
    for number, value in enumerate(values):
        lines.append(f"{1_772_323_200 + 3600 * number},{value},{tail}")
    return "\n".join(lines) + "\n"


def test_open_interest_that_may_be_millions_of_usd_needs_its_unit(tmp_path: Path) -> None:
    """8,000 of BTC on Binance are 0.5e9 USD as coins and 8e9 USD as millions; 90,000 are coins only."""
    with pytest.raises(Unclear, match="usd_millions"):
        _import(tmp_path, "binance_BTCUSDT_oi.csv", _interest(["8000", "8010"]))
    _import(tmp_path, "binance_BTCUSDT_oi.csv", _interest(["8000", "8010"]), unit="usd_millions")
    assert open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"].tolist() == [8.0e9, 8.01e9]
    _import(tmp_path / "coins", "binance_BTCUSDT_oi.csv", _interest(["90000"]))
    assert open_archive(tmp_path / "coins" / "to").read("oi_history", *EVER)["oi_usd"].tolist() == [
        90_000 * 67_000
    ]


def test_contract_sizes_in_usd_are_not_coins(tmp_path: Path) -> None:
    """100 BTC would be a contract of 6.7 million USD; those of OKX's inverse swap are of 100 USD."""
    head = "time,open_interest,contract_size,mark_price"
    content = _interest(["8000000"], head, "100,67000")
    with pytest.raises(ArchiveError, match="a contract of 100 coins would be worth 6,700,000 USD"):
        _import(tmp_path, "binance_BTCUSDT_oi.csv", content, unit="contracts")
    content = _interest(["8000000"], f"{head},symbol", "100,67000,BTC-USD-SWAP")
    _import(tmp_path, "okx_oi.csv", content, unit="contracts")
    assert open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"].tolist() == [8e8]


def test_the_largest_open_interest_is_checked_with_a_unit(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="possibly another currency or unit, not USD"):
        _import(tmp_path, "binance_BTCUSDT_oi.csv", _interest(["5e12"]), unit="usd")
    with pytest.raises(ArchiveError, match="possibly another currency or unit, not USD"):
        _import(tmp_path, "binance_BTCUSDT_oi.csv", _interest(["5e6"]), unit="coins")


def test_option_rows_with_buys_and_sells_are_trades(tmp_path: Path) -> None:
    """The side is that of the taker: none is a call or a put, and trades need ids."""
    head = "ts,instrument,side,qty,price,iv"
    lines = ["1772323200000,BTC-27MAR26-90000-C,buy,3.0,0.0412,52.5"]
    lines.append("1772323260000,BTC-27MAR26-70000-P,sell,1.5,0.0107,61.0")
    with pytest.raises(ArchiveError, match=r"options_trades\.trade_id is not in the file") as error:
        _import(tmp_path, "deribit_options.csv", "\n".join([head, *lines]) + "\n")
    assert "--map-value" not in str(error.value)
    with_ids = [f"{line},{number}" for number, line in enumerate(lines)]
    _import(
        tmp_path, "deribit_options.csv", "\n".join([f"{head},ref", *with_ids]) + "\n", map={"trade_id": "ref"}
    )
    rows = open_archive(tmp_path / "to").read("options_trades", *EVER)
    assert rows["taker_side"].tolist() == ["buy", "sell"]
    assert rows["price_coin"].tolist() == [0.0412, 0.0107]


_TICKERS = [
    "symbol,timestamp,bid,ask,open,close,last,indexPrice,markPrice",
    "BTC/USDT:USDT,1772323200000,66999.5,67000.5,65100,67000,67000,66990,67001.5",
    "ETH/USDT:USDT,1772323200000,1999.5,2000.5,1950,2000,2000,1999,2000.25",
]


def test_every_kind_of_price_of_a_file_is_read(tmp_path: Path) -> None:
    _import(tmp_path, "bybit_tickers.csv", "\n".join(_TICKERS) + "\n")
    rows = (
        open_archive(tmp_path / "to").read("prices_history", *EVER).set_index(["symbol", "kind"])["price_usd"]
    )
    assert rows["BTC"].to_dict() == {"mark": 67_001.5, "index": 66_990.0, "last": 67_000.0}
    assert rows["ETH"].to_dict() == {"mark": 2_000.25, "index": 1_999.0, "last": 2_000.0}


def test_prices_of_perpetuals_and_dated_futures_need_a_table(tmp_path: Path) -> None:
    dated = "BTC/USDT:USDT-260327,1772323200000,67499.5,67500.5,65600,67500,67500,66990,67501.5"
    content = "\n".join([*_TICKERS, dated]) + "\n"
    with pytest.raises(Unclear, match="has dated futures and other contracts"):
        _import(tmp_path, "bybit_tickers.csv", content)
    _import(tmp_path, "bybit_tickers.csv", content, table="prices_history")
    _import(tmp_path, "bybit_tickers.csv", content, table="futures_history")
    archive = open_archive(tmp_path / "to")
    assert sorted({*archive.read("prices_history", *EVER)["price_usd"]}) == [
        1_999.0, 2_000.0, 2_000.25, 66_990.0, 67_000.0, 67_001.5,
    ]  # fmt: skip
    assert archive.read("futures_history", *EVER)["price_usd"].tolist() == [67_501.5]


def test_rows_of_messages_of_gate_have_their_own_time(tmp_path: Path) -> None:
    """The message of 00:00:12 has the statistics of 00:00:00."""
    content = (
        '{"time":1772323212,"time_ms":1772323212501,"channel":"futures.contract_stats","event":"update",'
        '"result":{"time":1772323200,"contract":"BTC_USDT","mark_price":67001.5,"long_liq_usd":1500,'
        '"short_liq_usd":250,"open_interest":"8000000","open_interest_usd":53601200}}'
    )
    _import(tmp_path, "gate_stats.json", content)
    archive = open_archive(tmp_path / "to")
    for table in ("oi_history", "liquidations_history", "prices_history"):
        assert [str(time) for time in archive.read(table, *EVER)["time"]] == ["2026-03-01 00:00:00+00:00"]


def test_open_interest_that_may_be_of_a_small_contract_needs_its_unit(tmp_path: Path) -> None:
    """656.5 at 7,250 USD are 4.8 million USD as coins, and 656.5 million as millions of USD."""
    for venue in ("binance", "bitmex", "okx"):
        with pytest.raises(Unclear, match="usd_millions"):
            _import(tmp_path, f"{venue}_BTCUSDT_oi.csv", _interest(["656.5"], tail="7250"))


def test_best_quotes_without_sizes_of_expired_contracts_are_no_changes(tmp_path: Path) -> None:
    """Binance's bookTicker has zeros for sides without orders, and the id of the last change of the book."""
    quotes = [
        ("BTCUSDT", "67000.1", "0.5", "67000.2", "2.5"),
        ("ETHUSDT_260227", "0", "0", "0", "0"),
        ("ETHUSDT", "0", "0", "2000.5", "3"),
    ]
    names = ("symbol", "bidPrice", "bidQty", "askPrice", "askQty")
    body = [
        {**dict(zip(names, quote, strict=True)), "time": 1_772_323_200_000, "lastUpdateId": 7}
        for quote in quotes
    ]
    counts = _import(tmp_path, "binance_bookTicker.json", json.dumps(body))
    assert (counts.written, counts.rejected) == (3, 3)
    rows = open_archive(tmp_path / "to").read("orderbook_book", *EVER).set_index(["symbol", "side"])
    assert rows["price_usd"]["BTC"].to_dict() == {"bid": 67_000.1, "ask": 67_000.2}
    assert rows["size"]["BTC"].to_dict() == {"bid": 0.5, "ask": 2.5}
    assert rows["price_usd"]["ETH"].to_dict() == {"ask": 2_000.5}
