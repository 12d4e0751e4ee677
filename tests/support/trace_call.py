"""Count the files that one call runs through, and how often it changes from one to another.

Lambdas, comprehensions and generator expressions do not count, because a reader sees them in place.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import derivdata as dd

PACKAGE = str(Path(dd.__file__).parent)


class Trace(NamedTuple):
    """Number of calls by file, and of calls in another file than the call before."""

    calls: Counter[str]
    changes: int
    order: list[tuple[str, str]]

    def stays(self, folders: tuple[str, ...], *, without: frozenset[str] = frozenset()) -> list[str]:
        """Return the files of some folders in the order in which the call comes to them.

        Calls of the functions in `without` do not count.
        """
        files = [file for file, name in self.order if file.startswith(folders) and name not in without]
        return files[:1] + [after for before, after in pairwise(files) if after != before]


def trace(call: Callable[[], object]) -> Trace:
    """Run `call` and count the calls within the package."""
    order: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            order.append((Path(code.co_filename).relative_to(PACKAGE).as_posix(), code.co_name))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    files = [file for file, _ in order]
    return Trace(Counter(files), sum(a != b for a, b in pairwise(files)), order)
