"""Outcome of an import: its counts, or the question that stops it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from derivdata.errors import ArchiveError


@dataclass(frozen=True)
class Imported:
    """Counts of the rows of an import, by outcome.

    Attributes
    ----------
    table
        Table of the rows; several are joined by commas.
    read, written
        Rows of all files, and those that are new in the archive.
    present, differing
        Rows whose key was stored already, with the same values or with others; the stored rows stay.
    other_quotes
        Rows of a contract whose symbol has one on the venue in a quote currency of higher priority.
    superseded
        Rows of options whose chain has a newer row of the same instrument.
    rejected
        Rows that do not fit the table, or that would make its stored rows unreadable.
    first_rejected
        File, line (or record, from 1) and reason of the first rejected row.
    rejections
        The same for the first twenty.
    notices
        Other facts about the files, such as further pages or missing rows.
    understood
        Table, columns, units, zone, symbols, venues and span of the files, as ``derivdata import`` prints
        them before it writes.
    """

    table: str
    read: int
    written: int
    present: int
    differing: int
    other_quotes: int
    superseded: int
    rejected: int
    first_rejected: str | None
    rejections: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    understood: str = ""

    def __str__(self) -> str:
        counts = f"{self.table}: {self.read:,} rows read, {self.written:,} written"
        other = {
            "already there with other values (those first seen stay)": self.differing,
            "of a quote currency of lower priority": self.other_quotes,
            "older than another row of the instrument in its chain": self.superseded,
        }
        extra = [f"{count:,} {text}" for text, count in other.items() if count]
        texts = [counts, f"{self.present:,} already there", *extra, f"{self.rejected:,} rejected"]
        first = f"; the first: {self.first_rejected}" if self.first_rejected else ""
        return ", ".join(texts) + first


_COUNTS = ("read", "written", "present", "differing", "other_quotes", "superseded", "rejected")


def summed(results: Sequence[Imported]) -> Imported:
    """Return the counts of several tables as one."""
    if len(results) == 1:
        return results[0]
    rejections = tuple(line for result in results for line in result.rejections)
    return Imported(
        table=", ".join(result.table for result in results),
        **{name: sum(getattr(result, name) for result in results) for name in _COUNTS},
        first_rejected=next(iter(rejections), None),
        rejections=rejections,
        notices=tuple(dict.fromkeys(notice for result in results for notice in result.notices)),
        understood="\n\n".join(result.understood for result in results),
    )


class Unclear(ArchiveError):
    """A file may be read in several ways: `option` chooses one of the `choices`."""

    def __init__(self, message: str, option: str, choices: Sequence[str]) -> None:
        super().__init__(message)
        self.option = option
        self.choices = [*choices]
