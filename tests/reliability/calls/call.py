"""What a call is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["Arguments", "Calls"]

Arguments: TypeAlias = dict[str, Any]
Calls: TypeAlias = dict[str, Callable[[], Arguments]]
"""The arguments of a valid call, by the function's dotted name."""
