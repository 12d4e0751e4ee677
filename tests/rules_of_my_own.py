"""Rules of a backtest as a user writes them, in a module that can be imported."""

from __future__ import annotations

from typing import Any


def hold_nothing(past: Any) -> dict[str, Any]:
    """Hold no pair."""
    return {}


def hold(past: Any, symbol: str) -> dict[str, Any]:
    """Hold one pair of a symbol at all times."""
    return {symbol: ("binance", "okx")}


class Stateful:
    """A rule with mutable state that is not a dataclass."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, past: Any) -> dict[str, Any]:
        """Hold no pair."""
        return {}
