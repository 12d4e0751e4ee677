"""Usual questions of a desk to a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Question"]


class Question(NamedTuple):
    """A common question in words and the call for it; its inputs are made once, at the first call."""

    words: str
    ask: Callable[[], Any]
