"""The page "Does carry pay?": selected pairs of recorded payments by month and fee, computed from a
recording.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import pandas as pd
import xarray as xr

import derivdata as dd
from derivdata.analysis import funding

__all__ = ["FEES_BPS", "RECORDING", "WINDOW", "card_of", "picks", "tables", "verdict"]

_FOLDER = Path(__file__).parent / "cards"
RECORDING = _FOLDER / "carry.ddz"
WINDOW = ("2022-01-01", "2024-01-01")
FEES_BPS = (2.0, 5.0)


def picks(fee_bps: float) -> xr.Dataset:
    """Return the selected pairs of both coins at a fee, from the connected source or a replay."""
    paid = dd.funding.settlements(["BTC", "ETH"], *WINDOW)
    return funding.pick_record(dd.panel(paid), hold="7d", fee_bps=fee_bps, overlap="nan")


def card_of(fee_bps: float) -> Path:
    """Return the path of the card of a fee."""
    return _FOLDER / f"carry_{fee_bps:g}bps.json"


def verdict() -> str:
    """Return the result at each fee, one line a fee, as the page states it."""
    return "\n".join(_verdict(fee, _traded(record)) for fee, record in _records().items())


def tables() -> str:
    """Return one table a fee by month, and the pairs that were selected most."""
    traded = {fee: _traded(record) for fee, record in _records().items()}
    parts = []
    for fee, rows in traded.items():
        parts += [f"## By month, {fee:g} bps a trade\n", _table(_by_month(rows))]
    rows = traded[FEES_BPS[0]]
    counts = rows.groupby(["symbol", "long", "short"]).agg(
        weeks=("earned", "size"), forecast=("forecast", "mean"), earned=("earned", "mean")
    )
    top = counts.sort_values(["weeks", "earned"], ascending=False).head(10).reset_index()
    parts.append("## Selected pairs\n")
    parts.append(f"The ten pairs that were selected most at {FEES_BPS[0]:g} bps; means per week.\n")
    parts.append(_table(top))
    return "\n".join(parts)


@cache
def _records() -> dict[float, xr.Dataset]:
    """Return the selected pairs at each fee from the recording."""
    with dd.replay(RECORDING), warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        return {fee: picks(fee) for fee in FEES_BPS}


def _traded(record: xr.Dataset) -> pd.DataFrame:
    """Return the weeks with a forecast above costs and a known outcome."""
    frame = record.to_dataframe().reset_index()
    names = {"predicted_net_bps": "forecast", "realised_net_bps": "earned"}
    frame = frame.rename(columns=names)[["symbol", "time", "long", "short", "forecast", "earned", "cost_bps"]]
    return frame[(frame["forecast"] > 0.0) & frame["earned"].notna()]


def _verdict(fee: float, rows: pd.DataFrame) -> str:
    positive, total = (rows["earned"] > 0.0).sum(), rows["earned"].sum()
    by_month = _by_month(rows).set_index("month")["earned"]
    best = by_month.idxmax()
    forecast, earned = rows["forecast"].mean(), rows["earned"].mean()
    return (
        f"- **{fee:g} bps a trade:** {positive} of {len(rows)} positions of a week had a gain. "
        f"On average {forecast:.1f} bps were forecast and {earned:.1f} bps earned. In total the positions "
        f"earned {total / 100:.1f} % of one leg's notional, {by_month[best] / 100:.1f} % of it in {best}."
    )


def _by_month(rows: pd.DataFrame) -> pd.DataFrame:
    month = rows["time"].dt.strftime("%Y-%m")
    table = rows.groupby(month).agg(
        weeks=("earned", "size"),
        forecast=("forecast", "sum"),
        earned=("earned", "sum"),
        costs=("cost_bps", "sum"),
    )
    return table.reset_index(names="month")


def _table(frame: pd.DataFrame) -> str:
    """Return a table in Markdown, numbers with one decimal."""
    shown = [
        [f"{v:.1f}" if isinstance(v, float) else str(v) for v in row] for row in frame.itertuples(index=False)
    ]
    lines = [list(map(str, frame.columns)), ["---"] * frame.shape[1], *shown]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
