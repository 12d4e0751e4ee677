"""Sizes that no market has are named; bodies of venues have none."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DerivdataError
from derivdata.sources.venues.row_checks import size_doubts
from tests.venues import test_recorded as recorded
from tests.venues.test_read import context_of

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


def option(**changes: Any) -> pd.DataFrame:
    row = {
        "symbol": "BTC", "strike": 60_000.0, "side": "put", "open_interest": 300.0, "mark_usd": 900.0,
        "underlying_price": 65_000.0, "index_price_usd": 64_900.0,
    }  # fmt: skip
    return pd.DataFrame([row | changes])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (option(open_interest=3e7), "open_interest of BTC is 3e.07, which is more coins than exist"),
        (option(mark_usd=90_000.0), "mark_usd of a put of BTC is 90000, above its strike 60000"),
        (
            option(underlying_price=454_000.0),
            "underlying_price of BTC is 454000, but index_price_usd is 64900",
        ),
        (pd.DataFrame({"symbol": ["BTC"], "value_usd": [5e9]}), "value_usd of BTC is 5e.09: no liquidation"),
    ],
)
def test_impossible_size_is_reported(rows: pd.DataFrame, words: str) -> None:
    (text,) = size_doubts(rows)
    assert re.search(words, text)


def test_usual_sizes_are_not_named() -> None:
    assert [*size_doubts(option())] == []
    assert [*size_doubts(option(side="call", mark_usd=70_000.0, strike=100.0))] == []
    assert [*size_doubts(pd.DataFrame({"symbol": ["BTC"], "value_usd": [2e8]}))] == []


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_recorded_bodies_have_plausible_sizes(path: Path) -> None:
    results = []
    for case in json.loads(path.read_text("utf-8")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                dd.venues.read(
                    case["venue"],
                    case["request"],
                    json.dumps(case["body"]),
                    at=recorded.AT,
                    context=context_of(case),
                )
            except (DerivdataError, ValueError):
                continue
        words = r"more coins than exist|above its strike|another coin or unit|as large$"
        results += [str(notice.message) for notice in caught if re.search(words, str(notice.message))]
    assert results == []
