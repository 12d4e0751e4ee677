"""Each declared layout with its sample: values computed by hand, imported in every order, and served."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Unclear
from derivdata.sources.archive.importing.declared_layouts import Layout, layouts, listing
from tests.archive.rates import EVER

# Of each sample: table, and cells of its first row in the order of the table, worked out by hand.
EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    "binance REST fundingRate": {
        "funding_settlements": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0,
            "interval_hours": 8.0,
        }
    },
    "binance REST openInterestHist": {"oi_history": {"symbol": "BTC", "oi_usd": 6041490500.0}},
    # The rows are in the order of kinds in the table: accounts, top_accounts, top_positions.
    "binance ratios of accounts and positions with the endpoint's name": {
        "positioning_history": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00Z", "kind": "accounts",
            "long_share": 0.6, "short_share": 0.4, "long_short_ratio": 1.5,
        }
    },
    "binance web export of funding rates": {
        "funding_settlements": {"time": "2025-06-18T08:00Z", "rate_bps_8h": -0.1752, "interval_hours": 8.0}
    },
    "binance EOHSummary": {
        "options_snapshot": {
            "symbol": "BTC", "time": "2023-10-20T07:00Z", "expiry": "2023-10-27T08:00Z", "strike": 33000.0,
            "side": "call", "iv": 0.4955, "mark_usd": 57.5, "open_interest": 12.5,
        }
    },
    # 10 contracts of 100 USD; 1,000 USD at 30,400 are 0.0328947 coins.
    "binance liquidationSnapshot": {
        "liquidations_fills": {"side": "long", "value_usd": 1000.0, "quantity": 1000.0 / 30400.0}
    },
    # 2 of 2.5 coins were filled at 2,000.5.
    "binance collected forceOrder stream": {
        "liquidations_fills": {
            "symbol": "ETH", "side": "long", "time": "2026-03-01T00:00:00.007Z", "quantity": 2.0,
            "value_usd": 4001.0,
        }
    },
    # 5,200.5 coins at 67,000.5 USD.
    "bitfinex status of derivatives": {
        "funding_history": {
            "symbol": "BTC", "exchange": "bitfinex", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0,
        },
        "prices_history": {"kind": "mark", "price_usd": 67000.5},
        "oi_history": {"symbol": "BTC", "oi_usd": 348436100.25},
    },
    # 0.5 coins at 67,000; Buy names the position.
    "bybit liquidation stream": {
        "liquidations_fills": {
            "symbol": "BTC", "side": "long", "time": "2026-03-01T00:00:00.005Z", "quantity": 0.5,
            "value_usd": 33500.0,
        }
    },
    "bybit publicTrade of options": {
        "options_trades": {
            "symbol": "BTC", "exchange": "bybit", "time": "2026-03-01T00:00:00.005Z", "strike": 70000.0,
            "side": "call", "taker_side": "buy", "execution": "book", "size": 0.5, "price_usd": 7400.0,
            "iv": 0.525, "index_price_usd": 67000.5,
        }
    },
    "bybit kline_for_metatrader4": {
        "prices_history": {
            "symbol": "BTC", "exchange": "bybit", "time": "2026-03-01T00:00Z", "kind": "last",
            "price_usd": 67000.5, "resolution": "15m",
        }
    },
    "kucoin mark and index of the instrument stream": {
        "prices_history": {
            "symbol": "BTC", "exchange": "kucoin", "time": "2026-03-01T00:00Z", "kind": "index",
            "price_usd": 66999.5,
        }
    },
    "coingecko derivatives of one exchange": {
        "oi_history": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00Z", "oi_usd": 6041490500.5,
        },
        "prices_history": {"symbol": "BTC", "kind": "index", "price_usd": 67010.5},
    },
    "okx open-interest-volume": {
        "oi_history": {
            "symbol": "BTC", "exchange": "okx", "time": "2026-03-01T00:00Z", "oi_usd": 2713028741.5,
        }
    },
    # The date has the day first, and options expire at 12:00.
    "delta tickers of options": {
        "options_snapshot": {
            "symbol": "BTC", "exchange": "delta", "time": "2026-03-01T00:00Z",
            "expiry": "2026-03-27T12:00Z", "strike": 70000.0, "side": "call", "iv": 0.525,
            "mark_usd": 1200.5, "bid_usd": 1190.0, "index_price_usd": 67000.5, "open_interest": 12.5,
        }
    },
    "deribit deribit_volatility_index channel": {
        "volatility_index_published": {
            "symbol": "BTC", "exchange": "deribit", "time": "2026-03-01T00:00Z", "index_pct": 52.1,
        }
    },
    # A long position of 0.5 coins was taken over at 67,000.
    "bitfinex liquidations": {
        "liquidations_fills": {
            "symbol": "BTC", "side": "long", "time": "2026-03-01T00:00Z", "quantity": 0.5,
            "fill_price_usd": 67000.0, "value_usd": 33500.0,
        }
    },
    # The USD of bids and asks within 0.2 % of the middle price, 20 bps.
    "binance bookDepth": {
        "orderbook_depth_history": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00:10Z", "depth_bps": 20.0,
            "bid_depth_usd": 33000000.5, "ask_depth_usd": 34500000.5,
        }
    },
    "deribit DVOL with the currency": {
        "volatility_index_published": {"symbol": "ETH", "time": "2026-03-01T00:00Z", "index_pct": 62.1}
    },
    # 25,000.5 coins at 67,000.5; the rate of an hour is an eighth of that of 8 hours.
    "hyperliquid metaAndAssetCtxs with names": {
        "prices_history": {
            "symbol": "BTC", "exchange": "hyperliquid", "time": "2026-03-01T00:00Z", "kind": "index",
            "price_usd": 66999.5,
        },
        "funding_history": {"symbol": "BTC", "rate_bps_8h": 1.0},
        "oi_history": {"symbol": "BTC", "oi_usd": 25000.5 * 67000.5},
    },
    "defillama totalDataChart of a protocol": {
        "volume_exchange_totals": {
            "exchange": "hyperliquid", "time": "2026-03-01T00:00Z", "total_volume_usd": 9000000000.5,
        }
    },
    "candlefeed get_funding_rates": {
        "funding_settlements": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0}
    },
    "candlefeed get_open_interest": {
        "oi_history": {"symbol": "BTC", "exchange": "okx", "oi_usd": 2010033500.5}
    },
    "candlefeed get_liquidations": {
        "liquidations_fills": {"exchange": "bybit", "side": "long", "value_usd": 33500.0}
    },
    "ccxt fetch_funding_rate_history": {
        "funding_settlements": {"time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0, "interval_hours": 8.0}
    },
    "ccxt fetch_funding_rates": {
        "funding_history": {"symbol": "BTC", "exchange": "bybit", "rate_bps_8h": 1.0}
    },
    "ccxt fetch_open_interest_history": {"oi_history": {"oi_usd": 6041490500.0}},
    "ccxt fetch_liquidations": {
        "liquidations_fills": {"side": "long", "value_usd": 33500.0, "quantity": 0.5}
    },
    "ccxt fetch_option_chain": {
        "options_snapshot": {
            "symbol": "BTC", "time": "2026-03-01T00:00:00.007Z", "expiry": "2026-03-27T08:00Z",
            "strike": 70000.0, "side": "call", "iv": 0.525, "bid_coin": 0.031,
        }
    },
    # The order sold, so that it closed a long.
    "coinglass liquidation/order": {
        "liquidations_fills": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00:00.123Z", "side": "long",
            "fill_price_usd": 67000.0, "value_usd": 33500.0,
        }
    },
    # 0.1 coins, of which the order sold a long position.
    "htx liquidation orders": {
        "liquidations_fills": {
            "symbol": "BTC", "exchange": "huobi", "time": "2026-03-01T00:00Z", "side": "long",
            "filled_quantity": 0.1, "value_usd": 6700.0,
        }
    },
    "okx funding rates of okxr": {
        "funding_settlements": {
            "symbol": "BTC", "exchange": "okx", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0,
        }
    },
    "coinmetrics market-funding-rates": {
        "funding_settlements": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0}
    },
    "coinmetrics market-openinterest": {
        "oi_history": {"symbol": "BTC", "exchange": "okx", "oi_usd": 2600000000.5}
    },
    "coinmetrics market-contract-prices": {
        "prices_history": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-07-13T15:43Z", "kind": "index",
            "price_usd": 62625.57543478,
        }
    },
    "coinmetrics market-greeks": {
        "options_snapshot": {
            "symbol": "BTC", "exchange": "deribit", "expiry": "2026-03-27T08:00Z", "strike": 100000.0,
            "side": "call", "delta": 0.0525, "gamma": 0.00001, "vega": 12.5, "theta": -40.25, "rho": 1.5,
        }
    },
    "coinapi metrics of prices": {
        "prices_history": {
            "symbol": "BTC", "exchange": "binance", "time": "2023-06-23T12:38:48.014Z", "kind": "index",
            "price_usd": 30027.74,
        }
    },
    # The second list is the earlier one: -0.00001 an hour is -0.8 bps in 8 hours.
    "aevo funding-history": {
        "funding_settlements": {
            "symbol": "ETH", "exchange": "aevo", "time": "2026-03-01T00:00Z", "rate_bps_8h": -0.8,
            "interval_hours": 1.0,
        },
        "prices_history": {"symbol": "ETH", "kind": "mark", "price_usd": 1901.25},
    },
    "coinmetrics market-liquidations": {"liquidations_fills": {"side": "short", "value_usd": 33500.0}},
    "cryptodatadownload perpetual OHLCV": {
        "prices_history": {"time": "2026-03-01T00:00Z", "price_usd": 67000.25, "kind": "last"}
    },
    # The last Friday of November 2026 is the 27th; 16:00 in London is 16:00 UTC in winter.
    "databento statistics": {
        # 21,345 contracts of 5 coins at 91,250.
        "futures_history": {
            "instrument_name": "BTCX6", "expiry": "2026-11-27T16:00Z", "price_usd": 91250.0,
            "oi_usd": 9738656250.0,
        }
    },
    "databento ohlcv": {"futures_history": {"symbol": "BTC", "exchange": "cme", "price_usd": 91250.0}},
    "freqtrade funding_rate": {
        "funding_settlements": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0}
    },
    "freqtrade funding_rate as candles": {
        "funding_settlements": {"symbol": "BTC", "exchange": "okx", "rate_bps_8h": 1.0}
    },
    "freqtrade mark and futures candles": {
        "prices_history": {"kind": "mark", "price_usd": 67000.5, "resolution": "8h"}
    },
    "hyperliquid-data funding": {
        "funding_settlements": {"exchange": "hyperliquid", "rate_bps_8h": 1.0, "interval_hours": 1.0}
    },
    "tardis options_chain": {
        "options_snapshot": {
            "symbol": "BTC", "exchange": "deribit", "expiry": "2020-06-09T08:00Z", "strike": 9875.0,
            "side": "put", "iv": 0.6289, "bid_coin": 0.0165, "delta": -0.61,
        }
    },
    "binance fundingRate": {
        "funding_settlements": {
            "symbol": "BTC", "time": "2026-01-01T00:00Z", "rate_bps_8h": 1.0, "interval_hours": 8.0
        }
    },
    # 5,578,700 contracts of 100 USD, five minutes after the label; 3 longs to a short are 75 %.
    "binance metrics of coin-margined contracts": {
        "oi_history": {"symbol": "BTC", "time": "2023-06-25T00:05Z", "oi_usd": 557870000.0},
        "positioning_history": {"kind": "accounts", "long_share": 0.75},
    },
    "binance metrics": {
        "oi_history": {"symbol": "ETH", "time": "2024-01-05T00:05Z", "oi_usd": 2250000000.0},
        "positioning_history": {"kind": "accounts", "long_short_ratio": 3.0, "short_share": 0.25},
    },
    "binance markPriceKlines": {
        "prices_history": {"kind": "mark", "time": "2024-01-01T00:00Z", "price_usd": 42000.5}
    },
    "binance indexPriceKlines": {"prices_history": {"kind": "index", "price_usd": 42000.5}},
    "binance klines of USD-margined perpetual contracts": {
        "prices_history": {"symbol": "BTC", "kind": "last", "price_usd": 42000.5, "resolution": "1h"},
        "volume_taker": {"buy_usd": 168000.0, "sell_usd": 252000.0},
    },
    "binance klines of coin-margined perpetual contracts": {
        "prices_history": {"symbol": "BTC", "kind": "last", "price_usd": 42000.5}
    },
    # The last Friday of March 2024 is the 29th.
    "binance klines of dated futures": {
        "futures_history": {"symbol": "BTC", "expiry": "2024-03-29T08:00Z", "price_usd": 42000.5}
    },
    # One second of the hour that ends at 01:00.
    "binance BVOLIndex": {
        "volatility_index_published": {"symbol": "BTC", "time": "2026-10-01T01:00Z", "index_pct": 37.2172}
    },
    "bybit spot_index": {
        "prices_history": {"symbol": "BTC", "time": "2019-10-01T00:00Z", "kind": "index", "price_usd": 8300.5}
    },
    "ccxt fetch_long_short_ratio_history": {
        "positioning_history": {"kind": "accounts", "long_share": 0.6, "long_short_ratio": 1.5}
    },
    "coinalyze open-interest-history": {"oi_history": {"exchange": "binance", "oi_usd": 6041490500.5}},
    "coinalyze liquidation-history in USD": {
        "liquidations_history": {"exchange": "binance", "long_usd": 33500.5, "short_usd": 1900.25}
    },
    "coinalyze long-short-ratio-history": {
        "positioning_history": {"kind": "accounts", "long_share": 0.6, "long_short_ratio": 1.5}
    },
    "coinalyze ohlcv-history": {
        "prices_history": {"exchange": "binance", "kind": "last", "price_usd": 67000.5}
    },
    "cryptofeed liquidations": {
        "liquidations_fills": {"symbol": "BTC", "exchange": "binance", "side": "long", "value_usd": 33500.0}
    },
    # 0.8375 USD an hour of a coin at 67,000 USD are 0.125 bps an hour.
    "drift fundingRates": {
        "funding_settlements": {"exchange": "drift", "rate_bps_8h": 1.0, "interval_hours": 1.0}
    },
    "coingecko derivatives": {
        "oi_history": {"symbol": "BTC", "exchange": "binance", "oi_usd": 6041490500.5},
        "prices_history": {"kind": "index", "price_usd": 67010.5},
    },
    "coinglass open-interest/history": {"oi_history": {"exchange": "okx", "oi_usd": 2010033500.5}},
    "coinglass global-long-short-account-ratio/history": {
        "positioning_history": {"kind": "accounts", "long_share": 0.75, "long_short_ratio": 3.0}
    },
    "coinglass top-long-short-account-ratio/history": {
        "positioning_history": {"kind": "top_accounts", "long_share": 0.75}
    },
    "coinglass top-long-short-position-ratio/history": {
        "positioning_history": {"kind": "top_positions", "short_share": 0.25}
    },
    "coinglass taker-buy-sell-volume/history": {
        "volume_taker": {"buy_usd": 2000000.5, "sell_usd": 1000000.0}
    },
    "cryptohftdata mark_price": {
        "prices_history": {"exchange": "binance", "kind": "index", "price_usd": 67010.25}
    },
    "cryptohftdata open_interest": {
        "oi_history": {"symbol": "BTC", "exchange": "okx", "oi_usd": 2360916466.88}
    },
    # The order sold 2 ETH at 1,901.5: it closed a long of 3,803 USD.
    "cryptohftdata liquidations": {
        "liquidations_fills": {"symbol": "ETH", "exchange": "binance", "side": "long", "value_usd": 3803.0}
    },
    "deribit get_funding_rate_history": {
        "funding_settlements": {
            "symbol": "BTC", "exchange": "deribit", "rate_bps_8h": 1.0, "interval_hours": 1.0
        },
        "prices_history": {"kind": "index", "price_usd": 67000.5},
    },
    "deribit trades of options": {
        "options_trades": {
            "symbol": "BTC", "expiry": "2026-08-01T08:00Z", "strike": 63000.0, "side": "call",
            "taker_side": "buy", "size": 12.5, "price_coin": 0.0008, "iv": 0.1335,
        }
    },
    "deribit DVOL": {"volatility_index_published": {"symbol": "BTC", "index_pct": 50.1, "resolution": "1h"}},
    "deribit DVOL as lists": {"volatility_index_published": {"symbol": "BTC", "index_pct": 50.1}},
    "gate REST funding_rate": {
        "funding_settlements": {"symbol": "BTC", "exchange": "gateio", "rate_bps_8h": 1.0}
    },
    "gate REST funding_rate with the contract": {
        "funding_settlements": {"symbol": "BTC", "exchange": "gateio", "rate_bps_8h": 1.0}
    },
    "gate funding_applies": {
        "funding_settlements": {"symbol": "BTC", "exchange": "gateio", "rate_bps_8h": 1.0}
    },
    "gate mark_prices": {
        "prices_history": {"symbol": "ETH", "exchange": "gateio", "kind": "mark", "price_usd": 1900.5}
    },
    "htx funding": {"funding_settlements": {"symbol": "BTC", "exchange": "huobi", "rate_bps_8h": 1.0}},
    # 1,000.5 coins at the mark of 42,005.5.
    "hyperliquid asset_ctxs": {
        "oi_history": {"oi_usd": 42026502.75},
        "prices_history": {"kind": "index", "price_usd": 42010.0},
        "funding_history": {"exchange": "hyperliquid", "rate_bps_8h": 1.0},
    },
    # 25,000.5 coins at the mark of 67,000.
    "hyperliquid activeAssetCtx": {
        "oi_history": {"symbol": "BTC", "oi_usd": 1675033500.0},
        "prices_history": {"kind": "index", "price_usd": 66999.5},
        "funding_history": {"exchange": "hyperliquid", "rate_bps_8h": 1.0},
    },
    "hyperliquid-data candles": {
        "prices_history": {"exchange": "hyperliquid", "price_usd": 67000.5, "resolution": "1h"}
    },
    "kucoin fundingRates": {
        "funding_settlements": {"symbol": "BTC", "exchange": "kucoin", "rate_bps_8h": 1.0}
    },
    "lighter-data funding": {
        "funding_settlements": {"symbol": "ETH", "exchange": "lighter", "rate_bps_8h": 1.0}
    },
    "lighter-data raw funding": {
        "funding_settlements": {"symbol": "ETH", "exchange": "lighter", "rate_bps_8h": 1.0}
    },
    "okx fundingrates": {
        "funding_settlements": {
            "symbol": "BTC", "exchange": "okx", "time": "2023-12-31T16:00Z", "rate_bps_8h": 2.955843024083
        }
    },
    # The first row names the payment of 2024-03-04 00:00, which follows the one whose rate it states.
    "okx allswaprate of 2021 to 2025": {
        "funding_settlements": {"symbol": "BTC", "time": "2024-03-03T16:00Z", "rate_bps_8h": 2.0}
    },
    "okx REST candles of swaps": {
        "prices_history": {"symbol": "BTC", "kind": "last", "price_usd": 67000.5, "resolution": "1h"}
    },
    "okx candlesticks of swaps": {
        "prices_history": {"kind": "last", "price_usd": 67000.5, "resolution": "1m"}
    },
    # 30,000.5 coins at the mark of 67,000.
    "oxarchive open interest": {
        "oi_history": {"symbol": "BTC", "exchange": "hyperliquid", "oi_usd": 2010033500.0},
        "prices_history": {"kind": "index", "price_usd": 67010.5},
    },
    "oxarchive liquidations": {
        "liquidations_fills": {"side": "long", "value_usd": 33500.0, "quantity": 0.5}
    },
    # 2,800,476 contracts of 0.01 coins at 67,000.5; the next payments are 8 hours apart.
    "tardis derivative_ticker": {
        "prices_history": {"kind": "index", "price_usd": 67002.0},
        "funding_history": {"symbol": "BTC", "exchange": "okx", "rate_bps_8h": 1.0},
        "oi_history": {"oi_usd": 1876332922.38},
    },
    "tardis derivative_ticker of tardis-machine": {
        "prices_history": {"kind": "index", "price_usd": 67002.0},
        "funding_history": {"symbol": "BTC", "exchange": "okx", "rate_bps_8h": 1.0},
        "oi_history": {"oi_usd": 1876332922.38},
    },
    # The close is the price at the end, which is the label.
    "bitmex trade/bucketed": {
        "prices_history": {"symbol": "BTC", "kind": "last", "time": "2026-03-01T01:00Z", "price_usd": 67050.5}
    },
    # 6.5e-06 an hour is 0.52 bps per 8 hours.
    "coindesk futures historical funding-rate with the interval": {
        "funding_history": {"symbol": "BTC", "exchange": "dydx", "rate_bps_8h": 0.52}
    },
    "coindesk futures historical OHLCV": {
        "prices_history": {"symbol": "BTC", "exchange": "binance", "kind": "last", "price_usd": 67430.1}
    },
    "tardis liquidations": {
        "liquidations_fills": {"symbol": "BTC", "exchange": "bitmex", "side": "short", "value_usd": 1000.0}
    },
    "tradingview chart of a perpetual contract": {
        "prices_history": {"symbol": "BTC", "exchange": "binance", "kind": "last", "price_usd": 67000.5}
    },
    "tradingview chart of a funding rate": {
        "funding_history": {"symbol": "BTC", "exchange": "binance", "rate_bps_8h": 1.0, "resolution": "1h"}
    },
    # 1.5 long accounts for each short account are 60 % of all accounts.
    "tradingview chart of a long/short ratio": {
        "positioning_history": {
            "symbol": "ETH", "exchange": "binance", "kind": "accounts", "long_short_ratio": 1.5,
            "long_share": 0.6,
        }
    },
    "tradingview tvdatafeed file of a perpetual contract": {
        "prices_history": {"symbol": "BTC", "exchange": "binance", "kind": "last", "price_usd": 67000.5}
    },
    # The close of the bar of 2026-03-01 is known at its end.
    "tradingview chart of closes of Deribit's volatility index": {
        "volatility_index_published": {
            "symbol": "BTC", "time": "2026-03-02T00:00Z", "index_pct": 64.5, "resolution": "1d",
        }
    },
    # 0.00125 % an hour are 1 bp in 8 hours; 25,000.5 coins at the mark of 67,001.
    "allium hyperliquid.raw.perpetual_market_asset_contexts": {
        "funding_history": {"symbol": "BTC", "exchange": "hyperliquid", "rate_bps_8h": 1.0},
        "oi_history": {"oi_usd": 1675058500.5},
        "prices_history": {"kind": "index", "price_usd": 67000.0},
    },
    "coinex futures liquidation-history": {
        "liquidations_fills": {
            "symbol": "BTC", "exchange": "coinex", "side": "long", "quantity": 0.5, "value_usd": 33500.0,
        }
    },
    "amberdata futures funding-rates historical": {
        "funding_settlements": {
            "symbol": "BTC", "exchange": "binance", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0,
        }
    },
    "coinglass open-interest/exchange-history-chart": {
        "oi_history": {"symbol": "BTC", "exchange": "binance", "oi_usd": 8000000000.5}
    },
    "tradingview chart of Deribit's volatility index": {
        "volatility_index_published": {"symbol": "ETH", "exchange": "deribit", "index_pct": 64.5}
    },
    "binance fundingRate without a mark price": {
        "funding_settlements": {"exchange": "binance", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0}
    },
    # A duration of 8 hours since 2000-01-01: the fraction 0.0001 is 1 bp per 8 hours.
    "bitmex funding": {
        "funding_settlements": {"exchange": "bitmex", "rate_bps_8h": 1.0, "interval_hours": 8.0}
    },
    # 27 March 2026 08:00 UTC is the time of Deribit's expiries.
    "coinmetrics market-implied-volatility": {
        "options_snapshot": {
            "symbol": "BTC", "exchange": "deribit", "expiry": "2026-03-27T08:00Z", "strike": 100000.0,
            "side": "call", "iv": 0.5309,
        }
    },
    "iturri bars": {
        "prices_history": {"symbol": "BTC", "exchange": "binance", "kind": "last", "price_usd": 67000.5}
    },
    "quantconnect margin_interest": {
        "funding_settlements": {
            "symbol": "ADA", "exchange": "binance", "time": "2026-03-01T00:00Z", "rate_bps_8h": 1.0
        }
    },
    "quantconnect hour and daily trades": {
        "prices_history": {"symbol": "BTC", "kind": "last", "price_usd": 67000.5, "resolution": "1h"}
    },
    "velo futures": {
        "oi_history": {"symbol": "BTC", "exchange": "binance", "oi_usd": 6041490500.5},
        "funding_history": {"rate_bps_8h": 1.0},
        "volume_taker": {"buy_usd": 2000000.0, "sell_usd": 1000000.0},
        "prices_history": {"kind": "last", "price_usd": 67000.5},
    },
}  # fmt: skip
SAMPLES = [layout for layout in layouts() if layout.sample]


def _sample(folder: Path, layout: Layout, name: str = "") -> Path:
    path = folder / (name or layout.sample_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = layout.sample.lstrip("\n")
    if path.suffix == ".parquet":
        pd.read_csv(io.StringIO(text), dtype={"price": str, "quantity": str}).to_parquet(path)
    else:
        path.write_text(text)
    return path


def _stated(layout: Layout) -> dict[str, Any]:
    """Return the options of a sample whose columns are those of many files, or whose times are local."""
    source = {"source": layout.source} if layout.named_only else {}
    zone = {"tz": "UTC"} if layout.is_local else {}
    return {**source, **zone}


def _table(layout: Layout) -> str | None:
    return layout.reads[0].table if layout.named_only else None


def test_every_sample_has_an_expectation() -> None:
    assert {layout.label for layout in SAMPLES} == {*EXPECTED}
    rows = listing()
    assert len(rows) == len(layouts())
    assert not rows["signature"].eq("").any()


@pytest.mark.parametrize("layout", SAMPLES, ids=lambda layout: layout.label)
def test_a_sample_is_recognised_without_an_option(tmp_path: Path, layout: Layout) -> None:
    shown: list[str] = []
    counts = import_files(
        _table(layout),
        _sample(tmp_path, layout),
        tmp_path / "to",
        accept=["unit"],
        show=shown.append,
        **_stated(layout),
    )
    assert counts.written + counts.rejected == counts.read
    archive = open_archive(tmp_path / "to", create=False)
    assert archive.tables() == {*EXPECTED[layout.label]}
    for table, cells in EXPECTED[layout.label].items():
        row = archive.read(table, *EVER).iloc[0]
        for name, value in cells.items():
            if name in ("rate_bps_8h", "interval_hours") and pd.isna(row.get("interval_hours", 0.0)):
                # The sample has too few payments to confirm their interval: it pays what 8 hours would.
                assert row["rate_native"] == pytest.approx(cells["rate_bps_8h"] / 1e4, rel=1e-12)
                continue
            if name in ("time", "expiry"):
                assert row[name] == pd.Timestamp(value), name
            else:
                assert row[name] == (
                    pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
                ), name
        assert any(f"table     {table}:" in text and layout.label in text for text in shown)


@pytest.mark.parametrize("layout", SAMPLES, ids=lambda layout: layout.label)
def test_a_sample_is_written_once_in_any_order(tmp_path: Path, layout: Layout) -> None:
    path = _sample(tmp_path, layout)
    first = import_files(_table(layout), path, tmp_path / "to", accept=["unit"], **_stated(layout))
    again = import_files(_table(layout), [path, path], tmp_path / "to", accept=["unit"], **_stated(layout))
    assert again.written == 0
    assert again.present == 2 * first.written
    for table in EXPECTED[layout.label]:
        left = open_archive(tmp_path / "to").read(table, *EVER)
        made = [name for name in ("order_id", "fill_id") if name in left]
        for order in ("reversed", "twice"):
            turned = _sample(tmp_path / order, layout)
            _write_in_order(turned, layout, is_twice=order == "twice")
            other = tmp_path / f"other-{order}-{table}"
            import_files(_table(layout), turned, other, accept=["unit"], **_stated(layout))
            right = open_archive(other).read(table, *EVER)
            pd.testing.assert_frame_equal(
                left.drop(columns=made), right.drop(columns=made).drop_duplicates(ignore_index=True)
            )


def _write_in_order(path: Path, layout: Layout, *, is_twice: bool) -> None:
    """Write the rows of a sample in reverse, or in reverse and then in order."""
    text = layout.sample.strip()
    if path.suffix == ".parquet":
        frame = pd.read_parquet(path)
        pd.concat([frame[::-1], frame] if is_twice else [frame[::-1]], ignore_index=True).to_parquet(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(_turned(json.loads(text), is_twice=is_twice)))
    else:
        head, *lines = text.splitlines()
        if head.startswith("http"):
            head, *lines = lines
        has_header = (head[:1].isalpha() or head[:1] == '"') and path.suffix != ".jsonl"
        header = [head] if has_header else []
        rows = lines if has_header else [head, *lines]
        path.write_text("\n".join([*header, *rows[::-1], *(rows if is_twice else [])]) + "\n")


def _turned(value: Any, *, is_twice: bool) -> Any:
    """Return a body with its lists of records reversed; an object by market has each market once."""
    if isinstance(value, list) and value and all(isinstance(item, dict | list) for item in value):
        rows = [_turned(item, is_twice=False) for item in value[::-1]]
        return [*rows, *value] if is_twice else rows
    if isinstance(value, dict):
        items = {name: _turned(item, is_twice=is_twice) for name, item in value.items()}
        is_by_market = all(isinstance(item, dict) for item in value.values())
        return dict(reversed(items.items())) if is_by_market else items
    return value


@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")
@pytest.mark.parametrize("layout", SAMPLES, ids=lambda layout: layout.label)
def test_rows_of_each_sample_are_served(tmp_path: Path, layout: Layout) -> None:
    import_files(
        _table(layout), _sample(tmp_path, layout), tmp_path / "to", accept=["unit"], **_stated(layout)
    )
    for table in EXPECTED[layout.label]:
        # The service adds these up from fills, events and the histories of symbols alone.
        if table in ("liquidations_history", "volume_exchange_totals"):
            continue
        rows = open_archive(tmp_path / "to").read(table, *EVER)
        # A flow is known at the end of its hour.
        later = pd.Timedelta(2, "h") if table == "volume_taker" else pd.Timedelta(1, "min")
        dd.connect(str(tmp_path / "to"), now=rows["time"].max() + later)
        assert len(_served(table, rows)), table


def _served_flows(
    table: str, rows: pd.DataFrame, symbol: str, window: tuple[pd.Timestamp, pd.Timestamp]
) -> pd.DataFrame:
    """Fetch the rows of positions, flows, trades of options and published indices."""
    held = rows["resolution"].iloc[0] if "resolution" in rows else "raw"
    step = None if held == "raw" else held
    if table == "positioning_history":
        return dd.positioning.history(symbol, *window, kind=rows["kind"].iloc[0], resolution=step)
    if table == "volume_taker":
        return dd.volume.taker(symbol, *window, resolution=step)
    if table == "options_trades":
        return dd.options.trades(symbol, *window)
    return dd.volatility.index_published(symbol, *window)


def _served(table: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Fetch the rows of a table as a user does."""
    start = rows["time"].min().floor("D") - pd.Timedelta(1, "D")
    window = start, rows["time"].max().ceil("D") + pd.Timedelta(1, "D")
    symbol, venue = str(rows["symbol"].iloc[0]), str(rows["exchange"].iloc[0])
    if table == "orderbook_depth_history":
        return dd.orderbook.depth_history(symbol, venue, *window)
    if table == "options_snapshot":
        return dd.options.snapshot(symbol, venue)
    if table == "liquidations_fills":
        return dd.liquidations.events(since=start)
    if table == "funding_settlements":
        return dd.funding.settlements(symbol, *window)
    if table == "prices_history":
        return dd.prices.history(symbol, *window, kind=str(rows["kind"].iloc[0]), resolution="raw")
    if table in ("positioning_history", "volume_taker", "options_trades", "volatility_index_published"):
        return _served_flows(table, rows, symbol, window)
    family = {"funding_history": dd.funding, "oi_history": dd.oi, "futures_history": dd.futures}[table]
    return family.history(symbol, *window, resolution="raw")


CCXT_LIQUIDATION = {
    "info": {},
    "timestamp": 1772323200000,
    "datetime": "2026-03-01T00:00:00.000Z",
}
INVERSE = {
    # 1 contract of 100 USD at 11,326.9 is 0.00882854 BTC.
    "binance": ({"contracts": 1.0, "contractSize": 100.0, "price": 11326.9, "side": "sell",
                 "baseValue": 0.00882854, "quoteValue": 100.0}, "long", 100.0),
    # Gate's contract is 1 USD; ccxt multiplies these USD by the price.
    "gate": ({"contracts": 1000.0, "contractSize": 1.0, "price": 10000.0, "side": "buy",
              "baseValue": 1000.0, "quoteValue": 10000000.0}, "long", 1000.0),
}  # fmt: skip


@pytest.mark.parametrize("venue", sorted(INVERSE))
def test_liquidations_of_inverse_contracts_are_in_usd(tmp_path: Path, venue: str) -> None:
    row, side, usd = INVERSE[venue]
    path = tmp_path / f"{venue}-liquidations.json"
    path.write_text(json.dumps([{**CCXT_LIQUIDATION, "symbol": "BTC/USD:BTC", **row}]))
    import_files(None, path, tmp_path / "to")
    stored = open_archive(tmp_path / "to").read("liquidations_fills", *EVER).iloc[0]
    assert stored["side"] == side
    assert stored["value_usd"] == usd
    assert stored["quantity"] == pytest.approx(usd / row["price"], rel=1e-12)


def test_open_interest_in_coins_takes_its_price_from_the_archive(tmp_path: Path) -> None:
    row = {"symbol": "BTC/USDT:USDT", "openInterestAmount": 64757.5, "openInterestValue": None}
    path = tmp_path / "bybit-oi.json"
    path.write_text(json.dumps([{**CCXT_LIQUIDATION, **row}]))
    with pytest.raises(ArchiveError, match="import prices_history first"):
        import_files(None, path, tmp_path / "to")
    price = {"symbol": "BTC", "exchange": "bybit", "time": "2026-03-01T00:00Z", "kind": "mark"}
    prices = pd.DataFrame([{**price, "price_usd": 67000.0, "resolution": "raw"}])
    open_archive(tmp_path / "to").append("prices_history", prices)
    import_files(None, path, tmp_path / "to")
    # 64,757.5 coins of both sides at 67,000 USD.
    assert open_archive(tmp_path / "to").read("oi_history", *EVER)["oi_usd"].tolist() == [2169376250.0]


CANDLES = "timestamp,open,high,low,close\n1772323200000,{0},{0},{0},{1}\n"


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("binance-BTCUSDT-funding.csv", "funding_history"),
        ("binance-BTCUSDT-open_interest.csv", "oi_history"),
        ("BTCUSDT_oi.csv", "oi_history"),
        ("binance-ETH-USDT-volatility-index.csv", "volatility_index_published"),
    ],
)
def test_candles_of_something_else_are_not_prices(tmp_path: Path, name: str, table: str) -> None:
    path = tmp_path / name
    path.write_text(CANDLES.format(0.0046, 0.0041))
    if table == "volatility_index_published":
        path.write_text(CANDLES.format(50.5, 50.0).replace("timestamp", "date"))
    with pytest.raises(Unclear, match=f"--table {table}"):
        import_files(None, path, tmp_path / "to")
    assert not (tmp_path / "to" / "data").exists()


@pytest.mark.parametrize(
    "name", ["binance-ETHUSDT-premium.csv", "premiumIndexKlines/BTCUSDT/1h/BTCUSDT-1h-2026-03.csv"]
)
def test_a_premium_is_neither_a_price_nor_a_rate(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,"
    header += "taker_buy_quote_volume,ignore"
    path.write_text(f"{header}\n1772323200000,0.0001,0.0001,0.0001,0.0001,0,1772326799999,0,12,0,0,0\n")
    with pytest.raises(Unclear, match="which no table stores: omit the file"):
        import_files(None, path, tmp_path / "to")


def test_candles_are_of_the_price_at_their_label(tmp_path: Path) -> None:
    path = tmp_path / "binance-BTCUSDT-candles.csv"
    path.write_text(CANDLES.format(67000.5, 67100.0))
    import_files(None, path, tmp_path / "to")
    assert open_archive(tmp_path / "to").read("prices_history", *EVER)["price_usd"].tolist() == [67000.5]


@pytest.mark.parametrize(("symbol", "price"), [("BTC", 50.1), ("BTC", 0.0041), ("ETH", 0.0002)])
def test_a_rate_or_volatility_is_not_a_price(tmp_path: Path, symbol: str, price: float) -> None:
    path = tmp_path / f"binance-{symbol}USDT.csv"
    path.write_text(f"time,mark_price\n2026-03-01T00:00:00Z,{price}\n")
    with pytest.raises(ArchiveError, match="were never below"):
        import_files(None, path, tmp_path / "to")
    assert import_files(None, path, tmp_path / "to", accept=["unit"]).written == 1


def test_file_name_used_by_several_layouts_raises_a_question(tmp_path: Path) -> None:
    path = tmp_path / "BTC_USDT-202603.csv"
    path.write_text("1772323200,0.5\n1772323260,0.5\n1772323320,0.5\n")
    with pytest.raises(ArchiveError):
        import_files(None, path, tmp_path / "to")
    cg = tmp_path / "okx_BTCUSDT.json"
    cg.write_text('{"code": "0", "data": [{"time": 1772323200000, "open": "0.0046", "close": "0.0041"}]}')
    with pytest.raises(Unclear, match="--table oi_history or --table funding_history"):
        import_files(None, cg, tmp_path / "to", source="coinglass")
