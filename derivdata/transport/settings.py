"""How a connection works: where its answers are kept, and what bounds a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from derivdata.transport.timing import Limits, Timing

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """How a connection works.

    Attributes
    ----------
    scope
        Text that names the source in the cache: its address, or a local source's identity.
    folder
        The cache folder.
    cache
        ``"on"``, ``"refresh"`` (ask anew, then keep) or ``"off"``.
    offline
        Whether only the cache may answer; then whatever the answer's age.
    paced
        Whether rate limits are kept.
    """

    scope: str
    folder: Path
    cache: str = "on"
    offline: bool = False
    paced: bool = True
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
