"""What a column is: how it is stored, its unit, its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a column is stored."""

    TEXT = "category"
    LABEL = "str"
    NUMBER = "float64"
    COUNT = "Int64"
    RANK = "rank"
    FLAG = "boolean"
    TIME = "datetime64[us, UTC]"

    @property
    def dtype(self) -> str:
        """The pandas dtype; a rank is a count that reads ``"500+"`` as missing."""
        return "Int64" if self is Kind.RANK else str(self.value)


@dataclass(frozen=True)
class Column:
    """One column of the library's one vocabulary: its kind, unit and meaning.

    Attributes
    ----------
    allowed
        The words that it may hold beside missing; empty where any may stand.
    least
        The smallest number that is possible; None where any number is.
    positive
        Whether zero is impossible, too.
    """

    kind: Kind
    unit: str
    doc: str
    allowed: tuple[str, ...] = ()
    least: float | None = None
    positive: bool = False
