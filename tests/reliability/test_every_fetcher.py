"""Failing responses: the complete table with its notices, or one derivdata error."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata import errors
from tests.reliability.conftest import PATIENT, Measured, Use
from tests.reliability.promises import count
from tests.support.threads import in_threads
from tests.test_fetch import CASES, DAY, FAMILIES, OPEN
from tests.transport.conftest import KEY

SEVERAL = ["BTC", "ETH", "SOL", "DOGE"]
THREADS = 8
TWO = replace(PATIENT, tries=2)
"""So that half of the questions that four responses are needed for fail, most of them midway."""

LASTING: dict[str, type[errors.DerivdataError]] = {
    "400": errors.BadRequest,
    "401": errors.AuthError,
    "403": errors.TierError,
    "404": errors.NotFound,
    "429=3600": errors.RateLimited,
    "500": errors.ServerError,
    "html": errors.SchemaError,
    "garbled": errors.NetworkError,
    "reset=9": errors.NetworkError,
    "cut=9": errors.NetworkError,
    "open=9": errors.NetworkError,
    "chunk=9": errors.NetworkError,
}

Call = Callable[[], Any]


def call_of(family: str, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Call:
    return lambda: getattr(getattr(dd, family), name)(*args, **options)


def polled() -> pd.DataFrame:
    """Three pages of the feed as one frame."""
    pages = list(itertools.islice(dd.liquidations.poll("2h", limit=500, sleep=lambda _: None), 3))
    frame = pd.concat(pages, ignore_index=True)
    frame.attrs["provenance"] = {"pages": [page.attrs["provenance"] for page in pages]}
    return frame


CALLS: dict[str, Call] = {f"{case[0]}.{case[1]}": call_of(*case[:4]) for case in [*CASES, *OPEN]} | {
    "funding.history": call_of("funding", "history", (SEVERAL, *DAY), {"resolution": "8h"}),
    "funding.settlements": call_of("funding", "settlements", (SEVERAL, *DAY), {}),
    "oi.history": call_of("oi", "history", (SEVERAL, *DAY), {"resolution": "12h"}),
    "volume.history": call_of("volume", "history", (SEVERAL, *DAY), {"resolution": "12h"}),
    "liquidations.events": call_of("liquidations", "events", (), {"since": "10m"}),
    "hip4.outcome": call_of("hip4", "outcome", (108, "7d"), {}),
    "options.surface": call_of("options", "surface", ("BTC", "deribit"), {}),
    "options.surface_history": call_of("options", "surface_history", ("BTC", "deribit", "6h"), {}),
    "liquidations.poll": polled,
}
"""Calls on the sample and of several symbols; others are compared with cassettes elsewhere."""


def differs(found: Any, right: Any) -> bool:
    """Whether a value, a type, or a word of the provenance is another."""
    if isinstance(right, xr.Dataset):
        return not found.identical(right)
    same = found.equals(right) and found.dtypes.equals(right.dtypes)
    return not (same and found.attrs == right.attrs)


def without_faults(address: str, calls: Mapping[str, Call]) -> dict[str, Any]:
    """Return the result of each call without faults."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_API_KEY", KEY)
        dd.connect(address, cache="off")
        results = {name: call() for name, call in calls.items()}
        dd.disconnect()
    return results


@pytest.fixture(scope="module")
def truth(faulty: str) -> dict[str, Any]:
    result = without_faults(faulty, CALLS)
    assert all(len(table) for table in result.values())
    return result


def outcomes(truth: dict[str, Any]) -> dict[str, list[str]]:
    """The fetchers by what became of them: right, wrong, the class of an error of ours, or what else came."""
    results: list[tuple[str, str]] = []

    def one(name: str, call: Call) -> None:
        try:
            table = call()
        except errors.DerivdataError as error:
            results.append((type(error).__name__, name))
        except BaseException as error:  # whatever it is, it is what must not happen
            results.append((f"untyped: {error!r}", name))
        else:
            results.append(("wrong" if differs(table, truth[name]) else "right", name))

    calls = list(CALLS.items())
    in_threads(THREADS, lambda number: [one(*item) for item in calls[number::THREADS]])
    kinds = dict(results)
    return {kind: sorted(name for said, name in results if said == kind) for kind in kinds}


def test_every_fetcher_is_called() -> None:
    public = {f"{family}.{name}" for family, module in FAMILIES.items() for name in module.__all__}
    assert set(CALLS) == public


def test_every_fetcher_returns_a_complete_table_or_raises(
    use: Use, truth: dict[str, Any], measured: Measured
) -> None:
    """At half of all responses bad, and two tries: a quarter of the questions for one response fail."""
    rounds, tally = count(1, 40), Counter[str]()
    for round_ in range(rounds):
        use(f"any=0.5:{round_}", cache="off", limits=TWO)
        result = outcomes(truth)
        allowed = {"right", *(kind.__name__ for kind in LASTING.values())}
        assert set(result) <= allowed, {kind: names for kind, names in result.items() if kind not in allowed}
        tally.update({kind: len(names) for kind, names in result.items()})
    total, right = tally.total(), tally["right"]
    assert total == rounds * len(CALLS)
    assert min(right, total - right) > total / 10
    figure = f"{total:,} calls at 50 %: {right:,} right, {total - right:,} typed errors, 0 wrong, 0 untyped"
    measured("every fetcher", f"{len(CALLS)} fetchers, {figure}")


def test_lasting_fault_raises_the_same_error_in_every_fetcher(
    use: Use, truth: dict[str, Any], measured: Measured
) -> None:
    for plan, kind in LASTING.items():
        use(quote(plan, safe="="), cache="off", limits=TWO)
        assert outcomes(truth) == {kind.__name__: sorted(CALLS)}, plan
    cases = len(LASTING) * len(CALLS)
    measured("every fetcher", f"{cases} calls at {len(LASTING)} lasting faults: each its class")


MANY = 16
SYMBOLS = ("BTC", "ETH", "SOL")
END = pd.Timestamp("2026-06-30", tz="UTC")
SPAN = pd.Timedelta(25, "D")
HOUR = pd.Timedelta(1, "h")


@pytest.fixture(scope="module")
def whole(faulty: str) -> dict[str, pd.DataFrame]:
    """Open interest of the whole span, one request for each symbol."""
    result = without_faults(
        faulty, {symbol: partial(dd.oi.history, symbol, END - SPAN, END) for symbol in SYMBOLS}
    )
    assert all(len(frame) > 5000 for frame in result.values())
    return result


def windows(calls: int) -> list[tuple[str, pd.Timestamp, pd.Timestamp]]:
    """That many windows of one to three hours, all different."""
    hours = int(SPAN / HOUR) - 3
    every = [(symbol, start, length) for symbol in SYMBOLS for start in range(hours) for length in (1, 2, 3)]
    chosen = random.Random(5).sample(every, calls)
    return [(s, END - SPAN + start * HOUR, END - SPAN + (start + long) * HOUR) for s, start, long in chosen]


def asked(calls: list[tuple[str, pd.Timestamp, pd.Timestamp]], whole: dict[str, pd.DataFrame]) -> list[str]:
    """Outcome of each call, by 16 threads: right, wrong, typed, or forbidden."""
    result = [""] * len(calls)

    def one(number: int, symbol: str, start: pd.Timestamp, end: pd.Timestamp) -> None:
        stored = whole[symbol]
        expected = stored[(stored["time"] >= start) & (stored["time"] < end)].reset_index(drop=True)
        try:
            result[number] = "right" if dd.oi.history(symbol, start, end).equals(expected) else "wrong"
        except errors.DerivdataError:
            result[number] = "typed"
        except BaseException as error:
            result[number] = f"untyped: {error!r}"

    in_threads(MANY, lambda n: [one(k, *calls[k]) for k in range(n, len(calls), MANY)])
    return result


@pytest.mark.parametrize(
    ("promise", "plan", "calls", "least", "most"),
    [
        ("faults at 30 %", "any=0.3:1", count(200, 3000), 0.995, 1.0),
        ("faults at 70 %", "any=0.7:2", count(40, 1500), 0.7, 0.95),
    ],
)
def test_no_result_is_wrong_and_failure_rate_is_that_of_five_tries(
    promise: str,
    plan: str,
    calls: int,
    least: float,
    most: float,
    use: Use,
    whole: dict[str, pd.DataFrame],
    measured: Measured,
) -> None:
    """Five tries fail in 0.24 % of the calls at 30 %, in 17 % at 70 %; a second pass reads only the cache."""
    expected = windows(calls)
    use(plan)
    first = asked(expected, whole)
    assert {*first} <= {"right", "typed"}
    right = first.count("right")
    assert least <= right / calls <= most
    use(plan, offline=True)
    assert asked(expected, whole) == first
    measured(promise, f"{calls:,} calls: {right:,} right, {calls - right} typed errors, 0 wrong, 0 untyped")
