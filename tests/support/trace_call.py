"""Count the files that one call runs through, and how often it changes from one to another.

Lambdas, comprehensions and generator expressions do not count: a reader sees them where they stand.
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
