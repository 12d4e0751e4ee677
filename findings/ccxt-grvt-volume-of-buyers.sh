#!/usr/bin/env bash
# ccxt 4.5.90 gives as GRVT's volume of 24 hours that of taker buys alone; taker sells have their own field.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ccxt==4.5.90
"$folder/venv/bin/python" - <<'PY'
import sys

import ccxt

row = {  # the sample in ccxt's own comment
    "event_time": "1764774730025055205", "instrument": "BTC_USDT_Perp", "last_price": "92683.0",
    "buy_volume_24h_q": "266955739.1606", "sell_volume_24h_q": "268170211.7109",
}
found = ccxt.grvt().parse_ticker(row)["quoteVolume"]
both = float(row["buy_volume_24h_q"]) + float(row["sell_volume_24h_q"])
print("ccxt", ccxt.__version__, "quoteVolume:", found)
print("taker buys and sells:", both)
print("seen: 266955739.1606, half of 535125950.8715")
sys.exit(0 if found == 266955739.1606 else 1)
PY
