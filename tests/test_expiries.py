"""One parser reads expiries at every entry point."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.tables.contracts import expiries, iso_of

EIGHT = pd.Timestamp("2026-03-27T08:00Z")
DATES = [
    "2026-03-27",
    "2026/03/27",
    "27MAR26",
    "27mar26",
    "27-MAR-26",
    "27 Mar 2026",
    "260327",
    "20260327",
    "2026-03-27 00:00:00",
    "2026-03-27T00:00:00Z",
    "27MAR26 00:00",
    "2026-03-27T09:00:00+09:00",
    "2026-03-26 20:00 -04:00",
    dt.date(2026, 3, 27),
    np.datetime64("2026-03-27"),
    pd.Timestamp("2026-03-27T00:00Z"),
]
TIMES = [
    "2026-03-27T08:00Z",
    "2026-03-27 08:00",
    "2026-03-27T08:00:00.000000Z",
    "2026-03-27T16:00+08:00",
    "27MAR26 08:00",
    "27-MAR-26T08:00:00Z",
    "260327 08:00",
    "20260327-0800",
    "20260327T080000Z",
    "2026-03-27 08:00 UTC",
    pd.Timestamp("2026-03-27T08:00Z"),
]


@pytest.mark.parametrize("label", DATES + TIMES, ids=repr)
def test_all_spellings_give_the_same_expiry(label: object) -> None:
    assert dd.tables.expiry(label) == EIGHT
    stamps, dated = expiries([label, None], "expiry")
    assert stamps[0] == EIGHT
    assert pd.isna(stamps[1])
    assert dated.tolist() == [label in DATES, False]


def test_a_single_digit_day_and_another_hour() -> None:
    assert dd.tables.expiry("6DEC25") == pd.Timestamp("2025-12-06T08:00Z")
    assert dd.tables.expiry("6DEC25 16:30") == pd.Timestamp("2025-12-06T16:30Z")


@pytest.mark.parametrize(
    "label", ["27MXR26", "2026-02-30", "261327", "1774598400", "next week", "26-03-27", ""]
)
def test_other_text_is_rejected(label: str) -> None:
    assert iso_of(label) is None
    with pytest.raises(ValueError, match="must be an expiry such as '2026-03-27'"):
        dd.tables.expiry(label)


def test_given_forwards_must_be_of_listed_expiries() -> None:
    strikes = np.arange(80.0, 121.0, 5.0)
    rows = pd.DataFrame(
        {
            "time": pd.Timestamp("2026-03-20T12:00Z"),
            "expiry": EIGHT,
            "strike": np.repeat(strikes, 2),
            "side": ["call", "put"] * len(strikes),
            "iv": 0.5,
            "underlying_price": 100.0,
        }
    )
    late = rows.assign(expiry="28MAR26", iv=np.nan)  # listed, and no option of it can be used
    fitted = dd.analysis.surface.from_chain(
        pd.concat([rows, late], ignore_index=True), given={"27MAR26": 101.0, "28MAR26": 102.0}
    )
    assert fitted["forward"].sel(expiry="2026-03-27T08:00").item() == 101.0
    with pytest.raises(ValueError, match="given has a value for 2026-03-28T08:00Z"):
        dd.analysis.surface.from_chain(rows, given={"28MAR26": 101.0})
    for label in ("2026-03-27", "27MAR26", "260327", "2026-03-27T08:00Z"):
        assert dd.analysis.chain.forwards(rows, given={label: 101.0})["forward"].item() == 101.0
    with pytest.raises(
        ValueError, match="given has a value for 2026-03-28T08:00Z, which is not an expiry of the chain"
    ):
        dd.analysis.chain.forwards(rows, given={"28MAR26": 101.0})
    with pytest.raises(ValueError, match="given must have one value for each label, got two"):
        dd.analysis.chain.forwards(rows, given={"27MAR26": 101.0, "2026-03-27": 102.0})


def test_legs_and_surface_points_accept_dates() -> None:
    strikes = np.arange(60.0, 150.0, 5.0)
    rows = pd.DataFrame(
        {
            "time": pd.Timestamp("2026-03-26T12:00Z"),
            "expiry": np.repeat([EIGHT, pd.Timestamp("2026-04-24T08:00Z")], len(strikes)),
            "strike": np.tile(strikes, 2),
            "side": np.tile(np.where(strikes < 100.0, "put", "call"), 2),
            "iv": 0.5,
            "underlying_price": 100.0,
        }
    )
    surface = dd.analysis.surface.from_chain(rows, given={"27MAR26": 100.0, "24APR26": 100.0})
    leg = pd.DataFrame({"expiry": ["27MAR26"], "strike": [100.0], "side": ["call"], "quantity": [1.0]})
    values = [
        dd.analysis.position.greeks(leg.assign(expiry=label), surface)["value"].sel(currency="usd").item()
        for label in ("2026-03-27T08:00Z", "27MAR26", "2026-03-27")
    ]
    assert values[0] == values[1] == values[2]
    at = dd.analysis.surface.at(surface, "27MAR26")
    assert at["year_fraction"].item() == pytest.approx(20 / 8760, rel=1e-12)
