"""Tables for tests: a value that is the same in every row is given once."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.tables import TABLES

FEW_ROWS = "ignore:.*(are missing|grid before it|rows (begin|end) at):derivdata.errors.DataNotice"
"""Filter of notices about missing rows, for tests whose bodies hold one or two rows of their windows."""


def rows(table: str, **columns: Any) -> pd.DataFrame:
    """Build a table of columns by their names on the wire, as lists or as one value for all rows."""
    return TABLES[table].build(dict(pd.DataFrame(columns).items()))
