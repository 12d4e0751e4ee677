"""Tables as CSV that a spreadsheet shows and does not compute.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, which may send the
content of the sheet to an address. Names in a table come from venues. Such a text gets an apostrophe before
it, the mark of text in a spreadsheet, and an import removes it again. Numbers stay as they are.

References
----------
OWASP, "CSV Injection", https://owasp.org/www-community/attacks/CSV_Injection.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NEUTRAL = re.compile(r"'+[=+\-@\t\r]")


def csv_text(frame: pd.DataFrame, *, formulas: bool = False) -> str:
    """Return a table as CSV; with `formulas` texts that begin like one are written as they are."""
    shown = frame if formulas else _neutral(frame)
    text: str = shown.to_csv(index=False, lineterminator="\n")
    return text


def original_cell(text: str) -> str:
    """Return a cell as it was before `csv_text` marked it as text."""
    return text[1:] if _NEUTRAL.match(text) else text


def original_cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as it was before `csv_text` marked some of it."""
    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    return pc.replace_substring_regex(column, r"^'('*[=+\-@\t\r])", r"\1")


def _neutral(frame: pd.DataFrame) -> pd.DataFrame:
    changed = {}
    for name in frame.columns:
        values = frame[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            words = [_marked(word) for word in values.cat.categories]
            if words != list(values.cat.categories):
                changed[name] = values.cat.rename_categories(words)
        elif values.dtype.kind == "O" or isinstance(values.dtype, pd.StringDtype):
            marked = values.map(_marked, na_action="ignore")
            if not marked.equals(values):
                changed[name] = marked
    result = frame.assign(**changed) if changed else frame
    return result.rename(columns=_marked)


def _marked(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
