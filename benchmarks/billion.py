"""A billion rows of minutes, really built: appends, files, manifest, reads, and the main endpoints.

    python -m benchmarks.billion [--rows 1e9] [--folder DIR]

A day of minutes of 43 venues × 300 symbols is 18.6 million rows; a billion are 54 days, 4.6 GB of files, and
about 2 GB of memory while a day is appended. Prints one line of JSON; the archive is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import requests

import derivdata as dd
from benchmarks.cluster import _RATES, _START, minutes, resident
from derivdata.sources import service

_SYMBOLS, _VENUES = 300, 43


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor seconds that it took in this process."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def figures(folder: Path, rows: int, symbols: int, venues: int) -> Iterator[tuple[str, Any]]:
    """Build, read and serve an archive, and yield each measurement with its name, in processor seconds."""
    days = -(-rows // (1_440 * symbols * venues))
    archive, rates = dd.open_archive(folder), []
    for day in range(days):
        frame = minutes(day, symbols, venues)
        count, taken = timed(lambda frame=frame: archive.append(_RATES, frame, accept=["unit", "venues"]))
        rates.append(round(count / taken))
    yield "rows", int(archive.info().loc[_RATES, "rows"])
    yield "append_rows_per_second", {"first": rates[0], "last": rates[-1], "least": min(rates)}
    yield "peak_megabytes_of_appends", round(resident("VmHWM") / 1e6)
    files = list(folder.rglob("*.parquet"))
    yield "files", len(files)
    yield "bytes_a_row", round(sum(f.stat().st_size for f in files) / (1_440 * symbols * venues * days), 2)
    yield "manifest_bytes", (folder / "archive.json").stat().st_size
    yield "reopened_seconds", round(timed(lambda: dd.open_archive(folder).info())[1], 4)
    end = _START + pd.Timedelta(days, "D")
    day = end - pd.Timedelta(1, "D")
    one = {"symbols": ["SYM001"], "venues": ["venue01"]}
    archive = dd.open_archive(folder)
    reads: dict[str, Callable[[], Any]] = {
        "one_pair_all_days": lambda: archive.read(_RATES, _START, end, **one),
        "one_symbol_all_venues": lambda: archive.read(_RATES, _START, end, symbols=["SYM001"]),
        "one_day_all": lambda: archive.read(_RATES, day, end),
        "latest_of_all": lambda: archive.latest(_RATES, archive.now, within=pd.Timedelta(1, "D")),
        "panel_of_one_symbol": lambda: archive.panel(
            _RATES, "rate_bps_8h", start=_START, end=end, step="1m", symbols=["SYM001"]
        ).compute(),
    }
    for name, read in reads.items():
        result, taken = timed(read)
        yield (
            name,
            {
                "rows": int(result.size if name.startswith("panel") else len(result)),
                "seconds": round(taken, 3),
            },
        )
        del result
    yield from endpoints(folder, day)


def endpoints(folder: Path, day: pd.Timestamp) -> Iterator[tuple[str, Any]]:
    """Request the service in this process; its processor time includes the client's."""
    local, taken = timed(lambda: service.start(str(folder)))
    yield "service_started", {"seconds": round(taken, 3)}
    window = f"start={day:%Y-%m-%dT%H:%M:%SZ}&end={day + pd.Timedelta(1, 'D'):%Y-%m-%dT%H:%M:%SZ}"
    try:
        for path in (
            "/funding",
            "/markets/funding-leaders",
            f"/funding/historical?symbol=SYM001&{window}&resolution=1h",
            f"/funding/historical?symbol=SYM001&{window}&resolution=raw",
        ):
            headers = {"X-Api-Key": local.api_key}
            answer, taken = timed(
                lambda path=path, headers=headers: requests.get(
                    local.url + path, headers=headers, timeout=600
                )
            )
            size = len(answer.content)
            yield path, {"status": answer.status_code, "bytes": size, "seconds": round(taken, 3)}
    finally:
        local.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--symbols", type=int, default=_SYMBOLS)
    parser.add_argument("--venues", type=int, default=_VENUES)
    parser.add_argument("--folder", help="where to build; removed afterwards (a temporary folder)")
    options = parser.parse_args(arguments)
    if options.folder is not None:
        Path(options.folder).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="derivdata-billion-", dir=options.folder))
    try:
        found = figures(folder / "archive", int(options.rows), options.symbols, options.venues)
        print(json.dumps(dict(found)))
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
