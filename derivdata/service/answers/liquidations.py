"""Liquidation events, recent or since an instant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.service import fills, span, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.view import View

__all__ = ["DEFAULT_LIMIT", "events"]

DEFAULT_LIMIT = 1000
_SNAPSHOT = pd.Timedelta(24, "h")
_FIRST_STEP = pd.Timedelta(6, "h")


def events(ask: Ask) -> dict[str, Any]:
    """``GET /liquidations/events``.

    Without `since`: the last 24 hours of at least `min_usd`, newest first. With it: what came after, oldest
    first, so that a client that goes on from the last one misses none; `min_usd` has no effect.
    """
    view, asked = ask.view, ask.params
    limit = asked["limit"] or DEFAULT_LIMIT
    view.need(*fills.TABLES)
    symbols = _symbols(view, asked)
    if asked["since"] is None:
        found = fills.events(
            view, view.now - _SNAPSHOT, view.horizon, symbols=symbols, exchanges=asked["exchange"]
        )
        if asked["min_usd"] is not None:
            found = found[found["value_usd"] >= asked["min_usd"]]
        found = found.iloc[::-1].head(limit)
    else:
        found = _since(view, asked["since"] + span.INSTANT, limit, symbols, asked["exchange"])
    return {"events": wire.rows(_columns(found)), "count": len(found)}


def _symbols(view: View, asked: Any) -> Sequence[str] | None:
    if asked["exclude_symbol"] is None:
        return asked["symbol"]  # type: ignore[no-any-return]
    held = {symbol for table in fills.TABLES if view.has(table) for symbol in view.store.symbols(table)}
    return sorted(held - set(asked["exclude_symbol"]))


def _since(
    view: View,
    start: pd.Timestamp,
    limit: int,
    symbols: Sequence[str] | None,
    exchanges: Sequence[str] | None,
) -> pd.DataFrame:
    """The first `limit` events from `start` on, read in growing steps until there are enough."""
    start, step = max(start, view.store.start), _FIRST_STEP
    parts, count = [tables.LIQUIDATIONS_EVENTS.empty()], 0
    while start < view.horizon and count < limit:
        end = min(start + step, view.horizon)
        parts.append(fills.events(view, start, end, symbols=symbols, exchanges=exchanges))
        count += len(parts[-1])
        start, step = end, step * 2
    return pd.concat([p for p in parts if len(p)] or parts, ignore_index=True).head(limit)


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    """Wire-named columns, in the document's order."""
    order = (
        "time exchange symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status "
        "order_id fill_count"
    )
    names = tables.LIQUIDATIONS_EVENTS.wire
    return {names.get(name, name): frame[name] for name in order.split()}
