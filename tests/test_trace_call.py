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
