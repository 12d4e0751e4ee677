"""Facts of venues about funding, fees and contracts: each with the day it was true and where it can be read.

A value is here because a venue's own answer or documentation shows it; what nobody can read again is absent,
also where everybody knows it. Fees are those of an account without volume or discounts. Venues change all of
these: the newest row that is not later than the day in question counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pandas as pd

__all__ = ["FACTS", "VenueFact", "fact_value"]


class VenueFact(NamedTuple):
    """One fact.

    Attributes
    ----------
    exchange
        The venue's slug.
    symbol
        The symbol that it is about; empty: all of the venue's.
    fact
        ``interval_hours``, ``funding_cap_bps`` and ``funding_floor_bps`` (of one interval's rate),
        ``maker_fee_bps``, ``taker_fee_bps`` (of futures), ``option_taker_fee_bps``, ``option_fee_cap``,
        ``contract_coin`` or ``contract_usd`` (what a linear or an inverse contract is of), ``multiplier``
        (coins that one unit of the symbol stands for).
    value, unit
        The figure.
    as_of
        The day on which it was recorded or documented.
    nature
        ``recorded``: an answer of the venue, kept by somebody. ``sample``: an answer that a client's source
        quotes. ``documentation``: a statement of the venue's documentation.
    source
        Request, and where the answer can be read.
    """

    exchange: str
    symbol: str
    fact: str
    value: float
    unit: str
    as_of: str
    nature: str
    source: str


_UNITS = {
    "interval_hours": "h",
    "funding_cap_bps": "bps per interval",
    "funding_floor_bps": "bps per interval",
    "maker_fee_bps": "bps",
    "taker_fee_bps": "bps",
    "option_taker_fee_bps": "bps of the underlying",
    "option_fee_cap": "fraction of the option's price",
    "contract_coin": "coin",
    "contract_usd": "USD",
    "multiplier": "coin",
}
_CRYPTOFEED = "bmoscon/cryptofeed, sample_data"
_NAUTILUS = "nautechsystems/nautilus_trader, test_data, state of 2026-07-02"
_GOCRYPTO = "thrasher-corp/gocryptotrader, exchanges/binance/testdata/http.json"
_CCXT = "ccxt 4.5.90"
_BINANCE_INFO = f"GET /fapi/v1/fundingInfo in {_GOCRYPTO}"
_BYBIT = f"GET /v5/market/instruments-info?category=linear in {_CRYPTOFEED}/BYBIT.jsonl.zst"
_GATE_2023 = f"GET /api/v4/futures/usdt/contracts in {_CRYPTOFEED}/GATEIO_FUTURES.jsonl.zst"
_GATE_2026 = (
    "GET /api/v4/futures/usdt/contracts/BTC_USDT in maddymedia123-jpg/Quant-dashboard, tests/fixtures/"
    "gate_contract.json"
)
_OKX_2026 = (
    "GET /api/v5/public/funding-rate?instId=ANY in belyjelli/ai-rates, packages/adapters/__fixtures__/okx/"
    "funding-rate.json"
)
_OKX_2022 = f"GET /api/v5/public/instruments?instType=SWAP in {_CRYPTOFEED}/OKX.jsonl.zst"
_HUOBI = f"GET /linear-swap-api/v1/swap_contract_info in {_CRYPTOFEED}/HUOBI_SWAP.jsonl.zst"
_HYPERLIQUID = "hyperliquid.gitbook.io/hyperliquid-docs, Funding"
_BINANCE_CAPS = (  # symbol, cap in percent of one interval (the floor is its negative), interval in hours
    "GTC 3 8, LPT 2 4, TRB 2 4, PERP 2 4, HIFI 2 4, ARK 3 4, IMX 2 4, FLM 2 4, ENJ 3 8, BICO 3 8, "
    "OGN 3 8, BNT 2 8, DEFI 3 8, BTCDOM 3 8, QNT 3 8, ALGO 2 8, FLOW 3 8, 1000XEC 3 8, FXS 3 8, "
    "WOO 2 8, AR 2 8, ASTR 3 8, BAT 2 8, LRC 2 8, ENS 2 8"
)
_BYBIT_MULTIPLIERS = (
    "1000000BABYDOGE 1000000MOG 10000NEX 10000SATS 1000BONK 1000BTT 1000CAT 1000FLOKI 1000LUNC 1000NEIROCTO "
    "1000PEPE 1000RATS 1000TAG 1000TOSHI 1000TURBO 1000XEC"
)


def _of(
    exchange: str, symbol: str, as_of: str, nature: str, source: str, **values: float
) -> Iterator[VenueFact]:
    for fact, value in values.items():
        yield VenueFact(exchange, symbol, fact, float(value), _UNITS[fact], as_of, nature, source)


def _capped(
    exchange: str, symbol: str, cap_bps: float, interval: float, as_of: str, nature: str, source: str
) -> Iterator[VenueFact]:
    """Yield an interval, a cap, and the floor where it is the cap's negative."""
    values = {"interval_hours": interval, "funding_cap_bps": cap_bps, "funding_floor_bps": -cap_bps}
    yield from _of(exchange, symbol, as_of, nature, source, **values)


def _facts() -> Iterator[VenueFact]:
    yield from _of(
        "binance",
        "",
        "2026-08-21",
        "documentation",
        "fundingInfo of Binance's own connector: symbols that it does not list settle every 8 hours",
        interval_hours=8,
    )
    for row in _BINANCE_CAPS.split(", "):
        symbol, cap, interval = row.split()
        yield from _capped(
            "binance", symbol, 100 * float(cap), float(interval), "2025-08-07", "recorded", _BINANCE_INFO
        )
    inverse = f"GET /dapi/v1/exchangeInfo in {_GOCRYPTO}"
    yield from _of("binance", "BTC", "2025-08-07", "recorded", inverse, contract_usd=100)
    yield from _of("binance", "ETH", "2025-08-07", "recorded", inverse, contract_usd=10)
    for symbol in ("BTC", "ETH", "SOL"):
        yield from _capped("bybit", symbol, 50, 8, "2026-08-09", "recorded", _BYBIT)
    for symbol in _BYBIT_MULTIPLIERS.split():
        digits = symbol.removesuffix(symbol.lstrip("0123456789"))
        yield from _of("bybit", symbol, "2026-08-09", "recorded", _BYBIT, multiplier=float(digits))
    yield from _capped("okx", "BTC", 37.5, 8, "2026-09-11", "recorded", _OKX_2026)
    yield from _capped("okx", "ETH", 75, 8, "2026-09-11", "recorded", _OKX_2026)
    yield from _capped("okx", "CHIP", 100, 4, "2026-09-11", "recorded", _OKX_2026)
    yield from _of("okx", "BTC", "2022-05-13", "recorded", _OKX_2022, contract_coin=0.01)
    yield from _of("okx", "ETH", "2022-05-13", "recorded", _OKX_2022, contract_coin=0.1)
    yield from _of("gateio", "", "2023-05-24", "recorded", _GATE_2023, taker_fee_bps=7.5)
    yield from _of(
        "gateio", "BTC", "2023-05-24", "recorded", _GATE_2023, maker_fee_bps=-1.52, interval_hours=8
    )
    yield from _of(
        "gateio", "ETH", "2023-05-24", "recorded", _GATE_2023, maker_fee_bps=-1.368, interval_hours=8
    )
    yield from _capped("gateio", "BTC", 30, 8, "2026-09-10", "recorded", _GATE_2026)
    yield from _of(
        "gateio",
        "BTC",
        "2026-09-10",
        "recorded",
        _GATE_2026,
        taker_fee_bps=7.5,
        maker_fee_bps=-1,
        contract_coin=0.0001,
    )
    yield from _of(
        "deribit",
        "BTC",
        "2024-06-28",
        "recorded",
        f"GET public/get_instruments, BTC-PERPETUAL, in {_NAUTILUS}; its newest instrument is of that day",
        taker_fee_bps=5,
        maker_fee_bps=0,
    )
    yield from _of(
        "deribit",
        "BTC",
        "2022-12-22",
        "documentation",
        "docs.deribit.com, public/get_instrument: BTC-13JAN23-16000-P, made on that day",
        option_taker_fee_bps=3,
    )
    yield from _of(
        "deribit",
        "ETH",
        "2026-08-19",
        "sample",
        f"public/get_instruments quoted in {_CCXT}, deribit.py: ETH-25JUN27-5500-P, made on that day",
        option_taker_fee_bps=3,
    )
    for symbol in ("BTC", "ETH"):
        yield from _of(
            "deribit",
            symbol,
            "2025-11-01",
            "documentation",
            "support.deribit.com/hc/en-us/articles/25944746248989-Fees: never above 12.5 % of the option's "
            "price; the day is that of the fee levels which the page came to describe",
            option_fee_cap=0.125,
        )
    yield from _of(
        "lighter",
        "ETH",
        "2026-05-05",
        "recorded",
        f"GET /api/v1/orderBookDetails in {_NAUTILUS}: fees of a standard account",
        taker_fee_bps=0,
        maker_fee_bps=0,
    )
    kraken = f"GET /derivatives/api/v3/instruments, maxRelativeFundingRate, in {_NAUTILUS}"
    for symbol in ("BTC", "ETH"):
        yield from _of(
            "kraken", symbol, "2026-07-02", "recorded", kraken, funding_cap_bps=25, interval_hours=1
        )
    derive = f"public/get_all_instruments quoted in {_CCXT}, derive.py fetch_markets"
    yield from _capped("derive", "ZEC", 4.56621005, 1, "2026-06-04", "sample", derive)
    yield from _of("derive", "ZEC", "2026-06-04", "sample", derive, taker_fee_bps=3, maker_fee_bps=1)
    yield from _capped(
        "bitget",
        "BTC",
        30,
        8,
        "2025-10-28",
        "sample",
        f"GET /api/v2/mix/market/current-fund-rate quoted in {_CCXT}, bitget.py fetch_funding_rates",
    )
    yield from _capped(
        "kucoin",
        "BTC",
        30,
        8,
        "2026-09-13",
        "sample",
        f"GET /api/ua/v1/market/funding-rate quoted in {_CCXT}, kucoin.py fetch_funding_rates",
    )
    yield from _capped(
        "aster",
        "INJ",
        300,
        8,
        "2025-08-26",
        "sample",
        f"GET /fapi/v1/fundingInfo quoted in {_CCXT}, aster.py fetch_funding_intervals",
    )
    yield from _of("huobi", "BTC", "2022-02-19", "recorded", _HUOBI, contract_coin=0.001)
    yield from _of("huobi", "ETH", "2022-02-19", "recorded", _HUOBI, contract_coin=0.01)
    yield from _of(
        "hyperliquid",
        "",
        "2023-05-23",
        "recorded",
        'POST /info {"type": "fundingHistory"} in hyperliquid-dex/hyperliquid-python-sdk, tests/cassettes',
        interval_hours=8,
    )
    yield from _of(
        "hyperliquid", "", "2026-04-14", "documentation", _HYPERLIQUID, interval_hours=1, funding_cap_bps=400
    )
    yield from _of(
        "hyperliquid",
        "kPEPE",
        "2026-04-14",
        "documentation",
        "hyperliquid.gitbook.io/hyperliquid-docs: a k before a coin's name stands for 1,000",
        multiplier=1000,
    )
    yield from _of(
        "dydx",
        "",
        "2026-03-04",
        "documentation",
        "dydxprotocol/v4-chain, indexer swagger: nextFundingRate and historicalFunding are hourly",
        interval_hours=1,
    )


FACTS: tuple[VenueFact, ...] = tuple(_facts())
"""Every fact, in the order of venues."""


@cache
def fact_value(exchange: str, fact: str, symbol: str = "", day: str = "9999-12-31") -> float | None:
    """Return the newest value of a fact that was true on a day, of the symbol before that of the venue."""
    rows = [
        row
        for row in FACTS
        if row[0] == exchange and row.fact == fact and row.symbol in ("", symbol) and row.as_of <= day
    ]
    rows = [row for row in rows if row.symbol] or rows
    return max(rows, key=lambda row: row.as_of).value if rows else None


def frame() -> pd.DataFrame:
    """Return all facts as a table."""
    return pd.DataFrame(FACTS, columns=list(VenueFact._fields))
