"""An endpoint is added in the files that CONTRIBUTING names, and in no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ADDED = {
    "derivdata/tables/endpoints.py": """
OI_LARGEST = Endpoint(
    "/oi/{symbol}/largest", "free", "oi_largest", "The largest venue of one symbol now.",
    params=(PATH_SYMBOL,), unit="usd",
)
""",
    "derivdata/tables/definitions.py": """
COLUMNS["surprise"] = Column(_NUMBER, "1", "A column of a made-up endpoint.", minimum=0.0)
define(
    "oi_largest",
    key="symbol exchange",
    rest="time oi_usd surprise",
    wire={"oi_usd": "open_interest_usd"},
    optional="surprise",
    doc="The largest venue of one symbol now.",
)
""",
    "derivdata/oi.py": '''
__all__ += ["largest"]


class _LargestRow(msgspec.Struct):
    exchange: str
    open_interest_usd: float


class _Largest(Envelope):
    symbol: str
    data: list[_LargestRow]


def largest(symbol: str) -> pd.DataFrame:
    """Return the largest venue of one symbol now."""
    answer = transport.get(endpoints.OI_LARGEST, {"symbol": symbol}, into=_Largest)
    return tabulate(
        tables.TABLES["oi_largest"],
        [answer],
        lambda a: tables.TABLES["oi_largest"].rows(a.body.data, symbol=a.body.symbol, time=a.as_of),
    )
''',
    "derivdata/sources/service/answers/perpetuals.py": """
def largest(context: RequestContext) -> dict[str, Any]:
    now = market.oi_at(context.view, context.view.now)[context.params["symbol"]]
    rows = pd.DataFrame({"exchange": [now.idxmax()], "open_interest_usd": [float(now.max())]})
    return {"symbol": context.params["symbol"], "unit": "usd", "data": encoding.rows(rows)}


ANSWERS["/oi/{symbol}/largest"] = largest
""",
    "derivdata/sources/service/http/pages.py": """
PAYLOADS["/oi/{symbol}/largest"] = rows("data", "oi_largest", "time surprise", symbol=TEXT, unit=TEXT)
""",
}
USED = """
import derivdata as dd
from pathlib import Path
assert Path(dd.__file__).is_relative_to(Path.cwd()), dd.__file__
dd.connect("sample")
largest = dd.oi.largest("BTC")
assert largest[["symbol", "exchange"]].astype(str).to_numpy().tolist() == [["BTC", "binance"]], largest
assert (largest["oi_usd"] > 1e9).all() and largest["surprise"].isna().all()
assert "largest" in dir(dd.oi) and dd.provenance(largest)["requests"][0]["path"] == "/oi/BTC/largest"
assert "/oi/{symbol}/largest" in dd.raw("/openapi.json")["paths"]
"""


def test_new_endpoint_needs_only_the_documented_files(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### To add an endpoint")[2]
    named = re.findall(r"(?m)^\| `(derivdata/[^`]+)` \|", page)
    assert set(ADDED) == {name.replace("<family>", "oi") for name in named}
    assert len(named) <= 5
    shutil.copytree(ROOT / "derivdata", tmp_path / "derivdata", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in ADDED.items():
        path = tmp_path / name
        # The list of all endpoints is at the end of their module
        above, ending, below = path.read_text(encoding="utf-8").partition("\n\nENDPOINTS: tuple")
        path.write_text(above + text + ending + below, encoding="utf-8")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path), "DERIVDATA_CACHE_DIR": str(tmp_path / "cache")}
    run = subprocess.run(
        [sys.executable, "-c", USED], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
