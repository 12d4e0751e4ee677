"""Records of the cache, made and read without a connection."""

from __future__ import annotations

from pathlib import Path

from derivdata.client.transport.cache import Head, ResponseFiles
from derivdata.support.times import machine_now


def head(key: str, body: bytes) -> Head:
    """Return the head of a response that never expires."""
    return Head(key=key, url="/x", headers={}, created=machine_now(), expires=None, body_bytes=len(body))


def keep(files: ResponseFiles, key: str, body: bytes) -> None:
    files.keep(head(key, body), body)
    assert files.trouble is None, files.trouble


def kept(folder: Path) -> dict[str, bytes | None]:
    """Return the body of every response in a source's folder, None if damaged."""
    files = ResponseFiles(folder.parent, folder.name)
    results = {path.stem: files.record(path.stem) for path in folder.glob("*.answer")}
    return {key: None if record is None else record.body for key, record in results.items()}
