#!/usr/bin/env bash
# perp-md 0.5.3 divides GRVT's funding rate by 1,000,000; GRVT states percentage points, as typed-grvt 0.2.0 and ccxt 4.5.90 read it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q perp-md==0.5.3 typed-grvt==0.2.0 ccxt==4.5.90
"$folder/venv/bin/python" - <<'PY'
import pathlib
import sys

import ccxt
import typed_grvt
from perp_md.adapters.funding import _centibeeps_to_fraction

stated = "0.0037"  # BTC_USDT_Perp, 2025-12-03, per 8 hours
millionths = float(_centibeeps_to_fraction(stated))
row = {"instrument": "BTC_USDT_Perp", "funding_rate": stated, "funding_time": "1764777600000000000"}
percent = ccxt.grvt().parse_funding_rate_history(row)["fundingRate"]
schema = pathlib.Path(typed_grvt.__file__).with_name("schemas.py").read_text()
print("perp-md 0.5.3:", millionths, "is", millionths * 1e4, "bps")
print("ccxt 4.5.90:", percent, "is", percent * 1e4, "bps")
print("typed-grvt 0.2.0 says percentage points:", "percentage points" in schema)
print("seen: 3.7e-09 against 3.7e-05, and percentage points in the schema")
is_same = abs(millionths - 3.7e-9) < 1e-15 and abs(percent - 3.7e-5) < 1e-12 and "percentage points" in schema
sys.exit(0 if is_same else 1)
PY
