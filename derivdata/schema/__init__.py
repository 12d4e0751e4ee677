"""What a column and a table are: kinds, units, keys; frames are built and checked here and nowhere else."""

from __future__ import annotations

from derivdata.schema.kinds import Column, Kind
from derivdata.schema.open_table import OpenTable
from derivdata.schema.table import Table, in_runs, repeated

__all__ = ["Column", "Kind", "OpenTable", "Table", "in_runs", "repeated"]
