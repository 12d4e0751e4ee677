"""One small hand-written market that the service's tests request over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pandas as pd
import pytest
import requests

from derivdata.sources import service
from tests.service import market, more_market
from tests.service.memory_store import MemoryStore

PATIENCE = 120.0
"""Seconds that only a hang reaches."""

KEYS = {"key-free": "free", "key-dev": "dev", "key-pro": "pro", "key-team": "team"}


class Caller:
    """Client of one running service; `tier` selects the key."""

    def __init__(self, local: service.RunningService) -> None:
        self.local, self.session = local, requests.Session()

    def __call__(self, path: str, *, tier: str | None = "pro", method: str = "GET", **params: Any) -> Any:
        headers = {"X-Api-Key": f"key-{tier}"} if tier else {}
        return self.session.request(
            method, self.local.url + path, params=params, headers=headers, timeout=PATIENCE
        )

    def body(self, path: str, *, tier: str = "pro", **params: Any) -> Any:
        answer = self(path, tier=tier, **params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, path: str, status: int, *, tier: str | None = "pro", **params: Any) -> Any:
        answer = self(path, tier=tier, **params)
        assert answer.status_code == status, answer.text
        assert answer.headers["Content-Type"] == "application/json"
        return answer.json()


@pytest.fixture(scope="package")
def store() -> MemoryStore:
    frames = market.frames() | more_market.frames()
    chains = [frames["options_snapshot"], more_market.earlier_chain()]
    return MemoryStore(frames | {"options_snapshot": pd.concat(chains)}, now=market.NOW)


@contextmanager
def serving(source: Any, **options: Any) -> Iterator[Caller]:
    """Serve a store, or frames by table, to one caller."""
    store = MemoryStore(source, now=market.NOW) if isinstance(source, dict) else source
    with closing(service.start(store, keys=KEYS, **options)) as local:
        caller = Caller(local)
        try:
            yield caller
        finally:
            caller.session.close()


@pytest.fixture(scope="package")
def ask(store: MemoryStore) -> Iterator[Caller]:
    with serving(store) as caller:
        yield caller
