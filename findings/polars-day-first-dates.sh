#!/usr/bin/env bash
# polars 2.1.0 reads 03/04/2026 as 3 April; the same column stays text once a date has its month first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q polars==2.1.0
"$folder/venv/bin/python" - <<'PY'
import io
import sys

import polars as pl

early = "date,rate\n03/01/2026,0.0001\n03/02/2026,0.0002\n"  # 1 and 2 March, of a month that began
whole = early + "03/27/2026,0.0003\n"
dates = [pl.read_csv(io.StringIO(text), try_parse_dates=True)["date"] for text in (early, whole)]
print("polars", pl.__version__, "two days of March:", dates[0].dtype, dates[0].to_list())
print("with 27 March:", dates[1].dtype, dates[1].to_list())
print("seen: Date 2026-01-03 and 2026-02-03; String")
is_as_seen = str(dates[0].to_list()[0]) == "2026-01-03" and dates[1].dtype == pl.String
sys.exit(0 if is_as_seen else 1)
PY
