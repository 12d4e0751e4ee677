"""One cached call stays in few files: the jumps of a reader who follows it."""

from __future__ import annotations

import derivdata as dd
from tests.support.trace_call import trace


def test_a_cached_history_runs_through_few_files() -> None:
    dd.connect("sample")
    dd.funding.history("BTC", "1d", venues=["okx"])
    result = trace(lambda: dd.funding.history("BTC", "1d", venues=["okx"]))
    assert {"funding.py", "client/transport/cache.py", "tables/schema/table.py"} <= set(result.calls)
    assert "client/transport/network.py" not in result.calls, "the answer was not in the cache"
    assert len(result.calls) <= 12, sorted(result.calls)
    assert result.changes <= 35


def test_a_surface_from_a_chain_changes_file_seldom() -> None:
    dd.connect("sample")
    chain = dd.options.snapshot("BTC", "deribit")
    dd.analysis.surface.from_chain(chain)
    result = trace(lambda: dd.analysis.surface.from_chain(chain))
    assert {"analysis/surface/chain_surface.py", "analysis/chain/cleaning.py"} <= set(result.calls)
    assert result.changes <= 200
