"""A damaged, truncated or hostile bundle raises a named error; a killed recording leaves a valid one."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import derivdata as dd
from derivdata import bundle, errors
from derivdata.client import transport
from tests.bundle.conftest import Service

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def good(service: Service, path: Path) -> Path:
    with bundle.record(path):
        dd.funding.history(["BTC", "ETH"], "2h")
        transport.raw("/text", of="é€😀")
    transport.disconnect()
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(path: Path, contents: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in contents:
            file.writestr(name, data)
    return path


def refused(path: Path, says: str) -> None:
    for call in (bundle.verify, bundle.info, bundle.replay):
        with pytest.raises(errors.BundleError, match=says):
            call(path)
    assert transport.SESSION.responder is None


def test_bundle_repacked_by_standard_zip_tools_is_valid(good: Path, tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        again = zipped(tmp_path / "again.ddz", list(reversed(members(good).items())), method)
        assert bundle.verify(again) == 3
        assert bundle.bundle_diff(good, again).answers.empty


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "bodies/../../evil", "bodies/", "bodies/XYZ", "__init__.py"],
)
def test_unexpected_member_name_is_rejected(name: str, good: Path, tmp_path: Path) -> None:
    placeholder = "bodies/" + "0" * (len(name) - 7) if len(name) > 7 else "0" * len(name)
    bad = zipped(tmp_path / "bad.ddz", [*members(good).items(), (placeholder, b"x")])
    bad.write_bytes(bad.read_bytes().replace(placeholder.encode(), name.encode()))
    refused(bad, "not a bundle: unexpected member")
    assert {p.name for p in tmp_path.iterdir()} == {good.name, "bad.ddz"}


@pytest.mark.parametrize("before", [b"junk", None])
def test_data_before_the_zip_is_rejected(before: bytes | None, good: Path, tmp_path: Path) -> None:
    """Readers of zips find the last one in a file: another bundle before it would go unseen."""
    whole = good.read_bytes()
    path = tmp_path / "two.ddz"
    path.write_bytes((whole if before is None else before) + whole)
    refused(path, "data before the first member")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes by name")
def test_pipes_folders_and_too_long_names_are_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ddz")
    (tmp_path / "folder.ddz").mkdir()
    for name in ("pipe.ddz", "folder.ddz"):
        refused(tmp_path / name, f"{name}: must be a bundle file")
    refused(tmp_path / ("x" * 5000), "x: not a bundle, or truncated: .*File name too long")


def test_body_with_a_duplicate_key_is_rejected(good: Path, tmp_path: Path) -> None:
    """Hashes, sizes and counts are right: only the body says a key twice."""
    contents = members(good)
    (old,) = (n for n, data in contents.items() if n.startswith("bodies/") and b'"ETH"' in data)
    body = contents.pop(old).replace(b"{", b'{"symbol":"BTC",', 1)
    sha = hashlib.sha256(body).hexdigest()
    listed = json.loads(contents["answers.json"])
    for entry in listed:
        if entry["sha256"] == old.removeprefix("bodies/"):
            entry |= {"sha256": sha, "bytes": len(body)}
            listed = [*listed, entry | {"path": "/z", "status": 404}]  # where such a body is no fault
    contents["answers.json"] = json.dumps(listed).encode()
    manifest = json.loads(contents["manifest.json"])
    manifest["answers"] = len(listed)
    manifest["answers_sha256"] = hashlib.sha256(contents["answers.json"]).hexdigest()
    contents["manifest.json"] = json.dumps(manifest).encode()
    bad = zipped(tmp_path / "bad.ddz", [*contents.items(), (f"bodies/{sha}", body)])
    refused(bad, "cannot be read: an object in it has the same key twice")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_member_is_rejected(good: Path, tmp_path: Path) -> None:
    contents = members(good)
    refused(zipped(tmp_path / "bad.ddz", [*contents.items(), *contents.items()]), "duplicate member")


@pytest.mark.parametrize("offset", [8, 10])
def test_encrypted_members_and_other_compressions_are_rejected(offset: int, good: Path) -> None:
    """In the list of members: the flag of encryption, and the number of the method."""
    data = bytearray(good.read_bytes())
    data[data.index(b"PK\x01\x02") + offset] |= 1
    good.write_bytes(data)
    refused(good, "is encrypted or not compressed with deflate")


def with_body(path: Path, size: int) -> Path:
    """A bundle of one response whose body is that many zeros."""
    body = b"0" * size
    entry = {
        "method": "GET", "path": "/x", "query": [], "status": 200, "headers": {}, "date": None,
        "received": None, "sha256": hashlib.sha256(body).hexdigest(), "bytes": size, "source": "s",
        "synthetic": False, "attribution": "",
    }  # fmt: skip
    answers = json.dumps([entry]).encode()
    manifest = {
        "format": "derivdata-bundle", "version": 1, "asof": None, "source": "s", "synthetic": False,
        "attribution": "", "answers": 1, "answers_sha256": hashlib.sha256(answers).hexdigest(), "python": "3",
        "platform": "p", "versions": {},
    }  # fmt: skip
    contents = [("manifest.json", json.dumps(manifest).encode()), ("answers.json", answers)]
    return zipped(path, [*contents, (f"bodies/{entry['sha256']}", body)])


@pytest.mark.parametrize(
    ("size", "claimed", "says"),
    [
        (70 * 2**20, None, "is too large: 73400320 bytes, the limit is 67108864"),
        (60 * 2**20, 1000, "is damaged"),
    ],
)
def test_body_larger_than_the_limit_or_its_stated_size_is_not_decompressed(
    size: int, claimed: int | None, says: str, path: Path
) -> None:
    """70 MiB of zeros in 70 kB."""
    with_body(path, size)
    if claimed is not None:
        claiming(path, claimed, b"bodies/")
    tracemalloc.start()
    refused(path, f"bodies/.* {says}")
    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()


def claiming(path: Path, size: int, *names: bytes) -> Path:
    """The bundle with members whose stated size, when unpacked, is another."""
    data, place = bytearray(path.read_bytes()), -1
    while (place := data.find(b"PK\x01\x02", place + 1)) >= 0:
        if data[place + 46 :].startswith(names or b""):
            data[place + 24 : place + 28] = struct.pack("<L", size)
    path.write_bytes(data)
    return path


def test_absurd_total_size_is_rejected_before_reading(good: Path) -> None:
    refused(claiming(good, 2**31), "too large: .* bytes when unpacked")


def changed(text: bytes, **values: Any) -> bytes:
    return json.dumps(json.loads(text) | values).encode()


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("manifest.json", lambda t: changed(t, version=2), "version 1, got 'derivdata-bundle', version 2"),
        ("manifest.json", lambda t: changed(t, answers=4), "answers.json is damaged: .*number of responses"),
        ("manifest.json", lambda t: b"{}", "manifest.json cannot be read: .*missing required field"),
        ("manifest.json", lambda t: b"[" * 100_000, "manifest.json cannot be read"),
        ("manifest.json", None, "manifest.json is missing"),
        ("answers.json", None, "answers.json is missing"),
        ("answers.json", lambda t: t.replace(b"BTC", b"ETC"), "answers.json is damaged: its hash"),
        ("bodies", None, r"bodies/[0-9a-f]{64} \(/.*\) is missing"),
        ("bodies", lambda t: t + b" ", r"bodies/[0-9a-f]{64} \(/.*\) is damaged: its hash"),
    ],
)  # fmt: skip
def test_changed_contents_are_rejected_by_name(
    name: str, change: Callable[[bytes], bytes] | None, says: str, good: Path, tmp_path: Path
) -> None:
    contents = members(good)
    target = next(n for n in contents if n.startswith(name))
    text = contents.pop(target)
    if change is not None:
        contents[target] = change(text)
    refused(zipped(tmp_path / "bad.ddz", list(contents.items())), says)


def test_body_without_a_request_is_rejected(good: Path, tmp_path: Path) -> None:
    extra = (f"bodies/{hashlib.sha256(b'x').hexdigest()}", b"x")
    refused(zipped(tmp_path / "bad.ddz", [*members(good).items(), extra]), "does not belong to a response")


def test_body_damaged_after_opening_is_rejected(service: Service, path: Path) -> None:
    service.extra = {"noise": random.Random(3).randbytes(200_000).hex()}
    with bundle.record(path):
        transport.raw("/large")
    transport.disconnect()
    with bundle.replay(path):
        with path.open("r+b") as file:
            file.seek(100_000)
            file.write(bytes(40))
        with pytest.raises(errors.BundleError, match=r"bodies/[0-9a-f]{64} \(/large\) is damaged"):
            transport.raw("/large")


def test_files_of_a_killed_recording_are_removed(service: Service, path: Path) -> None:
    stray = path.with_name(f".{path.name}.99999.tmp")
    stray.write_text("half")
    other = path.with_name(".other.ddz.99999.tmp")
    other.write_text("another's")
    with bundle.record(path):
        dd.funding.history("BTC", "2h")
    assert not stray.exists()
    assert other.exists()
