"""What a channel pushes about the state of contracts: completed, thinned to seconds, and held to the last."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from derivdata.errors import SchemaError
from derivdata.sources.collect.files import Quarantine
from derivdata.sources.collect.questions import LastPolls
from derivdata.sources.venues.record_types import Records, State, filled
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times

_SECOND_US = 1_000_000


class PushedStates:
    """The newest state of each contract and second, of frames that may tell only what changed."""

    def __init__(self, exchange: str, quarantine: Quarantine) -> None:
        self._exchange = exchange
        self._quarantine = quarantine
        self._last: dict[str, State] = {}  # all that was told of each contract, by this connection
        self._new: dict[tuple[str, int], State] = {}  # by contract and second
        self._left_out: list[str] = []  # rows that contradict themselves
        self._held = LastPolls(exchange)

    def forget(self) -> None:
        """Complete nothing from before: another connection begins, and tells all."""
        self._last = {}

    def add(self, records: Records, names: Collection[str], at: pd.Timestamp) -> None:
        """Add what a frame tells of some contracts, completed; `at` is the time of rows that have none."""
        self._left_out += records.left_out
        for row in records.states:
            if row.instrument.name not in names:
                continue
            name = row.instrument.name
            time = times.us(at) if row.time is None else row.time
            whole = State(*filled(row, self._last.get(name, row)))._replace(time=time)
            price = whole.mark or whole.price
            is_valued = row.oi_usd is not None or row.instrument.inverse
            if not is_valued and whole.oi_coins is not None and price:
                whole = whole._replace(oi_usd=whole.oi_coins * price)
            self._last[name] = self._new[name, time // _SECOND_US] = whole

    def take(self, names: Sequence[str], now: pd.Timestamp) -> tuple[dict[str, pd.DataFrame], str, str]:
        """Return the rows since the last time, why tables have none, and which figures are left out."""
        new = self._new
        self._new = {}
        left_out = self._left_out
        self._left_out = []
        states, failed, notes = self._held.hold([*new.values()], now)
        self._quarantine.keep_records(self._exchange, names, self._held.withheld, now)
        rows = dict[str, pd.DataFrame]()
        for name in names:
            try:
                if name not in failed:
                    rows |= frames(self._exchange, Records(states=states), [name], at=times.us(now))
            except SchemaError as problem:
                failed[name] = str(problem)
        return rows, "; ".join(dict.fromkeys(failed.values())), "; ".join([*left_out[:1], *notes])
