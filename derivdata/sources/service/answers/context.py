"""Inputs of an answer, and the type of the functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from derivdata.sources.service.view import View
from derivdata.sources.service.window import AnswerWindow


@dataclass(frozen=True)
class RequestContext:
    """One admitted request: the source at the clock, the key's tier, and the typed value of every parameter.

    `part` is the part of the window to answer for, where it is not the whole one.
    """

    view: View
    tier: str
    params: Mapping[str, Any]
    part: AnswerWindow | None = None

    def window(self, params: Mapping[str, Any] | None = None) -> AnswerWindow:
        """Return the window that is requested, as `View.window` reads it from the parameters (or others)."""
        window = self.view.window(self.params if params is None else params, self.tier)
        return window if self.part is None else self.part

    def narrowed(self, part: AnswerWindow) -> RequestContext:
        """Return the same request for a part of its window, at the resolution of the whole."""
        return replace(self, part=part)


Answers: TypeAlias = dict[str, Callable[[RequestContext], dict[str, Any]]]
"""Path of an endpoint to the function that makes the body of its answer."""
