#!/usr/bin/env bash
# ccxt 4.5.90 states liquidations of coin-margined contracts on bybit and gate with USD as baseValue, and USD times the price as quoteValue; binance is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ccxt==4.5.90
"$folder/venv/bin/python" - <<'PY'
import sys

import ccxt

market = {
    "id": "BTCUSD", "symbol": "BTC/USD:BTC", "base": "BTC", "quote": "USD", "settle": "BTC", "type": "swap", "swap": True,
    "spot": False, "future": False, "option": False, "contract": True, "linear": False, "inverse": True, "contractSize": 1.0,
}  # fmt: skip
size = {"binance": 100.0, "bybit": 1.0, "gate": 1.0}
rows = {  # 1,000 USD at 10,000 USD are 0.1 BTC
    "binance": {"symbol": "BTCUSD", "executedQty": "10", "avgPrice": "10000", "side": "SELL", "cumBase": "0.1", "updateTime": 1596542005050},
    "bybit": {"symbol": "BTCUSD", "execQty": "1000", "execPrice": "10000", "side": "Sell", "execTime": "1672282722429"},
    "gate": {"contract": "BTCUSD", "size": 1000, "left": 0, "fill_price": "10000", "time": 1696736132},
}  # fmt: skip
seen = {}
for venue, row in rows.items():
    result = getattr(ccxt, venue)().parse_liquidation(row, {**market, "contractSize": size[venue]})
    seen[venue] = (result["baseValue"], result["quoteValue"])
    print("ccxt", ccxt.__version__, venue, "baseValue, quoteValue:", *seen[venue])
print("right: 0.1 BTC, 1000 USD")
print("seen: binance 0.1 1000.0, bybit 1000.0 10000000.0, gate 1000.0 10000000.0")
expected = {"binance": (0.1, 1000.0), "bybit": (1000.0, 1e7), "gate": (1000.0, 1e7)}
sys.exit(0 if seen == expected else 1)
PY
