#!/usr/bin/env bash
# pandas 3.1.1 writes JSON with ten decimals, so an hourly funding rate keeps about five digits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pandas==3.1.1
"$folder/venv/bin/python" - <<'PY'
import json
import sys

import pandas as pd

rate = 0.0000123456789  # of an hour, as dYdX and Hyperliquid publish them
frame = pd.DataFrame({"rate": [rate]})
[[written]] = json.loads(frame.to_json(orient="values"))
[[whole]] = json.loads(frame.to_json(orient="values", double_precision=15))
print("pandas", pd.__version__, "of", rate, "writes", written, "and with double_precision=15", whole)
print("seen: 1.23457e-05 and 1.23456789e-05")
sys.exit(0 if (written, whole) == (1.23457e-05, rate) else 1)
PY
