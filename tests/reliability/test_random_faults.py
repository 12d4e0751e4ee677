"""Faults drawn at random under many threads: the right data, or one error of ours, and nothing else."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

import pandas as pd
import pytest

import derivdata as dd
from derivdata import errors
from tests.reliability.conftest import Measured, Use
from tests.reliability.promises import count
from tests.support.faults import PASSING, drawn
from tests.support.threads import in_threads
from tests.transport.conftest import KEY

THREADS = 16
SYMBOLS = ("BTC", "ETH", "SOL")
END = pd.Timestamp("2026-06-30", tz="UTC")
SPAN = pd.Timedelta(25, "D")
HOUR = pd.Timedelta(1, "h")

Rows = list[tuple[object, ...]]


@dataclass
class Tally:
    """What became of the calls."""

    right: int = 0
    typed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)


def rows(frame: pd.DataFrame) -> Rows:
    return list(frame[["symbol", "exchange", "time", "oi_usd"]].itertuples(index=False, name=None))


@pytest.fixture(scope="module")
def truth(faulty: str) -> dict[str, pd.DataFrame]:
    """Open interest of the whole span, one request for each symbol, without faults."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_API_KEY", KEY)
        dd.connect(faulty, cache="off")
        found = {symbol: dd.oi.history(symbol, END - SPAN, END) for symbol in SYMBOLS}
        dd.disconnect()
    assert all(len(frame) > 5000 for frame in found.values())
    return found


def windows(calls: int) -> list[tuple[str, pd.Timestamp, pd.Timestamp]]:
    """That many windows of one to three hours, all different."""
    hours = int(SPAN / HOUR) - 3
    every = [(symbol, start, length) for symbol in SYMBOLS for start in range(hours) for length in (1, 2, 3)]
    chosen = random.Random(5).sample(every, calls)
    return [(s, END - SPAN + start * HOUR, END - SPAN + (start + long) * HOUR) for s, start, long in chosen]


def asked(calls: list[tuple[str, pd.Timestamp, pd.Timestamp]], truth: dict[str, pd.DataFrame]) -> Tally:
    """All calls, by 16 threads."""
    tally, lock = Tally(), threading.Lock()

    def one(symbol: str, start: pd.Timestamp, end: pd.Timestamp) -> None:
        whole = truth[symbol]
        expected = rows(whole[(whole["time"] >= start) & (whole["time"] < end)])
        name = f"{symbol} {start} {end}"
        try:
            found = rows(dd.oi.history(symbol, start, end))
        except errors.DerivdataError:
            with lock:
                tally.typed.append(name)
        except BaseException as error:  # whatever it is, it is what must not happen
            with lock:
                tally.untyped.append(f"{name}: {error!r}")
        else:
            with lock:
                tally.right += found == expected
                tally.wrong += [name] * (found != expected)

    in_threads(THREADS, lambda n: [one(*call) for call in calls[n::THREADS]])
    return tally


def test_at_30_percent_faults_nothing_is_wrong_and_nearly_all_succeed(
    use: Use, truth: dict[str, pd.DataFrame], measured: Measured
) -> None:
    """Five tries at 30 % fail in 0.24 % of the calls; a second pass is answered by the cache alone."""
    calls = windows(count(200, 3000))
    use("any=0.3:1")
    first = asked(calls, truth)
    assert (first.wrong, first.untyped) == ([], [])
    assert first.right >= 0.995 * len(calls)
    use("any=0.3:1", offline=True)
    second = asked(calls, truth)
    assert (second.wrong, second.untyped, sorted(second.typed)) == ([], [], sorted(first.typed))
    measured(
        "faults at 30 %",
        f"{len(calls):,} calls: {first.right:,} right, {len(first.typed)} typed errors, 0 wrong, 0 untyped",
    )


def test_at_70_percent_faults_nothing_is_wrong(
    use: Use, truth: dict[str, pd.DataFrame], measured: Measured
) -> None:
    """Five tries at 70 % fail in 17 % of the calls."""
    calls = windows(count(40, 1500))
    use("any=0.7:2")
    tally = asked(calls, truth)
    assert (tally.wrong, tally.untyped) == ([], [])
    assert 0.7 <= tally.right / len(calls) <= 0.95
    measured(
        "faults at 70 %",
        f"{len(calls):,} calls: {tally.right:,} right, {len(tally.typed)} typed errors, 0 wrong, 0 untyped",
    )


def test_every_kind_of_fault_is_drawn() -> None:
    found = [drawn(0.3, "1", f"/x?{n}", 1) for n in range(3000)]
    assert len(PASSING) == 14
    assert set(found) == {*PASSING, "ok"}
    assert 0.27 < 1 - found.count("ok") / 3000 < 0.33
