"""What an answer is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from derivdata.service.view import View

__all__ = ["Ask"]


@dataclass(frozen=True)
class Ask:
    """One admitted request: the source at the clock, the key's tier, and the parameters with their types."""

    view: View
    tier: str
    params: Mapping[str, Any]
