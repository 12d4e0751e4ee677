"""What one minute of collecting brought, as a line of JSON for a log and as a line for a terminal."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

import pandas as pd

__all__ = ["Minute"]


@dataclass
class Minute:
    """What was written at an instant, and what failed.

    Attributes
    ----------
    rows
        Rows written, by table.
    failed
        Why some tables of some venues were not answered, by ``"venue table"``.
    gone
        Venues that refuse this address, and why.
    dropped
        Rows that were older than is to be kept.
    """

    time: pd.Timestamp
    rows: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    dropped: int = 0

    def json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps({**asdict(self), "time": str(self.time)})

    def line(self) -> str:
        """Return it as one line of text."""
        rows = ", ".join(f"{count:,} {table}" for table, count in sorted(self.rows.items()) if count)
        parts = [f"{self.time:%Y-%m-%d %H:%M:%S}", rows or "no rows"]
        if self.failed:
            parts.append(f"failed: {', '.join(sorted(self.failed))}")
        if self.gone:
            parts.append(f"unavailable: {', '.join(sorted(self.gone))}")
        if self.dropped:
            parts.append(f"{self.dropped:,} old rows dropped")
        return "; ".join(parts)
