"""A bar on a terminal and in a notebook, and none elsewhere."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["progress"]

T = TypeVar("T")


def progress(items: Iterable[T], *, total: int, label: str) -> Iterable[T]:
    """`items`, with a bar while they are gone through if there is somebody to see it."""
    if total < 2 or not (_in_notebook() or sys.stderr.isatty()):
        return items
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # in a notebook it asks for a library of widgets, and does without
        from tqdm.auto import tqdm
    return tqdm(items, total=total, desc=label, leave=False)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in running.config
