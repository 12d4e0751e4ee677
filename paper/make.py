"""``python -m paper.make``: the figures and the tables of paper.md.

The carry study is computed from ``docs/cards/carry.ddz``. ``paper/cards`` has a card for each row of its
table, which ``derivdata rerun`` computes again. The table of fits comes from the page that
``python -m tests.measured.fits`` makes. The figure of a crossing needs the recorded chains of the tests.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Literal, TypeAlias

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import derivdata as dd
from derivdata.analysis import chain, funding, surface
from tests.analysis.deribit import STAMPS_2026, chain_2026

__all__ = ["COSTS", "RECORDING", "RULES", "card_of", "carry_table", "fit_table", "main", "paper_with"]

ROOT = Path(__file__).resolve().parents[1]
PAPER = ROOT / "paper" / "paper.md"
RECORDING = ROOT / "docs" / "cards" / "carry.ddz"
WINDOW = ("2022-01-01", "2024-01-01")
Rule: TypeAlias = Literal["forecast", "last", "mean_7d"]
RULES: dict[Rule, str] = {"forecast": "forecast", "last": "last rate", "mean_7d": "seven-day mean"}
COSTS = (8.0, 20.0)
METHODS = ("`svi`, vega", "`essvi`, vega", "`slices` (each alone), vega")
COLUMNS = {"all": 1, "25 delta": 3, "10 delta": 4, "inside bid/ask": 5, "crossings": 8, "CPU": 10}


def record(rule: Rule, cost_bps: float) -> xr.Dataset:
    """Return the weekly selections of a rule after a cost, from the connected source or a replay."""
    paid = dd.funding.settlements(["BTC", "ETH"], *WINDOW)
    return funding.pick_record(dd.panel(paid), hold="7d", fee_bps=cost_bps / 4.0, rule=rule, overlap="nan")


def card_of(rule: str, cost_bps: float) -> Path:
    """The card of one row of the table."""
    return PAPER.parent / "cards" / f"{rule}_{cost_bps:g}bps.json"


def write_cards() -> None:
    """Compute the summary of each rule and cost from the recording, and write its card."""
    with dd.replay(RECORDING), warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        for rule, cost in itertools.product(RULES, COSTS):
            dd.card(funding.pick_summary(record(rule, cost), min_predicted_bps=0.0), card_of(rule, cost))


def carry_table() -> str:
    """Predictions and outcomes of each rule after costs, from the cards."""
    lines = [
        "| cost [bps] | rule | picks | predicted [bps] | earned [bps] | predicted minus earned, 95 % |",
        "|--:|:--|--:|--:|--:|:--|",
    ]
    for cost, (rule, name) in itertools.product(COSTS, RULES.items()):
        written = json.loads(card_of(rule, cost).read_text(encoding="utf-8"))["figures"]
        figures = {key: figure["value"] for key, figure in written.items()}
        lines.append(
            f"| {cost:g} | {name} | {figures['picks']:.0f} | {figures['predicted_net_bps']:.1f} "
            f"| {figures['realised_net_bps']:.1f} "
            f"| {figures['difference_low_bps']:.1f} to {figures['difference_high_bps']:.1f} |"
        )
    return "\n".join(lines)


def fit_table() -> str:
    """Three rows of the table on the page of measured fits."""
    with (ROOT / "docs" / "methods" / "surface_fits.csv").open(encoding="utf-8", newline="") as file:
        rows = {row[0]: row for row in csv.reader(file)}
    lines = [
        "| method | all quotes | 25 delta | 10 delta | inside bid and ask | crossings | CPU [s] |",
        "|:--|--:|--:|--:|--:|--:|--:|",
    ]
    for method in METHODS:
        cells = rows[method]
        lines.append("| " + " | ".join([cells[0], *(cells[place] for place in COLUMNS.values())]) + " |")
    return "\n".join(lines)


def draw_picks(path: Path) -> None:
    """Earned and predicted by each rule, added up over time."""
    with dd.replay(RECORDING), warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        records = {rule: record(rule, COSTS[0]) for rule in RULES}
    figure, ax = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
    for (rule, name), colour in zip(RULES.items(), ("#1f5fa8", "#b5532a", "#6b6b6b"), strict=True):
        found = records[rule]
        traded = (found["predicted_net_bps"] > 0.0) & found["realised_net_bps"].notnull()
        for column, style in (("realised_net_bps", "-"), ("predicted_net_bps", ":")):
            total = found[column].where(traded, 0.0).sum("symbol").cumsum("time") / 100.0
            ax.plot(total["time"], total, style, color=colour, label=f"{name}, {column.split('_')[0]}")
    ax.axhline(0.0, color="0.6", lw=0.6)
    ax.set(ylim=(-5.0, 60.0), ylabel="sum of BTC and ETH\n[% of one leg's notional]")
    ax.legend(ncols=3, fontsize=7, frameon=False, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, metadata={"Software": ""})
    plt.close(figure)


def draw_crossing(path: Path) -> None:
    """Draw the total variance between the two neighbours that cross most when each slice is fitted
    separately.
    """
    tables = [chain.smiles(chain.clean(chain_2026(stamp))) for stamp in STAMPS_2026]
    found = [worst_pair(quotes) for quotes in tables]
    place = int(np.argmin([minimum for minimum, _, _ in found]))
    _, symbol, number = found[place]
    quotes = tables[place].sel(symbol=symbol)
    scaled = xr.DataArray(np.linspace(-10.0, 10.0, 801), dims="deviations")
    figure, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    for method, colour, label in (("slices", "#b5532a", "each slice alone"), ("svi", "#1f5fa8", "joint fit")):
        ax.plot(scaled, added(quotes, method, scaled).isel(expiry=number) * 100.0, color=colour, label=label)
    ax.axhline(0.0, color="0.4", lw=0.8)
    ax.set_ylim(-100.0, 60.0)
    first, second = (f"{pd.Timestamp(t):%d %b %Y}" for t in quotes["expiry"].values[number : number + 2])
    ax.set(
        xlabel="log-moneyness [standard deviations to the later expiry]",
        ylabel="forward variance\n[% of the later total variance]",
        title=f"{symbol}, {first} to {second}: below 0 a calendar spread has a negative price",
    )
    ax.title.set_fontsize(9)
    ax.legend(fontsize=8, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160, metadata={"Software": ""})
    plt.close(figure)


def total_variance(fitted: xr.Dataset, k: xr.DataArray) -> xr.DataArray:
    """Raw SVI, which both methods give: also where no volatility is quoted."""
    part = k - fitted["m"]
    return fitted["a"] + fitted["b"] * (fitted["rho"] * part + (part**2 + fitted["sigma"] ** 2) ** 0.5)


def added(quotes: xr.Dataset, method: str, scaled: xr.DataArray) -> xr.DataArray:
    """Return the total variance from each expiry to the next, relative to the later one."""
    fitted = surface.fit(quotes["log_moneyness"], quotes["iv"], quotes["year_fraction"], method=method)
    fitted = fitted[["a", "b", "rho", "m", "sigma"]]
    following = fitted.shift(expiry=-1)
    k = scaled * total_variance(following, xr.zeros_like(scaled[:1])).isel(deviations=0, drop=True) ** 0.5
    later = total_variance(following, k)
    return (later - total_variance(fitted, k)) / later


def worst_pair(quotes: xr.Dataset) -> tuple[float, str, int]:
    """Return the minimum of `added` over slices fitted separately, and its place."""
    scaled = xr.DataArray(np.linspace(-10.0, 10.0, 201), dims="deviations")
    minimum = added(quotes, "slices", scaled).min("deviations")
    place = minimum.fillna(np.inf).argmin(...)
    return float(minimum.min()), str(minimum["symbol"].values[int(place["symbol"])]), int(place["expiry"])


def paper_with(text: str) -> str:
    """The paper with its tables made anew."""
    for name, table in (("carry", carry_table()), ("fits", fit_table())):
        pattern = rf"(<!-- table: {name} -->\n\n).*?(\n\n<!-- end -->)"
        text, count = re.subn(pattern, lambda m, table=table: m[1] + table + m[2], text, flags=re.S)
        if count != 1:
            raise ValueError(f"paper.md has {count} places for the table {name!r}: it needs one")
    return text


def main() -> int:
    """Write figures and tables."""
    mpl.use("Agg")
    write_cards()
    PAPER.write_text(paper_with(PAPER.read_text(encoding="utf-8")), encoding="utf-8")
    draw_picks(PAPER.parent / "picks.png")
    draw_crossing(PAPER.parent / "crossing.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
