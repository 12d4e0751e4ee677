"""Honest markets that move as few do: their figures pass, or are kept as rows that an import takes."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.archive.importing import import_files
from derivdata.sources.collect.questions import LastPolls
from derivdata.sources.venues.record_types import Instrument, State
from tests.collect.fakes import Fakes, SimulatedClock
from tests.collect.test_other_answers import _lying, rows_in, scaled

AT = pd.Timestamp("2022-05-12", tz="UTC")


def _state(**figures: float) -> State:
    given = {"rate": 1e-4, "period_h": 8.0, "oi_usd": 1e6, "mark": 100.0, "index_price": 100.0}
    return State(Instrument("LUNAUSDT", "LUNA"), None, **(given | {"last": 100.0} | figures))


def _path(first: float, last: float, minutes: int) -> list[float]:
    return [first * (last / first) ** (minute / minutes) for minute in range(minutes + 1)]


MOVES = {
    "bitcoin halves in a day, 2020-03-12, most of it in an hour": ("mark", _path(7900.0, 3800.0, 60)),
    "coins lose two thirds in ten minutes, 2025-10-10": ("mark", _path(100.0, 33.0, 10)),
    "luna loses 99.9 % in a day, 2022-05-12, and half of it in a minute": ("mark", _path(1.0, 1e-3, 10)),
    "a squeeze by the factor 20 in an hour": ("mark", _path(1.0, 20.0, 60)),
    "a wick to a third and back, 2021-05-19": ("last", [100.0, 33.0, 95.0]),
    "open interest times five in a day": ("oi_usd", _path(1e6, 5e6, 1440)),
    "half of the open interest closed in a minute, 2025-10-10": ("oi_usd", [1e6, 5e5, 4e5]),
    "a running rate to the clamp of 2 % in 4 hours within one of them": ("rate", _path(5e-5, 2e-2, 240)),
    "a rate at the clamp that falls to nothing with its payment": ("rate", [2e-2, 1e-5]),
}
"""The largest that are known, as figures of a contract at consecutive minutes."""


@pytest.mark.parametrize("title", MOVES)
def test_the_largest_known_moves_pass(title: str) -> None:
    figure, path = MOVES[title]
    polls = LastPolls("venue")
    for minute, value in enumerate(path):
        told = _state(**({figure: value} | ({"index_price": value} if figure == "mark" else {})))
        assert polls.hold([told], AT + pd.Timedelta(minute, "min")) == ([told], {}, []), minute


@pytest.mark.parametrize(
    ("endings", "factor", "table"),
    [
        ({"markPrice", "indexPrice"}, 0.02, "prices_history"),  # after an outage in which a coin collapsed
        ({"lastFundingRate"}, 2e2, "funding_history"),  # a clamp of 2 %, from one minute to the next
        ({"openInterest"}, 30.0, "oi_history"),
    ],
)
def test_what_no_market_did_before_is_kept_as_rows_that_an_import_takes(
    endings: set[str],
    factor: float,
    table: str,
    made: Any,
    archive: Archive,
    fakes: Fakes,
    clock: SimulatedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = made("binance", names=["funding_history", "oi_history", "prices_history"], share_seconds=None)
    collector.once()
    honest, start = fakes._body, clock.utc()

    def body(exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        status, answer = honest(exchange, place, params)
        for row in [*(one for rows in rows_in(answer) for one in rows), answer]:
            for name in endings & {*row} if isinstance(row, dict) else ():
                row[name] = str(float(row[name] or 0) * factor)
        return status, answer

    monkeypatch.setattr(fakes, "_body", body)
    clock.wait(360)
    collector.once()
    assert "left out" in " ".join(collector.failed.values())
    (path,) = (archive.path / "quarantine").glob(f"binance-{table}-*.csv")
    kept, before = pd.read_csv(path), archive.read(table)
    clock.wait(360)
    collector.once()
    assert len(pd.read_csv(path)) > len(kept), "rows of the next minute stand after them"
    import_files(table, path, archive.path, accept=["unit", "venues"])
    keys = ["symbol", "exchange", "time"]
    after = archive.read(table, start).merge(pd.read_csv(path, parse_dates=["time"])[keys], on=keys)
    assert len(after) >= len(kept) > 0
    assert len(archive.read(table)) > len(before)


def test_payments_that_no_window_brought_before_are_kept_as_rows(
    fill: Any, archive: Archive, fakes: Fakes, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coin begins to pay the clamp; once that is imported, the next windows follow it."""
    assert fill("funding_settlements", "binance", start="2026-01-15", end="2026-01-18").failed == []
    _lying(fakes, monkeypatch, "fundingRate", scaled("fundingRate", 300.0))
    (why,) = fill("funding_settlements", "binance", start="2026-01-18", end="2026-01-19").failed
    assert "(kept as binance-funding_settlements-BTC.csv)" in why
    path = archive.path / "quarantine" / "binance-funding_settlements-BTC.csv"
    assert fill("funding_settlements", "binance", start="2026-01-19", end="2026-01-20").failed != []
    assert len(pd.read_csv(path)) == 6, "of both windows"
    import_files("funding_settlements", path, archive.path, accept=["unit", "interval", "venues"])
    assert fill("funding_settlements", "binance", start="2026-01-19", end="2026-01-20").failed == []
    paid = archive.read("funding_settlements")
    assert paid["rate_bps_8h"].abs().max() > 200
    assert (paid["time"].diff().dropna() == pd.Timedelta(8, "h")).all()
