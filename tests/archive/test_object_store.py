"""Archives on S3: the behaviour of a folder, and faster concurrent writers."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 - archives travel without their secret
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, manifest, open_archive, storage
from derivdata.sources.archive import writing as archive_merging
from derivdata.sources.archive.schemas import archive_table
from derivdata.sources.archive.storage import ObjectStore
from tests.archive.rates import EVER, START, conformed, rates
from tests.archive.stores import environment, s3_server
from tests.support.threads import in_threads
from tests.transport.conftest import HANGS_SECONDS

pytest.importorskip("s3fs")
pytest.importorskip("moto")

FUNDING = "funding_history"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Create a bucket, and an environment that points to it."""
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    name = f"bucket-{abs(hash(request.node.name))}"
    files().call_s3("create_bucket", Bucket=name)
    return name


@pytest.fixture
def archive(bucket: str) -> Archive:
    """One with the rates of a symbol on two venues."""
    filled = open_archive(f"s3://{bucket}/derivs")
    filled.append(FUNDING, rates(["BTC"]))
    return filled


def files() -> Any:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    return s3fs.S3FileSystem(use_listings_cache=False)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Record the arguments of each call of a store's method from now on."""
    calls, real = [], getattr(ObjectStore, name)
    monkeypatch.setattr(
        ObjectStore, name, lambda self, *given, **more: calls.append(given) or real(self, *given, **more)
    )
    return calls


def committing(monkeypatch: pytest.MonkeyPatch, commit: Callable[..., None]) -> None:
    """Replace conditional puts, which are puts of a manifest, by `commit`, which receives the put."""
    real = ObjectStore._put

    def put(self: ObjectStore, path: str, data: bytes, **condition: str) -> None:
        plain = partial(real, self, path, data)
        if condition:
            return commit(partial(plain, **condition))
        return plain()

    monkeypatch.setattr(ObjectStore, "_put", put)


def objects_of(archive: Archive) -> set[str]:
    root = archive.location.removeprefix("s3://")
    return {path.removeprefix(f"{root}/") for path in files().find(root)}


def named(archive: Archive) -> set[str]:
    manifest = archive._manifest(fresh=True)
    paths = {file.path for file in manifest.files()} | {"archive.json"}
    return paths | ({manifest.ledger} - {""})


def test_rows_corrections_and_ledger_are_as_in_a_folder(bucket: str, tmp_path: Path) -> None:
    """The same steps on both, and the same tables, logs and counts after each."""
    places = [open_archive(tmp_path / "derivs"), open_archive(f"s3://{bucket}/desk/derivs")]
    asked = ("okx", "BTC", START, START + pd.Timedelta("4D"))

    def both(step: Any) -> None:
        first, second = (step(archive) for archive in places)
        assert first == second

    both(lambda a: a.append(FUNDING, rates(["BTC"]), requests=[asked]))
    both(lambda a: a.append(FUNDING, rates(["BTC", "ETH"], start=START + pd.Timedelta("4D"))))
    both(lambda a: a.append(FUNDING, rates(["BTC"])))
    both(
        lambda a: a.replace(FUNDING, rates(["ETH"], plus=1.0), {"symbol": "ETH"}, start=START, reason="units")
    )
    both(lambda a: a.delete(FUNDING, {"exchange": "okx"}, reason="test"))
    both(lambda a: a.undo(2))
    both(lambda a: a.unanswered(FUNDING, "okx", "BTC", START, START + pd.Timedelta("5D")))
    both(lambda a: a.info().drop(columns="megabytes").to_csv())
    both(lambda a: a.corrections().to_csv() + a.requests().to_csv() + a.label)
    frames = [archive.read(FUNDING, *EVER) for archive in places]
    assert len(frames[0]) > 400
    pd.testing.assert_frame_equal(*frames)
    pd.testing.assert_frame_equal(open_archive(places[1].location).read(FUNDING, *EVER), frames[0])
    both(lambda a: a.drop_before(START + pd.Timedelta("60D")))
    assert objects_of(places[1]) == named(places[1])
    paths = {str(path.relative_to(places[0].path)) for path in places[0].path.rglob("*") if path.is_file()}
    assert paths - {".lock"} == named(places[0])
    with pytest.raises(ArchiveError, match="requires an archive in a local folder"):
        _ = places[1].path


def test_lazy_panel_reads_objects_in_few_requests(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is pickled to workers without credentials; a panel of it equals the panel of its rows."""
    archive = pickle.loads(pickle.dumps(open_archive(f"s3://{bucket}/derivs")))
    archive.append(FUNDING, rates())
    assert b"testing" not in pickle.dumps(archive)
    again = open_archive(archive.location)
    reads = counted(monkeypatch, "read_pieces")
    result = again.panel(
        FUNDING, "rate_bps_8h", start=START, end=START + pd.Timedelta("4D"), step="1h", chunks=48
    )
    rows = again.read(FUNDING, *EVER)
    expected = dd.panel(rows)
    pd.testing.assert_frame_equal(rows, conformed(rates()))
    assert result.chunks[2] == (48, 48)
    assert (result.to_numpy() == expected.to_numpy()).all()
    parts = len(named(again)) - 1
    assert len(reads) <= 4 * parts * 2  # by file: its end once, and its columns, neighbours in one request


def test_one_series_takes_two_requests_a_file(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The footer of a file, once, and the blocks of the series: here the same block."""
    archive = open_archive(f"s3://{bucket}/derivs")
    archive.append(FUNDING, rates(["A", "B", "C"], hours=48, start=START))
    reads = counted(monkeypatch, "read_pieces")
    again = open_archive(archive.location)
    for _ in range(2):
        rows = again.read(FUNDING, *EVER, symbols=["B"], venues=["okx"])
        assert rows["rate_bps_8h"].tolist() == [float(i) for i in range(48)]
        assert len(reads) == 1
        reads.clear()


def test_overtaken_writer_repeats_its_change(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other commits after the first has read the manifest and uploaded its rows, which go again."""
    place = f"s3://{bucket}/derivs"
    archive, other = open_archive(place), open_archive(place)
    archive.append(FUNDING, rates(["BTC"], ["okx"]))
    real, uploads = ObjectStore.settle, []

    def settle(self: ObjectStore, new: Any, gone: Any) -> None:
        uploads.append(set(new))
        if len(uploads) == 1:
            assert other.append(FUNDING, rates(["ETH"], ["okx"])) == 96
        real(self, new, gone)

    monkeypatch.setattr(ObjectStore, "settle", settle)
    asked = ("okx", "SOL", START, START + pd.Timedelta("4D"))
    assert archive.append(FUNDING, rates(["ETH", "SOL"], ["okx"]), requests=[asked]) == 96  # ETH is there now
    assert len(uploads) == 3
    pd.testing.assert_frame_equal(
        archive.read(FUNDING, *EVER), conformed(rates(["BTC", "ETH", "SOL"], ["okx"]))
    )
    assert len(archive.requests()) == 1
    assert objects_of(archive) == named(archive)


def test_completed_put_without_a_response_is_a_success(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore repeats a put whose response was lost; the second put finds the manifest of the first."""
    committing(monkeypatch, lambda put: [put(), put()])
    assert archive.append(FUNDING, rates(["ETH"])) == 192
    assert objects_of(archive) == named(archive)
    assert len(archive.read(FUNDING, *EVER)) == 384


@pytest.mark.parametrize(
    ("ignored", "header"), [({"IfNoneMatch", "IfMatch"}, "If-None-Match"), ({"IfMatch"}, "If-Match")]
)
def test_store_without_conditional_writes_is_rejected(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignored: set[str], header: str
) -> None:
    """A rejected append leaves no object, so the next append is rejected too."""
    _ignore_conditions(monkeypatch, ignored)
    archive = open_archive(f"s3://{bucket}/derivs")
    for _ in range(2):
        with pytest.raises(ArchiveError, match=rf"this store ignores the header {header} of put requests"):
            archive.append(FUNDING, rates())
        assert files().find(bucket) == []


def _ignore_conditions(monkeypatch: pytest.MonkeyPatch, ignored: set[str]) -> None:
    """Write objects without some of the conditions of a put request."""
    real = ObjectStore._put

    def put(self: ObjectStore, path: str, data: bytes, **conditions: str) -> None:
        real(self, path, data, **{name: conditions[name] for name in conditions.keys() - ignored})

    monkeypatch.setattr(ObjectStore, "_put", put)


def test_archive_copied_to_a_store_without_conditional_writes_is_unchanged(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_archive(tmp_path / "derivs").append(FUNDING, rates(["BTC"]))
    files().put(str(tmp_path / "derivs"), f"{bucket}/", recursive=True)
    archive = open_archive(f"s3://{bucket}/derivs")
    copied = objects_of(archive)
    _ignore_conditions(monkeypatch, {"IfNoneMatch", "IfMatch"})
    with pytest.raises(ArchiveError, match="this store ignores the header If"):
        archive.append(FUNDING, rates(["ETH"]))
    assert (objects_of(archive), len(archive.read(FUNDING, *EVER))) == (copied, 192)


def test_process_checks_the_conditional_writes_of_a_store_once(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(f"s3://{bucket}/derivs")
    assert archive.append(FUNDING, rates(["ETH"])) == 192
    puts = counted(monkeypatch, "_put")
    assert open_archive(archive.location).append(FUNDING, rates(["SOL"])) == 192
    assert [path for path, _ in puts] == ["archive.json"]


def test_archive_in_an_object_store_is_served_like_a_folder(archive: Archive) -> None:
    dd.connect(archive.location)
    try:
        result = dd.funding.history("BTC", START, START + pd.Timedelta("2D"), venues=["okx"])
        assert result["rate_bps_8h"].tolist() == [float(i) for i in range(48)]
        assert dd.provenance(result)["source"] == "derivs"
    finally:
        dd.disconnect()


def test_object_paths_without_an_archive_raise(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchiveError, match=r"s3://bucket-\d+/none: archive not found"):
        open_archive(f"s3://{bucket}/none", create=False)
    with pytest.raises(ArchiveError, match="archive not found"):
        dd.connect(f"s3://{bucket}/none")
    files().pipe_file(f"{bucket}/notes/todo.txt", b"write")
    with pytest.raises(
        ArchiveError, match=r"not an archive: archive\.json is missing, and the folder contains 'todo.txt'"
    ):
        open_archive(f"s3://{bucket}/notes")
    with pytest.raises(ArchiveError, match=r"nothing was appended, and the archive is unchanged: .*bucket"):
        open_archive("s3://nobody-s/derivs").append(FUNDING, rates())
    with pytest.raises(ArchiveError, match="got no bucket"):
        open_archive("s3://")
    assert list(tmp_path.iterdir()) == []


def test_unreachable_store_raises_one_clear_error(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectStore, "read_pieces", Mock(side_effect=ConnectionError("no route")))
    with pytest.raises(ArchiveError, match=r"s3://.*\.parquet: cannot be read: no route"):
        archive.read(FUNDING, *EVER)


@pytest.mark.parametrize("address", ["gs://bucket", "https://host/archive", "file:///data"])
def test_unsupported_addresses_raise_and_create_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ArchiveError, match=r"expected a folder or s3://bucket/path, got .*: copy the archive"
    ):
        open_archive(address)
    assert list(tmp_path.iterdir()) == []


def test_threads_that_share_an_archive_write_in_turn(bucket: str) -> None:
    archive = open_archive(f"s3://{bucket}/derivs")
    in_threads(2, lambda number: archive.append(FUNDING, rates([f"T{number}"], ["okx"])))
    assert archive.symbols(FUNDING) == ("T0", "T1")
    assert objects_of(archive) == named(archive)


def of_two_files(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive whose month has two files."""
    archive = open_archive(f"s3://{bucket}/derivs")
    monkeypatch.setattr(archive_merging, "SMALL_ROWS", 0)
    for symbol in ("BTC", "ETH"):
        archive.append(FUNDING, rates([symbol], ["okx"], hours=24))
    return archive


def close(archive: Archive, timeout: float) -> None:
    table = archive_table(FUNDING)
    months = sorted({file.month for file in archive._entry(table).files})
    archive_merging.close_months(archive._storage, table, months, timeout=timeout)


class Kept(list[str]):
    """Uploads that are not forgotten."""

    def clear(self) -> None:
        pass


def test_failed_append_preserves_a_month_merged_by_another_thread(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append fails when the month's file is uploaded and not yet named: every row is there after it."""
    archive = of_two_files(bucket, monkeypatch)
    # The failing attempt began before the upload: it had forgotten the uploads before its own by then.
    monkeypatch.setattr(archive._storage, "_published", Kept())
    publish, main = ObjectStore.publish, threading.get_ident()

    def refuse(_: Any) -> Any:
        raise ArchiveError("refused")

    def fail() -> None:
        with pytest.raises(ArchiveError, match="refused"):
            manifest.commit(archive._storage, 1.0, refuse)

    uploads = []

    def publish_during_failure(self: ObjectStore, draft: Path, path: str) -> None:
        publish(self, draft, path)
        assert threading.get_ident() == main
        uploads.append(path)
        with ThreadPoolExecutor(1) as other:
            other.submit(fail).result()

    monkeypatch.setattr(ObjectStore, "publish", publish_during_failure)
    close(archive, HANGS_SECONDS)
    assert uploads
    assert {file.path for file in archive._entry(archive_table(FUNDING), fresh=True).files} >= set(uploads)
    assert len(archive.read(FUNDING, *EVER)) == 48


def test_merge_with_an_uncertain_put_keeps_its_file(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The response is lost, and the store applies the manifest after all writers have checked for it."""
    archive = of_two_files(bucket, monkeypatch)
    late: list[Callable[[], None]] = []

    def broken(put: Callable[[], None]) -> None:
        late.append(put)
        raise ConnectionError("reset")

    committing(monkeypatch, broken)
    with pytest.raises(ArchiveError, match="nothing was appended, and the archive is unchanged: reset"):
        close(archive, HANGS_SECONDS)
    assert len(open_archive(archive.location).read(FUNDING, *EVER)) == 48
    late.pop()()
    assert len(open_archive(archive.location).read(FUNDING, *EVER)) == 48
    assert named(archive) <= objects_of(archive)


def test_overtaken_merge_leaves_no_file(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected put is not applied later."""
    archive = of_two_files(bucket, monkeypatch)
    before = objects_of(archive)

    def refused(self: ObjectStore, data: bytes, version: Any) -> None:
        assert len(objects_of(archive)) == len(before) + 1
        raise storage.ManifestChanged

    monkeypatch.setattr(ObjectStore, "replace_manifest", refused)
    with pytest.raises(ArchiveError, match="other writers committed first at every attempt within 0 s"):
        close(archive, 0)
    assert objects_of(archive) == before


@pytest.mark.parametrize(
    ("landed", "event", "message"),
    [
        (True, "nobody", "the rows were written"),
        (True, "another writer", "another writer has committed, and it is unknown whether these rows were"),
        (False, "another writer", r"were appended \(.*reset.*\): append again, stored rows are skipped"),
        (False, "no store", r"it is unknown whether these rows were appended \(.*reset"),
    ],
)
def test_broken_put_reports_whether_the_commit_is_known(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, landed: bool, event: str, message: str
) -> None:
    """Files that the manifest may name stay, and another's commit is not taken for ours."""

    def broken(put: Callable[[], None]) -> None:
        broken_put.undo()
        if landed:
            put()
        if event == "another writer":
            assert open_archive(archive.location).append(FUNDING, rates(["SOL"])) == 192
        if event == "no store":
            broken_put.setattr(ObjectStore, "_head", Mock(side_effect=ConnectionError("no route")))
        raise ConnectionError("reset")

    with pytest.MonkeyPatch.context() as broken_put:
        committing(broken_put, broken)
        with pytest.raises(ArchiveError, match=message):
            archive.append(FUNDING, rates(["ETH"]))
    again = open_archive(archive.location)
    assert again.append(FUNDING, rates(["ETH"])) == (0 if landed else 192)
    assert again.symbols(FUNDING) == (("BTC", "ETH", "SOL") if event == "another writer" else ("BTC", "ETH"))
    assert len(again.read(FUNDING, *EVER)) == 192 * len(again.symbols(FUNDING))


def test_unreadable_manifest_does_not_hide_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(tmp_path)
    archive.append(FUNDING, rates(["BTC"]))

    def interrupted(*_: Any) -> None:
        (tmp_path / "archive.json").write_bytes(b"{")
        raise KeyboardInterrupt

    monkeypatch.setattr(manifest, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archive.append(FUNDING, rates(["ETH"]))


def test_manifest_read_during_a_put_is_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The put ends between the response to the read and its caching: the next read must request again.

    Or it ends right after the age of a cached read was checked: that read is returned.
    """
    store, real = ObjectStore("s3://bucket/derivs"), time.monotonic
    monkeypatch.setattr(ObjectStore, "_check_conditions", lambda _: None)
    stored = ["old"]
    monkeypatch.setattr(ObjectStore, "_put", lambda *_, **__: stored.append("new"))

    def head(self: ObjectStore, path: str) -> dict[str, str]:
        answer = {"ETag": stored[-1]}
        if len(stored) == 1:
            store.replace_manifest(b"{}", "old")
        return answer

    monkeypatch.setattr(ObjectStore, "_head", head)
    assert store.manifest_mark() == "old"
    assert store.manifest_mark() == "new"
    assert store._look is not None
    began = store._look[0]

    def clock() -> float:
        monkeypatch.setattr(storage.time, "monotonic", real)
        store.replace_manifest(b"{}", "new")
        return began

    monkeypatch.setattr(storage.time, "monotonic", clock)
    assert store.manifest_mark() == "new"


def test_failed_upload_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.tempfile, "tempdir", str(tmp_path))
    store = ObjectStore("s3://bucket/derivs")
    draft = store.draft("funding_history/2024-01")
    draft.write_bytes(b"rows")
    assert list(tmp_path.iterdir()) == [draft]

    unreachable = Mock(**{"put_file.side_effect": ConnectionError("no route")})
    monkeypatch.setattr(ObjectStore, "_files", unreachable)
    with pytest.raises(ConnectionError, match="no route"):
        store.publish(draft, "funding_history/2024-01/rows.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_a_thread_writes_can_write() -> None:
    """The thread that holds the lock does not exist in the child, and its uploads are not the child's to
    remove.
    """
    store = ObjectStore("s3://bucket/derivs")
    holds, ends = threading.Event(), threading.Event()

    def write() -> None:
        with store.writing(0.0):
            store._published.append("funding_history/rows.parquet")
            holds.set()
            ends.wait(HANGS_SECONDS)

    thread = threading.Thread(target=write)
    thread.start()
    assert holds.wait(HANGS_SECONDS)
    child = os.fork()
    if child == 0:  # no exception may reach pytest's copy
        code = 1
        try:
            if not store._published:
                with store.writing(0.0):
                    code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert store._published == ["funding_history/rows.parquet"]
    ends.set()
    thread.join(HANGS_SECONDS)
    assert os.waitstatus_to_exitcode(status) == 0
