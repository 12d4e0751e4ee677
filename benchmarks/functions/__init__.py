"""Every public function: the benchmark row that times it, the question that shows it is fast, or why neither.

    python -m benchmarks.functions [part of a name]

calls each question of `QUESTIONS` on an idle library, prints its processor time, and, if all are run, writes
FUNCTIONS.md. A question that takes over 50 ms belongs into a row of the benchmarks, and its function into
`ROWS_OF`. A test compares the names with the public ones.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from benchmarks.functions import fetching, options, others, rates
from derivdata.sources.archive import Archive
from tests.reliability.calls import public

__all__ = ["FILE", "LIMIT_SECONDS", "LINE", "QUESTIONS", "ROWS_OF", "UNTIMED", "public_names"]

LIMIT_SECONDS = 0.05
FILE = Path(__file__).with_name("FUNCTIONS.md")
LINE = re.compile(r"^\| `(?P<name>[\w.]+)` \| (?P<question>.+) \| (?P<ms>[\d.]+) \|$", re.MULTILINE)
"""A measured question in that file."""

QUESTIONS = {**fetching.QUESTIONS, **rates.QUESTIONS, **options.QUESTIONS, **others.QUESTIONS}

ROWS_OF: dict[str, str] = {
    "analysis.align.asof_join": "asof-join",
    "analysis.backtest.carry": "backtest-carry",
    "analysis.backtest.options": "analysis.backtest.options",
    "analysis.backtest.sweep": "analysis.backtest.sweep",
    "analysis.black76.implied_vol": "implied-vol",
    "analysis.business_time.fit": "business-time",
    "analysis.chain.clean": "analysis.chain.clean",
    "analysis.chain.executable": "executable",
    "analysis.chain.forwards": "analysis.chain.forwards",
    "analysis.chain.smiles": "chain-history",
    "analysis.exposure.max_pain": "analysis.exposure.max_pain",
    "analysis.funding.best_pair": "best-pair",
    "analysis.funding.comovement": "comovement",
    "analysis.funding.cumulative": "analysis.funding.cumulative",
    "analysis.funding.forecast_carry": "analysis.funding.forecast_carry",
    "analysis.funding.forecast_history": "analysis.funding.forecast_history",
    "analysis.funding.half_life": "analysis.funding.half_life",
    "analysis.funding.infer_interval": "analysis.funding.infer_interval",
    "analysis.funding.breakeven": "analysis.funding.breakeven",
    "analysis.funding.period_sums": "analysis.funding.period_sums",
    "analysis.funding.pick_record": "analysis.funding.pick_record",
    "analysis.funding.realised_carry": "analysis.funding.realised_carry",
    "analysis.funding.zscore": "zscore",
    "analysis.liquidations.clusters": "clusters",
    "analysis.oi.hhi": "shares",
    "analysis.oi.market_share": "shares",
    "analysis.oi.share_trend": "analysis.oi.share_trend",
    "analysis.position.attribution": "attribution",
    "analysis.position.greeks": "analysis.position.greeks",
    "analysis.position.scenarios": "scenarios",
    "analysis.position.vega_buckets": "analysis.position.vega_buckets",
    "analysis.risk_neutral.density": "density",
    "analysis.risk_neutral.moments": "analysis.risk_neutral.moments",
    "analysis.risk_neutral.quantile": "analysis.risk_neutral.quantile",
    "analysis.smile.fit": "svi-noisy",
    "analysis.surface.constant_maturity": "analysis.surface.constant_maturity",
    "analysis.surface.at": "analysis.surface.at",
    "analysis.surface.fit": "essvi",
    "analysis.surface.forward_variance": "analysis.surface.forward_variance",
    "analysis.surface.from_chain": "analysis.surface.from_chain",
    "analysis.surface.history": "analysis.surface.history",
    "analysis.surface.local_volatility": "local-volatility",
    "analysis.surface.term_structure": "analysis.surface.term_structure",
    "analysis.volatility.bars": "analysis.volatility.bars",
    "analysis.volatility.bipower": "analysis.volatility.bipower",
    "archive.append": "archive-append",
    "archive.merge": "archive-merge",
    "archive.read": "archive-read",
    "archive.sums": "totals",
    "archive.replace": "archive-replace",
    "archive.sql": "archive-sql",
    "cache_clear": "eviction",
    "funding.history": "history-2000",
    "funding.settlements": "funding.settlements",
    "options.surface_history": "options.surface_history",
    "tables.surface": "tables.surface",
    "funding.snapshot": "snapshot",
    "liquidations.events": "liquidations",
    "options.surface": "surface",
    "panel": "table-panel",
    "quality": "quality",
    "record": "growth-recording",
    "report": "report",
    "venues.read": "venue-settlements",
}
"""The row that times a function."""

_NOTHING = "does no work that grows with data"

UNTIMED: dict[str, str] = {
    "datasets.load": "a download and an import once, then `archive.read`",
    "archive.import_files": "rows `import-csv` to `growth-import` of the table, against polars",
    "archive.delete": "what `archive.replace` does, with no new rows",
    "archive.undo": "timed with `archive.replace`",
    "analysis.funding.portfolio": "a problem of a hundred pairs at most an instant, of which the forecasts "
    "take longer: `analysis.funding.pick_record` has a row",
    "asof": _NOTHING,
    "card": "hashes a result and writes a small file",
    "rerun": "makes the calls of a card again",
    "collect.backfill": "keeps the pace of venues; reading their answers is timed by row `venue-settlements`",
    "disconnect": _NOTHING,
    "connect": "opens what a row of the services and the first table time",
    "archive.extents": "what `catalog` shows",
    "catalog": "one statement a table: row `archive-sql` times such",
    "features": "histories that have rows, each put on the grid by `analysis.align.align`",
    "live": "waits for venues; reading what they tell is timed by row `venue-minute`",
    "serve": "serves until it is stopped; rows of the service time its answers",
    "liquidations.poll": "waits between answers, each one of `liquidations.events`",
}
"""Public functions without a row or a question, and why; so are all of `derivdata.plot`: matplotlib draws."""


def public_names() -> set[str]:
    """All public functions but figures, and the methods of an archive."""
    methods = {f"archive.{name}" for name, value in vars(Archive).items() if _is_method(name, value)}
    inherited = {
        f"archive.{name}"
        for base in Archive.__mro__[1:-1]
        for name, value in vars(base).items()
        if _is_method(name, value)
    }
    return {name for name in public() if not name.startswith("plot.")} | methods | inherited


def _is_method(name: str, value: object) -> bool:
    return not name.startswith("_") and inspect.isfunction(value)
