#!/usr/bin/env bash
# Two clients spell the hour of Extended's open interest differently: ccxt 4.5.90 sends PT1H, typed-extended 0.2.0 allows P1H and P1D alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ccxt==4.5.90 typed-extended==0.2.0
"$folder/venv/bin/python" - <<'PY'
import pathlib
import sys

import ccxt
import typed_extended

sent = []
exchange = ccxt.extended()
market = {"id": "BTC-USD", "symbol": "BTC/USDC:USDC", "contract": True}
exchange.load_markets = lambda *args, **kwargs: {}
exchange.market = lambda symbol: market
exchange.v1PublicGetInfoMarketOpenInterests = lambda params: sent.append(params) or {"status": "OK", "data": []}
exchange.fetch_open_interest_history("BTC/USDC:USDC", "1h", since=1777420800000, limit=1)
source = pathlib.Path(typed_extended.__file__).with_name("info") / "open_interests.py"
allowed = "Literal['P1H', 'P1D']" in source.read_text()
print("ccxt", ccxt.__version__, "sends interval", sent[0]["interval"])
print("typed-extended 0.2.0 allows P1H and P1D alone:", allowed)
print("seen: PT1H, True")
sys.exit(0 if sent[0]["interval"] == "PT1H" and allowed else 1)
PY
