"""A type's decoder is built by one thread at a time: msgspec 0.22 crashes the process otherwise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "derivdata"

STRUCTS_MET_BY_FOUR_THREADS = """
    import sys, threading
    from typing import Optional, Union
    import msgspec
    from derivdata.support.forking import DECODERS

    sys.setswitchinterval(1e-6)
    # typing's unions have a hash in Python: a thread that describes the struct can be stopped in every field.
    fields = [(f"f{n}", Optional[dict[str, list[Union[int, str, None]]]], None) for n in range(30)]
    body = b'{"f1": {"a": [1]}}'

    def decode(kind, gate, found):
        gate.wait()
        found.append(DECODERS[kind].decode(body).f1)

    for n in range(300):
        found, gate = [], threading.Barrier(4)
        kind = msgspec.defstruct(f"S{n}", fields)
        threads = [threading.Thread(target=decode, args=(kind, gate, found)) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert found == [{"a": [1]}] * 4
    print("all read")
"""


def test_threads_decode_a_new_struct_concurrently() -> None:
    script = "if True:" + STRUCTS_MET_BY_FOUR_THREADS
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("all read\n", 0), done.stderr


def test_no_function_passes_a_struct_to_json_decode() -> None:
    """At the top of a module it may: one thread imports it."""
    called = re.compile(r"(?m)^ .*msgspec\.(json\.decode|convert)\((.*\n? .*)\btype=")
    result = sorted(path.name for path in PACKAGE.rglob("*.py") if called.search(path.read_text("utf-8")))
    assert result == ["venue_responses.py"]  # list[msgspec.Raw]: no struct
