"""Responses to a key of the Dev tier from a service whose clock is between two minutes."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice
from derivdata.sources import service

KEY = "a-key-of-dev"
FLOOR = pd.Timestamp("2026-05-31T12:00:30", tz="UTC")


@pytest.fixture(autouse=True)
def _dev() -> Iterator[None]:
    local = service.start("sample", now="2026-06-30T12:00:30Z", keys={KEY: "dev"})
    dd.connect(local.url, api_key=KEY)
    yield
    local.close()


def test_dev_tier_rejects_30_days_and_accepts_719_hours() -> None:
    with pytest.warns(DataNotice, match="start was raised from 2026-05-31T12:00:00Z to 2026-05-31T12:00:30Z"):
        month = dd.funding.history("BTC", "30d", venues=["okx"])
    assert month["time"].min() == FLOOR.ceil("h")
    assert len(month) == 719
    hours = dd.funding.history("BTC", "719h", venues=["okx"])  # without a notice
    pd.testing.assert_frame_equal(hours, month, check_flags=False)


def test_option_history_of_whole_days_includes_the_first_hour() -> None:
    first = dd.options.atm_history("BTC", "deribit", "2d")["time"].min()
    assert first == pd.Timestamp("2026-06-28T12:00", tz="UTC")
