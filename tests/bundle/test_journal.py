"""The file of an active recording: read like the finished bundle, with cheap appends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from derivdata import bundle, errors
from derivdata.client import transport
from derivdata.client.bundle.files import MAGIC
from tests.bundle.conftest import Service

NOON = pd.Timestamp("2026-06-30T12:00:00Z")


@pytest.fixture
def killed(service: Service, path: Path, tmp_path: Path) -> Path:
    """Return a recording of three responses as a killed process leaves it."""
    recording = bundle.record(path, about={"n": 3})
    for n in range(3):
        transport.raw(f"/x/{n}")
    left = tmp_path / "killed.ddz"
    left.write_bytes(path.read_bytes())
    recording.close()
    return left


def test_journal_of_a_killed_recording_is_readable_as_a_bundle(killed: Path, path: Path) -> None:
    journal, zipped = bundle.info(killed), bundle.info(path)
    assert killed.read_bytes().startswith(MAGIC)
    assert path.read_bytes().startswith(b"PK")
    pd.testing.assert_frame_equal(journal.requests, zipped.requests)
    for name in ("about", "asof", "source", "synthetic", "answers", "versions", "python", "platform"):
        assert getattr(journal.manifest, name) == getattr(zipped.manifest, name), name
    assert not bundle.bundle_diff(killed, path)
    transport.disconnect()
    with bundle.replay(killed):
        assert transport.raw("/x/2") == {"path": "/x/2"}


def test_killed_recording_can_be_overwritten(killed: Path, service: Service) -> None:
    with bundle.record(killed):
        transport.raw("/y")
    assert bundle.verify(killed) == 1


def test_truncated_last_frame_is_omitted(killed: Path, tmp_path: Path) -> None:
    """For a cut at any byte: earlier acknowledged responses are whole, and nothing is partial."""
    data = killed.read_bytes()
    ends, place = [], len(MAGIC)
    while place < len(data):
        line = data.index(b"\n", place)
        kind, size, _ = data[place:line].split()
        place = line + 1 + int(size) + 1
        ends += [place] if kind == b"answer" else []
    assert (len(ends), place) == (3, len(data))
    cut = tmp_path / "cut.ddz"
    for end in range(data.index(b"\nbody ") + 1, len(data), 7):
        cut.write_bytes(data[:end])
        assert bundle.verify(cut) == sum(whole <= end for whole in ends), end


@pytest.mark.parametrize(
    ("part", "offset"),
    [(b'"/x/1"', 1), (b"answer ", 1), (b"manifest ", 1), (b'"asof"', 1), (b"body ", 1), (b"body ", 80)],
)
def test_damaged_frame_raises_instead_of_ending_the_journal(
    part: bytes, offset: int, killed: Path, tmp_path: Path
) -> None:
    data = bytearray(killed.read_bytes())
    data[data.index(part) + offset] ^= 1
    bad = tmp_path / "bad.ddz"
    bad.write_bytes(data)
    with pytest.raises(errors.BundleError, match=r"damaged|cannot be read|truncated"):
        bundle.verify(bad)


def test_damaged_frame_before_other_frames_raises(killed: Path, tmp_path: Path) -> None:
    """A frame may only be called cut off where it is the last one; zeros have no end of line either."""
    data, bad = killed.read_bytes(), tmp_path / "bad.ddz"
    place = data.index(b"body ") + len(b"body ")
    second = data.index(b"answer ", data.index(b"answer ") + 1)
    spoilt = [data[:second] + bytes(100) + data[second + 100 :]]
    spoilt += [data[:place] + size + data[data.index(b" ", place) :] for size in (b"9999999", b"9999999999")]
    for item in spoilt:
        bad.write_bytes(item)
        with pytest.raises(errors.BundleError, match="expected the start of a frame"):
            bundle.verify(bad)


def test_each_response_appends_only_its_own_bytes(
    service: Service, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in bytes: the same number after two hundred responses as after one."""
    written: list[int] = []
    write = os.write

    def counted(file: int, data: memoryview) -> int:
        written.append(len(data))
        return write(file, data)

    with bundle.record(path):
        monkeypatch.setattr("derivdata.client.bundle.files.os.write", counted)
        for n in range(200):
            transport.raw(f"/x/{n:04}")
        monkeypatch.undo()
    assert len(written) == 200
    assert max(written) - min(written) < 50
    assert max(written) < 1_000
    assert bundle.verify(path) == 200


def test_removed_file_raises_during_recording(service: Service, path: Path) -> None:
    recording = bundle.record(path)
    path.unlink()
    with pytest.raises(errors.BundleError, match="removed or replaced"):
        transport.raw("/x/2")
    with pytest.raises(errors.BundleError, match="removed or replaced"):
        recording.close()
    assert not path.exists()


def test_recording_is_completed_at_exit(tmp_path: Path) -> None:
    code = (
        "import derivdata as dd, sys\n"
        "dd.connect('sample', cache='off')\n"
        "recording = dd.record(sys.argv[1])\n"
        "dd.raw('/oi/exchanges-summary')\n"
    )
    path = tmp_path / "left.ddz"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    assert path.read_bytes().startswith(b"PK")
    assert bundle.verify(path) == 1


def test_full_disk_leaves_no_empty_recording(
    path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = bundle.record(path)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("derivdata.client.bundle.files.os.write", full)
    with pytest.raises(errors.BundleError, match="No space left on device"):
        transport.raw("/x/0")
    monkeypatch.setattr("derivdata.client.bundle.files.zipfile.ZipFile", full)
    with pytest.raises(errors.BundleError, match="free space there"):
        recording.close()
    assert not path.exists()
