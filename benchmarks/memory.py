"""Peak memory of a task in a separate process: ``python -m benchmarks.memory history FILE``."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["peak_bytes_of"]


def peak_bytes_of(task: str, *options: str) -> int:
    """Return the maximum memory of a task of this module, above that of its process before."""
    command = [sys.executable, "-m", "benchmarks.memory", task, *options]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def _history(file: str) -> int:
    """Holding a body, which counts, and making its table."""
    from benchmarks.answering import answer_with, history_table

    answer_with(b'{"symbol":"BTC","unit":"bps_8h","resolution":"1m","series":{},"notices":[]}')
    history_table()

    def whole() -> None:
        answer_with(Path(file).read_bytes())
        history_table()

    return _peak_bytes(whole)


def _append(rows: str) -> int:
    """Appending a table, which does not count, to a new archive."""
    import pandas as pd

    import derivdata as dd
    from benchmarks.rows.archive import funding_rows

    frame = funding_rows(int(rows))
    frame["time"] -= pd.Timedelta(730, "D")  # the hours of twenty million rows would end in the future
    with tempfile.TemporaryDirectory() as folder:
        return _peak_bytes(lambda: dd.open_archive(folder).append("funding_history", frame))


def _panel(symbols: str, chunk: str) -> int:
    """Count and average the best pairs of a lazy panel whose chunks are made on demand."""
    import dask
    import dask.array as da
    import numpy as np

    import derivdata as dd
    from benchmarks.rows.panels import panel

    size = int(chunk)
    one = panel(1, 10_000, missing=0.1)
    blocks = (int(symbols) // size * (size,), (43,), (10_000,))
    made = da.map_blocks(lambda: np.repeat(one.values, size, axis=0), chunks=blocks, dtype=float)
    lazy = one.isel(symbol=0, drop=True).expand_dims(symbol=int(symbols)).copy(data=made)

    def whole() -> None:
        best = dd.analysis.funding.best_pair(lazy)
        with dask.config.set(scheduler="threads", num_workers=2):
            dask.compute(best["spread_bps_8h"].mean(), (best["long"] == "venue07").sum())

    return _peak_bytes(whole)


def _table_panel(symbols: str) -> int:
    """Making a panel of a table, which does not count."""
    import derivdata as dd
    from benchmarks.rows.panels import panel, rows_of

    rows = rows_of(panel(int(symbols), 720, missing=0.0))
    dd.panel(rows.head(1_000))
    return _peak_bytes(lambda: dd.panel(rows))


def _quality(rows: str) -> int:
    """Examining a table in the order of time, which does not count."""
    import derivdata as dd
    from benchmarks.rows.desk import rows_in_time_order

    frame = rows_in_time_order(int(rows))
    dd.quality(frame.head(1_000))
    return _peak_bytes(lambda: dd.quality(frame))


def _chains(days: str, what: str) -> int:
    """Arranging or fitting a history of daily chains, which do not count, in one call."""
    from derivdata.analysis import chain, surface
    from tests.analysis.made_chains import daily_chains

    options = chain.clean(daily_chains(int(days)))
    if what == "smiles":
        return _peak_bytes(lambda: chain.smiles(options))
    return _peak_bytes(lambda: surface.from_chain(options, method="essvi", weights="price"))


def _minute() -> int:
    """A minute of all venues, with its bodies, their contracts and all that makes them."""
    from benchmarks.venue_minute import Minute

    with tempfile.TemporaryDirectory() as folder:
        return _peak_bytes(lambda: Minute(Path(folder)).collector().once())


def _peak_bytes(run: Callable[[], Any]) -> int:
    gc.collect()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    """Memory of this process [bytes]: ``VmRSS``, now, or ``VmHWM``, the most since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    tasks = {
        "history": _history,
        "append": _append,
        "panel": _panel,
        "table_panel": _table_panel,
        "quality": _quality,
        "chains": _chains,
        "minute": _minute,
    }
    print(tasks[sys.argv[1]](*sys.argv[2:]))
