"""Files with known columns, of venues and data vendors, with their real headers."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from tests.archive.rates import EVER

_TICKER = (
    "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,"
    "open_interest,last_price,index_price,mark_price\n"
)
_FORCED = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"


def brought(folder: Path, table: str, name: str, content: str, source: str, **options: Any) -> pd.DataFrame:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    import_files(table, path, folder / "to", source=source, **options)
    return open_archive(folder / "to", create=False).read(table, *EVER)


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "."), text)
    return path


def test_each_file_of_a_zip_is_read(tmp_path: Path) -> None:
    text = "symbol,time,oi_usd\nBTC,2024-01-01T00:00Z,5\n"
    path = zipped(tmp_path / "a.zip", a__csv=text)
    assert import_files("oi_history", path, tmp_path / "to", set={"exchange": "x"}).written == 1
    two = zipped(tmp_path / "b.zip", a__csv=text, b__csv=text)
    counts = import_files("oi_history", two, tmp_path / "to", set={"exchange": "x"})
    assert (counts.read, counts.written, counts.present) == (2, 0, 2)
    (tmp_path / "c.zip").write_bytes(path.read_bytes()[:60])
    with pytest.raises(ArchiveError, match="cannot be read as zip"):
        import_files("oi_history", tmp_path / "c.zip", tmp_path / "to", set={"exchange": "x"})


def test_preferred_quote_is_selected_by_file_names(tmp_path: Path) -> None:
    files = [
        zipped(tmp_path / f"BTC{quote}-fundingRate-2026-01.zip", x__csv=f"1767225600008,8,{rate}\n")
        for quote, rate in (("USDC", "0.0002"), ("USDT", "0.0001"))
    ]
    counts = import_files("funding_settlements", files, tmp_path / "to", source="binance")
    assert (counts.read, counts.written, counts.other_quotes) == (2, 1, 1)
    row = open_archive(tmp_path / "to").read("funding_settlements", *EVER).iloc[0]
    assert row[["symbol", "exchange", "kind"]].tolist() == ["BTC", "binance", "settled"]
    assert (row["time"], row["rate_bps_8h"]) == (pd.Timestamp("2026-01-01", tz="UTC"), pytest.approx(1.0))


def test_header_is_detected_by_its_first_cell_and_rows_must_have_its_width(tmp_path: Path) -> None:
    name = "BTCUSDT-fundingRate-2026-01.csv"
    row = "1767225600008,8,0.00010000\n"
    upper = "CALC_TIME,funding_interval_hours,LAST_funding_rate\n"
    assert len(brought(tmp_path / "a", "funding_settlements", name, upper + row, "binance")) == 1
    assert len(brought(tmp_path / "b", "funding_settlements", name, row, "binance")) == 1
    with pytest.raises(ArchiveError, match=r"expected 3 columns \(calc_time, .*\), got 2"):
        brought(tmp_path / "c", "funding_settlements", name, "1767225600008,8\n", "binance")


def test_unknown_header_is_rejected_with_the_nearest_known_one(tmp_path: Path) -> None:
    with pytest.raises(
        ArchiveError,
        match=r"got the columns instrument, rate, but the most similar layout has instrument, ",
    ):
        brought(tmp_path, "funding_settlements", "a.csv", "instrument,rate\nBTC-USDT,1\n", "okx")
    with pytest.raises(ValueError, match="from='nobody' is not one of aevo, allium, "):
        brought(tmp_path, "funding_settlements", "a.csv", "a,b\n1,2\n", "nobody")
    with pytest.raises(ValueError, match="files of velo cannot be read as liquidations_fills, only as "):
        brought(tmp_path, "liquidations_fills", "a.csv", "a,b\n1,2\n", "velo")


def test_contexts_of_hyperliquid_are_prices_rates_and_coins(tmp_path: Path) -> None:
    """Rates are hourly, open interest is in coins; an LZ4 frame, as in the bucket."""
    text = (
        "time,coin,funding,open_interest,prev_day_px,day_ntl_vlm,premium,oracle_px,mark_px,mid_px,"
        "impact_bid_px,impact_ask_px\n"
        "2025-01-01T00:00:00Z,BTC,0.0000125,1000,90000,1,0.0001,93500.0,93550.0,,1,1\n"
        "2025-01-01T00:00:00Z,kPEPE,-0.00005,2000000,0.02,1,0.0001,0.0199,0.02,,1,1\n"
    )
    path = tmp_path / "20250101.csv.lz4"
    with pa.OSFile(str(path), "wb") as sink, pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(text.encode())
    for table in ("prices_history", "funding_history", "oi_history"):
        import_files(table, path, tmp_path / "to", source="hyperliquid")
    archive = open_archive(tmp_path / "to")
    prices = archive.read("prices_history", *EVER, symbols=["BTC"])
    assert dict(zip(prices["kind"], prices["price_usd"], strict=True)) == {"index": 93500.0, "mark": 93550.0}
    rates = archive.read("funding_history", *EVER).set_index("symbol")["rate_bps_8h"]
    assert rates.to_dict() == pytest.approx({"BTC": 1.0, "kPEPE": -4.0})
    value = archive.read("oi_history", *EVER).set_index("symbol")["oi_usd"]
    assert value.to_dict() == pytest.approx({"BTC": 93_550_000.0, "kPEPE": 40_000.0})


def test_tickers_and_liquidations_of_tardis(tmp_path: Path) -> None:
    """Times are µs; `buy` closed a short; amounts of BTCUSD_PERP are contracts of 100 USD."""
    row = (
        "okex-swap,BTC-USDT-SWAP,1591574399413000,1591574399500000,1591603200000000,0.0001,,5,9750.5,9751,\n"
    )
    prices = brought(tmp_path, "prices_history", "okex-swap_ticker.csv", _TICKER + row, "tardis")
    assert prices[["symbol", "exchange", "kind", "price_usd"]].to_numpy().tolist() == [
        ["BTC", "okx", "index", 9751.0],
        ["BTC", "okx", "last", 9750.5],
    ]
    assert prices["time"].iloc[0] == pd.Timestamp("2020-06-07T23:59:59.413Z")
    row = "binance-futures,BTCUSDT,1591574399413000,1591574399500000,,buy,10000,0.5\n"
    fills = brought(tmp_path, "liquidations_fills", "b.csv", _FORCED + row, "tardis").iloc[0]
    assert fills[["exchange", "symbol", "side", "value_usd"]].tolist() == ["binance", "BTC", "short", 5000.0]
    row = "binance-delivery,BTCUSD_PERP,1591574399413000,1591574399500000,,sell,10000,3\n"
    fills = brought(tmp_path / "inverse", "liquidations_fills", "c.csv", _FORCED + row, "tardis").iloc[0]
    assert fills[["side", "quantity", "value_usd"]].tolist() == ["long", 0.03, 300.0]
    row = "cryptofacilities,PI_XBTUSD,1591574399413000,1591574399500000,,buy,10000,500\n"
    fills = brought(tmp_path / "kraken", "liquidations_fills", "e.csv", _FORCED + row, "tardis").iloc[0]
    assert fills[["side", "quantity", "value_usd"]].tolist() == ["short", 0.05, 500.0]
    row = "bitmex,ETHUSD,1591574399413000,1591574399500000,,buy,240,5\n"
    with pytest.raises(
        ArchiveError,
        match="amounts of ETHUSD on bitmex are in contracts, and the file does not state their size",
    ):
        brought(tmp_path, "liquidations_fills", "d.csv", _FORCED + row, "tardis")


def test_columns_of_velo(tmp_path: Path) -> None:
    """Its rate is a fraction of 8 hours on every venue."""
    text = (
        "exchange,coin,product,time,open_price,dollar_open_interest_close,funding_rate,buy_dollar_volume,"
        "sell_dollar_volume\nokex-swap,BTC,BTC-USDT-SWAP,1704067200000,42000,7e8,0.00005,3,4\n"
    )
    found = {
        table: brought(tmp_path, table, "velo.csv", text, "velo").iloc[0]
        for table in ("oi_history", "funding_history", "volume_taker", "prices_history")
    }
    assert {row["exchange"] for row in found.values()} == {"okx"}
    assert found["funding_history"]["rate_bps_8h"] == pytest.approx(0.5)
    assert found["oi_history"]["oi_usd"] == 7e8
    assert found["volume_taker"][["buy_usd", "sell_usd"]].tolist() == [3.0, 4.0]
    assert found["prices_history"]["price_usd"] == 42000.0


def test_cryptohftdata_venue_and_symbol_come_from_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "binance_futures" / "2026-08-20" / "07"
    folder.mkdir(parents=True)
    path = folder / "BTCUSDT_open_interest.parquet"
    pq.write_table(
        pa.table(
            {
                "received_time": [1787209200000000000],
                "timestamp": [1787209200000],
                "sum_open_interest": ["100.5"],
                "sum_open_interest_value": ["6000000.25"],
            }
        ),
        path,
    )
    import_files("oi_history", path, tmp_path / "to", source="cryptohftdata")
    row = open_archive(tmp_path / "to").read("oi_history", *EVER).iloc[0]
    assert row[["symbol", "exchange", "oi_usd"]].tolist() == ["BTC", "binance", 6000000.25]


def test_bodies_of_coinglass(tmp_path: Path) -> None:
    """Numbers are text, shares and rates percent; the caller says of what."""
    said = {"symbol": "BTC", "exchange": "binance"}
    body = '{"code":"0","msg":"success","data":[{"time":1704067200000,%s}]}'
    ratio = '"global_account_long_percent":60.0,"global_account_short_percent":40.0'
    row = brought(tmp_path, "positioning_history", "a.json", body % ratio, "coinglass", set=said).iloc[0]
    assert row["kind"] == "accounts"
    assert row[["long_share", "short_share", "long_short_ratio"]].tolist() == pytest.approx([0.6, 0.4, 1.5])
    rate = '"open":"0.0046","high":"0.005","low":"0.004","close":"0.0041"'
    rates = brought(
        tmp_path, "funding_history", "b.json", body % rate, "coinglass", set={**said, "interval_hours": "8"}
    )
    assert rates["rate_bps_8h"].tolist() == pytest.approx([0.46])
    with pytest.raises(ArchiveError, match="symbol and exchange are not in the file"):
        brought(tmp_path, "oi_history", "c.json", body % rate, "coinglass")


def test_ratio_is_derived_from_shares_and_shares_from_a_ratio(tmp_path: Path) -> None:
    """If some accounts hold both sides, shares add to less than 1; shares missing in a file stay missing."""
    head = "symbol,exchange,time,kind,long_share,short_share,long_short_ratio\n"
    path, ratios = tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text(
        head + "BTC,x,2024-01-01T00:00Z,accounts,0.6,0.3,\nBTC,x,2024-01-01T02:00Z,accounts,,,\n"
        "BTC,x,2024-01-01T03:00Z,accounts,,,2\n"
    )
    ratios.write_text("symbol,exchange,time,kind,long_short_ratio\nBTC,x,2024-01-01T01:00Z,accounts,3\n")
    counts = import_files("positioning_history", [path, ratios], tmp_path / "to")
    assert (counts.written, counts.rejected) == (3, 1)
    rows = open_archive(tmp_path / "to").read("positioning_history", *EVER)
    values = rows[["long_share", "short_share", "long_short_ratio"]]
    assert values.fillna(-1.0).to_numpy().tolist() == [[0.6, 0.3, 2.0], [0.75, 0.25, 3.0], [-1.0, -1.0, 2.0]]


@pytest.mark.parametrize(
    ("options", "rate", "hours"),
    [
        ({}, 2.0, 4.0),
        ({"set": {"interval_hours": "8"}, "accept": ["interval"]}, 1.0, 8.0),
        ({"unit": "bps_8h", "accept": ["unit"]}, 0.0001, 4.0),
        ({"unit": "percent", "accept": ["unit"]}, 0.02, 4.0),
    ],
)
def test_a_stated_interval_or_unit_comes_before_the_spacing(
    tmp_path: Path, options: dict[str, Any], rate: float, hours: float
) -> None:
    """Payments of 0.0001 four hours apart: as a fraction of 4 or 8 h, as bps of 8 h, as percent of 4 h."""
    text = "instrument_name,funding_rate,funding_time\n" + "".join(
        f"BTC-USDT-SWAP,0.0001,{1704067200000 + i * 14_400_000}\n" for i in range(6)
    )
    rows = brought(tmp_path, "funding_settlements", "a.csv", text, "okx", **options)
    assert rows["rate_bps_8h"].tolist() == pytest.approx([rate] * 6)
    assert rows["interval_hours"].tolist() == [hours] * 6


def test_turnover_in_coins_is_not_taken_for_usd(tmp_path: Path) -> None:
    bar = "1704067200000,42000,42100,41900,42050,5000,1704070799999,119.0,900,2600,62.0,0\n"
    name = "BTCUSD_PERP-1h-2024-01.csv"
    with pytest.raises(ArchiveError, match="turnover of BTCUSD_PERP is in coins"):
        brought(tmp_path, "volume_taker", name, bar, "binance")
