"""Columns and tables: kinds, units, keys. All frames are built and checked here."""

from derivdata.tables.schema.column import Column, Kind, coded, floats, ranks, repeated
from derivdata.tables.schema.table import OpenTable, Table

__all__ = ["Column", "Kind", "OpenTable", "Table", "coded", "floats", "ranks", "repeated"]
