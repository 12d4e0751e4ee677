"""Count the files that one call runs through, and how often it changes from one to another.

Every call of a named function of the package in the calling thread counts, a generator's continuation too.
Lambdas, comprehensions and generator expressions do not: a reader sees them where they stand, and newer
Pythons run comprehensions in place. A change of file is a call that is made in another file than the call
before it: the jumps of a reader who follows the calls in their order.
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


def trace(call: Callable[[], object]) -> Trace:
    """Run `call` and count the calls within the package."""
    order: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<"):
            order.append(Path(code.co_filename).relative_to(PACKAGE).as_posix())

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Trace(Counter(order), sum(a != b for a, b in pairwise(order)))
