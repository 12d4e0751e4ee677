"""Recorded responses: an unrecorded request is an error, and every cassette has its origin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import vcr

from derivdata.client.transport import SESSION

FOLDER = Path(__file__).resolve().parents[2] / "cassettes"
ORIGINS = ("recorded", "documented", "synthetic")
HOST = "https://api.derivdata.example"
KEY = "cassette-key"


def without_key(response: dict[str, Any]) -> dict[str, Any] | None:
    """Return a response that may be recorded; None if it repeats the connection's key."""
    return None if SESSION.holds_key(repr(response).encode()) else response


SETTINGS: dict[str, Any] = {
    "record_mode": "none",
    "match_on": ["method", "path", "query"],
    "filter_headers": ["X-Api-Key"],
    "before_record_response": without_key,
    "decode_compressed_response": True,
}
"""For playing; with ``record_mode`` ``"all"`` also for recording, from one thread."""

_vcr = vcr.VCR(cassette_library_dir=str(FOLDER), path_transformer=vcr.VCR.ensure_suffix(".yaml"), **SETTINGS)


@contextmanager
def playing(name: str) -> Iterator[vcr.cassette.Cassette]:
    """Connected to the cassette's service: a request that it lacks raises."""
    import derivdata as dd

    with _vcr.use_cassette(name) as cassette:
        dd.connect(HOST, api_key=KEY)
        yield cassette
        dd.disconnect()


def origin(path: Path) -> str:
    """Origin of the cassette, from its first line."""
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# origin: ").split()[0]
