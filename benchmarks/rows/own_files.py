"""Files of a user on their way into an archive, against polars reading, sorting and writing the same file."""

from __future__ import annotations

import itertools
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from benchmarks.row import OURS, Check, Made, Row, growth, within
from derivdata.sources.archive import import_files

__all__ = ["ROWS"]

_POLARS = "polars: read, sort, write_parquet"
_ROWS = 1_000_000
_SERIES = 500
_KEY = ["symbol", "exchange", "time"]


def sampled_rates(rows: int) -> pd.DataFrame:
    """Hourly rates of 100 symbols on 5 venues, times as text."""
    venues = ["binance", "okx", "bybit", "gateio", "bitget"]
    hours = pd.date_range("2022-01-01", periods=rows // _SERIES, freq="1h", tz="UTC")
    return pd.DataFrame(
        {
            "symbol": np.tile(np.repeat([f"C{i:03}" for i in range(100)], 5), len(hours)),
            "exchange": np.tile(np.array(venues * 100), len(hours)),
            "time": np.repeat(hours.strftime("%Y-%m-%dT%H:%M:%SZ").to_numpy(), _SERIES),
            "rate_bps_8h": np.round(np.random.default_rng(0).normal(1.0, 0.5, len(hours) * _SERIES), 4),
        }
    )


def _written(folder: Path, form: str, rows: int) -> Path:
    path = folder / f"rates-{rows}.{form}"
    frame = sampled_rates(rows)
    if form == "parquet":
        frame.to_parquet(path, index=False)
    elif form == "csv":
        frame.to_csv(path, index=False)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("rates.csv", frame.to_csv(index=False))
    return path


def ours(path: Path, to: Path) -> Any:
    """Import a file into an archive."""
    return import_files("funding_history", path, to, accept=["unit", "venues"])


def theirs(path: Path, to: Path) -> Any:
    """Read, sort and write the same file with polars."""
    if path.suffix == ".parquet":
        frame = pl.read_parquet(path)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            frame = pl.read_csv(archive.read("rates.csv"), try_parse_dates=True)
    else:
        frame = pl.read_csv(path, try_parse_dates=True)
    frame.sort(_KEY).write_parquet(to)
    return frame


def _new(folder: Path, run: Callable[[Path, Path], Any], path: Path) -> Callable[[], Any]:
    """Return a function that runs a side in a new folder each time."""
    places = itertools.count()
    return lambda: run(path, folder / f"{run.__name__}-{path.name}-{next(places)}")


def _make(folder: Path, *, form: str) -> Made:
    path = _written(folder, form, _ROWS)
    return Made(
        {OURS: _new(folder, ours, path), _POLARS: _new(folder, theirs, path)},
        checks=partial(_memory, path, folder),
    )


def _memory(path: Path, folder: Path) -> list[Check]:
    """Compare the peak memory of both sides, each in a separate process."""
    peaks = [_peak_bytes(name, path, folder / f"peak-{name}") for name in ("ours", "theirs")]
    value = f"{peaks[0] / 1e6:.0f} MB, polars {peaks[1] / 1e6:.0f} MB"
    return [Check("most memory", value, "≤ 2 ×", peaks[0] <= 2 * peaks[1])]


def _peak_bytes(name: str, path: Path, to: Path) -> int:
    command = [sys.executable, str(Path(__file__)), name, str(path), str(to)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout.split()[-1])


def _grown(folder: Path, size: int) -> Callable[[], Any]:
    return _new(folder, ours, _written(folder, "csv", size * 625_000))


ROWS = [
    *(
        Row(
            f"import-{form.replace('.', '-')}",
            what=f"archive: import a file, {form}",
            given="1,000,000 hourly rates, 100 symbols × 5 venues",
            make=partial(_make, form=form),
            goals={_POLARS: within(3.0)},
            rounds=3,
        )
        for form in ("csv", "parquet", "csv.zip")
    ),
    growth("import", "archive: import a CSV file", "625,000 to 10,000,000 rows", _grown, rounds=2),
]


if __name__ == "__main__":
    {"ours": ours, "theirs": theirs}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    # Not `ru_maxrss`, which a child has of its parent before it starts.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(1024 * int(status.partition("VmHWM:")[2].split()[0]))
