import pandas as pd
import pytest

from derivdata.sources import sample
from derivdata.sources.sample.ground_truth import TOPICS
from derivdata.tables import VENUES
from tests.support.timestamps import at

TIMELESS = [t for t in TOPICS if t not in ("clusters", "futures", "premium", "surface", "volatilities")]


def test_windows_are_half_open_and_an_unknown_topic_is_rejected():
    with pytest.raises(ValueError, match=r"topic must be one of funding, funding_base, .*, got 'fees'"):
        sample.truth("fees")
    hours = sample.truth(
        "surface", symbols=["BTC"], venues=["okx"], start="2026-06-01 07:30", end="2026-06-01 10:00"
    )
    assert [t.hour for t in hours["time"].unique()] == [8, 9]
    assert sample.truth("surface", symbols=["TSLA"]).empty
    first = sample.truth("clusters", start="2026-06-01", end="2026-06-02")
    assert first["time"].between(at("2026-06-01"), at("2026-06-02")).all()
    result = set(sample.truth("spreads")["half_life_hours"])
    assert {3.0, 6.0, 12.0, 24.0, 72.0} <= result


@pytest.mark.parametrize("topic", TIMELESS)
def test_window_is_rejected_for_topics_without_time(topic):
    with pytest.raises(ValueError, match="does not have timestamps: omit start and end"):
        sample.truth(topic, start="2026-01-01")


@pytest.mark.parametrize("topic", [t for t in TOPICS if t != "shocks"])
def test_symbol_and_venue_filters_apply_to_the_ground_truth(topic):
    frame = sample.truth(topic, symbols=["ETH", "SOL"], venues=["bybit", "lighter", "zo"])
    assert 0 < len(set(frame["symbol"])) <= len({"ETH", "SOL"} & set(frame["symbol"]))
    assert set(frame.get("exchange", [])) <= {"bybit", "lighter", "zo"}


def test_pairs_equal_those_of_the_tables():
    """Symbols that trade at the clock by the truth have open interest, and no others."""
    store = sample.open()
    spans = sample.truth("funding")
    trading = spans[(spans["start"] <= store.now) & ~(spans["end"] <= store.now)]
    oi = store.latest("oi_history", store.now, within=pd.Timedelta("59min"))
    pd.testing.assert_frame_equal(
        oi[["symbol", "exchange"]].astype("str"), trading[["symbol", "exchange"]].reset_index(drop=True)
    )
    assert set(trading["exchange"]) == set(VENUES)
