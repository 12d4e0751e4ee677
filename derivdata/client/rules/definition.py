"""The form of a rule: a function that yields a sentence for each breach, with a name and an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from derivdata.client.reading import Evidence

__all__ = ["Rule", "rule"]


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    compares
        What is compared with what, for the docs.
    outcome
        ``"error"``: a breach is a `SchemaError`. ``"notice"``: the table comes with a `DataNotice`.
    check
        Yields a sentence for each breach, which names both sides.
    columns
        The columns that the rule looks at: a table without any of them cannot break it. Empty where it looks
        at other things. A table without fixed columns is always checked.
    """

    name: str
    compares: str
    outcome: Literal["error", "notice"]
    check: Callable[[Evidence], Iterator[str]]
    columns: frozenset[str] = frozenset()


def rule(
    name: str, compares: str, outcome: Literal["error", "notice"], *, columns: str = ""
) -> Callable[[Callable[[Evidence], Iterator[str]]], Rule]:
    """Return a decorator that makes a `Rule` of its check; `columns` are spaced names."""
    return lambda check: Rule(name, compares, outcome, check, frozenset(columns.split()))
