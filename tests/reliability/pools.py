"""Work for pools of processes: ``python -m tests.reliability.pools KIND SOURCE COUNT FOLDER``.

A separate script, because pools that spawn workers import it by name.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import joblib  # noqa: TID251 - workers of users

import derivdata as dd
from derivdata import bundle, errors
from derivdata.client.transport.adapter import KeylessSession
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect import read_through
from tests.collect.fakes import Fakes, SimulatedClock
from tests.reliability.promises import SOAK

WORKERS = 4 if SOAK else 2


def echoed(n: int) -> tuple[int, Any]:
    """Request something that no other request of the run is about."""
    return n, dd.raw(f"/echo/{n}")


def hourly(n: int) -> tuple[int, Any]:
    """Request one hour of a history, a different one for each `n`."""
    day, hour = divmod(n, 24)
    start, end = (f"2026-06-{1 + day:02}T{hour:02}:{minute}:00Z" for minute in ("00", "59"))
    frame = dd.funding.history("BTC", start, end, venues=["okx"], resolution="1h")
    return n, [str(frame["time"].iloc[0]), float(frame["rate_bps_8h"].iloc[0])]


def _processes(method: str, work: Callable[[int], Any], items: Iterable[int]) -> list[Any]:
    with multiprocessing.get_context(method).Pool(WORKERS) as pool:
        return pool.map(work, items, chunksize=1)


def _futures(work: Callable[[int], Any], items: Iterable[int]) -> list[Any]:
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("fork")) as pool:
        return list(pool.map(work, items))


def _loky(work: Callable[[int], Any], items: Iterable[int]) -> list[Any]:
    return list(joblib.Parallel(n_jobs=WORKERS, backend="loky")(joblib.delayed(work)(n) for n in items))


def _threads(work: Callable[[int], Any], items: Iterable[int]) -> list[Any]:
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, items))


POOLS: dict[str, Callable[[Callable[[int], Any], Iterable[int]], list[Any]]] = {
    **{method: partial(_processes, method) for method in ("fork", "spawn", "forkserver")},
    "concurrent.futures": _futures,
    "joblib loky": _loky,
    "threads": _threads,
}


def pool(kind: str, source: str, count: int) -> dict[str, Any]:
    """Have a pool send `count` different requests, then read all of them from the cache."""
    dd.connect(source)
    work = hourly if source == "sample" else echoed
    work(0)  # the parent has an open socket to share, which is what goes wrong
    answers = POOLS[kind](work, range(count))
    if source == "sample":
        dd.connect("sample", cache="off")
        right = [work(n) for n in range(count)]
        return {"right": sum(a == b for a, b in zip(answers, right, strict=True)), "cached": count}
    dd.connect(source, offline=True)
    cached = [echoed(n) for n in range(count)]
    expected = [(n, {"path": f"/echo/{n}"}) for n in range(count)]
    return {
        "right": sum(a == b for a, b in zip(answers, expected, strict=True)),
        "cached": sum(a == b for a, b in zip(cached, expected, strict=True)),
    }


def recorded(source: str, folder: Path) -> dict[str, Any]:
    """Record in a parent, forked workers and a grandchild; return the replayed responses, and strays."""
    dd.connect(source, cache="off")
    path = folder / "parent.ddz"
    with dd.record(path):
        echoed(0)
        POOLS["fork"](echoed, range(8))
        child = os.fork()
        if child == 0:
            echoed(8)
            grandchild = os.fork()
            if grandchild == 0:
                echoed(9)
                os._exit(0)
            os.waitpid(grandchild, 0)
            echoed(10)
            os._exit(0)
        os.waitpid(child, 0)
    dd.disconnect()
    with dd.replay(path):
        again = [echoed(n)[1]["path"] for n in range(11)]
    entries = bundle.info(path).requests
    return {"again": again, "answers": len(entries), "files": sorted(p.name for p in folder.glob(".*.tmp"))}


def noticed(source: str, folder: Path) -> list[str]:
    """Fetch twice in a forked child after its parent's recording ended, and return the warnings."""
    dd.connect(source, cache="off")
    go, back = os.pipe(), os.pipe()
    with dd.record(folder / "parent.ddz"):
        if os.fork() == 0:
            echoed(0)
            os.write(back[1], b"1")
            os.read(go[0], 1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                echoed(1)
                echoed(2)
            os.write(back[1], json.dumps([str(w.message) for w in caught]).encode())
            os._exit(0)
        os.read(back[0], 1)
    os.write(go[1], b"1")
    return list(json.loads(os.read(back[0], 100_000)))


def restless(source: str, folder: Path, count: int) -> dict[str, Any]:
    """Fork repeatedly while threads fetch and record; return each child's results, and the bundle."""
    dd.connect(source, cache="off")
    stop = threading.Event()
    path = folder / "restless.ddz"
    wrong: list[Any] = []

    def fetch(start: int) -> None:
        n = start
        while not stop.is_set():
            n += 1
            if echoed(n) != (n, {"path": f"/echo/{n}"}):
                wrong.append(n)

    with dd.record(path):
        threads = [threading.Thread(target=fetch, args=(10**6 * (t + 1),)) for t in range(3)]
        [t.start() for t in threads]
        codes = []
        for n in range(count):
            child = os.fork()
            if child == 0:
                warnings.simplefilter("ignore", errors.DataNotice)
                os._exit(0 if echoed(n) == (n, {"path": f"/echo/{n}"}) else 1)
            codes.append(os.waitpid(child, 0)[1])
        stop.set()
        [t.join() for t in threads]
    paths = list(bundle.info(path).requests["path"])
    numbers = [int(p.rpartition("/")[2]) for p in paths]
    of_children = sorted(n for n in numbers if n < 10**6)
    files = sorted(p.name for p in folder.glob(".*.tmp"))
    return {
        "children": codes.count(0),
        "wrong": wrong,
        "recorded": of_children == list(range(count)) and len(numbers) > count,
        "files": files,
    }


def orphaned(how: str) -> str:
    """Fetch in a child after its parent's service was stopped; return the error."""
    dd.connect("sample", cache="off")
    hourly(0)
    ready, go = os.pipe(), os.pipe()
    read, write = os.pipe()
    if os.fork() == 0:
        if how == "used":
            hourly(1)
        os.write(ready[1], b"1")
        os.read(go[0], 1)
        try:
            hourly(2)
            said = "no error"
        except errors.DerivdataError as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    os.read(ready[0], 1)
    dd.disconnect()
    os.write(go[1], b"1")
    return os.read(read, 100_000).decode()


def replayed(source: str, folder: Path, count: int) -> int:
    """Replay in forked workers a recording of the parent; return the number of right responses."""
    dd.connect(source, cache="off")
    with dd.record(folder / "all.ddz"):
        for n in range(count):
            echoed(n)
    dd.disconnect()
    with dd.replay(folder / "all.ddz"):
        return sum(answer == {"path": f"/echo/{n}"} for n, answer in POOLS["fork"](echoed, range(count)))


def keyless(source: str, count: int) -> list[int]:
    """Request over one venue session from forked children; return how many responses of each were right."""
    session = KeylessSession()
    session.send("GET", f"{source}/echo/0", {})  # an open socket to share
    return _told_by_children(lambda child: _echoes(session, source, child * count, count))


def _echoes(session: KeylessSession, source: str, first: int, count: int) -> int:
    paths = [f"/echo/{n}" for n in range(first, first + count)]
    return sum(json.loads(session.send("GET", source + p, {}).body) == {"path": p} for p in paths)


def venues(folder: Path) -> dict[str, Any]:
    """Read from forked children of a process that is connected to fake venues; return their messages.

    The state is stale when they are forked, and another thread polls and fills. A child that sent requests
    would do so at once, over its parent's sockets, or wait for a lock that is never released.
    """
    clock, last = SimulatedClock("2026-01-20T10:30:30"), 1768953600
    with Fakes(last, clock.utc) as fakes:
        store = read_through.ReadThrough(
            open_archive(folder / "market"), venues=["bybit"], clock=clock, addresses=fakes.addresses
        )
        read_through.open_venues = lambda *_: store  # type: ignore[assignment]
        dd.connect("venues", cache="off")
        before = dd.asof()
        clock.wait(300)
        with store._poll_lock, store._collector.shared["bybit"].history_lock:
            children = _children(_reads_without_asking)
        told = [_told(child) for child in children]
        dd.disconnect()
        paid = [p for p in fakes.truth.payments("bybit", "ETH") if 1768262400 <= p[0] < 1768348800]
        truth = [rate * 1e4 * 8 / hours for _, hours, rate in paid]
    return {"before": str(before), "told": told, "truth": truth}


def _reads_without_asking(child: int) -> list[Any]:
    def forbidden(*_: Any, **__: Any) -> Any:
        os._exit(3)

    KeylessSession.send = Archive.merge = forbidden  # type: ignore[method-assign]
    first = dd.asof()
    rows = dd.funding.settlements("ETH", "2026-01-13", "2026-01-14")
    return [str(first), rows["rate_bps_8h"].tolist(), str(dd.asof())]


def _children(work: Callable[[int], Any]) -> list[tuple[int, int]]:
    """Fork children; return the process of each and the pipe with the result of `work`."""
    children = []
    for number in range(WORKERS):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write, json.dumps(work(number)).encode())
            except Exception as error:
                os.write(write, json.dumps(f"{type(error).__name__}: {error}").encode())
            finally:
                os._exit(0)
        os.close(write)
        children.append((pid, read))
    return children


def _told(child: tuple[int, int]) -> Any:
    pid, read = child
    with os.fdopen(read) as pipe:
        text = pipe.read()
    return json.loads(text) if text else f"nothing, exit code {os.waitpid(pid, 0)[1] >> 8}"


def _told_by_children(work: Callable[[int], Any]) -> list[Any]:
    return [_told(child) for child in _children(work)]


def main() -> None:
    """Run one of the functions above and print its result as JSON."""
    what, kind, source, count, folder = sys.argv[1:]
    calls: dict[str, Callable[[], Any]] = {
        "pool": lambda: pool(kind, source, int(count)),
        "recorded": lambda: recorded(source, Path(folder)),
        "noticed": lambda: noticed(source, Path(folder)),
        "restless": lambda: restless(source, Path(folder), int(count)),
        "orphaned": lambda: orphaned(kind),
        "keyless": lambda: keyless(source, int(count)),
        "venues": lambda: venues(Path(folder)),
        "replayed": lambda: replayed(source, Path(folder), int(count)),
    }
    sys.stdout.write(json.dumps(calls[what]()))


if __name__ == "__main__":
    main()
