"""Tables for tests: a value that is equal in every row is given once."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from derivdata.errors import DataNotice
from derivdata.tables import TABLES

_FEW_ROWS = "are missing|grid before it|rows (begin|end) at"


def few_rows() -> Any:
    """Expect a notice of missing rows: test bodies have one or two rows of their window."""
    return pytest.warns(DataNotice, match=_FEW_ROWS)


def rows(table: str, **columns: Any) -> pd.DataFrame:
    """Build a table of columns by their names on the wire, as lists or as one value for all rows."""
    return TABLES[table].build(dict(pd.DataFrame(columns).items()))
