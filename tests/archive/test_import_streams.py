"""Messages of WebSockets as files: envelopes, replies to subscriptions, and books with changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Imported
from tests.archive.rates import EVER

_START = 1_772_323_200_000  # 2026-03-01T00:00Z
_LEVELS = {"bids": [["67000.0", "1.5"], ["66999.5", "2"]], "asks": [["67000.5", "0.5"]]}
_SHORT = {"b": _LEVELS["bids"], "a": _LEVELS["asks"]}


def _import(folder: Path, name: str, messages: list[dict[str, Any]], **said: Any) -> Imported:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return import_files(None, path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


def _bybit(kind: str, levels: dict[str, Any]) -> dict[str, Any]:
    return {
        "topic": "orderbook.50.BTCUSDT", "type": kind, "ts": _START, "cts": _START - 5,
        "data": {"s": "BTCUSDT", **levels, "u": 1},
    }  # fmt: skip


def _binance(stream: str, levels: dict[str, Any]) -> dict[str, Any]:
    return {
        "stream": stream,
        "data": {"e": "depthUpdate", "E": _START + 2, "T": _START, "s": "BTCUSDT", "U": 1, "u": 2, **levels},
    }


def _okx(action: str, levels: dict[str, Any]) -> dict[str, Any]:
    return {
        "arg": {"channel": "books", "instId": "BTC-USDT-SWAP"}, "action": action,
        "data": [{**levels, "ts": str(_START), "checksum": 1}],
    }  # fmt: skip


def _deribit(kind: str, bids: list[Any], asks: list[Any]) -> dict[str, Any]:
    content = {
        "type": kind, "timestamp": _START, "instrument_name": "BTC-PERPETUAL", "change_id": 1,
        "bids": bids, "asks": asks,
    }  # fmt: skip
    return {
        "jsonrpc": "2.0",
        "method": "subscription",
        "params": {"channel": "book.BTC-PERPETUAL.100ms", "data": content},
    }


_CHANGE = {"b": [["66999.5", "0"]], "a": [["67000.5", "9"]]}
# Name of the file, messages, and the three sizes in coins: OKX' contracts are of 0.01 coins, Deribit's of
# 1 USD (134,000 USD at 67,000 are 2 coins).
_BOOKS: dict[str, tuple[list[dict[str, Any]], list[float]]] = {
    "bybit_book.jsonl": ([_bybit("snapshot", _SHORT), _bybit("delta", _CHANGE)], [1.5, 2.0, 0.5]),
    "binance_book.jsonl": ([_binance("btcusdt@depth20@100ms", _SHORT)], [1.5, 2.0, 0.5]),
    "okx_book.jsonl": (
        [
            {"event": "subscribe", "arg": {"channel": "books", "instId": "BTC-USDT-SWAP"}},
            _okx("snapshot", _LEVELS),
            _okx("update", {"bids": [["66999.5", "0"]], "asks": []}),
        ],
        [0.015, 0.02, 0.005],
    ),
    "deribit_book.jsonl": (
        [
            {"jsonrpc": "2.0", "id": 1, "result": ["book.BTC-PERPETUAL.100ms"]},
            _deribit(
                "snapshot",
                [["new", 67000.0, 134000.0], ["new", 66999.5, 66999.5]],
                [["new", 67000.5, 67000.5]],
            ),
            _deribit("change", [["delete", 66999.5, 0.0]], []),
        ],
        [2.0, 1.0, 1.0],
    ),
}


@pytest.mark.parametrize("name", _BOOKS)
def test_whole_books_of_streams_are_read_without_their_changes(tmp_path: Path, name: str) -> None:
    messages, sizes = _BOOKS[name]
    result = _import(tmp_path, name, messages)
    rows = _rows(tmp_path, "orderbook_book").sort_values(["side", "level"], ascending=[False, True])
    assert rows["price_usd"].tolist() == [67000.0, 66999.5, 67000.5]
    assert rows["side"].tolist() == ["bid", "bid", "ask"]
    assert rows["size"].tolist() == pytest.approx(sizes)
    assert {*rows["symbol"]} == {"BTC"}
    assert {*rows["exchange"]} == {name.partition("_")[0]}
    assert {*rows["time"]} == {pd.Timestamp(_START, unit="ms", tz="UTC")}
    has_changes = any("book updates are omitted" in notice for notice in result.notices)
    assert has_changes == (name != "binance_book.jsonl")


@pytest.mark.parametrize(
    "messages",
    [
        [_binance("btcusdt@depth@100ms", _SHORT)] * 3,
        [{**_binance("", _SHORT)["data"]}]
        * 3,  # without the name of the stream, changes and books look the same
        [_bybit("delta", _CHANGE)] * 3,
    ],
)
def test_order_book_changes_without_a_snapshot_are_rejected(
    tmp_path: Path, messages: list[dict[str, Any]]
) -> None:
    with pytest.raises(ArchiveError, match="got book updates"):
        _import(tmp_path, "binance_depth.jsonl", messages)


def test_objects_in_objects_of_a_message_are_read(tmp_path: Path) -> None:
    context = {"funding": "0.0000125", "openInterest": "25000.5", "oraclePx": "66999", "markPx": "67000"}
    messages = [
        {"channel": "subscriptionResponse", "data": {"method": "subscribe", "subscription": {"coin": "BTC"}}}
    ]
    messages += [
        {
            "recv_ts": _START + 1_000 * place,
            "channel": "activeAssetCtx",
            "data": {"coin": "BTC", "ctx": {**context, "impactPxs": ["66999", "67001"]}},
        }
        for place in range(12)
    ]
    _import(tmp_path, "hyperliquid_ctx.jsonl", messages)
    rates = _rows(tmp_path, "funding_history")
    # 0.125 bps an hour are 1 bps in 8 hours; 25,000.5 coins at 67,000 USD.
    assert rates["rate_bps_8h"].tolist() == pytest.approx([1.0] * 12)
    assert _rows(tmp_path, "oi_history")["oi_usd"].iloc[0] == pytest.approx(1_675_033_500.0)
    prices = _rows(tmp_path, "prices_history").groupby("kind", observed=True)["price_usd"].first()
    assert prices.to_dict() == {"index": 66999.0, "mark": 67000.0}


def test_notifications_of_tickers_of_options_are_read(tmp_path: Path) -> None:
    content = {
        "timestamp": _START, "instrument_name": "BTC-27MAR26-70000-C", "index_price": 67000.5,
        "open_interest": 138.8, "mark_price": 0.0512, "best_ask_price": 0.0517, "best_bid_price": 0.0507,
        "mark_iv": 52.5, "underlying_price": 67100.5, "greeks": {"delta": 0.41},
    }  # fmt: skip
    channel = "ticker.BTC-27MAR26-70000-C.100ms"
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": [channel],
            "usIn": 1,
            "usOut": 2,
            "usDiff": 1,
            "testnet": False,
        },
        {"jsonrpc": "2.0", "method": "subscription", "params": {"channel": channel, "data": content}},
    ]
    _import(tmp_path, "deribit_tickers.jsonl", messages)
    row = _rows(tmp_path, "options_snapshot").iloc[0]
    assert (row["exchange"], row["strike"], row["side"]) == ("deribit", 70000.0, "call")
    assert (row["iv"], row["delta"], row["mark_coin"]) == pytest.approx((0.525, 0.41, 0.0512))


@pytest.mark.parametrize("outer", ["symbol", "exchange"])
def test_series_by_coin_and_venue_are_read(tmp_path: Path, outer: str) -> None:
    rates = [[_START + 28_800_000 * place, rate] for place, rate in enumerate([0.0001, -0.00002] * 5)]
    body = {"BTC": {"okx": rates, "bybit": rates}, "ETH": {"okx": rates}}
    if outer == "exchange":
        body = {"okx": {"BTC": rates, "ETH": rates}, "bybit": {"BTC": rates}}
    path = tmp_path / "in" / "funding.json"
    path.parent.mkdir()
    path.write_text(json.dumps(body))
    import_files(None, path, tmp_path / "to")
    rows = _rows(tmp_path, "funding_settlements")
    pairs = rows.groupby(["exchange", "symbol"], observed=True)["rate_bps_8h"].agg(["size", "first"])
    assert {*pairs.index} == {("okx", "BTC"), ("okx", "ETH"), ("bybit", "BTC")}
    assert pairs["size"].tolist() == [10] * 3
    assert pairs["first"].tolist() == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("hour", [0, 3])
def test_rates_of_the_next_payment_are_not_payments_each_second(tmp_path: Path, hour: int) -> None:
    messages = [
        {
            "stream": "btcusdt@markPrice@1s",
            "data": {
                "e": "markPriceUpdate", "E": _START + 3_600_000 * hour + 1_000 * place, "s": "BTCUSDT",
                "p": "67000.5", "P": "67010", "i": "66999.5", "r": "0.0001", "T": _START + 28_800_000,
            },
        }
        for place in range(60)
    ]  # fmt: skip
    _import(tmp_path, "binance_mark.jsonl", messages, set={"interval_hours": "8"})
    rates = _rows(tmp_path, "funding_rates")
    assert rates["rate_bps_8h"].tolist() == pytest.approx([1.0] * 60)
    assert {*rates["settlement_time"]} == {pd.Timestamp("2026-03-01T08:00Z")}
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 60)


def test_lists_in_envelopes_of_combined_streams_are_read(tmp_path: Path) -> None:
    messages = []
    for second in range(3):
        mark = {
            "e": "markPriceUpdate", "E": _START + 1_000 * second, "p": "67000.5", "P": "66998",
            "i": "66999.5", "r": "0.0001", "T": _START + 28_800_000,
        }  # fmt: skip
        rows = [{**mark, "s": symbol} for symbol in ("BTCUSDT", "ETHUSDT")]
        content = {"stream": "!markPrice@arr@1s", "data": rows}
        messages.append({"recv_ts": _START + 1_000 * second + 40, "msg": content})
    _import(tmp_path, "binance_marks.jsonl", messages, set={"interval_hours": "8"})
    prices = _rows(tmp_path, "prices_history")
    assert prices.groupby(["symbol", "kind"], observed=True)["price_usd"].first().to_dict() == {
        ("BTC", "index"): 66999.5, ("BTC", "mark"): 67000.5,
        ("ETH", "index"): 66999.5, ("ETH", "mark"): 67000.5,
    }  # fmt: skip
    assert prices["time"].max() == pd.Timestamp("2026-03-01T00:00:02Z")
    assert _rows(tmp_path, "funding_history")["rate_bps_8h"].tolist() == pytest.approx([1.0] * 6)


def test_responses_without_a_time_have_that_of_their_envelope(tmp_path: Path) -> None:
    # POST /info predictedFundings of Hyperliquid (2026) has the next payments only.
    rates = [
        ["BinPerp", {"fundingRate": "0.0001", "nextFundingTime": 1772352000000, "fundingIntervalHours": 8}],
        ["HlPerp", {"fundingRate": "-0.00001", "nextFundingTime": 1772326800000, "fundingIntervalHours": 1}],
    ]
    polls = [{"ts": _START + 1_000 * second, "data": [["BTC", rates]]} for second in (5, 605)]
    _import(tmp_path, "predicted.jsonl", polls)
    rows = _rows(tmp_path, "funding_rates").sort_values(["exchange", "time"])
    assert rows["exchange"].tolist() == ["binance", "binance", "hyperliquid", "hyperliquid"]
    times = ["2026-03-01T00:00:05Z", "2026-03-01T00:10:05Z"]
    assert rows["time"].tolist() == list(map(pd.Timestamp, times * 2))
    # -0.00001 an hour are -0.8 bps in 8 hours.
    assert rows["rate_bps_8h"].tolist() == pytest.approx([1.0, 1.0, -0.8, -0.8])


def test_books_of_cryptofeed_are_read_without_their_changes(tmp_path: Path) -> None:
    """Sizes by price, as `OrderBook.to_dict` writes them (cryptofeed at ce58c2a0)."""
    fields = {"exchange": "BINANCE_FUTURES", "symbol": "BTC-USDT-PERP", "timestamp": 1_772_323_200.5}
    book = {**fields, "book": {"bid": {"66999": 0.4, "67000.5": 1.2}, "ask": {"67001": 0.5}}}
    change = {**fields, "delta": {"bid": [[66999, 0]], "ask": []}}
    lines = [json.dumps(book), json.dumps(change)]
    path = tmp_path / "books.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    import_files(None, path, tmp_path / "to")
    rows = open_archive(tmp_path / "to").read("orderbook_book", *EVER)
    levels = rows[["side", "level", "price_usd", "size"]].to_numpy().tolist()
    assert sorted(levels) == [["ask", 1, 67001.0, 0.5], ["bid", 1, 67000.5, 1.2], ["bid", 2, 66999.0, 0.4]]
    path.write_text("\n".join(lines[1:] * 2) + "\n", encoding="utf-8")
    with pytest.raises(ArchiveError, match="expected order book snapshots, got book updates"):
        import_files(None, path, tmp_path / "to")


def test_depths_in_coins_are_not_read_as_usd(tmp_path: Path) -> None:
    """Kaiko's order book snapshots (API v2, 2026)."""
    row = {"poll_timestamp": 1_772_323_200_000, "bid_volume0_1": "46.5", "ask_volume0_1": "40.5"}
    path = tmp_path / "kaiko.json"
    path.write_text(json.dumps({"query": {"exchange": "krkn"}, "data": [row]}), encoding="utf-8")
    with pytest.raises(
        ArchiveError, match="bid_volume0_1 and others are coins of orders near the best price"
    ):
        import_files(None, path, tmp_path / "to")


def _bybit_channels() -> list[dict[str, Any]]:
    ticker = {
        "symbol": "BTCUSDT",
        "markPrice": "67000.5",
        "openInterest": "40",
        "openInterestValue": "2680020",
    }
    filled = {"T": _START + 900, "s": "BTCUSDT", "S": "Buy", "v": "0.5", "p": "66000"}
    return [
        {"success": True, "ret_msg": "", "conn_id": "1", "req_id": "", "op": "subscribe"},
        {"topic": "tickers.BTCUSDT", "type": "snapshot", "ts": _START, "cs": 1, "data": ticker},
        {"topic": "allLiquidation.BTCUSDT", "type": "snapshot", "ts": _START + 1000, "data": [filled]},
        {"topic": "tickers.BTCUSDT", "type": "delta", "ts": _START + 2000, "cs": 2,
         "data": {"symbol": "BTCUSDT", "markPrice": "67010"}},
    ]  # fmt: skip


def _okx_channels() -> list[dict[str, Any]]:
    def message(channel: str, milliseconds: int, **figures: str) -> dict[str, Any]:
        name = {"instId": "BTC-USDT-SWAP"}
        row = {"instType": "SWAP", **name, **figures, "ts": str(_START + milliseconds)}
        return {"arg": {"channel": channel, **name}, "data": [row]}

    return [
        message("mark-price", 0, markPx="67000.5"),
        message("open-interest", 500, oi="4000", oiCcy="40", oiUsd="2680020"),
        message("mark-price", 2000, markPx="67010"),
    ]


def _binance_channels() -> list[dict[str, Any]]:
    def mark(milliseconds: int, price: str) -> dict[str, Any]:
        row = {"e": "markPriceUpdate", "E": _START + milliseconds, "s": "BTCUSDT", "p": price, "P": price,
               "i": "66990", "r": "0.0001", "T": _START + 28_800_000}  # fmt: skip
        return {"stream": "btcusdt@markPrice@1s", "data": row}

    order = {"s": "BTCUSDT", "S": "SELL", "o": "LIMIT", "f": "IOC", "q": "0.5", "p": "65900", "ap": "66000",
             "X": "FILLED", "l": "0.5", "z": "0.5", "T": _START + 900}  # fmt: skip
    forced = {"stream": "btcusdt@forceOrder", "data": {"e": "forceOrder", "E": _START + 950, "o": order}}
    return [mark(0, "67000.5"), forced, mark(2000, "67010")]


@pytest.mark.parametrize(
    ("name", "messages"),
    [("bybit", _bybit_channels()), ("okx", _okx_channels()), ("binance-futures", _binance_channels())],
)
def test_messages_of_several_channels_are_read_by_their_channel(
    tmp_path: Path, name: str, messages: list[dict[str, Any]]
) -> None:
    """4,000 contracts of 0.01 BTC are 2,680,020 USD, and Bybit counts both sides; 0.5 BTC are 33,000 USD."""
    _import(tmp_path, f"{name}_channels.jsonl", messages)
    prices = _rows(tmp_path, "prices_history")
    marks = prices[prices["kind"] == "mark"]
    times = [pd.Timestamp(_START + moment, unit="ms", tz="UTC") for moment in (0, 2000)]
    assert marks["time"].tolist() == times
    assert marks["price_usd"].tolist() == [67000.5, 67010.0]
    if name != "binance-futures":
        usd = 1_340_010.0 if name == "bybit" else 2_680_020.0
        assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [usd]
    if name != "okx":
        fills = _rows(tmp_path, "liquidations_fills")
        assert fills[["side", "value_usd"]].to_numpy().tolist() == [["long", 33_000.0]]


def test_a_channel_that_no_table_stores_is_named(tmp_path: Path) -> None:
    other = {"topic": "status.system", "ts": _START, "data": [{"state": "open", "words": "none"}]}
    damaged = {"topic": "tickers.BTCUSDT", "type": "delta", "ts": None, "data": {"symbol": "BTCUSDT"}}
    result = _import(tmp_path, "bybit_all.jsonl", [other, *_bybit_channels()])
    assert any("messages of the channel status" in notice for notice in result.notices)
    with pytest.raises(ArchiveError, match="no message can be read: messages of the channel status"):
        _import(tmp_path, "bybit_none.jsonl", [other, damaged])


def test_lines_without_a_channel_are_counted(tmp_path: Path) -> None:
    """Binance's reply to a subscription is not counted, and its best quotes of spot have no channel."""
    reply = {"result": None, "id": 1}
    quote = {"u": 400900217, "s": "BTCUSDT", "b": "67000", "B": "1", "a": "67001", "A": "2"}
    raw = [message["data"] for message in _binance_channels()]
    result = _import(
        tmp_path, "binance-futures_channels.jsonl", [reply, raw[0], quote, raw[1], quote, raw[2]]
    )
    assert any("2 lines without a channel are not stored, first line 3" in text for text in result.notices)
    assert len(_rows(tmp_path, "liquidations_fills")) == 1
    marks = _rows(tmp_path, "prices_history").query("kind == 'mark'")
    assert marks["price_usd"].tolist() == [67000.5, 67010.0]


@pytest.mark.parametrize("table", ["prices_history", "oi_history", "liquidations_fills"])
def test_a_table_is_read_from_the_channels_that_have_it(tmp_path: Path, table: str) -> None:
    path = tmp_path / "bybit_channels.jsonl"
    path.write_text("\n".join(map(json.dumps, _bybit_channels())))
    result = import_files(table, path, tmp_path / "to")
    assert open_archive(tmp_path / "to").tables() == {table}
    other = "tickers" if table == "liquidations_fills" else "allLiquidation"
    assert [f"channel {other} are not stored" in notice for notice in result.notices] == [True]


def test_prices_of_two_channels_of_gate_are_stored_together(tmp_path: Path) -> None:
    """The prices of one channel are read by its adapter, those of the other by their names."""
    messages = []
    ticker = {"contract": "BTC_USDT", "last": "67000", "mark_price": "67001"}
    state = {"time": _START // 1000, "contract": "BTC_USDT", "mark_price": 67001.5, "long_liq_usd": 1500,
             "short_liq_usd": 250, "open_interest_usd": 53601200}  # fmt: skip
    for channel, content in (("futures.tickers", [ticker]), ("futures.contract_stats", state)):
        messages.append(
            {"time": _START // 1000 + 12, "time_ms": _START + 12_000, "channel": channel,
             "event": "update", "result": content}
        )  # fmt: skip
    result = _import(tmp_path, "gate_channels.jsonl", messages)
    assert result.read == result.written
    marks = _rows(tmp_path, "prices_history").query("kind == 'mark'")
    assert marks["price_usd"].tolist() == [67001.5, 67001.0]


def test_raw_files_of_cryptofeed_are_read_without_the_lines_of_the_connection(tmp_path: Path) -> None:
    """cryptofeed (2.4, sample_data/DERIBIT.ws.1.0) has the address of the connection and the requests."""
    ticker = {"timestamp": _START, "instrument_name": "BTC-PERPETUAL", "mark_price": 67000.5,
              "index_price": 66990.0, "last_price": 67001.0, "open_interest": 1000.0, "state": "open",
              "current_funding": 0.0, "funding_8h": 0.0001, "best_bid_price": 67000.0,
              "best_ask_price": 67001.0, "best_bid_amount": 10.0, "best_ask_amount": 10.0, "stats": {},
              "settlement_price": 67000.0, "min_price": 66000.0, "max_price": 68000.0,
              "estimated_delivery_price": 66990.0}  # fmt: skip
    notification = {
        "jsonrpc": "2.0", "method": "subscription",
        "params": {"channel": "ticker.BTC-PERPETUAL.raw", "data": ticker},
    }  # fmt: skip
    change = _deribit("change", [["delete", 66999.5, 0.0]], [])
    path = tmp_path / "DERIBIT.ws.1.0"
    path.write_text(
        "wss://www.deribit.com/ws/api/v2 <-> 1772323199.424371\n"
        'wss://www.deribit.com/ws/api/v2 <- 1772323199.7: {"jsonrpc": "2.0", "id": 0, "params": {}}\n'
        f"1772323200.804855: {json.dumps(change)}\n"
        f"1772323200.904855: {json.dumps(notification)}\n"
    )
    import_files(None, path, tmp_path / "to")
    prices = _rows(tmp_path, "prices_history")
    assert prices[prices["kind"] == "mark"]["price_usd"].tolist() == [67000.5]
    assert _rows(tmp_path, "oi_history")["oi_usd"].tolist() == [1000.0]
