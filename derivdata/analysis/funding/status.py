"""Status bits of funding figures: the reasons why one is NaN or infinite."""

from __future__ import annotations

from enum import IntFlag


class FundingStatus(IntFlag):
    """Reasons; a status of 0 is a plain success."""

    TOO_FEW = 1 << 0
    """Fewer observations than the figure needs."""
    GAP = 1 << 1
    """Data is missing inside the span."""
    INTERVAL_UNKNOWN = 1 << 2
    """The settlement interval is not known there."""
    ANTI_PERSISTENT = 1 << 3
    """The autoregression is at or below zero: nothing decays."""
    UNIT_ROOT = 1 << 4
    """The autoregression is at or above one: nothing reverts, the half-life is infinite."""
    CONSTANT = 1 << 5
    """The series does not move."""
    FILLED = 1 << 6
    """Too many points were carried forward."""
    UNREACHABLE = 1 << 7
    """No holding time earns the cost back."""
    TOO_THIN = 1 << 8
    """The book is not deep enough for the size."""
    OPEN = 1 << 9
    """The holding time is not over: the outcome is not known yet."""
    CANNOT_TELL = 1 << 10
    """The data determines no interval: a half-life may be anything from a single step to infinity, or
    a pair's own outcomes span less than a holding time."""
    FEW_DECISIONS = 1 << 11
    """The past decisions are worth fewer than eight independent ones: take the figure as a first guess."""
