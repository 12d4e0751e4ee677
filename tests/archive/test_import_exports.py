"""Files that programs export: captures of sockets, databases, spreadsheets of other countries."""

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
_RATES = (0.0001, -0.00002, 0.00005) * 3
_STAMPS = [pd.Timestamp(_START + place * 28_800, unit="s") for place in range(len(_RATES))]


def _imported(folder: Path, name: str, content: str | bytes, **options: Any) -> None:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    import_files(options.pop("table", None), path, folder / "to", **options)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


def _lines(header: str, form: str, text: str) -> str:
    rows = [
        text.format(time=stamp.strftime(form), at=stamp, rate=rate, seconds=_START + place * 28_800)
        for place, (stamp, rate) in enumerate(zip(_STAMPS, _RATES, strict=True))
    ]
    return "\n".join([header, *rows]) + "\n"


def _korean(stamp: pd.Timestamp) -> str:
    half = "오전" if stamp.hour < 12 else "오후"
    return f"{stamp.year}. {stamp.month}. {stamp.day}. {half} {stamp.hour % 12 or 12}:00:00"


def _chinese(stamp: pd.Timestamp) -> str:
    half = "上午" if stamp.hour < 12 else "下午"
    return f"{stamp.year}/{stamp.month}/{stamp.day} {half}{stamp.hour % 12 or 12}:00"


_DATES: dict[str, Any] = {
    "japanese": lambda stamp: f"{stamp.year}年{stamp.month}月{stamp.day}日 {stamp.hour}:00",
    "korean": _korean,
    "chinese": _chinese,
    "hungarian": lambda stamp: stamp.strftime("%Y. %m. %d. %H:%M"),
    "stata": lambda stamp: stamp.strftime("%d%b%Y %H:%M:%S").lower(),
    "sas": lambda stamp: stamp.strftime("%d%b%y:%H:%M:%S").upper(),
    "javascript": lambda stamp: f"{stamp:%a %b %d %Y %H:%M:%S} GMT+0000 (Coordinated Universal Time)",
    "ctime": lambda stamp: stamp.strftime("%a %b %d %H:%M:%S %Y"),
    "excel": lambda stamp: f"{46082 + (stamp.day - 1) + stamp.hour / 24:.6f}".replace(".", "#"),
}


@pytest.mark.parametrize("name", _DATES)
def test_dates_of_other_countries_and_programs(tmp_path: Path, name: str) -> None:
    rows = [f"{_DATES[name](stamp)};BTCUSDT;{rate:.6f}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    text = "\n".join(["time;symbol;funding_rate", *rows]) + "\n"
    _imported(tmp_path, "okx.csv", text.replace("#", ","))
    stored = _rows(tmp_path, "funding_settlements")
    assert stored["time"].dt.strftime("%d %H").tolist()[:4] == ["01 00", "01 08", "01 16", "02 00"]
    assert stored["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


@pytest.mark.parametrize(
    ("encoding", "header"),
    [
        ("cp1252", "Zeit,Währungspaar,Finanzierungssatz"),
        ("gb18030", "时间,交易对,资金费率"),
        ("cp932", "日時,銘柄,資金調達率"),
        ("cp949", "날짜,심볼,펀딩비율"),
        ("cp1251", "Время,Символ,Ставка финансирования"),
        ("cp1250", "Időpont,Szimbólum,Finanszírozási ráta"),
    ],
)
def test_headers_in_the_encodings_of_excel(tmp_path: Path, encoding: str, header: str) -> None:
    text = _lines(header, "%Y-%m-%dT%H:%M:%SZ", "{time},BTCUSDT,{rate}")
    _imported(tmp_path, "okx.csv", text.encode(encoding))
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].tolist() == pytest.approx([1, -0.2, 0.5] * 3)


def test_text_in_an_unknown_encoding_is_rejected(tmp_path: Path) -> None:
    text = _lines("Zäit,Wärt", "%Y-%m-%dT%H:%M:%SZ", "{time},{rate}")
    with pytest.raises(ArchiveError, match="the text is not UTF-8"):
        _imported(tmp_path, "okx.csv", text.encode("cp1252"))


def test_numpy_savetxt_file_with_a_commented_header_is_read(tmp_path: Path) -> None:
    """numpy.savetxt (2.3) with a header."""
    text = _lines("# timestamp funding_rate", "", "{seconds:.18e} {rate:.18e}")
    _imported(tmp_path, "okx_BTCUSDT.txt", text)
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["time"].tolist() == [stamp.tz_localize("UTC") for stamp in _STAMPS]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


def test_times_that_cannot_be_read_are_shown(tmp_path: Path) -> None:
    text = _lines("time,symbol,funding_rate", "", "{at.day}/{at.month}/2569,BTCUSDT,{rate}")
    with pytest.raises(ArchiveError, match="time='1/3/2569' is not a time: expected ISO 8601"):
        _imported(tmp_path, "okx.csv", text)


_FORCED = {
    "topic": "allLiquidation.BTCUSDT",
    "type": "snapshot",
    "ts": _START * 1000 + 5,
    "data": [{"T": _START * 1000, "s": "BTCUSDT", "S": "Buy", "v": "0.5", "p": "67000.5"}],
}
"""Bybit V5, public channel "All Liquidation": the side Buy is a long position that was liquidated."""
_REPLY = {"success": True, "ret_msg": "", "conn_id": "a", "req_id": "", "op": "subscribe"}
_CAPTURES: dict[str, Any] = {
    "messages": lambda message: message,
    "received": lambda message: {"local_ts": _START, "msg": message},
    "text": lambda message: {"recv_time": _START, "raw": json.dumps(message)},
    "stream": lambda message: {"stream": "liquidations", "data": message},
}


@pytest.mark.parametrize("name", _CAPTURES)
def test_websocket_captures_with_replies_and_envelopes_are_read(tmp_path: Path, name: str) -> None:
    lines = [_REPLY, _FORCED, {"op": "pong", "req_id": "1"}]
    text = "\n".join(json.dumps(_CAPTURES[name](line)) for line in lines) + "\n"
    if name == "messages":  # hftbacktest's collector writes the time of receipt before each message
        text = "".join(f"{_START}123456789 {line}\n" for line in text.splitlines())
    _imported(tmp_path, "bybit.jsonl", text)
    [row] = _rows(tmp_path, "liquidations_fills").to_dict("records")
    assert (row["side"], row["value_usd"]) == ("long", 33500.25)
    assert row["time"] == pd.Timestamp(_START, unit="s", tz="UTC")


def test_an_object_of_values_by_venue_is_a_row_for_each(tmp_path: Path) -> None:
    """Glassnode's futures_funding_rate_perpetual_all; a venue without any value has no row."""
    body = [
        {"t": int(stamp.timestamp()), "o": {"binance": rate, "bybit": 2 * rate, "okex": None}}
        for stamp, rate in zip(_STAMPS, _RATES, strict=True)
    ]
    _imported(tmp_path, "glassnode_BTC_futures_funding_rate_perpetual_all.json", json.dumps(body))
    rows = _rows(tmp_path, "funding_settlements")
    bybit = rows[rows["exchange"] == "bybit"]
    assert rows["exchange"].value_counts().to_dict() == {"binance": 9, "bybit": 9}
    assert bybit["rate_bps_8h"].tolist() == pytest.approx([2.0, -0.4, 1.0] * 3)


def test_ratios_without_names_ask_for_their_kind(tmp_path: Path) -> None:
    """OKX writes accounts, top accounts and top positions as the same pairs of time and ratio."""
    data = [[str((_START + place * 300) * 1000), "1.25"] for place in range(3)]
    body = json.dumps({"code": "0", "data": data, "msg": ""})
    with pytest.raises(Unclear) as question:
        _imported(tmp_path, "okx_BTC.json", body)
    assert question.value.choices == ["kind=accounts", "kind=top_accounts", "kind=top_positions"]
    _imported(tmp_path, "okx_BTC.json", body, set={"kind": "top_accounts"})
    rows = _rows(tmp_path, "positioning_history")
    assert rows["long_short_ratio"].tolist() == [1.25] * 3
    assert rows["kind"].unique().tolist() == ["top_accounts"]
    _imported(tmp_path, "okx_ETH_long-short-account-ratio.json", body)
    rows = _rows(tmp_path, "positioning_history")
    assert rows[rows["symbol"] == "ETH"]["kind"].tolist() == ["accounts"] * 3


def test_prices_of_liquidations_are_not_those_of_a_series(tmp_path: Path) -> None:
    text = "time,symbol,exchange,order_side,price,qty\n2026-03-01T00:00:00Z,BTC,bybit,Buy,67000,1\n"
    with pytest.raises(Unclear, match="may be liquidations: pass --map side=order_side"):
        _imported(tmp_path, "liqs.csv", text)
    words = {"side": {"Buy": "long"}}
    _imported(tmp_path, "liqs.csv", text, map={"side": "order_side"}, map_values=words)
    [row] = _rows(tmp_path, "liquidations_fills").to_dict("records")
    assert (row["side"], row["value_usd"]) == ("long", 67000.0)


def test_an_object_of_values_by_time_is_a_series(tmp_path: Path) -> None:
    body = {str(int(stamp.timestamp()) * 1000): rate for stamp, rate in zip(_STAMPS, _RATES, strict=True)}
    _imported(tmp_path, "binance_BTCUSDT_funding.json", json.dumps(body))
    rows = _rows(tmp_path, "funding_settlements")
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


def test_rates_of_one_hour_that_are_hours_apart_are_asked_about(tmp_path: Path) -> None:
    """They may be payments as rates of an hour, or every eighth of Deribit's hours."""
    text = _lines("time,instrument,interest_1h", "%Y-%m-%dT%H:%M:%SZ", "{time},BTC-PERPETUAL,{rate}")
    with pytest.raises(Unclear, match="hourly rates, but the rows are 8 hours apart") as question:
        _imported(tmp_path, "deribit.csv", text)
    assert question.value.choices == ["funding_settlements", "funding_history"]


def test_prices_in_a_folder_of_spot_markets_are_asked_about(tmp_path: Path) -> None:
    text = "ts,open,high,low,close\n1772323200000,67000,67100,66900,67050\n"
    with pytest.raises(Unclear, match="pass --table prices_spot and --set quote=USDT"):
        _imported(tmp_path, "okx/spot/BTC-USDT-1h.csv", text)
    _imported(tmp_path, "okx/spotlight/BTC-USDT-1h.csv", text)
    assert _rows(tmp_path, "prices_history")["price_usd"].tolist() == [67000.0]


def test_time_of_day_before_the_date_is_read(tmp_path: Path) -> None:
    text = "date,quote_read_time,symbol,oi_usd\n2026-03-01,2026-03-01T08:00:00Z,BTC,6041490500\n"
    _imported(tmp_path, "okx.csv", text)
    _imported(tmp_path, "bybit.csv", text.replace("quote_read_time", "updated_at"))
    rows = _rows(tmp_path, "oi_history").set_index("exchange")["time"]
    assert rows.dt.strftime("%H").to_dict() == {"okx": "08", "bybit": "00"}


def test_basis_points_and_totals_of_liquidations_by_other_names(tmp_path: Path) -> None:
    text = _lines("time,symbol,funding (bp)", "%Y-%m-%dT%H:%M:%SZ", "{time},BTC,{rate}")
    _imported(tmp_path, "okx.csv", text)
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].iloc[0] == pytest.approx(0.0001)
    totals = "time,symbol,liquidations_long_usd,liquidations_short_usd\n2026-03-01T00:00:00Z,BTC,5.5,3.5\n"
    _imported(tmp_path, "okx_liquidations.csv", totals)
    [row] = _rows(tmp_path, "liquidations_history").to_dict("records")
    assert (row["long_usd"], row["short_usd"]) == (5.5, 3.5)


@pytest.mark.parametrize("form", ["({:.6f})", "{:.6f}-"])
def test_numbers_in_parentheses_are_negative(tmp_path: Path, form: str) -> None:
    cells = [form.format(-rate) if rate < 0 else f"{rate:.6f}" for rate in _RATES]
    rows = [f"{stamp}Z,BTC,{cell}" for stamp, cell in zip(_STAMPS, cells, strict=True)]
    _imported(tmp_path, "okx.csv", "\n".join(["time,symbol,fundingRate", *rows]) + "\n")
    rates = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert rates.tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


def test_an_offset_without_a_sign_is_ahead_of_utc(tmp_path: Path) -> None:
    rows = [f"{stamp + pd.Timedelta(8, 'h')},BTC,{rate}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    _imported(tmp_path, "okx.csv", "\n".join(["datetime_utc8,pair,funding", *rows]) + "\n")
    stored = _rows(tmp_path, "funding_settlements")
    assert stored["time"].tolist() == [stamp.tz_localize("UTC") for stamp in _STAMPS]


def test_fractions_in_a_column_named_percent_raise_a_question(tmp_path: Path) -> None:
    header = "time,symbol,Funding Rate (%)"
    text = _lines(header, "%Y-%m-%dT%H:%M:%SZ", "{time},BTC,{rate}")
    with pytest.raises(Unclear) as question:
        _imported(tmp_path, "okx.csv", text)
    assert question.value.option == "--unit"
    percent = [f"{stamp}Z,BTC,{rate * 100:.6f}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    _imported(tmp_path, "okx.csv", "\n".join([header, *percent]) + "\n")
    rates = _rows(tmp_path, "funding_settlements")["rate_bps_8h"]
    assert rates.tolist() == pytest.approx([1.0, -0.2, 0.5] * 3)


def test_rows_of_one_time_whose_time_of_day_is_in_an_unknown_column(tmp_path: Path) -> None:
    rows = [f"2026-03-01,{hour + 1},BTC,{2e9 + hour}" for hour in range(10)]
    text = "\n".join(["date,hour_ending,symbol,oi_usd", *rows]) + "\n"
    with pytest.raises(Unclear, match="10 different rows have only 1 different combinations of date"):
        _imported(tmp_path, "okx.csv", text)
    _imported(tmp_path, "okx.csv", f"{text.splitlines()[0]}\n{rows[0]}\n" + f"{rows[0]}\n" * 5)
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [2e9]


def test_volumes_of_symbols_are_not_those_of_venues(tmp_path: Path) -> None:
    """markets_exchanges has a column of this name, and one row for each venue."""
    text = "time,exchange,symbol,volume_24h_usd\n2026-03-01,okx,BTC,10000000000\n"
    with pytest.raises(ArchiveError, match="the columns are not recognised"):
        _imported(tmp_path, "volumes.csv", text)


def test_names_of_volatility_and_currencies(tmp_path: Path) -> None:
    _imported(tmp_path, "deribit.csv", "timestamp,ccy,dvol\n1772323200000,BTC,50.5\n")
    [row] = _rows(tmp_path, "volatility_index_published").to_dict("records")
    assert (row["symbol"], row["index_pct"]) == ("BTC", 50.5)


def test_rates_without_a_sign_next_to_who_pays_are_refused(tmp_path: Path) -> None:
    """Lighter's responses have the size of a rate, and ``direction``; signed rates need no such column."""
    rows = [
        f"{stamp}Z,BTC,{rate},{'long' if rate > 0 else 'short'}"
        for stamp, rate in zip(_STAMPS, _RATES, strict=True)
    ]
    signed = "\n".join(["time,symbol,funding_rate,direction", *rows]) + "\n"
    with pytest.raises(ArchiveError, match="no negative value, but column direction states who pays"):
        _imported(tmp_path, "okx.csv", signed.replace(",-", ","))
    _imported(tmp_path, "okx.csv", signed)
    assert _rows(tmp_path, "funding_settlements")["rate_bps_8h"].min() == pytest.approx(-0.2)


def test_side_of_the_account_does_not_determine_the_sign_of_rates(tmp_path: Path) -> None:
    rows = [f"{stamp}Z,BTC,0.0001,SHORT,short carry" for stamp in _STAMPS]
    _imported(tmp_path, "okx.csv", "\n".join(["time,symbol,funding_rate,position,strategy", *rows]) + "\n")
    assert set(_rows(tmp_path, "funding_settlements")["rate_bps_8h"]) == {1.0}


@pytest.mark.parametrize("name", ["timestamp_utc_1", "time_utc_1h", "date_utc_10"])
def test_number_after_utc_and_a_separator_is_not_an_offset(tmp_path: Path, name: str) -> None:
    """BigQuery and pandas number the second of two columns of one name."""
    rows = [f"{stamp},BTC,{rate}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    _imported(tmp_path, "okx.csv", "\n".join([f"{name},symbol,funding_rate", *rows]) + "\n")
    stored = _rows(tmp_path, "funding_settlements")["time"]
    assert stored.tolist() == [stamp.tz_localize("UTC") for stamp in _STAMPS]


def test_coins_with_names_of_other_languages_are_not_omitted(tmp_path: Path) -> None:
    """Vietnamese names of columns without accents are those of coins."""
    coins = ["BTC", "CAP", "MA", "SAN"]
    rows = [f"{stamp}Z,{rate},{rate},{rate},{rate}" for stamp, rate in zip(_STAMPS, _RATES, strict=True)]
    text = "\n".join([f"time,{','.join(coins)}", *rows]) + "\n"
    _imported(tmp_path, "funding_binance.csv", text, table="funding_settlements")
    assert sorted(set(_rows(tmp_path, "funding_settlements")["symbol"])) == coins


def test_text_in_an_unknown_encoding_is_an_error_with_the_name_of_the_file(tmp_path: Path) -> None:
    text = _lines("time,symbol,funding_rate,备注", "%Y-%m-%dT%H:%M:%SZ", "{time},BTC,{rate},丂")
    with pytest.raises(ArchiveError, match=r"okx\.csv: the text is not UTF-8"):
        _imported(tmp_path, "okx.csv", text.encode("gbk"))


def test_decimals_mixed_with_dot_grouped_numbers_are_rejected(tmp_path: Path) -> None:
    rows = [f"{_STAMPS[0]}Z,BTC,2.000.000.001", f"{_STAMPS[1]}Z,BTC,0.123"]
    text = "\n".join(["time,symbol,oi_usd", *rows]) + "\n"
    with pytest.raises(ArchiveError, match="the columns are not recognised"):
        _imported(tmp_path, "okx.csv", text)
