"""Recorded responses come back, strictly, offline, with their clock; secrets are never recorded."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle  # noqa: TID251 - a recording refuses it
import platform
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata import bundle, errors
from derivdata.client import transport
from derivdata.support import times
from tests.bundle.conftest import KEY, Service, text_of
from tests.support.threads import in_threads
from tests.transport.server import NOON

START = "2026-06-30T10:00:00Z"


def fetched() -> pd.DataFrame:
    return dd.funding.history(["BTC", "ETH"], "2h")


def test_replay_needs_no_network_key_or_cache(
    service: Service, path: Path, request: pytest.FixtureRequest
) -> None:
    with bundle.record(path):
        live = fetched()
        now = times.asof()
    transport.disconnect()
    request.getfixturevalue("no_sockets")
    with bundle.replay(path) as replay:
        again = fetched()
        assert times.asof() == now == pd.Timestamp("2026-06-30T12:00:00Z")
        assert (replay.source, replay.synthetic, replay.asof) == (f"127.0.0.1:{port(service)}", False, now)
    pd.testing.assert_frame_equal(live, again)
    assert dd.provenance(live) == dd.provenance(again)
    assert transport.cache_info().answers == 0


def port(service: Service) -> int:
    assert service.server is not None
    return service.server.port


def test_recording_ends_with_close(service: Service, path: Path) -> None:
    recording = bundle.record(path)
    fetched()
    assert "under way: 2 responses, clock 2026-06-30T12:00:00Z" in repr(recording)
    recording.close()
    recording.close()  # a second call has no effect
    assert "ended" in repr(recording)
    fetched()
    assert bundle.verify(path) == 2


def test_recording_ends_with_disconnect(service: Service, path: Path) -> None:
    recording = bundle.record(path)
    transport.connect(service.server.url, cache="off")  # type: ignore[union-attr]
    live = fetched()
    transport.disconnect()
    assert "ended" in repr(recording)
    with bundle.replay(path):
        pd.testing.assert_frame_equal(fetched(), live)


def test_replay_ends_with_connect_or_close(service: Service, path: Path) -> None:
    with bundle.record(path):
        fetched()
    replay = bundle.replay(path)
    transport.connect("https://api.example.com", api_key="k" * 20)
    assert "ended" in repr(replay)
    transport.disconnect()
    with pytest.raises(errors.NotConnected):
        fetched()
    bundle.replay(path).close()
    with pytest.raises(errors.NotConnected):
        times.asof()


def test_connection_is_restored_after_a_replay(service: Service, path: Path) -> None:
    with bundle.record(path):
        fetched()
    service.rates["BTC"] = [9.0, 9.0]
    with bundle.replay(path):
        assert fetched()["rate_bps_8h"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert fetched()["rate_bps_8h"].tolist() == [9.0, 9.0, 3.0, 4.0]


def test_new_recording_ends_the_active_recording(service: Service, path: Path, tmp_path: Path) -> None:
    first = bundle.record(path)
    fetched()
    second = bundle.record(tmp_path / "other.ddz")
    assert "ended" in repr(first)
    fetched()
    second.close()
    assert [bundle.verify(file) for file in (path, tmp_path / "other.ddz")] == [2, 2]


def test_replay_ends_the_active_recording_or_replay(service: Service, path: Path) -> None:
    recording = bundle.record(path)
    live = fetched()
    first = bundle.replay(path)
    assert "ended" in repr(recording)
    pd.testing.assert_frame_equal(fetched(), live)
    with bundle.replay(path):
        assert "ended" in repr(first)
        pd.testing.assert_frame_equal(fetched(), live)


def test_recording_ends_the_active_replay(service: Service, path: Path, tmp_path: Path) -> None:
    with bundle.record(path):
        fetched()
    replay = bundle.replay(path)
    recording = bundle.record(tmp_path / "other.ddz")
    assert "ended" in repr(replay)
    fetched()
    recording.close()
    assert bundle.verify(tmp_path / "other.ddz") == 2


def test_failed_replay_leaves_the_active_one(service: Service, path: Path, tmp_path: Path) -> None:
    with bundle.record(path):
        live = fetched()
    (tmp_path / "broken.ddz").write_bytes(b"no bundle")
    with bundle.replay(path):
        with pytest.raises(errors.BundleError):
            bundle.replay(tmp_path / "broken.ddz")
        pd.testing.assert_frame_equal(fetched(), live)


def test_the_clock_of_a_recording_does_not_change(service: Service, path: Path) -> None:
    with bundle.record(path):
        service.date = NOON + pd.Timedelta("3h")
        fetched()
        assert times.asof() == pd.Timestamp("2026-06-30T12:00:00Z")
    transport.disconnect()
    with bundle.replay(path):
        assert times.asof() == pd.Timestamp("2026-06-30T12:00:00Z")


def test_a_recording_may_begin_before_the_connection(service: Service, path: Path) -> None:
    assert service.server is not None
    transport.disconnect()
    with bundle.record(path):
        assert bundle.verify(path) == 0
        transport.connect(service.server.url, cache="off")
        fetched()
    transport.disconnect()
    with bundle.replay(path):
        assert times.asof() == pd.Timestamp("2026-06-30T12:00:00Z")
        assert len(fetched()) == 4


def test_empty_recording_has_no_clock_and_no_responses(path: Path) -> None:
    with bundle.record(path) as recording:
        assert "clock not read yet" in repr(recording)
    with bundle.replay(path):
        with pytest.raises(errors.NotRecorded, match="does not have a clock"):
            times.asof()
        with pytest.raises(errors.NotRecorded, match="the bundle has no responses"):
            transport.raw("/funding")


def test_unrecorded_request_names_the_nearest_recorded_one(service: Service, path: Path) -> None:
    with bundle.record(path):
        fetched()
        transport.raw("/else", symbol="SOL")
    transport.disconnect()
    with bundle.replay(path):
        with pytest.raises(errors.NotRecorded) as raised:
            dd.funding.history("SOL", "2h")
        assert str(raised.value).startswith("/funding/historical?end=2026-06-30T12:00:00Z&resolution=1h")
        assert f"symbol=SOL: not in {path}; the nearest recorded request: /funding/historical?end=" in str(
            raised.value
        )
        with pytest.raises(errors.NotRecorded, match=r"the nearest recorded request: /else\?symbol=SOL$"):
            transport.raw("/else", symbol="SOLO")


def test_repeated_requests_replay_in_order_then_repeat_the_last(service: Service, path: Path) -> None:
    with bundle.record(path):
        for rate in (1.0, 1.0, 5.0, 1.0, 7.0, 7.0):
            service.rates["BTC"] = [rate, rate]
            dd.funding.history("BTC", "2h")
    assert bundle.verify(path) == 5, "a trailing repeat is the same as its absence"
    transport.disconnect()
    with bundle.replay(path):
        seen = [dd.funding.history("BTC", "2h")["rate_bps_8h"][0] for _ in range(8)]
    assert seen == [1.0, 1.0, 5.0, 1.0, 7.0, 7.0, 7.0, 7.0]
    with zipfile.ZipFile(path) as file:
        assert sum(n.startswith("bodies/") for n in file.namelist()) == 3, "bodies are stored once"


def test_service_errors_are_recorded_and_replayed(service: Service, path: Path) -> None:
    with bundle.record(path), pytest.raises(errors.NotFound):
        dd.funding.history("DOGE", "2h")
    transport.disconnect()
    with bundle.replay(path), pytest.raises(errors.NotFound, match="no such symbol"):
        dd.funding.history("DOGE", "2h")


def test_recordings_of_equal_responses_are_byte_identical(service: Service, tmp_path: Path) -> None:
    """In any order of arrival, from the network or the cache, requested once or twice, by threads."""
    assert service.server is not None
    transport.connect(service.server.url)

    def one(name: str, *symbols: str) -> str:
        with bundle.record(tmp_path / name):
            for symbol in symbols:
                dd.funding.history(symbol, "2h")
        return hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()

    def many(name: str) -> str:
        with bundle.record(tmp_path / name):
            in_threads(2, lambda place: dd.funding.history(("ETH", "BTC")[place], "2h"))
        return hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()

    made = {
        one("a.ddz", "BTC", "ETH"),
        one("b.ddz", "ETH", "BTC"),
        one("c.ddz", "BTC", "ETH", "BTC"),
        many("d.ddz"),
    }
    assert len(made) == 1


@pytest.mark.parametrize("where", ["body", "header", "path", "query", "escaped query"])
def test_response_containing_the_key_is_not_recorded(where: str, service: Service, path: Path) -> None:
    def ask() -> Any:
        if where == "body":
            service.extra = {"you": KEY}
        elif where == "header":
            service.headers = {"X-Derivdata-Source": f"for {KEY}"}
        elif where == "path":
            return transport.raw(f"/by/{KEY}")
        elif where == "query":
            return transport.raw("/x", key=KEY)
        elif where == "escaped query":
            return transport.raw("/by/" + "".join(f"%{ord(c):02x}" for c in KEY))
        return transport.raw("/x")

    with bundle.record(path):
        transport.raw("/funding/metadata")
        with pytest.raises(
            errors.BundleError, match="contains the API key and is not recorded; end the recording"
        ):
            ask()
    assert bundle.verify(path) == 1
    with zipfile.ZipFile(path) as file:
        assert all(KEY.encode() not in file.read(name) for name in file.namelist())


def test_members_of_a_bundle(service: Service, path: Path) -> None:
    service.headers = {"Age": "90", "ETag": '"x"', "Set-Cookie": "a=b", "Deprecation": "true"}
    with bundle.record(path), pytest.warns(errors.DeprecationNotice):
        dd.funding.history("BTC", "2h")
    host = f"127.0.0.1:{port(service)}"
    [entry] = text_of(path, "answers.json")
    with zipfile.ZipFile(path) as file:
        assert file.namelist() == ["manifest.json", "answers.json", f"bodies/{entry['sha256']}"]
        body = file.read(f"bodies/{entry['sha256']}")
        assert file.testzip() is None
    assert [point["y"] for point in json.loads(body)["series"]["okx"]] == [1.0, 2.0]
    assert entry == {
        "method": "GET", "path": "/funding/historical", "status": 200,
        "query": [["end", "2026-06-30T12:00:00Z"], ["resolution", "1h"], ["start", START], ["symbol", "BTC"]],
        "headers": {
            "Age": "90", "Content-Type": "application/json", "Date": "Tue, 30 Jun 2026 12:00:30 GMT",
            "Deprecation": "true",
        },
        "date": "2026-06-30T12:00:30Z", "received": "2026-06-30T12:02:00Z",
        "sha256": hashlib.sha256(body).hexdigest(), "bytes": len(body), "source": host, "synthetic": False,
        "attribution": f"Funding rate data provided by http://{host}",
    }  # fmt: skip
    manifest = text_of(path, "manifest.json")
    assert (manifest["format"], manifest["asof"]) == ("derivdata-bundle", "2026-06-30T12:00:00Z")
    assert (manifest["source"], manifest["synthetic"], manifest["answers"]) == (host, False, 1)
    assert manifest["attribution"] == f"Funding rate data provided by http://{host}"
    assert manifest["versions"]["numpy"] == np.__version__


def test_description_of_a_recording_is_replayed(service: Service, path: Path) -> None:
    said = {"symbols": ("BTC", "ETH"), "window": "30d"}
    with bundle.record(path, about=said):
        fetched()
    with bundle.replay(path) as replay:
        assert replay.about == {"symbols": ["BTC", "ETH"], "window": "30d"}
    with pytest.raises(ValueError, match="contains the API key"):
        bundle.record(path, about={"key": KEY})
    with pytest.raises(TypeError, match="JSON"):
        bundle.record(path, about={"now": NOON})
    assert bundle.verify(path) == 2


def test_replay_states_whether_results_are_bit_identical(
    service: Service, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = "derivdata.client.bundle"
    monkeypatch.setattr(f"{layout}.blas", lambda: "OpenBLAS Haswell")
    with bundle.record(path):
        fetched()
    with bundle.replay(path) as same:
        assert same.differences == ()
        assert "same versions, platform and BLAS kernel: results are bit-equal" in repr(same)
    monkeypatch.setattr(f"{layout}.blas", lambda: "OpenBLAS Nehalem")
    with bundle.replay(path) as other:
        assert other.differences == ("BLAS kernel OpenBLAS Haswell then, OpenBLAS Nehalem now",)
    monkeypatch.setattr(f"{layout}.version", lambda name: "99.0" if name == "numpy" else "1")
    with bundle.replay(path) as other:
        assert any(d.startswith("numpy ") and d.endswith(" then, 99.0 now") for d in other.differences)
        assert "fits agree to 1e-9: " in repr(other)
        assert "99.0 now" in other._repr_html_()


def test_unwritable_path_raises_one_clear_error(service: Service, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(ValueError, match="pass another path"):
        bundle.record(notes)
    assert notes.read_text() == "mine"
    fetched()
    with pytest.raises(errors.BundleError, match="cannot be written"):
        bundle.record(tmp_path / "no" / "such" / "x.ddz")
    fetched()


def test_new_recording_replaces_the_bundle(service: Service, path: Path) -> None:
    with bundle.record(path):
        fetched()
    assert bundle.verify(path) == 2
    with bundle.record(path):
        pass
    assert bundle.verify(path) == 0


def test_recording_cannot_be_pickled(service: Service, path: Path) -> None:
    with bundle.record(path) as recording, pytest.raises(TypeError):
        pickle.dumps(recording)


@pytest.mark.parametrize("written", [0, 10, 200])
def test_full_disk_leaves_the_existing_bundle(
    written: int, service: Service, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the disk has room for half a frame."""
    write = os.write

    def full(file: int, data: memoryview) -> int:
        if len(data) <= written or written == 0 or len(data) < 200:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[:written])

    with bundle.record(path):
        dd.funding.history("BTC", "2h")
        size = path.stat().st_size
        with monkeypatch.context() as patch:
            patch.setattr("derivdata.client.bundle.files.os.write", full)
            with pytest.raises(errors.BundleError, match="No space left"):
                dd.funding.history("ETH", "2h")
        assert path.stat().st_size == size
        assert bundle.verify(path) == 1
        dd.funding.history("ETH", "2h")
    assert bundle.verify(path) == 2
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_disk_full_from_the_first_response_leaves_no_bundle(
    service: Service, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    recording = bundle.record(path)
    with monkeypatch.context() as patch:
        patch.setattr("derivdata.client.bundle.files.os.write", full)
        with pytest.raises(errors.BundleError, match="No space left"):
            dd.funding.history("ETH", "2h")
    with pytest.raises(errors.BundleError, match="No space left"):
        recording.close()
    assert list(path.parent.iterdir()) == []


def test_disk_full_at_the_end_leaves_the_journal(
    service: Service, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    recording = bundle.record(path)
    live = dd.funding.history("BTC", "2h")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(errors.BundleError, match="No space left"):
            recording.close()
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with bundle.replay(path):
        pd.testing.assert_frame_equal(dd.funding.history("BTC", "2h"), live)


@pytest.mark.parametrize("call", [bundle.replay, bundle.verify, bundle.info])
def test_missing_bundle_raises_one_clear_error(call: Callable[[Path], Any], path: Path) -> None:
    with pytest.raises(errors.BundleError, match=r"carry\.ddz: file not found; pass the path"):
        call(path)


def test_info_lists_requests_times_sizes_and_source(service: Service, path: Path) -> None:
    with bundle.record(path):
        fetched()
        with pytest.raises(errors.NotFound):
            dd.funding.history("DOGE", "2h")
    contents = bundle.info(path)
    assert contents.requests["status"].tolist() == [200, 404, 200]
    assert contents.requests["date"].tolist() == [NOON] * 3
    assert contents.requests["path"].unique().tolist() == ["/funding/historical"]
    text = str(contents).splitlines()
    assert text[0].startswith(f"{path}: 3 responses, ")
    assert text[1] == f"source: 127.0.0.1:{port(service)}"
    assert text[2] == "clock: 2026-06-30T12:00:00Z"
    assert "differs here: nothing" in text
    assert text[-3].endswith("2026-06-30T12:00:30Z /funding/historical?" + contents.requests["query"][0])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names a processor's kernels")
def test_blas_kernel_is_read_from_the_loaded_library() -> None:
    code = "from derivdata.client.bundle import blas; print(blas())"
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.stdout.strip() in ("OpenBLAS Nehalem", "unknown"), "unknown: numpy of another builder"


def test_rejected_response_is_recorded_and_rejected_in_replay(service: Service, path: Path) -> None:
    """A recording stores failures: a replay fails and continues at the same calls as the run."""
    service.extra["unit"] = "percent"
    with bundle.record(path):
        with pytest.raises(errors.SchemaError, match="the response has 'percent'"):
            fetched()
        del service.extra["unit"]
        live = fetched()
    with bundle.replay(path):
        with pytest.raises(errors.SchemaError, match="the response has 'percent'"):
            fetched()
        pd.testing.assert_frame_equal(fetched(), live)
