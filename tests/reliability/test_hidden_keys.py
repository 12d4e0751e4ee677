"""Keys of the local service are in no local variable that a traceback of a failed start shows."""

from __future__ import annotations

import argparse
import pickle  # noqa: TID251 - settings of workers are sent by it
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from derivdata.cli.archives import add_serve
from derivdata.sources import service
from derivdata.support.text import HiddenKeys

PACKAGE = Path(service.__file__).parents[2]
KEY = "k3y-5ecret-Ab12Cd34"


@pytest.fixture
def taken() -> Iterator[int]:
    """Return a port that is in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def shown(call: Callable[[], Any]) -> str:
    """Return the traceback of a failing call with the locals of the package's frames, and its messages."""
    try:
        call()
    except (Exception, SystemExit) as problem:
        trace = traceback.TracebackException.from_exception(problem, capture_locals=True)
        frames = [frame for frame in trace.stack if Path(frame.filename).is_relative_to(PACKAGE)]
        return "\n".join([str(problem), *(repr(frame.locals) for frame in frames)])
    raise AssertionError("the call did not fail")


def test_frames_of_a_failed_service_show_no_key(taken: int) -> None:
    by_tier = {"team": KEY}
    by_key = {KEY: "team"}
    calls: list[Callable[[], Any]] = [
        lambda: service.serve("/nowhere", keys=by_tier),
        lambda: service.serve("sample", keys=by_tier, workers=0),
        lambda: service.serve("sample", keys=by_tier, port=taken),
        lambda: service.serve("sample", keys={"gold": KEY}),
        lambda: service.serve("sample", keys={KEY: "team"}),
        lambda: service.serve("sample", keys={"team": KEY, "pro": KEY}),
        lambda: service.start("/nowhere", keys=by_key),
        lambda: service.start("sample", keys=by_key, port=taken),
        lambda: service.start("sample", keys={"team": KEY}),
        lambda: service.app(service.open_store("sample"), keys={KEY: "gold"}),
    ]
    texts = [shown(call) for call in calls]
    assert [text for text in texts if KEY in text] == []


def test_frames_of_a_failed_command_show_no_key(taken: int, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    add_serve(parser)
    twice = tmp_path / "keys.txt"
    twice.write_text(f"team: {KEY}\nteam: {KEY}2\n")
    odd = tmp_path / "odd.txt"
    odd.write_bytes(f"{KEY}\n".encode() + b"\xff")
    commands = [
        ["/nowhere", "--key", f"team={KEY}"],
        ["sample", "--port", str(taken), "--key", f"team={KEY}"],
        ["sample", "--key", f"gold={KEY}"],
        ["sample", "--key", f"{KEY}=team"],
        ["sample", "--now", "nonsense", "--key", f"team={KEY}"],
        ["sample", "--key", f"team={KEY}", "--mcp"],
        ["sample", "--key-file", str(twice)],
        ["sample", "--key-file", str(odd)],
    ]
    for command in commands:
        arguments = parser.parse_args(command)
        assert KEY not in shown(lambda arguments=arguments: arguments.run(arguments)), command
    with pytest.raises(SystemExit):  # two keys of a tier
        parser.parse_args(["sample", "--key", f"team={KEY}", "--key", f"team={KEY}"])


def test_hidden_keys_are_a_mapping_that_pickles_to_workers() -> None:
    keys = HiddenKeys({KEY: "team"})
    assert repr(keys) == "<1 API keys, not shown>"
    assert pickle.loads(pickle.dumps(keys)) == {KEY: "team"}
