"""Faults that the service can be asked for: the exact error, after an exact number of tries.

Plain statuses, pages and resets are in tests/transport/test_faults.py.
"""

from __future__ import annotations

from urllib.parse import quote

import pandas as pd
import pytest
import requests

import derivdata as dd
from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport.settings import Limits, Timing
from derivdata.tables import endpoints
from derivdata.tables.endpoints import Request
from tests.reliability.conftest import Measured, Use
from tests.support.faults import PASSING
from tests.transport.conftest import KEY, FakeTime, checked
from tests.transport.test_faults import LASTING, RECOVERED

LASTS: list[tuple[str, type[errors.DerivdataError], int, str]] = [
    ("408", errors.BadRequest, 1, "HTTP 408"),
    ("429=0.5", errors.RateLimited, 5, "try again in 0.5 s"),
    ("html=502", errors.ServerError, 5, "HTTP 502"),
    ("html=404", errors.NotFound, 1, "HTTP 404"),
    ("garbled", errors.NetworkError, 5, "broke off"),
    ("bomb=70", errors.NetworkError, 1, "larger than"),
    ("redirect=http://127.0.0.1:9/x", errors.NetworkError, 1, "plain http"),
    ("reset=100", errors.NetworkError, 5, "broke off"),
    ("cut=0", errors.NetworkError, 5, "broke off"),
    ("cut=100", errors.NetworkError, 5, "broke off"),
    ("open=100", errors.NetworkError, 5, "broke off"),
    ("chunk=100", errors.NetworkError, 5, "broke off"),
    ("silent=9", errors.NetworkError, 5, "fell silent"),
    ("drip=9", errors.NetworkError, 5, "fell silent"),
]
PASSES = [(f"{fault};ok", 2) for fault in PASSING if fault not in ("silent=1.5", "drip=0.1")] + [
    ("silent=9;ok", 2),
    ("drip=9;ok", 2),
    ("503;reset;cut=10;chunk=10;ok", 5),
    ("redirect", 1),
    ("type=text/html", 1),
    ("skew=0", 1),
]


@pytest.fixture(scope="module")
def right(faulty: str) -> bytes:
    answer = requests.get(f"{faulty}/oi/exchanges-summary", headers={"X-Api-Key": KEY}, timeout=120)
    assert answer.status_code == 200
    return answer.content


def served(use: Use, plan: str, fake: FakeTime, **settings: object) -> transport.Response:
    connection = use(quote(plan, safe="=;"), **{"timing": fake.timing, **settings})
    return checked(connection._serve(Request("/oi/exchanges-summary", ()), endpoints.OI_EXCHANGES_SUMMARY))


@pytest.mark.parametrize(("plan", "kind", "tries", "says"), LASTS, ids=[case[0] for case in LASTS])
def test_a_lasting_fault_is_one_error_of_its_class(
    plan: str, kind: type[Exception], tries: int, says: str, use: Use, fake: FakeTime
) -> None:
    with pytest.raises(kind, match=says):
        served(use, plan, fake, limits=Limits(read=0.2 if plan in ("silent=9", "drip=9") else 20.0))
    assert len(fake.slept) == tries - 1


@pytest.mark.parametrize(("plan", "tries"), PASSES, ids=[case[0] for case in PASSES])
def test_a_passing_fault_is_the_right_answer(
    plan: str, tries: int, right: bytes, use: Use, fake: FakeTime
) -> None:
    answer = served(
        use, plan, fake, limits=Limits(read=1.0 if plan in ("silent=9;ok", "drip=9;ok") else 20.0)
    )
    assert answer.body == right
    assert answer.as_of == pd.Timestamp("2026-06-30 12:00Z")
    assert answer.synthetic
    assert len(fake.slept) == tries - 1


def test_a_drip_ends_at_the_deadline_of_one_answer(use: Use, fake: FakeTime) -> None:
    timing = Timing(sleep=fake.sleep)
    with pytest.raises(errors.NetworkError, match="not complete"):
        served(use, "drip=0.02", fake, timing=timing, limits=Limits(answer=0.2, tries=2))
    assert len(fake.slept) == 1


def test_the_time_of_an_answer_is_the_servers_however_wrong(use: Use, fake: FakeTime) -> None:
    """A year ahead, or behind: data are dated by the service, and windows end by its clock."""
    for days in (365, -365):
        use(f"skew={days * 86400}", timing=fake.timing)
        moved = pd.Timestamp("2026-06-30 12:00Z") + pd.Timedelta(days, "D")
        assert dd.asof() == moved
        assert dd.provenance(dd.oi.exchanges())["as_of"] == moved.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_tables_of_cases_are_whole(measured: Measured) -> None:
    """By the service here, and by a server that is wrong in ways of its own in tests/transport."""
    cases = len(LASTS) + len(PASSES) + len(LASTING) + len(RECOVERED)
    assert len(LASTS) + len(PASSES) >= 30
    measured("each fault", f"{cases} cases, each with its class and number of tries")
