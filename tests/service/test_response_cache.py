"""Answers that are kept: how many bytes, and which go first."""

from __future__ import annotations

import gzip

from derivdata.service.response_cache import EncodedBody, ResponseCache


def test_the_oldest_asked_for_goes_first() -> None:
    """Each answer of 10 bytes counts 20, for its compressed form: three fit into 60."""
    kept = ResponseCache(limit=60)
    answers = {name: EncodedBody(b"x" * 10) for name in "abcd"}
    for name in "abc":
        kept.put(name, answers[name])
    assert kept.get("a") is answers["a"]
    kept.put("d", answers["d"])
    assert kept.get("b") is None
    assert [kept.get(name) for name in "acd"] == [answers[name] for name in "acd"]


def test_what_is_too_large_is_not_kept() -> None:
    kept = ResponseCache(limit=60)
    kept.put("small", EncodedBody(b"x"))
    kept.put("large", EncodedBody(b"x" * 31))
    assert kept.get("large") is None
    assert kept.get("small") is not None


def test_compressed_bytes_are_the_same_whenever_they_are_made() -> None:
    body = b"abc" * 1000
    assert EncodedBody(body).compressed() == EncodedBody(body, packed=True).compressed()
    assert gzip.decompress(EncodedBody(body).compressed()) == body
    assert not EncodedBody(b"short").worth_compressing
