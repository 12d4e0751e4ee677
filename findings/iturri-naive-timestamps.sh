#!/usr/bin/env bash
# iturri 0.2.4 returns frames with timestamps without zone, of instants that are UTC; a Parquet file of one keeps them so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q iturri==0.2.4 pandas==2.3.3
"$folder/venv/bin/python" - <<'PY'
import sys
from importlib.metadata import version

import iturri

frame = iturri._maybe_frame({"t": [1772323200], "rate": [0.0001]})
print("iturri", version("iturri"), "index:", frame.index[0], "zone:", frame.index.tz)
print("seen: 2026-03-01 00:00:00 zone: None")
sys.exit(0 if frame.index.tz is None and str(frame.index[0]) == "2026-03-01 00:00:00" else 1)
PY
