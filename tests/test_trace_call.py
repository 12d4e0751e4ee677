"""One cached call stays in few files: the jumps of a reader who follows it."""

from __future__ import annotations

import derivdata as dd
from tests.support.trace_call import trace


def test_cached_history_call_passes_through_few_files() -> None:
    dd.connect("sample")
    dd.funding.history("BTC", "1d", venues=["okx"])
    result = trace(lambda: dd.funding.history("BTC", "1d", venues=["okx"]))
    assert {"funding.py", "client/transport/cache.py", "tables/schema.py"} <= set(result.calls)
    assert "client/transport/network.py" not in result.calls, "the answer was not in the cache"
    assert len(result.calls) <= 12, sorted(result.calls)
    assert result.changes <= 35


def test_surface_of_a_chain_passes_through_few_files() -> None:
    """Files of chains and surfaces; kernels and the fields of the prepared chain do not count."""
    dd.connect("sample")
    table = dd.options.snapshot("BTC", "deribit")
    own = frozenset("select known mid quoted black implied is_cleaned places best_first numbers".split())
    dd.analysis.surface.from_chain(table)  # imports its modules, which would count as calls
    traced = trace(lambda: dd.analysis.surface.from_chain(table))
    stays = traced.stays(("analysis/chain/", "analysis/surface/"), without=own)
    files = set(stays)
    assert {"analysis/chain/prepared.py", "analysis/surface/fitting.py"} <= files
    assert len(files) <= 8, sorted(files)
    assert len(stays) <= 20, stays
    assert len(stays) - len(files) <= 12, stays
