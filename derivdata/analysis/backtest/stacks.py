"""Ask several rules at once: rules that differ in their numbers only are one rule with arrays of numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from derivdata.analysis.backtest.market import Knowledge, Past, Target, target_of
from derivdata.analysis.backtest.rules import ForecastThreshold, HoldingTime, Rotation, SpreadThreshold
from derivdata.analysis.panels import hours_of
from derivdata.support.arrays import Bools, Floats, Indices


class RuleStack:
    """Rules that are called at every row, each with its own positions.

    Rules of one kind with the same signal share one call, with positions over (rule, symbol) and
    thresholds over (rule, 1). All others, such as functions, are called one by one.
    """

    def __init__(self, rules: Sequence[Callable[[Past], Any]]) -> None:
        self.number = len(rules)
        groups: dict[Hashable, list[int]] = {}
        for place, rule in enumerate(rules):
            key = _signal_of(rule)
            groups.setdefault(("alone", place) if key is None else key, []).append(place)
        self._calls: list[tuple[Any, Callable[[Past], Any]]] = []
        for places in groups.values():
            if len(places) == 1:
                self._calls.append((places[0], rules[places[0]]))
            else:
                self._calls.append((np.array(places), _stacked([rules[place] for place in places])))

    def targets(
        self, knowledge: Knowledge, row: int, legs: Indices, opened: Floats, tradable: Bools, leg_usd: float
    ) -> Target:
        """Return the pairs that the rules want, one rule after the other.

        `legs` are the positions (leg, place) and `opened` the hours of their entry by place; a place is of
        one rule and one symbol.
        """
        shape = (self.number, legs.shape[1] // self.number)
        legs = legs.reshape(2, *shape)
        now = float(knowledge.market.since[row])
        held_hours = np.where(legs[0] >= 0, now - opened.reshape(shape), 0.0)
        long, short = np.empty((2, *shape), dtype=np.intp)
        score = np.empty(shape)
        for places, rule in self._calls:
            past = Past(knowledge, row, legs[:, places], held_hours[places], tradable, leg_usd)
            long[places], short[places], score[places] = target_of(rule(past), past)
        return Target(long.reshape(-1), short.reshape(-1), score.reshape(-1))


def _signal_of(rule: Any) -> Hashable:
    """Return the key of rules that share one call; None for a rule that is called alone."""
    kind = type(rule)
    if kind is SpreadThreshold:
        return kind, rule.window
    if kind is ForecastThreshold:
        return kind, id(rule.forecast), rule.max_age
    if kind is Rotation:
        return kind, rule.every, rule.window
    if kind is HoldingTime:
        signal = _signal_of(rule.rule)
        return None if signal is None else (kind, signal)
    return None


def _stacked(rules: Sequence[Any]) -> Any:
    """Return rules of one signal as one rule whose numbers are columns."""
    first = rules[0]
    if isinstance(first, SpreadThreshold):
        names = ("enter_bps_8h", "leave_bps_8h", "switch_bps_8h")
        return dataclasses.replace(first, **{name: _column(rules, name) for name in names})
    if isinstance(first, ForecastThreshold):
        return dataclasses.replace(
            first, **{name: _column(rules, name) for name in ("enter", "leave", "switch")}
        )
    if isinstance(first, Rotation):
        most = [np.inf if rule.top is None else rule.top for rule in rules]
        numbers: dict[str, Any] = {
            "top": np.array(most)[:, None],
            "least_bps_8h": _column(rules, "least_bps_8h"),
        }
        return dataclasses.replace(first, **numbers)
    least = [hours_of(rule.least, "least", least=0.0) for rule in rules]
    most = [np.inf if rule.most is None else hours_of(rule.most, "most") for rule in rules]
    spans: dict[str, Any] = {"least": np.array(least)[:, None], "most": np.array(most)[:, None]}
    return HoldingTime(_stacked([rule.rule for rule in rules]), **spans)


def _column(rules: Sequence[Any], name: str) -> Any:
    return np.array([getattr(rule, name) for rule in rules], dtype=np.float64)[:, None]
