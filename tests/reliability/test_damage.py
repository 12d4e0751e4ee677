"""Damage on disk: a cache record is fetched again, a bundle raises a named error."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from derivdata import bundle, errors
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, Request
from tests.bundle.conftest import path, service
from tests.bundle.test_hostile import claiming, good, members, refused, zipped
from tests.reliability.conftest import Measured
from tests.reliability.promises import count
from tests.transport.conftest import Open
from tests.transport.server import Reply, serving

__all__ = ["good", "path", "service"]

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


def test_a_damaged_record_is_fetched_again(open_connection: Open, tmp_path: Path, measured: Measured) -> None:
    times = count(50, 250)
    body = {"text": "x" * 500, "numbers": list(range(300))}
    with serving(lambda _: Reply.json(body)) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING_HISTORICAL)
        connection._serve(Request("/other", ()), FUNDING)
        records = list(tmp_path.rglob("*.answer"))
        [record] = [p for p in records if b"/funding/historical" in p.read_bytes()]
        [other] = [p for p in records if p != record]
        good = record.read_bytes()
        for how in RECORDS:
            chance = random.Random(how)
            for _ in range(times):
                record.write_bytes(damaged(how, good, chance, other.read_bytes()))
                before = len(server.received)
                assert connection._serve(HISTORY, FUNDING_HISTORICAL) == first
                assert len(server.received) == before + 1
    measured(
        "damaged cache record", f"{len(RECORDS) * times:,} records: 0 wrong, 0 raised, all fetched again"
    )


def test_a_damaged_bundle_is_rejected_or_harmless(good: Path, measured: Measured) -> None:
    """A zip has unused bytes, such as times; in that case the contents are identical."""
    times = count(50, 250)
    whole, told, held = good.read_bytes(), bundle.info(good), members(good)
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
            assert members(good) == held
            harmless += 1
    total = len(BUNDLES) * times
    assert harmless < total / 10
    measured("damaged bundle", f"{total:,} damaged: {total - harmless:,} refused, {harmless} unharmed inside")


DATES = ["", "never", "nan", "2026-06-30", "9999-99-99T00:00:00Z", 5, True, [], {}]
FORGED: dict[str, list[Any]] = {
    "manifest.format": [None, "zip"],
    "manifest.version": [None, 0, 2, 1.5, "1"],
    "manifest.asof": DATES,
    "manifest.source": [None, 1],
    "manifest.synthetic": [None, "yes"],
    "manifest.about": [None, []],
    "manifest.answers": [None, -1, 0, 4, 2**63, "3"],
    "manifest.answers_sha256": [None, "", "0" * 64],
    "manifest.versions": [None, [], {"numpy": 2}],
    "entry.path": [None, 5],
    "entry.query": [None, {}, "x", [["a"]], [["a", "b", "c"]], [["a", 1]]],
    "entry.status": [None, "200", 200.5, []],
    "entry.headers": [None, [], {"a": 1}],
    "entry.date": DATES,
    "entry.received": DATES,
    "entry.sha256": [None, "", "../../../etc/passwd", "A" * 64, "0" * 64],
    "entry.bytes": [None, -1, 0, 2**63, 10**30, "1"],
    "entry.attribution": [None, 1],
}
"""Values that no recording writes, in a bundle whose list has its hash put right again."""


def forged(contents: dict[str, bytes]) -> Iterator[list[tuple[str, bytes]]]:
    """The members of every forgery: fields of other values or omitted, bodies of other bytes.

    Each is a zip with valid checksums; only `about` may be omitted.
    """
    bodies = [(name, data) for name, data in contents.items() if name.startswith("bodies/")]
    for where, values in FORGED.items():
        part, _, name = where.partition(".")
        for value in values if name == "about" else [*values, ...]:
            manifest, entries = json.loads(contents["manifest.json"]), json.loads(contents["answers.json"])
            changed = manifest if part == "manifest" else entries[0]
            changed[name] = value
            if value is ...:
                del changed[name]
            listed = json.dumps(entries).encode()
            if where != "manifest.answers_sha256":
                manifest["answers_sha256"] = hashlib.sha256(listed).hexdigest()
            yield [("manifest.json", json.dumps(manifest).encode()), ("answers.json", listed), *bodies]
    for name, body in bodies:
        for place in range(0, len(body), 1 + len(body) // 10):
            other = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
            yield [*(contents | {name: other}).items()]


def test_forged_or_oversized_bundle_is_rejected(good: Path, tmp_path: Path, measured: Measured) -> None:
    contents = members(good)
    cases = list(forged(contents))
    for parts in cases:
        refused(zipped(tmp_path / "forged.ddz", parts), "forged.ddz")
    whole = list(contents.items())
    refused(claiming(zipped(tmp_path / "list", whole), 257 * 2**20, b"answers.json"), "list")
    many = [(f"bodies/{n:064x}", b"") for n in range(65_001)]
    refused(zipped(tmp_path / "many", [*whole, *many], zipfile.ZIP_STORED), "many")
    measured("damaged bundle", f"{len(cases) + 2} forged or overfull: all refused")
