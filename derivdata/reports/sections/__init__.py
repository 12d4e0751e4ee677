"""Sections of the report: each draws its figures, explains them, and names missing data."""
