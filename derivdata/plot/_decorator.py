"""The checks that every figure makes of its arguments before it draws."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from derivdata.support.arguments import typed

__all__ = ["figure_function"]

P = ParamSpec("P")
T = TypeVar("T")


def figure_function(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function of a figure with its arguments checked, `typed`, and ``ax`` an Axes or None.

    Errors pass unchanged: those of the analysis name its own arguments, and a defect of the figure is not
    reported as a fault of the data.

    Raises
    ------
    TypeError
        An argument is of another kind, or ``ax`` is no Axes.
    """
    checked = typed(function)

    @functools.wraps(checked)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        from matplotlib import rc_context

        _require_axes(kwargs.get("ax"))
        # A symbol or a venue may hold "$", which matplotlib would read as mathematics.
        with warnings.catch_warnings(), rc_context({"text.parse_math": False}):
            warnings.filterwarnings("ignore", "Attempting to set identical low and high", UserWarning)
            return checked(*args, **kwargs)

    return draw


def _require_axes(ax: Any) -> None:
    if ax is None:
        return
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be the Axes of a matplotlib figure or None, not {type(ax).__name__}")
