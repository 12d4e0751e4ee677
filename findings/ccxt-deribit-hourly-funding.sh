#!/usr/bin/env bash
# ccxt 4.5.90 gives as the hourly funding of Deribit the rate of the trailing 8 hours (interest_8h): the sum of a day's rows is about 8 times the payments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ccxt==4.5.90
"$folder/venv/bin/python" - <<'PY'
import sys

import ccxt

row = {  # the sample in ccxt's own comment; rows are an hour apart
    "timestamp": 1569891600000, "index_price": 8222.87, "prev_index_price": 8305.72,
    "interest_8h": -0.00009234260068476106, "interest_1h": -4.739622041017375e-7,
}  # fmt: skip
result = ccxt.deribit().parse_funding_rate(row)
print("ccxt", ccxt.__version__, "fundingRate:", result["fundingRate"], "interval:", result["interval"])
print("paid in the hour (interest_1h):", row["interest_1h"])
print("seen: -9.234260068476106e-05, interval 8h")
sys.exit(0 if result["fundingRate"] == row["interest_8h"] and result["interval"] == "8h" else 1)
PY
