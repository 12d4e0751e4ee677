"""What every figure asks of its arguments, and what it says of data that cannot be drawn."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from derivdata.arguments import typed

__all__ = ["figure_function"]

P = ParamSpec("P")
T = TypeVar("T")


def figure_function(function: Callable[P, T]) -> Callable[P, T]:
    """The figure's function, `typed`; what of its data cannot be drawn is said by the name of the data.

    An analysis refuses data in its own words: of a figure's caller, all of that is the first argument.

    Raises
    ------
    TypeError
        An argument is of another kind, or ``ax`` is no Axes.
    ValueError
        The data cannot be drawn: the message names the argument and says why.
    """
    held = typed(function)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(held)
    def draw(*args: P.args, **kwargs: P.kwargs) -> T:
        _refuse_other_axes(kwargs.get("ax"))
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Attempting to set identical low and high", UserWarning)
                return held(*args, **kwargs)
        except (LookupError, TypeError, ValueError) as fault:
            said = any(re.search(rf"\b{name}\b", str(fault)) for name in names)
            if said and not isinstance(fault, LookupError):
                raise
            kind = TypeError if isinstance(fault, TypeError) else ValueError
            raise kind(f"{names[0]} cannot be drawn: {fault}") from fault

    return draw


def _refuse_other_axes(ax: Any) -> None:
    if ax is None:
        return
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be the Axes of a matplotlib figure or None, not {type(ax).__name__}")
