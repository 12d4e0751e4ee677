"""What an answer is made from, and the type of the functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from derivdata.service.view import View

__all__ = ["Answers", "RequestContext"]


@dataclass(frozen=True)
class RequestContext:
    """One admitted request: the source at the clock, the key's tier, and the parameters with their types."""

    view: View
    tier: str
    params: Mapping[str, Any]


Answers: TypeAlias = dict[str, Callable[[RequestContext], dict[str, Any]]]
"""Path of an endpoint to the function that makes the body of its answer."""
