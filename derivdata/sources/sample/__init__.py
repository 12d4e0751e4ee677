"""The synthetic market: deterministic, labelled as such, with known true parameters."""

from __future__ import annotations

from derivdata.sources.sample.ground_truth import truth
from derivdata.sources.sample.store import Sample

__all__ = ["open", "truth"]
__dir__ = __all__.copy


def open() -> Sample:  # noqa: A001
    """Return the synthetic market as a store, from 1 September 2025 to its clock, 30 June 2026 12:00 UTC."""
    return Sample()
