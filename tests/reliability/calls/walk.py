"""Every public function by its dotted name, and what calls of them are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeAlias

import derivdata as dd

__all__ = ["Calls", "function", "public"]

Calls: TypeAlias = dict[str, Callable[[], dict[str, Any]]]
"""The arguments of a valid call, by the function's dotted name."""


def function(name: str) -> Callable[..., Any]:
    """The public function of a dotted name."""
    return functools.reduce(getattr, name.split("."), dd)  # type: ignore[arg-type, return-value]


def public() -> set[str]:
    """Dotted names of all public functions, those of public modules inside public modules too.

    One that has two names is there once, under the shorter of them.
    """
    names = sorted(_walk(dd, ""), key=lambda name: (name.count("."), name), reverse=True)
    return set({function(name): name for name in names}.values())


def _walk(module: ModuleType, place: str) -> Iterator[str]:
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from _walk(value, f"{place}{name}.")
        elif inspect.isroutine(value):
            yield f"{place}{name}"
