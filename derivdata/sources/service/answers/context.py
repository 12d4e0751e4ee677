"""Inputs of an answer, and the type of the functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pandas as pd

from derivdata.sources.service.data.request_coverage import never_requested
from derivdata.sources.service.data.view import View
from derivdata.sources.service.data.windows import AnswerWindow

FREE_SYMBOLS = ("BTC", "ETH")
"""Symbols that the tier Free may request where a response is about single symbols."""


@dataclass(frozen=True)
class RequestContext:
    """One admitted request: the source at the clock, the key's tier, parameters; a `part` of its window."""

    view: View
    tier: str
    params: Mapping[str, Any]
    part: AnswerWindow | None = None

    def window(self, params: Mapping[str, Any] | None = None) -> AnswerWindow:
        """Return the window of the parameters (or others): see `View.window`."""
        window = self.view.window(self.params if params is None else params, self.tier)
        return window if self.part is None else self.part

    def narrowed(self, part: AnswerWindow) -> RequestContext:
        """Return the same request for a part of its window, at the resolution of the whole."""
        return replace(self, part=part)

    def missing(self, frame: pd.DataFrame, window: AnswerWindow, table: str) -> list[str]:
        """Return a notice where an answer about one symbol has no rows since no venue was asked for them."""
        span = (window.start, window.end)
        venues = self.params["exchanges"]
        if len(frame):
            return []
        return never_requested(self.view, table, self.params["symbol"], *span, venues=venues)


Answers: TypeAlias = dict[str, Callable[[RequestContext], dict[str, Any]]]
"""Path of an endpoint to the function that makes the body of its answer."""
