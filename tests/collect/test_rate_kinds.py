"""Funding rates by kind, with the settlement that each is for, in an archive."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.collect import Collector


def test_running_rates_are_stored_with_their_settlement(
    make_collector: Callable[..., Collector], archive: Archive
) -> None:
    written = make_collector("okx", names=["funding_rates"]).once()
    assert set(written) == {"funding_rates"}
    rows = archive.read("funding_rates")
    running = rows[rows["rate_kind"] == "next"]
    assert len(running)
    assert running["settlement_time"].notna().all()
    assert not rows.duplicated(["symbol", "exchange", "rate_kind", "time"]).any()
    bps = rows["rate_native"] * 8e4 / rows["interval_hours"]
    assert rows["rate_bps_8h"].tolist() == pytest.approx(bps.tolist(), rel=1e-9, nan_ok=True)


def test_rates_by_kind_are_stored_only_if_the_table_is_chosen(
    make_collector: Callable[..., Collector], archive: Archive
) -> None:
    make_collector("okx").once()
    assert "funding_rates" not in archive.tables()
