"""Files of other forms than one row for each market and time: wide tables, books, nested and packed files."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Imported, Unclear
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z
_RATES = (0.0001, -0.00002, 0.00005) * 3
_STAMPS = [_START + place * 28_800 for place in range(len(_RATES))]
_LONG = "symbol,time,fundingRate\n" + "".join(
    f"BTCUSDT,{stamp},{rate}\n" for stamp, rate in zip(_STAMPS, _RATES, strict=True)
)


def _import(folder: Path, name: str, content: str | bytes, **said: Any) -> Imported:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


def _tar(content: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in ("data/rates_okx.csv", "data/._rates_okx.csv"):  # macOS adds the second
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content.encode()))
    return packed.getvalue()


_PACKED: dict[str, Callable[[str], bytes]] = {
    "rates_okx.csv.xz": lambda content: lzma.compress(content.encode()),
    "rates_okx.tar.gz": _tar,
}


@pytest.mark.parametrize("name", _PACKED)
def test_files_packed_by_xz_and_tar_are_read(tmp_path: Path, name: str) -> None:
    assert _import(tmp_path, name, _PACKED[name](_LONG)).written == 9
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["rate_bps_8h"].tolist()[:3] == pytest.approx([1.0, -0.2, 0.5])
    assert rows["exchange"].unique().tolist() == ["okx"]


@pytest.mark.parametrize("name", _PACKED)
def test_a_damaged_packed_file_is_one_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="cannot be read"):
        _import(tmp_path, name, _PACKED[name](_LONG * 50)[:-40])


# In CSV a column for each market; two lines of names; names of a market and a quantity.
_WIDE = {
    "funding_okx.csv": "time,BTCUSDT,ETHUSDT,SOLUSDT\n{time},{rate},{half},\n",
    "rates_okx.csv": ",fundingRate,fundingRate\n,BTCUSDT,ETHUSDT\ntime,,\n{time},{rate},{half}\n",
    "levels_okx.csv": ",BTC,ETH\n,funding_rate,funding_rate\n{time},{rate},{half}\n",
    "columns_okx.csv": "date,BTC_funding_rate,ETH_funding_rate\n{time},{rate},{half}\n",
    "venues.csv": "date,okx_BTCUSDT_funding_rate,okx_ETHUSDT_funding_rate\n{time},{rate},{half}\n",
}


@pytest.mark.parametrize("name", _WIDE)
def test_a_wide_table_has_a_row_for_each_market_and_time(tmp_path: Path, name: str) -> None:
    *header, row = _WIDE[name].splitlines(keepends=True)
    lines = [row.format(time=t, rate=r, half=r / 2) for t, r in zip(_STAMPS, _RATES, strict=True)]
    assert _import(tmp_path, name, "".join([*header, *lines])).written == 18
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["exchange"].unique().tolist() == ["okx"]
    by_symbol = {symbol: group["rate_bps_8h"].tolist()[:3] for symbol, group in rows.groupby("symbol")}
    assert by_symbol == {"BTC": pytest.approx([1.0, -0.2, 0.5]), "ETH": pytest.approx([0.5, -0.1, 0.25])}


def test_columns_by_venue_are_oi_in_usd_if_the_name_states_it(tmp_path: Path) -> None:
    content = "date,Binance,Bybit\n2026-03-01,6041490500.5,\n2026-03-02,6041490501.5,3000000000.5\n"
    assert _import(tmp_path, "btc_open_interest_usd.csv", content).written == 3
    rows = _rows(tmp_path, "oi_history")[["symbol", "exchange", "oi_usd"]].to_numpy().tolist()
    assert sorted(rows) == [
        ["BTC", "binance", 6041490500.5],
        ["BTC", "binance", 6041490501.5],
        ["BTC", "bybit", 3000000000.5],
    ]
    _import(tmp_path / "large", "btc_open_interest.csv", content)  # more than there are coins
    assert _rows(tmp_path / "large", "oi_history")["oi_usd"].max() == 6041490501.5
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, "doge_open_interest.csv", content)


def test_a_rejected_cell_of_a_wide_table_is_named_by_its_line(tmp_path: Path) -> None:
    content = "date,binance,bybit\n2026-03-01,6041490500.5,1e9\n2026-03-02,6041490501.5,many\n"
    counts = _import(tmp_path, "btc_open_interest_usd.csv", content)
    assert (counts.read, counts.written, counts.rejected) == (4, 3, 1)
    assert counts.first_rejected is not None
    assert "line 3: oi_usd='many' is not a number" in counts.first_rejected


_LEVELS = [
    ["bid", 1, 67000.0, 1.5],
    ["bid", 2, 66999.0, 2.0],
    ["ask", 1, 67001.0, 1.0],
    ["ask", 2, 67002.0, 3.0],
]
_BOOKS = {
    "binance_BTCUSDT_book.csv": (
        "timestamp,side,price,amount\n1772323200,ask,67002,3\n1772323200,bids,67000,1.5\n"
        "1772323200,bid,66999,2\n1772323200,ask,67001,1\n"
    ),
    "snapshot.csv": (
        "exchange,symbol,timestamp,asks[0].price,asks[0].amount,bids[0].price,bids[0].amount,asks[1].price,"
        "asks[1].amount,bids[1].price,bids[1].amount\n"
        "binance-futures,BTCUSDT,1772323200000000,67001,1,67000,1.5,67002,3,66999,2\n"
    ),
    "levels_binance.csv": (
        "symbol,time,bid_px_1,bid_sz_1,ask_px_1,ask_sz_1,bid_px_2,bid_sz_2,ask_px_2,ask_sz_2\n"
        "BTCUSDT,1772323200,67000,1.5,67001,1,66999,2,67002,3\n"
    ),
    "ccxt_binance.json": json.dumps(
        {"symbol": "BTC/USDT:USDT", "timestamp": 1772323200000, "bids": [[67000.0, 1.5], [66999.0, 2.0]],
         "asks": [[67001.0, 1.0], [67002.0, 3.0]], "nonce": 7}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _BOOKS)
def test_books_have_a_row_for_each_level(tmp_path: Path, name: str) -> None:
    assert _import(tmp_path, name, _BOOKS[name]).written == 4
    rows = _rows(tmp_path, "orderbook_book")
    assert rows[["exchange", "symbol"]].drop_duplicates().to_numpy().tolist() == [["binance", "BTC"]]
    levels = rows[["side", "level", "price_usd", "size"]].to_numpy().tolist()
    assert sorted(levels) == sorted(_LEVELS)


def test_dates_of_spreadsheets_are_days_since_1899(tmp_path: Path) -> None:
    """46082 is 2026-03-01; a third of a day is 08:00."""
    lines = [f"{46082 + place / 3:.9f},BTCUSDT,{rate}" for place, rate in enumerate(_RATES)]
    _import(tmp_path, "okx.csv", "\n".join(["Date,Symbol,Funding Rate", *lines]) + "\n")
    stamps = _rows(tmp_path, "funding_settlements")["time"].dt.strftime("%m-%d %H:%M:%S").tolist()
    assert stamps[:3] == ["03-01 00:00:00", "03-01 08:00:00", "03-01 16:00:00"]


@pytest.mark.parametrize(
    "header",
    [
        "时间,交易对,资金费率", "日時,銘柄,資金調達率", "시간,종목,펀딩비",
        "Время,Инструмент,Ставка финансирования", "Zeitpunkt,Kontrakt,Finanzierungsrate",
        "Horodatage,Symbole,Taux de financement", "Fecha,Símbolo,Tasa de financiación",
        "Data,Símbolo,Taxa de financiamento", "Data,Simbolo,Tasso di finanziamento",
        "Tarih,Sembol,Fonlama oranı", "Data,Symbol,Stopa finansowania",
    ],
)  # fmt: skip
def test_headers_of_other_languages_are_read(tmp_path: Path, header: str) -> None:
    _import(tmp_path, "okx.csv", _LONG.replace("symbol,time,fundingRate", _reordered(header)))
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["rate_bps_8h"].tolist()[:3] == pytest.approx([1.0, -0.2, 0.5])


def _reordered(header: str) -> str:
    time, symbol, rate = header.split(",")
    return f"{symbol},{time},{rate}"


def test_a_history_in_a_record_is_a_row_for_each_of_its_records(tmp_path: Path) -> None:
    points = [{"t": _START + hour * 3600, "o": 0.01 - hour / 1e4, "c": 0.0} for hour in range(12)]
    points = [{**point, "h": 0.01, "l": 0.0} for point in points]
    body = json.dumps([{"symbol": "BTCUSDT_PERP.A", "history": points}])
    _import(tmp_path, "coinalyze_funding.json", body, set={"interval_hours": "8"})
    rows = _rows(tmp_path, "funding_history")
    assert rows[["symbol", "exchange"]].drop_duplicates().to_numpy().tolist() == [["BTC", "binance"]]
    assert rows["rate_bps_8h"].tolist()[:2] == pytest.approx([1.0, 0.99])  # 0.01 % of 8 hours, 0.0099 %


def test_the_time_of_a_response_is_not_that_of_its_rows(tmp_path: Path) -> None:
    rows = [{"timestamp": stamp * 1000, "code": "btc-usdt", "exchange": "binc", "funding_rate": str(rate)}
            for stamp, rate in zip(_STAMPS, _RATES, strict=True)]  # fmt: skip
    _import(tmp_path, "kaiko.json", json.dumps({"time": "2026-05-01T00:00:00Z", "data": rows}))
    stored = _rows(tmp_path, "funding_settlements")
    assert stored["time"].dt.strftime("%m-%d %H").tolist()[:2] == ["03-01 00", "03-01 08"]
    assert stored["exchange"].unique().tolist() == ["binance"]


def test_taker_volumes_of_okx_without_their_unit_are_not_read_as_usd(tmp_path: Path) -> None:
    """OKX counts contracts unless the request has ``unit=2``; open interest and volume have the same form."""
    body = json.dumps({"code": "0", "msg": "", "data": [[str(_START * 1000), "6041490500.5", "1000"]]})
    name = "okx_BTC-USDT_taker-volume-contract.json"
    with pytest.raises(Unclear, match="may be in USD, coins or contracts: pass --unit usd"):
        _import(tmp_path, name, body)
    _import(tmp_path / "usd", name, body, unit="usd")
    [row] = _rows(tmp_path / "usd", "volume_taker").to_dict("records")
    assert (row["buy_usd"], row["sell_usd"]) == (1000.0, 6041490500.5)
    said: dict[str, Any] = {
        "map": {"time": "0", "sell_usd": "1", "buy_usd": "2"},
        "set": {"exchange": "okx", "symbol": "BTC"},
    }
    _import(tmp_path, name, body, table="volume_taker", **said)
    [row] = _rows(tmp_path, "volume_taker").to_dict("records")
    assert (row["buy_usd"], row["sell_usd"]) == (1000.0, 6041490500.5)


def test_trades_are_not_last_prices_unless_the_table_is_stated(tmp_path: Path) -> None:
    header = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker\n"
    content = header + "".join(f"{i},67000.5,0.1,{i},{i},{_START * 1000 + i},true\n" for i in range(3))
    name = "BTCUSDT-aggTrades-2026-03-01.csv"
    with pytest.raises(Unclear, match="the rows are trades, which no table stores"):
        _import(tmp_path, name, content, set={"exchange": "binance"})
    said: dict[str, Any] = {"exchange": "binance", "kind": "last"}
    assert _import(tmp_path, name, content, table="prices_history", set=said).written == 3


def test_a_total_of_venues_is_not_a_venue(tmp_path: Path) -> None:
    rows = [{"exchange": name, "symbol": "BTC", "open_interest_usd": usd}
            for name, usd in (("All", 5e10), ("Binance", 6e9))]  # fmt: skip
    counts = _import(tmp_path, "list.json", json.dumps({"data": rows}), set={"time": "2026-03-01T00:00Z"})
    assert (counts.written, counts.rejected) == (1, 1)
    assert "a total of several venues" in str(counts.first_rejected)
    assert _rows(tmp_path, "oi_history")["exchange"].tolist() == ["binance"]


def test_opposite_side_is_inferred_from_one_known_word(tmp_path: Path) -> None:
    lines = [f"BTCUSDT,{_START + i},{side},67000,{i + 1}" for i, side in enumerate(["buy", "sell"])]
    content = "\n".join(["symbol,time,side,price,quantity", *lines]) + "\n"
    said: dict[str, Any] = {"set": {"exchange": "binance"}, "map_values": {"side": {"sell": "long"}}}
    assert _import(tmp_path, "liquidations.csv", content, **said).written == 2
    assert _rows(tmp_path, "liquidations_fills").sort_values("time")["side"].tolist() == ["short", "long"]


def test_changes_of_a_book_are_not_books(tmp_path: Path) -> None:
    header = "exchange,symbol,timestamp,local_timestamp,is_snapshot,side,price,amount\n"
    content = header + "binance-futures,BTCUSDT,1772323200000000,1772323200000000,true,bid,67000,1\n"
    with pytest.raises(ArchiveError, match="expected order book snapshots, got book updates"):
        _import(tmp_path, "incremental_book_L2.csv", content)
    removed = (
        "symbol,timestamp,side,price,amount\nBTCUSDT,1772323200,bid,67000,1\nBTCUSDT,1772323200,ask,67001,0\n"
    )
    with pytest.raises(ArchiveError, match="expected order book snapshots, got book updates"):
        _import(tmp_path, "binance.csv", removed)


def test_calls_and_puts_in_one_row_are_two_rows(tmp_path: Path) -> None:
    header = "[QUOTE_UNIXTIME],[UNDERLYING_LAST],[EXPIRE_DATE],[STRIKE],[C_IV],[P_IV]\n"
    _import(tmp_path, "deribit_BTC.csv", header + "1772323200,67100,2026-03-27,70000,0.525,0.53\n")
    rows = _rows(tmp_path, "options_snapshot")
    assert rows[["instrument_name", "iv"]].to_numpy().tolist() == [
        ["BTC-27MAR26-70000-C", 0.525],
        ["BTC-27MAR26-70000-P", 0.53],
    ]


def test_a_date_and_the_time_of_day_next_to_it_are_one_time(tmp_path: Path) -> None:
    header = "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\n"
    rows = "2026.03.01\t00:00:00\t67000.5\t0\t0\t0\n2026.03.01\t01:00:00\t67001.5\t0\t0\t0\n"
    with pytest.raises(ArchiveError, match="MetaTrader have the clock of the broker's server"):
        _import(tmp_path, "binance_BTCUSDT.csv", header + rows)
    _import(tmp_path, "binance_BTCUSDT.csv", header + rows, tz="UTC+2")
    stored = _rows(tmp_path, "prices_history")
    assert stored["time"].dt.strftime("%m-%d %H").tolist() == ["02-28 22", "02-28 23"]
    assert stored["price_usd"].tolist() == [67000.5, 67001.5]


def test_columns_of_cells_by_index_are_rows(tmp_path: Path) -> None:
    """The default output of `DataFrame.to_json`."""
    frame = pd.DataFrame({"symbol": "BTCUSDT", "time": _STAMPS, "fundingRate": _RATES})
    assert _import(tmp_path, "okx.json", frame.to_json()).written == 9
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist()[:2] == pytest.approx([1.0, -0.2])


def test_text_of_excel_is_read(tmp_path: Path) -> None:
    """UTF-16 with tabs, and a first line that declares the delimiter."""
    lines = [f"BTCUSDT\t{stamp}\t{rate}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    text = "\n".join(["Symbol\tTime\tFunding Rate", *lines]) + "\n"
    assert _import(tmp_path, "unicode_okx.txt", text.encode("utf-16")).written == 9
    stated = "sep=;\n" + text.replace("\t", ";")
    assert _import(tmp_path, "stated_okx.csv", stated).present == 9


def test_contracts_of_a_known_size_are_valued(tmp_path: Path) -> None:
    """50 contracts of 0.01 BTC at 67,000 USD; the order sold, so a long was closed."""
    fill = {"bkLoss": "0", "bkPx": "67000", "ccy": "", "posSide": "long", "side": "sell", "sz": "50"}
    row = {"instFamily": "BTC-USDT", "instId": "BTC-USDT-SWAP", "instType": "SWAP", "uly": "BTC-USDT"}
    row |= {"totalLoss": "0", "details": [{**fill, "ts": str(_START * 1000)}]}
    _import(tmp_path, "okx.json", json.dumps({"code": "0", "msg": "", "data": [row]}))
    [stored] = _rows(tmp_path, "liquidations_fills").to_dict("records")
    assert (stored["side"], stored["quantity"], stored["value_usd"]) == ("long", 0.5, 33500.0)


def test_a_response_without_its_contract_takes_the_coin_of_the_path(tmp_path: Path) -> None:
    rows = [{"funding_rate": "0.0000125", "next_funding_rate": "0.0000125", "oracle_price": "67000",
             "bid_impact_price": "1", "ask_impact_price": "1", "created_at": (_START + hour * 3600) * 1000}
            for hour in range(3)]  # fmt: skip
    body = {"success": True, "data": rows, "next_cursor": "", "has_more": False}
    _import(tmp_path, "pacifica_BTC_funding.json", json.dumps(body))
    stored = _rows(tmp_path, "funding_settlements")
    assert stored[["symbol", "exchange", "rate_bps_8h"]].to_numpy().tolist() == [["BTC", "pacifica", 1.0]] * 3


def test_a_venue_is_found_in_names_of_markets_and_of_kinds_of_contracts(tmp_path: Path) -> None:
    venues = ["binance-futures", "OKEX-SWAP", "binance-BTCUSDT-future", "Bybit (Futures)", "my own"]
    lines = [f"BTC,{venue},{_START + place},1000000000" for place, venue in enumerate(venues)]
    _import(tmp_path, "oi.csv", "\n".join(["symbol,exchange,time,oi_usd", *lines]) + "\n")
    stored = _rows(tmp_path, "oi_history").sort_values("time")["exchange"].tolist()
    assert stored == ["binance", "okx", "binance", "bybit", "my own"]


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%b %d, %Y %I:%M %p", "%Y.%m.%d %H:%M"])
def test_dates_with_names_of_months_or_dots_are_read(tmp_path: Path, form: str) -> None:
    lines = [
        f'BTC,"{pd.Timestamp(stamp, unit="s").strftime(form)}",{rate}'
        for stamp, rate in zip(_STAMPS, _RATES, strict=True)
    ]
    _import(tmp_path, "okx.csv", "\n".join(["symbol,time,fundingRate", *lines]) + "\n")
    stamps = _rows(tmp_path, "funding_settlements")["time"].dt.strftime("%m-%d %H").tolist()
    assert stamps[:3] == ["03-01 00", "03-01 08", "03-01 16"]


def test_shares_that_add_up_to_100_are_percent(tmp_path: Path) -> None:
    content = "date,symbol,longRatio,shortRatio\n2026-03-01T00:00:00Z,BTCUSDT,60,40\n"
    _import(tmp_path, "bybit.csv", content, set={"kind": "accounts"})
    [row] = _rows(tmp_path, "positioning_history").to_dict("records")
    assert (row["long_share"], row["short_share"]) == (0.6, 0.4)
    assert row["long_short_ratio"] == pytest.approx(1.5)


def test_contracts_of_a_venue_need_no_size_where_it_is_a_fact(tmp_path: Path) -> None:
    """OKX' contract of BTC is 0.01 coins: 2,800,476 of them at 67,000.5 USD."""
    content = "ts,instId,oi,markPx\n1772323200000,{},2800476,67000.5\n"
    _import(tmp_path, "okx.csv", content.format("BTC-USDT-SWAP"), unit="contracts")
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [1876332922.38]
    with pytest.raises(ArchiveError, match="size of NEWCOIN-USDT-SWAP on okx is unknown"):
        _import(tmp_path, "okx.csv", content.format("NEWCOIN-USDT-SWAP"), unit="contracts")
    both = content.format("BTC-USDT-SWAP") + "1772323260000,NEWCOIN-USDT-SWAP,5,2\n"
    counts = _import(tmp_path, "both.csv", both, unit="contracts", set={"exchange": "okx"})
    assert (counts.present, counts.rejected) == (1, 1)
    assert (
        "contract size of NEWCOIN-USDT-SWAP on okx is unknown: import its rows separately"
        in counts.rejections[0]
    )
    alone = {"exchange": "okx", "contract_size": "0.1"}
    _import(tmp_path, "alone.csv", content.format("NEWCOIN-USDT-SWAP"), unit="contracts", set=alone)
    rows = _rows(tmp_path, "oi_history")
    assert rows[rows["symbol"] == "NEWCOIN"]["oi_usd"].tolist() == [pytest.approx(2_800_476 * 6_700.05)]


def test_a_minus_of_word_processors_is_a_minus(tmp_path: Path) -> None:
    content = _LONG.replace(",-", ",\u2212")
    _import(tmp_path, "okx.csv", content)
    rates = _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist()
    assert rates[:3] == pytest.approx([1.0, -0.2, 0.5])


def test_positions_of_three_kinds_with_the_same_fields_are_asked_about(tmp_path: Path) -> None:
    """Binance's responses about accounts, top accounts and top positions differ only in their values."""
    row = {"symbol": "BTCUSDT", "longAccount": "0.6", "longShortRatio": "1.5", "shortAccount": "0.4"}
    body = json.dumps([{**row, "timestamp": _START * 1000}])
    with pytest.raises(Unclear, match="--set kind=accounts or --set kind=top_accounts"):
        _import(tmp_path, "binance.json", body)
    _import(tmp_path, "binance.json", body, set={"kind": "top_positions"})
    assert _rows(tmp_path, "positioning_history")["kind"].tolist() == ["top_positions"]


def test_prices_of_a_spot_market_and_rates_of_days_are_asked_about(tmp_path: Path) -> None:
    with pytest.raises(Unclear, match="--table prices_spot"):
        _import(tmp_path, "okx_spot_BTC-USDT.csv", f"time,close\n{_START},67000.5\n")
    days = "".join(f"2026-03-0{day},BTC,okx,0.0003\n" for day in (1, 2, 3))
    with pytest.raises(Unclear, match="24 hours apart and may be sums or averages"):
        _import(tmp_path, "rates.csv", "date,symbol,exchange,funding_rate_daily\n" + days)


def test_the_interval_of_candles_is_not_that_of_payments(tmp_path: Path) -> None:
    """Columns of vnpy 4, whose open interest of crypto is 0."""
    header = (
        "symbol,exchange,datetime,interval,volume,turnover,open_interest,open_price,high_price,close_price\n"
    )
    _import(tmp_path, "vnpy.csv", header + "BTCUSDT,BINANCE,2026-03-01 00:00:00,1h,10,1,0,67000.5,1,1\n")
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.5]


def test_usd_in_the_name_of_a_market_is_not_the_unit_of_open_interest(tmp_path: Path) -> None:
    """dYdX's candles have coins, as their size shows; their file has the name of the market."""
    candle = {"startedAt": "2026-03-01T00:00:00Z", "ticker": "BTC-USD", "startingOpenInterest": "350.5"}
    with pytest.raises(ArchiveError, match="1 of 1 rows are in coins, and the archive has no price of BTC"):
        _import(tmp_path, "dydx/candles_BTC-USD.json", json.dumps({"candles": [candle]}))


def test_strikes_in_thousands_are_rejected(tmp_path: Path) -> None:
    lines = [
        f"2026-03-01T00:00:00Z,BTC,{strike},2026-03-27,{side},50.5,67000"
        for strike in (60, 70)
        for side in "CP"
    ]
    with pytest.raises(ArchiveError, match="the median strike of the chain is 65, far from the price"):
        _import(
            tmp_path, "okx_chain.csv", "\n".join(["time,coin,strike,expiry,type,mark_iv,spot", *lines]) + "\n"
        )


def test_quotes_of_options_in_usdc_are_usd_at_any_price(tmp_path: Path) -> None:
    lines = [f"2026-03-01T00:00:00Z,SOL_USDC-27MAR26-150-{side},5.25,5.1,80.5,148.2" for side in "CP"]
    head = "snapshot_time,instrument_name,mark_price,bid_price,mark_iv,underlying_price"
    _import(tmp_path, "deribit_usdc.csv", "\n".join([head, *lines]) + "\n")
    rows = _rows(tmp_path, "options_snapshot")
    assert rows[["mark_usd", "bid_usd"]].to_numpy().tolist() == [[5.25, 5.1]] * 2
    assert rows["mark_coin"].isna().all()


def test_a_date_and_a_clock_in_german_are_one_time(tmp_path: Path) -> None:
    lines = [f"01.03.2026;{hour}:00;0,0100" for hour in ("00", "08", "16")]
    _import(
        tmp_path, "Binance_BTCUSDT_Funding.csv", "\n".join(["Datum;Uhrzeit;Funding Rate (%)", *lines]) + "\n"
    )
    assert _rows(tmp_path, "funding_settlements")["time"].dt.hour.tolist() == [0, 8, 16]


def test_the_index_of_a_frame_is_the_time_of_its_rows(tmp_path: Path) -> None:
    """pandas 2.3, `to_json(orient="split")` of a frame with an index of times."""
    body = {
        "columns": ["fundingRate"],
        "index": [_START * 1000 + i * 28_800_000 for i in range(3)],
        "data": [[0.0001]] * 3,
    }
    _import(tmp_path, "bybit_ETHUSDT_funding.json", json.dumps(body))
    assert _rows(tmp_path, "funding_settlements")["time"].dt.hour.tolist() == [0, 8, 16]


def test_names_of_coins_are_their_symbols(tmp_path: Path) -> None:
    head = "Datetime,BitMEX Perpetual Open Interest (USD) (BTC)"
    _import(tmp_path, "santiment_bitmex_bitcoin.csv", f"{head}\n2026-03-01T00:00:00Z,4e8\n")
    rows = _rows(tmp_path, "oi_history")
    assert rows[["symbol", "exchange", "oi_usd"]].to_numpy().tolist() == [["BTC", "bitmex", 4e8]]


def test_shares_may_be_percent_in_their_cells(tmp_path: Path) -> None:
    head = "timestamp,longAccount,shortAccount,longShortRatio,kind"
    _import(tmp_path, "binance_BTCUSDT_lsr.csv", f"{head}\n{_START * 1000},60%,40%,1.5,accounts\n")
    assert _rows(tmp_path, "positioning_history")[["long_share", "short_share"]].to_numpy().tolist() == [
        [0.6, 0.4]
    ]


@pytest.mark.parametrize(
    ("venue", "name", "options", "value"),
    [
        # 12 contracts of 0.01 coins at 66,500; 5,000 USD of an inverse contract.
        ("okx", "BTC-USDT-SWAP", {"set": {"contract_size": "0.01"}}, 7_980.0),
        ("okx", "BTC-USDT-SWAP", {"set": {"contract_size": "1"}}, 798_000.0),
        ("bybit", "BTCUSD", {"map": {"value_usd": "size"}}, 12.0),
    ],
)
def test_sizes_of_liquidations_that_may_be_contracts_are_asked_about(
    tmp_path: Path, venue: str, name: str, options: dict[str, Any], value: float
) -> None:
    rows = f"timestamp,symbol,side,price,size\n{_START * 1000},{name},long,66500,12\n"
    with pytest.raises(Unclear, match=f"sizes of {name} on {venue} .* may be in coins or in another unit"):
        _import(tmp_path, f"{venue}_liquidations.csv", rows)
    _import(tmp_path, f"{venue}_liquidations.csv", rows, **options)
    row = _rows(tmp_path, "liquidations_fills").iloc[0]
    assert row["value_usd"] == value
    assert row["quantity"] == pytest.approx(value / 66_500) if "set" in options else pd.isna(row["quantity"])


def test_a_spot_market_next_to_its_contract_is_rejected(tmp_path: Path) -> None:
    """OKX's contract is BTC-USDT-SWAP; Binance's is BTCUSDT, and BTC/USDT its spot market."""
    names = [
        ("okx", "BTC-USDT", 1),
        ("okx", "BTC-USDT-SWAP", 2),
        ("binance", "BTCUSDT", 3),
        ("binance", "BTC/USDT", 4),
    ]
    lines = [f"{_START * 1000},{venue},{name},{67_000 + price}" for venue, name, price in names]
    counts = _import(tmp_path, "prices.csv", "\n".join(["ts,exchange,symbol,last", *lines]) + "\n")
    assert (counts.written, counts.rejected) == (2, 2)
    assert "symbol='BTC-USDT' is a spot market" in str(counts.first_rejected)
    rows = _rows(tmp_path, "prices_history").set_index("exchange")["price_usd"]
    assert rows.to_dict() == {"okx": 67_002.0, "binance": 67_003.0}


def test_a_spot_market_is_not_taken_for_its_contract_in_another_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derivdata.sources.archive.importing.readers.CHUNK_ROWS", 2)
    names = [("BTC-USDT", 1), ("BTC-USDT", 1), ("ETH-USDT-SWAP", 2), ("BTC-USDT-SWAP", 3)]
    lines = [
        f"{(_START + 60 * place) * 1000},okx,{name},{67_000 + price}"
        for place in range(3)
        for name, price in names
    ]
    lines.sort(key=lambda line: names.index((line.split(",")[2], int(line[-1]))))
    _import(tmp_path, "prices.csv", "\n".join(["ts,exchange,symbol,last", *lines]) + "\n")
    rows = _rows(tmp_path, "prices_history")
    assert rows.loc[rows["symbol"] == "BTC", "price_usd"].tolist() == [67_003.0] * 3


def test_contracts_of_unknown_size_are_rejected_in_a_chunk_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 contracts of 0.01 BTC at 67,000 USD are 67,000 USD, wherever the chunks of a file end."""
    monkeypatch.setattr("derivdata.sources.archive.importing.readers.CHUNK_ROWS", 1)
    lines = [f"{_START * 1000},okx,{name},100,67000" for name in ("BTC-USDT-SWAP", "NEWCOIN-USDT-SWAP")]
    content = "\n".join(["ts,exchange,instId,oi,markPx", *lines]) + "\n"
    counts = _import(tmp_path, "oi.csv", content, unit="contracts")
    assert (counts.written, counts.rejected) == (1, 1)
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [67_000.0]


def test_file_name_of_a_dated_future_raises_a_question(tmp_path: Path) -> None:
    """2026-03-27 is a Friday after the rows; 2026-03-01 is the day of the rows."""
    rows = f"open_time,open,high,low,close\n{_START * 1000},68000,68100,67900,68050\n"
    with pytest.raises(Unclear, match="may belong to a dated future, BTCUSDT_260327"):
        _import(tmp_path, "binance_BTCUSDT_260327_1h.csv", rows)
    assert _import(tmp_path, "binance_BTCUSDT_260301.csv", rows).written == 1


def test_a_fraction_among_volatilities_in_percent_is_rejected(tmp_path: Path) -> None:
    cells = {60_000: 52.0, 65_000: 0.51, 70_000: 50.5, 75_000: 53.0, 80_000: 180.0}
    lines = [f"2026-03-01T00:00:00Z,BTC-27MAR26-{strike}-C,{iv},67000" for strike, iv in cells.items()]
    counts = _import(
        tmp_path,
        "deribit_iv.csv",
        "\n".join(["timestamp,instrument_name,mark_iv,underlying_price", *lines]) + "\n",
    )
    assert (counts.written, counts.rejected) == (4, 1)
    assert "iv=0.0051, but the median of the chain is 0.52: one of them is in percent" in str(
        counts.first_rejected
    )


@pytest.mark.parametrize("name", ["ETHBTC", "BTC/EUR", "KRW-BTC", "SOL_ETH", "BTCTRY"])
def test_pairs_that_are_not_quoted_in_usd_are_rejected(tmp_path: Path, name: str) -> None:
    rows = f"time,exchange,symbol,last\n{_START},binance,{name},0.03\n"
    with pytest.raises(ArchiveError, match=f"symbol='{name}' is not quoted in USD: omit it"):
        _import(tmp_path, "prices.csv", rows)


def test_prices_of_a_file_with_another_currency_in_its_name_are_asked_about(tmp_path: Path) -> None:
    rows = f"time,open,high,low,close\n{_START},61000,61100,60900,61050\n"
    with pytest.raises(Unclear, match="the file name contains EUR, so the prices may not be in USD"):
        _import(tmp_path, "kraken_BTC_EUR.csv", rows)


def test_rates_with_the_start_and_the_end_of_a_period_are_asked_about(tmp_path: Path) -> None:
    lines = [f"{stamp},{stamp + 28_800},BTC,{rate}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    rows = "\n".join(["period_start,period_end,symbol,funding_rate", *lines]) + "\n"
    with pytest.raises(Unclear, match="pass --map time=period_end if rates are paid at the end"):
        _import(tmp_path, "okx.csv", rows)
    _import(tmp_path, "okx.csv", rows, map={"time": "period_end"})
    assert _rows(tmp_path, "funding_settlements")["time"].iloc[0] == pd.Timestamp("2026-03-01T08:00Z")


# Best quotes, one row each: two coins at 67,000 are bid, and half a coin at 67,000.5 is asked.
_QUOTES = {
    "quotes_binance.csv": "update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,"
    "transaction_time,event_time\n1,67000,2,67000.5,0.5,1772323200000,1772323200002\n",
    "top_binance.csv": "timestamp,exchange,symbol,best_bid,best_ask,bid_volume,ask_volume,spread\n"
    "2026-03-01 00:00:00+00,binance,BTC/USDT:USDT,67000,67000.5,2,0.5,0.5\n",
    # Contracts of 1 USD: 134,000 USD at 67,000 are 2 coins.
    "bitmex/quote.csv": "timestamp,symbol,bidSize,bidPrice,askPrice,askSize\n"
    "2026-03-01D00:00:00.000000000,XBTUSD,134000,67000,67000.5,33500.25\n",
}


@pytest.mark.parametrize("name", _QUOTES)
def test_best_quotes_with_sizes_are_a_book_of_one_level(tmp_path: Path, name: str) -> None:
    _import(tmp_path, name, _QUOTES[name], set={"symbol": "BTC"} if name.startswith("quotes") else {})
    rows = _rows(tmp_path, "orderbook_book").sort_values("side", ascending=False)
    assert rows["side"].tolist() == ["bid", "ask"]
    assert rows["level"].tolist() == [1, 1]
    assert rows["price_usd"].tolist() == [67000.0, 67000.5]
    assert rows["size"].tolist() == pytest.approx([2.0, 0.5])
    assert {*rows["time"]} == {pd.Timestamp("2026-03-01", tz="UTC")}


def test_a_ticker_with_quotes_is_not_a_book(tmp_path: Path) -> None:
    content = "time,symbol,last,bid,bid_size,ask,ask_size\n1772323200,BTCUSDT,67000,66999,1,67001,1\n"
    _import(tmp_path, "okx.csv", content)
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.0]


_WITH_PRICE = "DateTime,Price,All,Binance,CME,OKX,Others\n" + "".join(
    f"2026-03-01 0{hour}:00:00,67000.5,{3e10 + hour},{9e9 + hour},8e9,3e9,1e10\n" for hour in range(9)
)


def test_a_price_next_to_venues_is_not_a_value_of_theirs(tmp_path: Path) -> None:
    name = "BTC-exchange-open-interest.csv"
    with pytest.raises(Unclear, match="may be in USD, coins or contracts"):
        _import(tmp_path, name, _WITH_PRICE)
    _import(tmp_path, name, _WITH_PRICE, unit="usd")
    rows = _rows(tmp_path, "oi_history")
    assert {*open_archive(tmp_path / "to").tables()} == {"oi_history"}
    assert rows.groupby("exchange", observed=True)["oi_usd"].agg(["size", "first"]).to_dict("index") == {
        "binance": {"size": 9, "first": 9e9},
        "cme": {"size": 9, "first": 8e9},
        "okx": {"size": 9, "first": 3e9},
    }


_METRICS = "asset,exchange,ts,metric_code,value\n" + "".join(
    f"BTC,okx,{stamp},funding_rate,{rate}\n"
    f"BTC,okx,{stamp},open_interest_usd,6e9\n"
    f"BTC,okx,{stamp},mark_price,67000.5\n"
    for stamp, rate in zip(_STAMPS, _RATES, strict=True)
)
_DATASETS = (
    "time,exchange,symbol,dataset,oi_usd,long_liquidations_usd,short_liquidations_usd,funding_rate\n"
    + (
        "".join(
            f"{stamp},okx,BTCUSDT,oi,6e9,,,\n"
            f"{stamp},okx,BTCUSDT,liq,,1000.5,500.25,\n"
            f"{stamp},okx,BTCUSDT,rate,,,,{rate}\n"
            for stamp, rate in zip(_STAMPS, _RATES, strict=True)
        )
    )
)


@pytest.mark.parametrize("content", [_METRICS, _DATASETS])
def test_rows_of_one_quantity_each_fill_the_tables_of_all(tmp_path: Path, content: str) -> None:
    result = _import(tmp_path, "data.csv", content)
    assert (result.read, result.written, result.rejected) == (27, 27, 0)
    rates = _rows(tmp_path, "funding_settlements")
    assert rates["rate_bps_8h"].tolist()[:3] == pytest.approx([1.0, -0.2, 0.5])
    assert {*rates["interval_hours"]} == {8.0}
    assert {*_rows(tmp_path, "oi_history")["oi_usd"]} == {6e9}
    if content == _METRICS:
        assert {*_rows(tmp_path, "prices_history")["price_usd"]} == {67000.5}
    else:
        amounts = _rows(tmp_path, "liquidations_history")
        assert {*amounts["long_usd"]} == {1000.5}
        assert {*amounts["short_usd"]} == {500.25}


def test_a_row_without_any_figure_is_rejected_with_its_line(tmp_path: Path) -> None:
    lines = _DATASETS.splitlines()
    lines.insert(5, f"{_STAMPS[1]},okx,ETHUSDT,rate,,,,")
    result = _import(tmp_path, "data.csv", "\n".join(lines) + "\n", table="oi_history")
    assert result.written == 9
    assert any("line 6" in reason for reason in result.rejections)


def test_columns_of_calls_and_puts_in_indian_words_are_read(tmp_path: Path) -> None:
    content = "time,index_name,expiry,strike,ce_oi,ce_iv,pe_oi,pe_iv\n"
    content += "2026-03-01 05:30:00+05:30,BTC,2026-03-27,70000,120.5,52.5,80,53.5\n"
    _import(tmp_path, "deribit_chain.csv", content)
    rows = _rows(tmp_path, "options_snapshot").sort_values("side")
    assert rows["side"].tolist() == ["call", "put"]
    assert rows["iv"].tolist() == pytest.approx([0.525, 0.535])
    assert rows["open_interest"].tolist() == [120.5, 80.0]
    assert {*rows["time"]} == {pd.Timestamp("2026-03-01", tz="UTC")}


def test_a_time_of_creation_of_all_rows_is_not_their_time(tmp_path: Path) -> None:
    lines = [f"BTC,{rate},{stamp},2026-03-20 10:00:01" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    content = "\n".join(["coin,funding_rate,collected_at,created_at", *lines]) + "\n"
    _import(tmp_path, "hyperliquid_rates.csv", content)
    rows = _rows(tmp_path, "funding_history")
    assert rows["time"].iloc[0] == pd.Timestamp("2026-03-01", tz="UTC")
    assert rows["rate_bps_8h"].tolist()[:3] == pytest.approx([8.0, -1.6, 4.0])  # of one hour


def test_rates_of_the_last_8_hours_of_deribit_are_samples(tmp_path: Path) -> None:
    lines = [f"{_START + 3_600 * place},{rate}" for place, rate in enumerate(_RATES)]
    _import(tmp_path, "deribit_BTC-PERPETUAL.csv", "\n".join(["timestamp,interest_8h", *lines]) + "\n")
    assert open_archive(tmp_path / "to").tables() == {"funding_history"}
    rates = _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist()
    assert rates[:3] == pytest.approx([1.0, -0.2, 0.5])


def test_candles_of_dvol_are_the_index_at_their_start(tmp_path: Path) -> None:
    content = (
        "https://www.CryptoDataDownload.com\nunix,date,symbol,open,high,low,close\n"
        "1772323200000,2026-03-01 00:00:00,BTC-DVOL,50.1,52,49,51\n"
        "1772319600000,2026-02-28 23:00:00,BTC-DVOL,49.1,51,48,50\n"
    )
    _import(tmp_path, "Deribit_BTC_DVOL_1h.csv", content)
    rows = _rows(tmp_path, "volatility_index_published")
    assert rows["index_pct"].tolist() == [49.1, 50.1]
    assert {*rows["symbol"]} == {"BTC"}


def test_a_curve_at_the_money_has_the_forward_as_strike(tmp_path: Path) -> None:
    content = (
        "timestamp,currency,expiry,atm_iv,forward\n"
        "2026-03-01T00:00:00Z,BTC,2026-03-27,52.5,67100.5\n"
        "2026-03-01T00:00:00Z,BTC,2026-06-26,55.0,67500.5\n"
    )
    _import(tmp_path, "deribit_curve.csv", content)
    rows = _rows(tmp_path, "options_atm_history")
    assert rows["iv"].tolist() == pytest.approx([0.525, 0.55])
    assert rows["underlying_price"].tolist() == rows["strike"].tolist() == [67100.5, 67500.5]
    assert rows["expiry"].iloc[0] == pd.Timestamp("2026-03-27T08:00Z")


def test_open_interest_of_options_in_contracts_and_sides_of_positions_are_read(tmp_path: Path) -> None:
    content = (
        "time,symbol,strike,option_type,expiry,iv,oi_contracts,oi_usd\n"
        "2026-03-01T00:00:00Z,BTC,70000,C,2026-03-27,52.5,138.8,9299969.4\n"
    )
    _import(tmp_path, "deribit_ticks.csv", content)
    assert _rows(tmp_path, "options_snapshot")["open_interest"].tolist() == [138.8]
    content = (
        "symbol,position,price,quantity,usd_value,occurred_at\n"
        "BTCUSDT,long,66000.5,0.5,33000.25,2026-03-01 00:00:00.123+00\n"
    )
    _import(tmp_path, "binance_liquidations.csv", content)
    [row] = _rows(tmp_path, "liquidations_fills").to_dict("records")
    assert (row["side"], row["value_usd"]) == ("long", 33000.25)
    assert row["time"] == pd.Timestamp("2026-03-01T00:00:00.123Z")


def test_names_of_delta_options_have_the_day_first_and_expire_at_noon(tmp_path: Path) -> None:
    content = (
        "time,symbol,expiry,iv,mark_price\n"
        "2026-03-01T00:00:00Z,C-BTC-70000-270326,2026-03-27,0.525,1200.5\n"
        "2026-03-01T00:00:00Z,P-BTC-70000-270326,2026-03-27,0.53,4000.5\n"
    )
    _import(tmp_path, "chain.csv", content)
    rows = _rows(tmp_path, "options_snapshot").sort_values("side")
    assert rows["side"].tolist() == ["call", "put"]
    assert {*rows["exchange"]} == {"delta"}
    assert {*rows["expiry"]} == {pd.Timestamp("2026-03-27T12:00Z")}


def test_a_flag_says_which_options_are_calls(tmp_path: Path) -> None:
    content = (
        "time,symbol,strike,is_call,expiry,iv\n"
        "2026-03-01 01:00:00 CET,BTC,70000,True,2026-03-27,52.5\n"
        "2026-03-01 01:00:00 CET,BTC,70000,False,2026-03-27,53.5\n"
    )
    _import(tmp_path, "deribit_chain.csv", content)
    rows = _rows(tmp_path, "options_snapshot").sort_values("side")
    assert rows["side"].tolist() == ["call", "put"]
    assert rows["iv"].tolist() == pytest.approx([0.525, 0.535])
    assert {*rows["time"]} == {pd.Timestamp("2026-03-01", tz="UTC")}


def test_prices_next_to_payments_are_read_as_well(tmp_path: Path) -> None:
    lines = [f"{stamp},bitmex,{rate},67000.5,XBTUSD" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    content = "\n".join(["time,exchange,funding_rate,mark_price,symbol", *lines]) + "\n"
    _import(tmp_path, "influx.csv", content)
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist()[:2] == pytest.approx([1.0, -0.2])
    prices = _rows(tmp_path, "prices_history")
    assert prices[["kind", "price_usd"]].drop_duplicates().to_numpy().tolist() == [["mark", 67000.5]]


def test_a_question_about_rates_comes_before_the_prices_next_to_them(tmp_path: Path) -> None:
    lines = [f"{stamp},0.5,67000.5,BTCUSDT" for stamp in _STAMPS]
    content = "\n".join(["time,funding_rate,mark_price,symbol", *lines]) + "\n"
    with pytest.raises(Unclear, match="the unit of column funding_rate is unclear"):
        _import(tmp_path, "okx.csv", content)


def test_repeated_headers_are_omitted(tmp_path: Path) -> None:
    header, *lines = _LONG.splitlines(keepends=True)
    bad = f"BTCUSDT,{_STAMPS[-1] + 28_800},x\n"
    content = "".join([header, *lines[:4], header, *lines[4:], bad])
    result = _import(tmp_path, "okx.csv", content)
    rates = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert rates.tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)
    assert result.rejected == 1
    assert "line 12:" in str(result.first_rejected)


def test_workbooks_are_refused_with_the_conversion(tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(ArchiveError, match=r"pandas.read_excel\('FILE.xlsx', sheet_name=None\)"):
        _import(tmp_path, "okx.xlsx", content.getvalue())


def test_rates_by_market_of_polls_are_rows(tmp_path: Path) -> None:
    """Polls of a collector (2026-04), of which the first failed, in GitHub's slona-feed."""
    polls: list[dict[str, Any]] = [{"timestamp": "2026-03-01T00:05:00Z", "rates": {}}]
    for minute in (10, 20):
        poll = {
            "timestamp": f"2026-03-01T00:{minute}:00Z",
            "rates": {"BTCUSDT": "0.0001", "ETHUSDT": "-0.00002"},
            "next_funding": {"BTCUSDT": 1_772_352_000_000, "ETHUSDT": 1_772_352_000_000},
        }
        polls.append(poll)
    said = {"exchange": "okx", "interval_hours": "8"}
    _import(tmp_path, "funding_rates.json", json.dumps(polls), set=said)
    rows = _rows(tmp_path, "funding_history").sort_values(["symbol", "time"])
    assert rows["symbol"].tolist() == ["BTC", "BTC", "ETH", "ETH"]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, 1.0, -0.2, -0.2])
    assert rows["time"].iloc[0] == pd.Timestamp("2026-03-01T00:10Z")


def test_ranges_of_prometheus_are_read(tmp_path: Path) -> None:
    """GET /api/v1/query_range of Prometheus 3: seconds, and numbers as text."""
    labels = {"__name__": "perp_funding_rate", "exchange": "okx", "symbol": "BTC-USDT-SWAP", "job": "crypto"}
    values = [[stamp, str(rate)] for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    result = [{"metric": labels, "values": values}]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    _import(tmp_path, "rates.json", json.dumps(body))
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)
    assert {*rows["exchange"]} == {"okx"}


def test_columns_of_charts_as_lists_are_read(tmp_path: Path) -> None:
    """Deribit's get_tradingview_chart_data, and CoinGlass's exchange-history-chart (API v4), 2026."""
    times = [stamp * 1000 for stamp in _STAMPS]
    chart: dict[str, Any] = {"status": "ok", "ticks": times}
    for name, first in (("open", 67000.5), ("high", 67020.0), ("low", 66990.0), ("close", 67010.0)):
        chart[name] = [first + place for place in range(9)]
    body = {"jsonrpc": "2.0", "id": 1, "result": chart}
    _import(tmp_path, "deribit_BTC-PERPETUAL_tradingview_chart_data.json", json.dumps(body))
    prices = _rows(tmp_path, "prices_history")
    assert prices["price_usd"].tolist() == [67000.5 + place for place in range(9)]
    assert prices["time"].iloc[1] == pd.Timestamp("2026-03-01T08:00Z")
    by_venue = {"Binance": [1.2e10] * 9, "OKX": [3e9] * 9}
    data = {"time_list": times, "price_list": [67000.5] * 9, "data_map": by_venue}
    name = "coinglass_BTC_oi_exchange_history_chart.json"
    _import(tmp_path, name, json.dumps({"code": "0", "data": data}), unit="usd")
    interest = _rows(tmp_path, "oi_history").groupby("exchange", observed=True)["oi_usd"]
    assert interest.first().to_dict() == {"binance": 1.2e10, "okx": 3e9}
    assert interest.size().tolist() == [9, 9]


def test_rates_of_venues_in_percent_are_read_from_polls(tmp_path: Path) -> None:
    """CoinGlass's funding-rate/exchange-list (API v4, 2026): percent of the stated interval."""
    stable = [
        {"exchange": "Binance", "funding_rate_interval": 8, "funding_rate": 0.0081},
        {"exchange": "Hyperliquid", "funding_rate_interval": 1, "funding_rate": 0.00125},
    ]
    coin = [{"exchange": "Binance", "funding_rate_interval": 8, "funding_rate": 0.02}]
    lines = []
    for hour in (1, 2, 3):
        data = [
            {"symbol": symbol, "stablecoin_margin_list": stable, "token_margin_list": coin}
            for symbol in ("BTC", "ETH")
        ]
        poll = {"fetched_at": f"2026-03-01T0{hour}:01:00Z", "response": {"code": "0", "data": data}}
        lines.append(json.dumps(poll))
    counts = _import(tmp_path, "coinglass_exchange_list.jsonl", "\n".join(lines), unit="percent")
    assert any("coin-margined contracts (token_margin_list) are omitted" in text for text in counts.notices)
    rates = _rows(tmp_path, "funding_history").groupby("exchange", observed=True)["rate_bps_8h"]
    # 0.0081 % are 0.81 bps, and 0.125 bps an hour are 1 bps in 8 hours.
    assert rates.first().to_dict() == pytest.approx({"binance": 0.81, "hyperliquid": 1.0})
    assert rates.size().tolist() == [6, 6]
