"""Count the files that one cached call runs through: ``python -m benchmarks.trace_call [-v]``.

Every call of a function of the package in the calling thread counts, those of generators, lambdas and
comprehensions too. A change of file is a call that is made in another file than the call before it: the jumps
of a reader who follows the calls in their order.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import derivdata as dd

__all__ = ["Trace", "cached_history", "trace"]

PACKAGE = str(Path(dd.__file__).parent)


class Trace(NamedTuple):
    """What one call ran through.

    Attributes
    ----------
    calls
        How many calls each file had.
    functions
        Different functions.
    changes
        Calls in another file than the call before.
    depth
        Most calls within each other.
    """

    calls: Counter[str]
    functions: int
    changes: int
    depth: int

    def __str__(self) -> str:
        return (
            f"{self.calls.total()} calls of {self.functions} functions in {len(self.calls)} files, "
            f"{self.changes} changes of file, at most {self.depth} calls deep"
        )


def trace(call: Callable[[], object]) -> Trace:
    """Run `call` and count what it runs through in the package."""
    order: list[str] = []
    functions: set[object] = set()
    depth = deepest = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, deepest
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(PACKAGE):
            return
        depth += 1 if event == "call" else -1
        deepest = max(depth, deepest)
        if event == "call":
            order.append(os.path.relpath(frame.f_code.co_filename, PACKAGE))
            functions.add(frame.f_code)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    changes = sum(a != b for a, b in pairwise(order))
    return Trace(Counter(order), len(functions), changes, deepest)


def cached_history() -> Trace:
    """Trace ``dd.funding.history`` of one symbol at one venue, answered by the cache."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("DERIVDATA_CACHE_DIR")
        os.environ["DERIVDATA_CACHE_DIR"] = folder
        try:
            dd.connect("sample")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dd.funding.history("BTC", "1d", exchanges=["okx"])
                return trace(lambda: dd.funding.history("BTC", "1d", exchanges=["okx"]))
        finally:
            dd.disconnect()
            if before is None:
                del os.environ["DERIVDATA_CACHE_DIR"]
            else:
                os.environ["DERIVDATA_CACHE_DIR"] = before


def main() -> None:
    """Print the trace of the cached call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="also list the calls of each file")
    arguments = parser.parse_args()
    found = cached_history()
    sys.stdout.write(f"{found}\n")
    if arguments.verbose:
        for file, count in found.calls.most_common():
            sys.stdout.write(f"{count:6} {file}\n")


if __name__ == "__main__":
    main()
