"""Results that are kept by day, of a store that changes while they are made."""

from __future__ import annotations

import pandas as pd

from derivdata.sources.service.kept_days import DAY, cut, kept_days
from derivdata.sources.service.view import View
from derivdata.sources.service.window import Window
from tests.service.memory_store import MemoryStore

NOW = "2026-03-02T12:00:00"
DAYS = [pd.Timestamp(day, tz="UTC").as_unit("us") for day in ("2026-02-01", "2026-02-04")]


def test_rows_read_before_a_commit_do_not_pass_for_the_state_after_it() -> None:
    store = MemoryStore({}, now=NOW)
    view, window = View(store, store.now), Window(*DAYS, DAYS[1] - DAYS[0], [])
    rows, reads = 1, 0

    def read(part: Window) -> pd.DataFrame:
        nonlocal rows, reads
        found = pd.DataFrame({"rows": [rows]})
        reads += 1
        if rows == 1:  # another thread writes while these rows are on their way
            rows, store.identity = 2, "after the commit"
        return found

    def asked() -> list[int]:
        return kept_days(
            view, "rows", cut(window, DAY), read,
            lambda frame, days: [int(frame["rows"].iloc[0])] * len(days), lambda _: 1,
        )  # fmt: skip

    assert asked()[0] == 1
    assert asked() == [2, 2, 2], "the first day was read in the state before"
    before = reads
    assert asked() == [2, 2, 2]
    assert reads == before, "kept under the state that they were read in"
