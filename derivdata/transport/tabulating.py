"""From answers to a table, and what is kept of them beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd

from derivdata import times
from derivdata.schema import Table
from derivdata.transport.answers import Answer

__all__ = ["provenance", "tabulate"]

T = TypeVar("T")


class _Said(dict[str, Any]):
    """What answers said, which nobody changes; pandas copies `attrs` at every step, and these at no cost."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Said:
        return self


def tabulate(
    table: Table, answers: Iterable[Answer[T]], columns: Callable[[Answer[T]], Mapping[str, Any]]
) -> pd.DataFrame:
    """The table of some answers, with their provenance in ``attrs``.

    Parameters
    ----------
    answers
        Each is let go as soon as its columns are there, so that one at a time is in memory.
    columns
        Wire-named columns of one answer.

    Raises
    ------
    SchemaError
        A column is missing or of another kind; a key is missing or doubled.
    """
    seen: list[Answer[Any]] = []

    def each() -> Iterator[Mapping[str, Any]]:
        for answer in answers:
            seen.append(replace(answer, body=None))  # type: ignore[arg-type]
            yield columns(answer)

    frame = table.concat(each())
    frame.attrs["provenance"] = provenance(seen)
    return frame


def provenance(answers: Sequence[Answer[Any]]) -> dict[str, Any]:
    """What some answers said beside their data, ready for JSON, the same whenever they are."""
    last = max((a.as_of for a in answers), default=None)
    said = {
        "source": ", ".join(dict.fromkeys(a.source for a in answers)),
        "synthetic": any(a.synthetic for a in answers),
        "as_of": None if last is None else times.iso(last),
        "requests": [
            {
                "path": a.request.path,
                "query": dict(a.request.query),
                "sha256": a.sha256,
                "as_of": times.iso(a.as_of),
            }
            for a in answers
        ],
        "notices": list(dict.fromkeys(n for a in answers for n in a.notices)),
        "attribution": "; ".join(dict.fromkeys(a.attribution for a in answers if a.attribution)),
    }
    return _Said(said)
