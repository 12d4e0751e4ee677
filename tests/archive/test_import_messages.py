"""Advice of an import's messages: followed to the letter, it loses and changes no row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.cli import main
from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from tests.archive.rates import EVER

CHAIN = "date,expiry,type,strike,spot,iv\n" + "".join(
    f"2026-03-01,2026-03-27,{side},{strike},90000,0.5{strike // 10000}\n"
    for strike in (80000, 90000, 100000)
    for side in ("call", "put")
)
_STAMP = 1_772_323_200_000
_HOUR = 3_600_000


def _write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_names_of_options_are_made_of_expiry_strike_and_side(tmp_path: Path) -> None:
    path = _write(tmp_path, "chain.csv", CHAIN)
    said: dict[str, Any] = {"set": {"symbol": "BTC", "exchange": "deribit"}, "tz": "UTC"}
    counts = import_files("options_snapshot", path, tmp_path / "to", **said)
    rows = open_archive(tmp_path / "to").read("options_snapshot", *EVER)
    assert (counts.read, counts.written) == (6, 6)
    assert rows["instrument_name"].tolist()[:2] == ["BTC-27MAR26-80000-C", "BTC-27MAR26-80000-P"]
    fixed = {"symbol": "BTC", "exchange": "deribit", "instrument_name": "BTC"}
    with pytest.raises(ArchiveError, match="instrument_name='BTC' is not the name of an option") as told:
        import_files("options_snapshot", path, tmp_path / "to", set=fixed, tz="UTC")
    assert "omit it" in str(told.value)


def test_map_value_translates_single_words_of_sides(tmp_path: Path) -> None:
    """The first message names one word, the second the other; then all rows are there, each on its side."""
    lines = [f"BTCUSDT,{_STAMP + i},{side},67000,{i + 1}" for i, side in enumerate(["B", "S", "B", "S"])]
    path = _write(tmp_path, "liquidations.csv", "\n".join(["symbol,time,side,price,quantity", *lines]) + "\n")
    said = ["import", "liquidations_fills", str(path), "--to", str(tmp_path / "to")]
    said += ["--set", "exchange=binance", "--map", "fill_price_usd=price"]
    with pytest.raises(ArchiveError, match="--map-value side:B=long or --map-value side:B=short"):
        import_files(
            "liquidations_fills",
            path,
            tmp_path / "to",
            set={"exchange": "binance"},
            map={"fill_price_usd": "price"},
        )
    assert main([*said, "--map-value", "side:B=short", "--map-value", "side:S=long"]) == 0
    rows = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).sort_values("time")
    assert rows["side"].tolist() == ["short", "long"] * 2
    assert rows["value_usd"].tolist() == [67000.0, 134000.0, 201000.0, 268000.0]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_wrong_column_shows_the_nearest_one_of_the_file(tmp_path: Path, form: str) -> None:
    frame = pd.DataFrame({"timestamp": [_STAMP, _STAMP + 8 * _HOUR], "funding_rate_8h": [0.0001, 0.0002]})
    path = tmp_path / f"rates.{form}"
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    said: dict[str, Any] = {"set": {"symbol": "ETH", "exchange": "binance"}, "unit": "per_8h"}
    wrong = {"time": "timestamp", "rate_bps_8h": "funding_rate"}
    with pytest.raises(ArchiveError, match="no column 'funding_rate'") as told:
        import_files("funding_settlements", path, tmp_path / "to", map=wrong, **said)
    near = re.search(r"did you mean '(\w+)'", str(told.value))
    assert near is not None
    counts = import_files(
        "funding_settlements", path, tmp_path / "to", map={**wrong, "rate_bps_8h": near[1]}, **said
    )
    assert counts.written == 2
    rows = open_archive(tmp_path / "to").read("funding_settlements", *EVER)
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, 2.0])


def test_question_names_the_option_and_its_choices(tmp_path: Path) -> None:
    """Hourly rates of no known venue may be payments or samples; open interest may be in three units."""
    lines = [f"BTC,myvenue,{_STAMP + i * _HOUR},0.0000125" for i in range(20)]
    path = _write(tmp_path, "x.csv", "\n".join(["coin,venue,timestamp,funding_rate", *lines]) + "\n")
    with pytest.raises(Unclear) as asked:
        import_files(None, path, tmp_path / "to")
    assert (asked.value.option, asked.value.choices[0]) == ("--table", "funding_settlements")
    counts = import_files(asked.value.choices[0], path, tmp_path / "to")
    assert counts.written == 20
    rows = open_archive(tmp_path / "to").read("funding_settlements", *EVER)
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0] * 20)
    assert rows["interval_hours"].tolist() == [1.0] * 20


def test_an_interval_that_no_row_shows_is_missing_until_it_is_stated(tmp_path: Path) -> None:
    body = [{"symbol": "BTC/USDT:USDT", "fundingRate": 0.0001, "timestamp": _STAMP, "datetime": "x"}]
    path = _write(tmp_path, "okx.json", json.dumps(body))
    assert import_files(None, path, tmp_path / "unknown").written == 1
    row = open_archive(tmp_path / "unknown").read("funding_settlements", *EVER).iloc[0]
    assert row["rate_native"] == pytest.approx(0.0001)
    assert pd.isna(row["interval_hours"])
    assert pd.isna(row["rate_bps_8h"])
    assert main(["import", str(path), "--to", str(tmp_path / "to"), "--set", "interval_hours=8"]) == 0
    rows = open_archive(tmp_path / "to").read("funding_settlements", *EVER)
    assert rows[["exchange", "rate_bps_8h"]].to_numpy().tolist() == [["okx", 1.0]]


def test_a_file_of_liquidations_that_has_every_row_twice_counts_each_once(tmp_path: Path) -> None:
    lines = [f"BTCUSDT,{_STAMP + i},long,67000,{i + 1}" for i in range(3)]
    head = "symbol,time,side,fill_price_usd,quantity"
    said: dict[str, Any] = {"set": {"exchange": "binance"}}
    twice = _write(tmp_path, "twice.csv", "\n".join([head, *lines, *lines]) + "\n")
    counts = import_files("liquidations_fills", twice, tmp_path / "to", **said)
    assert (counts.read, counts.written, counts.present) == (6, 3, 3)
    assert "every row occurs 2 times, and is counted once" in counts.notices[0]
    some = _write(tmp_path, "some.csv", "\n".join([head, *lines, lines[0]]) + "\n")
    assert import_files("liquidations_fills", some, tmp_path / "some", **said).written == 4


def test_prices_are_compared_with_stored_ones_by_powers_of_ten(tmp_path: Path) -> None:
    """ETH at 1,900 USD is stored; 1,900,000 is a thousand times that, 5,700 is another price."""
    head = "symbol,exchange,time,kind,price_usd\n"
    rows = {price: f"{head}ETH,okx,2026-01-01T00:00Z,mark,{price}\n" for price in (1_900_000, 5_700)}
    known = _write(tmp_path, "known.csv", f"{head}ETH,binance,2026-01-01T00:00Z,mark,1900\n")
    import_files("prices_history", known, tmp_path / "to")
    scaled = _write(tmp_path, "scaled.csv", rows[1_900_000])
    with pytest.raises(ArchiveError, match="the prices of ETH are 1e\\+03 times the stored prices"):
        import_files("prices_history", scaled, tmp_path / "to")
    assert import_files("prices_history", scaled, tmp_path / "to", accept=["unit"]).written == 1
    other = _write(tmp_path, "other.csv", rows[5_700].replace("okx", "bybit"))
    assert import_files("prices_history", other, tmp_path / "to", accept=["future"]).written == 1


def test_unknown_spelling_of_a_market_raises_a_question(tmp_path: Path) -> None:
    head = "symbol,exchange,time,oi_usd\n"
    path = _write(
        tmp_path, "oi.csv", head + "BTC-25DEC26,okx,2026-01-01T00:00Z,1\nBTC:USD?!,okx,2026-01-01T00:00Z,2\n"
    )
    with pytest.raises(ArchiveError, match="is a dated future, but oi_history is for perpetual contracts"):
        import_files("oi_history", path, tmp_path / "to")
    words = {"symbol": {"BTC:USD?!": "BTC"}}
    counts = import_files("oi_history", path, tmp_path / "to", map_values=words)
    assert (counts.written, counts.rejected) == (1, 1)


def test_a_dry_run_and_an_import_print_the_same_understanding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "symbol": "BTCUSDT",
            "fundingTime": _STAMP + i * 8 * _HOUR,
            "fundingRate": "0.0001",
            "markPrice": "1",
        }
        for i in range(3)
    ]
    path = _write(tmp_path, "rates.json", json.dumps(rows, indent=1))
    said = ["import", str(path), "--to", str(tmp_path / "to")]
    assert main([*said, "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert open_archive(tmp_path / "to").tables() == frozenset()
    assert main(said) == 0
    wet = capsys.readouterr().out
    assert dry.splitlines()[:-1] == wet.splitlines()[:-1]
    assert "table     funding_settlements:" in dry
    assert wet.endswith("3 rows read, 3 written, 0 already there, 0 rejected\n")
    assert main(["import", "--list"]) == 0
    assert "ccxt: fetch_funding_rate_history" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "symbol", "venue", "kind"),
    [
        ("binance-BTCUSDT-future", "BTC", "binance", "perpetual"),
        ("deribit-BTC-27MAR26-100000-C-option", "BTC", "deribit", "option"),
        ("BINANCEFTS_PERP_BTC_USDT", "BTC", "binance", "perpetual"),
        ("DERIBIT_FTS_BTC_USD_261225", "BTC", "deribit", "future"),
        ("BTC-USDT-VANILLA-PERPETUAL", "BTC", "", "perpetual"),
        ("BTCUSDT-PERP.BINANCE", "BTC", "binance", "perpetual"),
        ("tBTCF0:USTF0", "BTC", "", "perpetual"),
        ("BTC/USD:BTC-261225", "BTC", "", "future"),
        ("BTCUSD_261225", "BTC", "", "future"),
        ("BTC-USD-261225", "BTC", "", "future"),
        ("BTCUSDT-25DEC26", "BTC", "", "future"),
        ("FI_XBTUSD_261225", "BTC", "", "future"),
        ("BTCX6", "BTC", "cme", "future"),
        ("MBTZ26", "BTC", "cme", "future"),
        ("XBTUSD", "BTC", "", "perpetual"),
        ("btc-perpetual", "BTC", "", "symbol"),
        ("1000PEPE", "1000PEPE", "", "symbol"),
        ("xyz:TSLA", "xyz:TSLA", "", "symbol"),
    ],
)
def test_names_of_markets(name: str, symbol: str, venue: str, kind: str) -> None:
    from derivdata.sources.archive.importing.market_names import market_of

    market = market_of(name)
    assert (market.symbol, market.venue, market.kind) == (symbol, venue, kind)


def test_a_payment_that_contradicts_a_stored_one_is_named_with_it(tmp_path: Path) -> None:
    """Twelve payments of 1 bp; a second file has 7 bps in place of the sixth. The stored one stays."""
    times = pd.date_range("2026-01-01", periods=12, freq="8h").strftime("%Y-%m-%dT%H:%M:%SZ")
    options: dict[str, Any] = {
        "map": {"time": "t", "rate_bps_8h": "r"},
        "set": {"symbol": "BTC", "exchange": "okx"},
        "unit": "native",
    }
    for name, sixth in (("a.csv", 0.0001), ("b.csv", 0.0007)):
        rates = [0.0001] * 5 + [sixth] + [0.0001] * 6
        pd.DataFrame({"t": times, "r": rates}).to_csv(tmp_path / name, index=False)
        result = import_files("funding_settlements", str(tmp_path / name), str(tmp_path / "ar"), **options)
    assert (result.written, result.present, result.differing) == (0, 11, 1)
    [notice] = result.notices
    assert "2026-01-02T16:00:00.000Z with rate 0.0001" in notice
    assert "2026-01-02T16:00:00.000Z with rate 0.0007" in notice
    stored = open_archive(tmp_path / "ar").read("funding_settlements", "2026-01-01", "2026-02-01")
    assert stored["rate_bps_8h"].round(9).tolist() == [1.0] * 12


def _advised_sources(message: str) -> list[str]:
    """Return the words after ``--from`` in a message."""
    return re.findall(r"--from (\w+)", message)


def test_source_named_in_the_question_imports_all_unnamed_rows(tmp_path: Path) -> None:
    """Levels of Bybit's book are lists: price and size."""
    sides = {"b": [["67000", "1"], ["66999.5", "2.5"]], "a": [["67001", "0.25"]]}
    result = {"s": "BTCUSDT", **sides, "ts": _STAMP, "u": 1, "seq": 2, "cts": _STAMP}
    body = {"retCode": 0, "retMsg": "OK", "result": result, "retExtInfo": {}, "time": _STAMP}
    path = _write(tmp_path, "book.json", json.dumps(body))
    with pytest.raises(Unclear, match="the rows have no column names") as question:
        import_files(None, path, tmp_path / "to")
    advised = _advised_sources(str(question.value))
    assert advised == question.value.choices == ["bybit"]
    assert main(["import", str(path), "--to", str(tmp_path / "to"), "--from", advised[0]]) == 0
    rows = open_archive(tmp_path / "to").read("orderbook_book", *EVER).sort_values("price_usd")
    assert rows["price_usd"].tolist() == [66999.5, 67000.0, 67001.0]
    assert rows["size"].tolist() == [2.5, 1.0, 0.25]


def test_source_of_each_venue_imports_all_its_rows(tmp_path: Path) -> None:
    """Aster's premium index has the fields of Binance's."""
    prices = {"BTCUSDT": "67000.5", "ETHUSDT": "1900.5"}
    rows = [
        {
            "symbol": symbol,
            "markPrice": price,
            "indexPrice": price,
            "lastFundingRate": "0.0001",
            "nextFundingTime": _STAMP + 8 * _HOUR,
            "time": _STAMP,
        }
        for symbol, price in prices.items()
    ]
    path = _write(tmp_path, "premium.json", json.dumps(rows))
    with pytest.raises(Unclear, match="the file may be a response of binance or of aster") as question:
        import_files(None, path, tmp_path / "to")
    advised = _advised_sources(str(question.value))
    assert advised == question.value.choices == ["binance", "aster"]
    for venue in advised:
        folder = tmp_path / venue
        assert main(["import", str(path), "--to", str(folder), "--from", venue]) == 0
        stored = open_archive(folder).read("prices_history", *EVER)
        marks = stored[stored["kind"] == "mark"]
        assert marks["exchange"].unique().tolist() == [venue]
        assert dict(zip(marks["symbol"], marks["price_usd"], strict=True)) == {"BTC": 67000.5, "ETH": 1900.5}


def test_advice_to_omit_source_imports_all_rows(tmp_path: Path) -> None:
    """No declared layout of KuCoin is taker volume; a file with the names of the table needs none."""
    path = _write(tmp_path, "kucoin_taker.csv", "time,symbol,exchange,buy_usd,sell_usd\n")
    with path.open("a", encoding="utf-8") as file:
        for place in range(3):
            stamp = pd.Timestamp(_STAMP + place * _HOUR, unit="ms", tz="UTC").isoformat()
            file.write(f"{stamp},BTC,kucoin,{1000 + place},2000\n")
    with pytest.raises(ValueError, match=r"files of kucoin cannot be read as volume_taker.*omit --from"):
        import_files("volume_taker", path, tmp_path / "to", source="kucoin")
    assert import_files("volume_taker", path, tmp_path / "to").written == 3
    rows = open_archive(tmp_path / "to").read("volume_taker", *EVER)
    assert rows["buy_usd"].tolist() == [1000.0, 1001.0, 1002.0]


NOTE = (
    "These are the funding rates that I collected in June, from bybit and okx.\n"
    "The rates are in bps, per 8 hours, as of the settlement.\n"
)


def test_file_that_starts_with_text_is_read_after_the_text_is_removed(tmp_path: Path) -> None:
    rows = (
        "time,symbol,exchange,rate_bps_8h,interval_hours\n"
        "2026-06-01T00:00:00Z,BTC,bybit,1.0,8\n"
        "2026-06-01T08:00:00Z,BTC,bybit,0.5,8\n"
    )
    path = _write(tmp_path, "rates.csv", NOTE + rows)
    first_words = "'These are the funding rates that I collected in June'"
    with pytest.raises(ArchiveError, match=rf"got a text \({first_words}\): remove the lines"):
        import_files(None, path, tmp_path / "to")
    path.write_text(rows, encoding="utf-8")
    assert import_files("funding_settlements", path, tmp_path / "to").written == 2
    stored = open_archive(tmp_path / "to").read("funding_settlements", *EVER)
    assert stored["rate_bps_8h"].tolist() == [1.0, 0.5]
