"""The workload of a year of minutes on dask.distributed: best pair, z-score and half-life of each symbol.

    python -m benchmarks.cluster [--symbols 15] [--days 365] [--venues 43] [--folder DIR]

Builds an archive of minutes, runs the workload on a LocalCluster of one and of two worker processes, then
again with two, one of which is killed half-way. The default is a twentieth of 43 venues × 300 symbols × a
year: 339 million rows, 1.6 GB of files. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import derivdata as dd
from derivdata.sources.archive import Archive

_START = pd.Timestamp("2025-07-01", tz="UTC").as_unit("us")
_WINDOW = 1_440
_TIME_CHUNK = 65_536
_MEMORY_LIMIT = 1_000_000_000
_RATES = "funding_history"


def minutes(day: int, symbols: int, venues: int) -> pd.DataFrame:
    """Return a day of minutes of all pairs: levels that differ by pair, and noise of hours."""
    rng = np.random.default_rng([5, day])
    stamps = pd.date_range(_START + pd.Timedelta(day, "D"), periods=1_440, freq="min").as_unit("us")
    pairs = symbols * venues
    noise = rng.normal(0.0, 1.0, (pairs, 1_440))
    for j in range(1, 1_440):
        noise[:, j] = 0.99 * noise[:, j - 1] + 0.14 * noise[:, j]
    level = np.random.default_rng(5).normal(1.0, 1.0, (pairs, 1))
    pair = np.arange(pairs).repeat(1_440)
    one = np.zeros(pair.size, np.int8)
    frame = pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(pair // venues, [f"SYM{i:03d}" for i in range(symbols)]),
            "exchange": pd.Categorical.from_codes(pair % venues, [f"venue{i:02d}" for i in range(venues)]),
            "time": pd.Series(np.tile(stamps.asi8, pairs).view("M8[us]")).dt.tz_localize("UTC"),
            "rate_bps_8h": (level + noise).round(4).ravel(),
            "resolution": pd.Categorical.from_codes(one, ["1m"]),
            "kind": pd.Categorical.from_codes(one, ["sampled"]),
        }
    )
    return dd.tables.TABLES["funding_history"].conform(frame)


def built(folder: Path, *, symbols: int, days: int, venues: int) -> tuple[Archive, float]:
    """Return an archive of minutes and the processor seconds that its appends took."""
    archive, taken = dd.open_archive(folder), 0.0
    for day in range(days):
        frame = minutes(day, symbols, venues)
        began = time.process_time()
        archive.append(_RATES, frame, accept=["unit", "venues"])
        taken += time.process_time() - began
    return archive, taken


def of_symbol(archive: Archive, symbol: str, days: int) -> dict[str, Any]:
    """Compute the results for one symbol; the panel is read once, and each step takes a part of it."""
    funding, began = dd.analysis.funding, time.process_time()
    end = _START + pd.Timedelta(days, "D")
    rates = archive.panel(
        _RATES, "rate_bps_8h", start=_START, end=end, step="1m", symbols=[symbol], chunks=_TIME_CHUNK
    ).compute(scheduler="synchronous")
    starts = range(0, rates.sizes["time"], _TIME_CHUNK)
    spreads = [
        funding.best_pair(rates.isel(time=slice(at, at + _TIME_CHUNK)))["spread_bps_8h"].to_numpy()
        for at in starts
    ]
    last, steps = [], []
    for venue in range(rates.sizes["exchange"]):
        one = rates.isel(exchange=slice(venue, venue + 1))
        last.append(float(funding.zscore(one, rows=_WINDOW)[0, 0, -1]))
        found = funding.half_life(one, period="1m", method="ols", level=None)
        steps.append(found["half_life_hours"].item())
    spread = np.concatenate(spreads, axis=-1)
    return {
        "spread": [float(spread.max()), float(spread.mean())],
        "zscore": last,
        "half_life": steps,
        "bytes": resident(),
        "seconds": time.process_time() - began,
    }


def answers_of(result: dict[str, Any]) -> dict[str, Any]:
    """Return the results of a task, without its timings."""
    return {name: found for name, found in result.items() if name not in ("bytes", "seconds")}


def resident(name: str = "VmRSS") -> int:
    """Return this process's memory now, or (``VmHWM``) the most that it had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def run(archive: Archive, days: int, workers: int, *, kill: bool = False) -> dict[str, Any]:
    """Run the workload on worker processes; `kill` ends one when half of the symbols are done."""
    from dask.distributed import Client, LocalCluster, as_completed

    symbols = archive.symbols(_RATES)
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=_MEMORY_LIMIT,
            dashboard_address=None,
            worker_dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        pids = client.run(os.getpid)
        client.run(resident)  # imports, before the clock starts
        began = time.perf_counter()
        futures = client.map(of_symbol, [archive] * len(symbols), symbols, [days] * len(symbols), pure=False)
        order = []
        for future in as_completed(futures):
            order.append(future)
            if kill and len(order) == max(1, len(symbols) // 2):
                os.kill(next(iter(pids.values())), signal.SIGKILL)
                kill = False
        taken = time.perf_counter() - began
        results = client.gather(futures)
        after = client.gather(order)
        peaks = client.run(resident, "VmHWM")
        gone = set(pids.values()) - set(client.run(os.getpid).values())
    return {
        "results": {symbol: answers_of(result) for symbol, result in zip(symbols, results, strict=True)},
        "seconds": taken,
        "processor_seconds": sum(result["seconds"] for result in results),
        "peak_bytes": max(peaks.values()),
        "bytes_after_each": [int(result["bytes"]) for result in after],
        "killed": len(gone),
    }


def figures(folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Build and run, and yield each measurement with its name."""
    archive, appended = built(folder, symbols=options.symbols, days=options.days, venues=options.venues)
    info = archive.info().loc[_RATES]
    yield "rows", int(info["rows"])
    yield "megabytes", float(info["megabytes"])
    yield "append_rows_per_cpu_second", round(info["rows"] / max(appended, 1e-9))
    own = {
        symbol: answers_of(of_symbol(archive, symbol, options.days)) for symbol in archive.symbols(_RATES)[:2]
    }
    runs = (
        {} if options.tiny else {"one": run(archive, options.days, 1), "two": run(archive, options.days, 2)}
    )
    runs["killed"] = run(archive, options.days, 2, kill=True)
    for name, one in runs.items():
        after = one["bytes_after_each"]
        third = max(1, len(after) // 3)
        yield f"{name}_rows_per_second", round(info["rows"] / one["seconds"])
        yield f"{name}_rows_per_cpu_second", round(info["rows"] / one["processor_seconds"])
        yield f"{name}_peak_megabytes", round(one["peak_bytes"] / 1e6)
        yield f"{name}_growth", round(max(after[-third:]) / max(after[:third]), 3)
    yield "killed_workers", runs["killed"]["killed"]
    expected = runs["killed"]["results"]
    yield "equal_on_all", all(one["results"] == expected for one in runs.values())
    # A separate process may sum in another order: BLAS has several threads there, and one in a worker.
    yield (
        "equal_in_one_process",
        all(
            np.allclose(own[symbol][name], expected[symbol][name], rtol=1e-12, atol=0.0)
            for symbol in own
            for name in own[symbol]
        ),
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--symbols", type=int, default=15)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--venues", type=int, default=43)
    parser.add_argument("--folder", help="where to build; removed afterwards (a temporary folder)")
    parser.add_argument("--tiny", action="store_true", help="only with a worker that is killed")
    options = parser.parse_args(arguments)
    if options.folder is not None:
        Path(options.folder).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="derivdata-cluster-", dir=options.folder))
    try:
        print(json.dumps(dict(figures(folder / "archive", options))))
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    # Workers import this module by name, so their code must not belong to __main__.
    from benchmarks import cluster

    sys.exit(cluster.main())
