"""One cached call stays in few files: the jumps of a reader who follows it."""

from __future__ import annotations

from tests.support.trace_call import cached_history, surface_from_chain

FILES, CHANGES = 12, 35
SURFACE_CHANGES = 200


def test_a_cached_history_runs_through_few_files() -> None:
    result = cached_history()
    assert {"funding.py", "client/transport/cache.py", "tables/schema/table.py"} <= set(result.calls)
    assert "client/transport/network.py" not in result.calls, "the answer was not in the cache"
    assert len(result.calls) <= FILES, sorted(result.calls)
    assert result.changes <= CHANGES


def test_a_surface_from_a_chain_changes_file_seldom() -> None:
    result = surface_from_chain()
    assert {"analysis/surface/chain_surface.py", "analysis/chain/cleaning.py"} <= set(result.calls)
    assert result.changes <= SURFACE_CHANGES
