"""Count the files that one cached call runs through: ``python -m tests.support.trace_call [-v]``.

Every call of a named function of the package in the calling thread counts, a generator's continuation too.
Lambdas, comprehensions and generator expressions do not: a reader sees them where they stand, and newer
Pythons run comprehensions in place. A change of file is a call that is made in another file than the call
before it: the jumps of a reader who follows the calls in their order.
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

__all__ = ["Trace", "cached_history", "surface_from_chain", "trace"]

PACKAGE = str(Path(dd.__file__).parent)


class Trace(NamedTuple):
    """The files and functions that one call ran through.

    Attributes
    ----------
    calls
        Number of calls by file.
    functions
        Number of different functions.
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
    """Run `call` and count the calls within the package."""
    order: list[str] = []
    functions: set[object] = set()
    depth = deepest = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        if code.co_name.startswith("<"):  # a lambda, a comprehension or a module
            return
        depth += 1 if event == "call" else -1
        deepest = max(depth, deepest)
        if event == "call":
            order.append(Path(code.co_filename).relative_to(PACKAGE).as_posix())
            functions.add(code)

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
                dd.funding.history("BTC", "1d", venues=["okx"])
                return trace(lambda: dd.funding.history("BTC", "1d", venues=["okx"]))
        finally:
            dd.disconnect()
            if before is None:
                del os.environ["DERIVDATA_CACHE_DIR"]
            else:
                os.environ["DERIVDATA_CACHE_DIR"] = before


def surface_from_chain() -> Trace:
    """Trace ``dd.analysis.surface.from_chain`` of the sample's chain of BTC on Deribit."""
    dd.connect("sample")
    try:
        chain = dd.options.snapshot("BTC", "deribit")
        dd.analysis.surface.from_chain(chain)
        return trace(lambda: dd.analysis.surface.from_chain(chain))
    finally:
        dd.disconnect()


def main() -> None:
    """Print the trace of the cached call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="also list the calls of each file")
    arguments = parser.parse_args()
    result = cached_history()
    sys.stdout.write(f"{result}\n")
    if arguments.verbose:
        for file, count in result.calls.most_common():
            sys.stdout.write(f"{count:6} {file}\n")


if __name__ == "__main__":
    main()
