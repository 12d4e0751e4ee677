"""Damage to what is on disk: a cache record is fetched again, a bundle is refused by name."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import derivdata as dd
from derivdata import bundle, errors, transport
from derivdata.api import FUNDING, FUNDING_HISTORICAL, Request
from tests.bundle.conftest import Service, path, service
from tests.reliability.conftest import Measured
from tests.reliability.promises import count
from tests.transport.conftest import Open
from tests.transport.server import Reply, serving

__all__ = ["path", "service"]

HISTORY = Request("/funding/historical", (("symbol", "BTC"),))
RECORDS = ("flip", "cut", "overwrite", "random", "junk", "swap")
BUNDLES = ("flip", "cut", "overwrite", "random", "zeros", "empty")


def damaged(how: str, good: bytes, chance: random.Random, other: bytes = b"") -> bytes:
    place = chance.randrange(len(good))
    return {
        "flip": good[:place] + bytes([good[place] ^ 1 << chance.randrange(8)]) + good[place + 1 :],
        "cut": good[:place],
        "overwrite": good[:place] + chance.randbytes(20) + good[place + 20 :],
        "random": chance.randbytes(len(good)),
        "zeros": good[:place] + bytes(min(64, len(good) - place)) + good[place + 64 :],
        "junk": good + chance.randbytes(20),
        "empty": b"",
        "swap": other,
    }[how]


def test_a_damaged_record_is_fetched_again(opened: Open, tmp_path: Path, measured: Measured) -> None:
    times = count(25, 250)
    body = {"text": "x" * 500, "numbers": list(range(300))}
    with serving(lambda _: Reply.json(body)) as server:
        connection = opened(server.url)
        first = connection.serve(HISTORY, FUNDING_HISTORICAL)
        connection.serve(Request("/other", ()), FUNDING)
        records = list(tmp_path.rglob("*.answer"))
        [record] = [p for p in records if b"/funding/historical" in p.read_bytes()]
        [other] = [p for p in records if p != record]
        good = record.read_bytes()
        for how in RECORDS:
            chance = random.Random(how)
            for _ in range(times):
                record.write_bytes(damaged(how, good, chance, other.read_bytes()))
                before = len(server.asked)
                assert connection.serve(HISTORY, FUNDING_HISTORICAL) == first
                assert len(server.asked) == before + 1
    measured(
        "damaged cache record", f"{len(RECORDS) * times:,} records: 0 wrong, 0 raised, all fetched again"
    )


@pytest.fixture
def good(service: Service, path: Path) -> Path:
    with bundle.record(path):
        dd.funding.history(["BTC", "ETH"], "2h")
        transport.raw("/text", of="é€😀")
    transport.disconnect()
    return path


def test_a_damaged_bundle_is_refused_or_harmless(good: Path, measured: Measured) -> None:
    """A zip holds bytes that say nothing, such as times: then the contents are the very same."""
    times = count(25, 250)
    whole, told = good.read_bytes(), bundle.info(good)
    harmless = 0
    for how in BUNDLES:
        chance = random.Random(how)
        for _ in range(times):
            good.write_bytes(damaged(how, whole, chance))
            try:
                now = bundle.info(good)
            except errors.BundleError:
                continue
            assert how in ("flip", "overwrite", "zeros")
            assert now.requests.equals(told.requests)
            assert now.manifest == told.manifest
            harmless += 1
    total = len(BUNDLES) * times
    assert harmless < total / 10
    refused = f"{total:,} bundles: {total - harmless:,} refused, {harmless} with all contents unharmed"
    measured("damaged bundle", refused)
