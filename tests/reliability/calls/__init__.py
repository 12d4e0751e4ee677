"""One valid call of every public function, small enough to be made thousands of times.

Arguments that are at their default are omitted.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import derivdata as dd
from tests.reliability.calls import chains, fetchers, figures, panels
from tests.reliability.calls.made import Calls

__all__ = ["CALLS", "LEFT_OUT", "MAIN", "function", "public"]

LEFT_OUT = {
    "asof": "takes nothing",
    "cache_info": "takes nothing",
    "catalog": "takes nothing",
    "oi.sparklines": "takes nothing",
    "oi.exchanges": "takes nothing",
    "funding.snapshot": "takes nothing",
    "funding.metadata": "takes nothing",
    "markets.exchanges": "takes nothing",
    "disconnect": "takes nothing",
    "venues.endpoints": "takes nothing",
    "liquidations.poll": "waits for ever",
    "serve": "serves for ever",
    "live": "asks venues: tests/collect/test_live.py",
    "analysis.liquidations.observed": "its arguments have no names",
    "report": "a quarter of a minute each",
    "archive.import_files": "reads files: tests/archive/test_import.py",
    "datasets.load": "fetches files: tests/test_datasets.py",
    "card": "writes a file: tests/test_cards.py",
    "rerun": "reads a file: tests/test_cards.py",
    "bundle.info": "reads a file: tests/bundle/test_hostile.py",
    "bundle.verify": "reads a file: tests/bundle/test_hostile.py",
    "collect.backfill": "asks venues: tests/collect/test_backfill.py",
    "sample.open": "opens the sample, as connect does",
    "sample.truth": "reads what the sample was made of: tests/sample",
}
"""Public functions that are not called with wrong arguments, and why."""

CALLS: Calls = {
    **{
        name: functools.partial(dict, given)
        for name, given in fetchers.FETCHERS.items()
        if name not in LEFT_OUT
    },
    **fetchers.CALLS,
    **panels.CALLS,
    **chains.CALLS,
    **figures.CALLS,
}

MAIN = set(
    """
    panel plan provenance quality raw venues.read
    funding.history funding.settlements
    oi.history oi.exchange_totals
    volume.history
    liquidations.aggregates liquidations.events liquidations.history
    options.metrics options.snapshot options.surface options.surface_history
    orderbook.book orderbook.depth_history prices.history
    markets.symbol_stats
    hip3.candles hip4.outcome
    units.convert
    analysis.black76.greeks analysis.black76.implied_vol analysis.black76.price
    analysis.funding.breakeven analysis.funding.cumulative
    analysis.funding.spread analysis.funding.zscore
    analysis.oi.market_share analysis.oi.migration
    analysis.smile.fit analysis.surface.iv
    """.split()
)
"""What most people call: these get the most wrong arguments."""


def function(name: str) -> Callable[..., Any]:
    """The public function of a dotted name."""
    return functools.reduce(getattr, name.split("."), dd)  # type: ignore[arg-type, return-value]


def public() -> set[str]:
    """Return dotted names of all public functions, including those of nested public modules.

    One that has two names is there once, under the shorter of them.
    """
    names = sorted(_walk(dd, ""), key=lambda name: (name.count("."), name), reverse=True)
    return set({function(name): name for name in names}.values())


def _walk(module: ModuleType, place: str) -> Iterator[str]:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from _walk(value, f"{place}{name}.")
        elif inspect.isroutine(value):
            yield f"{place}{name}"
