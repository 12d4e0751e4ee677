#!/usr/bin/env bash
# ccxt 4.5.90 gives the side of a liquidation as the order's on htx, as the position's on gate, and not at all on bybit.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ccxt==4.5.90
"$folder/venv/bin/python" - <<'PY'
import sys

import ccxt

market = {
    "id": "BTC_USDT", "symbol": "BTC/USDT:USDT", "base": "BTC", "quote": "USDT", "settle": "USDT", "type": "swap", "swap": True,
    "spot": False, "future": False, "option": False, "contract": True, "linear": True, "inverse": False, "contractSize": 0.001,
}  # fmt: skip
rows = {  # each closed a short position
    "htx": {"contract_code": "BTC-USDT", "liquidation_time": "1781849094165", "side": "buy", "position_side": "short",
            "volume": "2", "amount": "0.002", "bankrupt_price": "62978.5", "trade_turnover": "125.957"},
    "gate": {"contract": "BTC_USDT", "left": 0, "size": -165, "fill_price": "28070", "order_price": "28225", "time": 1696736132},
    "bybit": {"symbol": "BTC_USDT", "side": "Buy", "execTime": "1672282722429", "execPrice": "1190.15", "execQty": "0.1"},
}  # fmt: skip
seen = {venue: getattr(ccxt, venue)().parse_liquidation(row, market).get("side") for venue, row in rows.items()}
for venue, side in seen.items():
    print("ccxt", ccxt.__version__, venue, "side of the liquidation of a short:", side)
print("seen: htx buy, gate sell (size is that of the position), bybit None")
sys.exit(0 if seen == {"htx": "buy", "gate": "sell", "bybit": None} else 1)
PY
