"""Cached responses: their number of bytes, and the order of eviction."""

from __future__ import annotations

import gzip

from derivdata.sources.service.http.responses import EncodedBody, ResponseCache


def test_least_recently_used_response_is_evicted_first_and_too_large_ones_at_once() -> None:
    """Responses of 10,000 bytes take 11 to 12 kB with key and entry: three fit into 36 kB."""
    kept = ResponseCache(limit=36_000)
    answers = {name: EncodedBody(b"x" * 10_000) for name in "abcd"}
    for name in "abc":
        kept.put((name,), answers[name])
    assert kept.get(("a",)) is answers["a"]
    kept.put(("d",), answers["d"])
    assert kept.get(("b",)) is None
    assert [kept.get((name,)) for name in "acd"] == [answers[name] for name in "acd"]
    kept = ResponseCache(limit=5_000)
    kept.put(("small",), EncodedBody(b"x"))
    kept.put(("large",), EncodedBody(b"x" * 4_500))
    assert kept.get(("large",)) is None
    assert kept.get(("small",)) is not None


def test_cache_size_includes_keys() -> None:
    """1,000 requests of 56 kB each with responses of 236 bytes: 1 MB has room for 16 of them, not 4,000."""
    kept = ResponseCache(limit=1_000_000)
    for number in range(1_000):
        kept.put(("/funding", f"{number}," * 14_000), EncodedBody(b"x" * 236))
    found = [number for number in range(1_000) if kept.get(("/funding", f"{number}," * 14_000))]
    assert found == list(range(1_000 - len(found), 1_000))
    assert 14 <= len(found) <= 18
    assert 0.9e6 < kept.size <= 1e6


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
