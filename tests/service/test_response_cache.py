"""Cached responses: their number of bytes, and the order of eviction."""

from __future__ import annotations

import gzip

from derivdata.sources.service.http.responses import EncodedBody, ResponseCache


def test_least_recently_used_response_is_evicted_first() -> None:
    """Responses of 10,000 bytes take 11 to 12 kB with key and entry: three fit into 36 kB."""
    cache = ResponseCache(limit=36_000)
    bodies = {name: EncodedBody(b"x" * 10_000) for name in "abcd"}
    for name in "abc":
        cache.put((name,), bodies[name])
    assert cache.get(("a",)) is bodies["a"]  # so b is the least recently used
    cache.put(("d",), bodies["d"])
    assert cache.get(("b",)) is None
    assert [cache.get((name,)) for name in "acd"] == [bodies[name] for name in "acd"]


def test_response_above_the_limit_is_not_stored_and_evicts_nothing() -> None:
    """A response of 4,500 bytes takes more than 5,000 with its entry of 1,024 bytes."""
    cache = ResponseCache(limit=5_000)
    cache.put(("small",), EncodedBody(b"x"))
    cache.put(("large",), EncodedBody(b"x" * 4_500))
    assert cache.get(("large",)) is None
    assert cache.get(("small",)) is not None


def test_cache_size_includes_keys() -> None:
    """1,000 requests of 56 kB each with responses of 236 bytes: 1 MB has room for 16 of them, not 4,000."""
    cache = ResponseCache(limit=1_000_000)
    for number in range(1_000):
        cache.put(("/funding", f"{number}," * 14_000), EncodedBody(b"x" * 236))
    stored = [number for number in range(1_000) if cache.get(("/funding", f"{number}," * 14_000))]
    assert stored == list(range(1_000 - len(stored), 1_000))  # the newest ones
    assert 14 <= len(stored) <= 18
    assert 0.9e6 < cache.size <= 1e6


def test_cache_size_includes_compressed_bodies() -> None:
    kept, answer = ResponseCache(), EncodedBody(bytes(range(256)) * 400)
    kept.put(("a",), answer)
    before = kept.size
    packed = len(answer.compressed())
    kept.put(("a",), answer)
    assert kept.size == before + packed
    body = b"abc" * 1000
    assert EncodedBody(body).compressed() == EncodedBody(body, packed=True).compressed()
    assert gzip.decompress(EncodedBody(body).compressed()) == body
    assert not EncodedBody(b"short").worth_compressing
