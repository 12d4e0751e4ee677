"""Differences of two recordings: responses, and rows of their tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata import bundle, errors
from derivdata.client import transport
from tests.bundle.conftest import Service
from tests.transport.server import NOON


def recorded(path: Path, *calls: Callable[[], object]) -> Path:
    with bundle.record(path):
        for call in calls:
            call()
    return path


def history(symbol: str) -> Callable[[], object]:
    return lambda: dd.funding.history(symbol, "2h")


def test_bundle_equals_itself_and_damaged_bundle_is_rejected(
    service: Service, path: Path, tmp_path: Path
) -> None:
    recorded(path, history("BTC"), history("ETH"))
    recorded(tmp_path / "b.ddz", history("ETH"), history("BTC"))
    difference = bundle.bundle_diff(path, tmp_path / "b.ddz")
    assert not difference
    assert repr(difference) == "BundleDiff(no difference)"
    assert difference.rows == {}
    recorded(path, history("BTC"))
    (tmp_path / "b.ddz").write_bytes(path.read_bytes()[:-30])
    with pytest.raises(errors.BundleError, match="truncated"):
        bundle.bundle_diff(path, tmp_path / "b.ddz")
    with pytest.raises(errors.BundleError, match="truncated"):
        bundle.bundle_diff(tmp_path / "b.ddz", path)


def test_difference_names_the_changed_rows(service: Service, path: Path, tmp_path: Path) -> None:
    recorded(path, history("BTC"), history("ETH"))
    service.rates["BTC"] = [1.0, 2.5]
    recorded(tmp_path / "b.ddz", history("BTC"), history("ETH"))
    difference = bundle.bundle_diff(path, tmp_path / "b.ddz")
    [line] = difference.answers.to_dict("records")
    assert (line["change"], line["path"], line["table"], line["rows"]) == (
        "changed",
        "/funding/historical",
        "funding_history",
        1,
    )
    assert line["query_a"] == line["query_b"]
    assert "symbol=BTC" in line["query_a"]
    assert line["sha256_a"] != line["sha256_b"]
    [row] = difference.rows["funding_history"].to_dict("records")
    assert (row["symbol"], row["exchange"]) == ("BTC", "okx")
    assert row["time"] == pd.Timestamp("2026-06-30T11:00:00Z")
    assert (row["change"], row["rate_bps_8h_a"], row["rate_bps_8h_b"]) == ("changed", 2.0, 2.5)
    assert repr(difference) == "BundleDiff(responses: 1 changed; rows: 1 of funding_history)"


def test_response_in_one_bundle_only_counts_all_its_rows(
    service: Service, path: Path, tmp_path: Path
) -> None:
    recorded(path, history("BTC"))
    recorded(tmp_path / "b.ddz", history("ETH"))
    difference = bundle.bundle_diff(path, tmp_path / "b.ddz")
    assert difference.answers["change"].tolist() == ["only in a", "only in b"]
    assert difference.answers["rows"].tolist() == [2, 2]
    rows = difference.rows["funding_history"]
    assert rows.groupby(["symbol", "change"]).size().to_dict() == {
        ("BTC", "only in a"): 2,
        ("ETH", "only in b"): 2,
    }
    assert rows.loc[rows["symbol"] == "BTC", "rate_bps_8h_a"].tolist() == [1.0, 2.0]
    assert rows.loc[rows["symbol"] == "BTC", "rate_bps_8h_b"].isna().all()


def test_moved_window_is_compared_on_its_overlap(service: Service, path: Path, tmp_path: Path) -> None:
    """Rates at 10:00 and 11:00, an hour later at 11:00 and 12:00."""
    recorded(path, history("BTC"))
    service.date = NOON + pd.Timedelta("1h")
    transport.connect(service.server.url, cache="off")  # type: ignore[union-attr]
    service.rates["BTC"] = [2.0, 7.0]
    recorded(tmp_path / "b.ddz", history("BTC"))
    difference = bundle.bundle_diff(path, tmp_path / "b.ddz")
    [line] = difference.answers.to_dict("records")
    assert (line["change"], line["rows"]) == ("moved", 2)
    rows = difference.rows["funding_history"].set_index("time")["change"]
    assert rows.to_dict() == {
        pd.Timestamp("2026-06-30T10:00:00Z"): "only in a",
        pd.Timestamp("2026-06-30T12:00:00Z"): "only in b",
    }


def test_repeated_responses_are_compared_in_order(service: Service, path: Path, tmp_path: Path) -> None:
    def twice(first: float, second: float) -> list[Callable[[], object]]:
        def ask(rate: float) -> None:
            service.rates["BTC"] = [rate, rate]
            dd.funding.history("BTC", "2h")

        return [lambda: ask(first), lambda: ask(second)]

    recorded(path, *twice(1.0, 2.0))
    recorded(tmp_path / "b.ddz", *twice(1.0, 3.0))
    rows = bundle.bundle_diff(path, tmp_path / "b.ddz").rows["funding_history"]
    assert rows[["rate_bps_8h_a", "rate_bps_8h_b"]].to_numpy().tolist() == [[2.0, 3.0]] * 2


def test_responses_without_a_table_are_named_in_the_difference(
    service: Service, path: Path, tmp_path: Path
) -> None:
    def unknown() -> None:
        with pytest.raises(errors.NotFound):
            dd.funding.history("DOGE", "2h")

    recorded(path, lambda: transport.raw("/no/such"), unknown)
    service.extra, service.rates["DOGE"] = {"new": 1}, [1.0, 1.0]
    recorded(tmp_path / "b.ddz", lambda: transport.raw("/no/such"), history("DOGE"))
    difference = bundle.bundle_diff(path, tmp_path / "b.ddz")
    assert difference.answers["path"].tolist() == ["/funding/historical", "/no/such"]
    assert difference.answers["change"].tolist() == ["changed", "changed"]
    assert difference.answers["rows"].isna().all()
    assert difference.rows == {}
