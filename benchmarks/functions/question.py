"""What a desk usually asks of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Question"]


class Question(NamedTuple):
    """A usual question: in words, and how it is asked; its inputs are made once, when it is first asked."""

    words: str
    ask: Callable[[], Any]
