"""Options with individual timestamps are one snapshot; expected values are counted by hand."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.cli import main
from derivdata.errors import ArchiveError, DataNotice, SchemaError
from derivdata.sources.archive import import_files, open_archive

NOON = pd.Timestamp("2026-03-02T12:00Z").as_unit("us")
EXPIRY = pd.Timestamp("2026-03-27T08:00Z").as_unit("us")


def chain(at: pd.Timestamp = NOON, options: int = 40, **more: object) -> pd.DataFrame:
    """Return a chain of one timestamp: strikes of 1,000 USD apart, calls and puts in turn."""
    strikes = 80_000.0 + 1000.0 * np.arange(options)
    sides = np.array(["call", "put"])[np.arange(options) % 2]
    names = [f"BTC-27MAR26-{strike:g}-{side[0].upper()}" for strike, side in zip(strikes, sides, strict=True)]
    return pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": "deribit",
            "time": at,
            "instrument_name": names,
            "expiry": EXPIRY,
            "strike": strikes,
            "side": sides,
            "iv": 0.5,
            "open_interest": 1.0 + np.arange(options),
            "underlying_price": 100_000.0,
        }
        | more
    )


def spread(rows: pd.DataFrame, seconds: float, seed: int = 1) -> pd.DataFrame:
    """Return rows in random order with timestamps spread over some seconds from the chain's time on."""
    draw = np.random.default_rng(seed)
    offset = pd.to_timedelta(np.round(draw.uniform(0.0, seconds, len(rows)), 3), unit="s")
    return rows.assign(time=rows["time"] + offset).sample(frac=1.0, random_state=seed)


@pytest.mark.parametrize("seconds", [0.008, 5.0, 120.0, 1500.0, 3590.0])
def test_rows_with_their_own_timestamps_are_one_snapshot(seconds: float) -> None:
    rows = spread(chain(), seconds)
    snapshot = dd.tables.snapshots(rows)
    assert len(snapshot) == 40
    assert snapshot["time"].unique().tolist() == [rows["time"].max()]
    assert snapshot["quoted_at"].tolist() == rows["time"].tolist()


def test_a_chain_of_one_timestamp_stays_as_it_is() -> None:
    rows = chain()
    pd.testing.assert_frame_equal(dd.tables.snapshots(rows), rows)
    assert len(dd.tables.snapshots(rows[:0])) == 0


@pytest.mark.parametrize("step", ["1s", "20s", "1min", "5min", "59min", "1h", "8h"])
def test_a_history_of_whole_chains_stays_as_it_is(step: str) -> None:
    rows = pd.concat([chain(NOON + i * pd.Timedelta(step)) for i in range(5)], ignore_index=True)
    pd.testing.assert_frame_equal(dd.tables.snapshots(rows), rows)


@pytest.mark.parametrize("step", ["3min", "5min", "1h", "8h"])
def test_each_chain_of_a_history_gets_its_own_time(step: str) -> None:
    parts = [spread(chain(NOON + i * pd.Timedelta(step)), 120.0, seed=i) for i in range(5)]
    snapshot = dd.tables.snapshots(pd.concat(parts, ignore_index=True))
    assert snapshot.groupby("time").size().tolist() == [40] * 5
    assert snapshot["time"].drop_duplicates().sort_values().tolist() == [part["time"].max() for part in parts]


@pytest.mark.parametrize("seconds", [0.0, 0.008, 0.5, 0.95])
@pytest.mark.parametrize("step", ["1s", "20s", "40s", "3min"])
def test_each_poll_is_a_snapshot_whatever_the_step(step: str, seconds: float) -> None:
    """Rows share a timestamp, are 8 ms apart, or are spread over half or nearly all of the step."""
    length = pd.Timedelta(step)
    spread_over = seconds if seconds < 0.1 else seconds * length.total_seconds()
    polls = [spread(chain(NOON + i * length), spread_over, seed=i) for i in range(4)]
    snapshot = dd.tables.snapshots(pd.concat(polls, ignore_index=True))
    assert snapshot.groupby("time").size().to_dict() == {poll["time"].max(): 40 for poll in polls}


def test_a_stream_is_one_snapshot_of_the_newest_rows() -> None:
    """600 updates a second apart, half of 4 instruments near the money, and all 40 at least once."""
    draw = np.random.default_rng(5)
    near = draw.integers(18, 22, 300)
    every = np.concatenate([np.arange(40), draw.integers(0, 40, 260)])
    place = draw.permutation(np.concatenate([near, every]))
    stamps = NOON + pd.to_timedelta(np.arange(600), unit="s")
    rows = chain().iloc[place].assign(time=stamps, iv=0.4 + 1e-4 * np.arange(600))
    with pytest.warns(DataNotice, match="560 of 600 option rows were dropped, because 1 snapshots"):
        snapshot = dd.tables.snapshots(rows)
    newest = rows.groupby("instrument_name")["iv"].last()
    assert snapshot.set_index("instrument_name")["iv"].sort_index().to_dict() == newest.to_dict()
    assert snapshot["time"].unique().tolist() == [stamps[-1]]


def test_newest_row_of_each_instrument_is_used_and_older_ones_counted() -> None:
    """15 of 40 instruments are quoted again within the chain, at another volatility: that row stays."""
    rows = spread(chain(), 60.0)
    again = rows[:15].assign(time=NOON + pd.Timedelta(61, "s"), iv=0.7)
    with pytest.warns(DataNotice, match="15 of 55 option rows were dropped, because 1 snapshots"):
        snapshot = dd.tables.snapshots(pd.concat([rows, again], ignore_index=True))
    assert snapshot["instrument_name"].is_unique
    assert sorted(snapshot["iv"].tolist()) == [0.5] * 25 + [0.7] * 15
    assert set(snapshot.loc[snapshot["iv"] == 0.7, "instrument_name"]) == set(again["instrument_name"])


def test_instruments_without_names_are_identified_by_expiry_strike_and_side() -> None:
    rows = spread(chain(), 60.0).drop(columns="instrument_name")
    assert dd.tables.snapshots(rows)["time"].nunique() == 1


def test_symbols_and_venues_are_chains_of_their_own() -> None:
    parts = [
        spread(chain(symbol=symbol, exchange=venue), 60.0, seed=seed)
        for seed, (symbol, venue) in enumerate(itertools.product(("BTC", "ETH"), ("deribit", "okx")))
    ]
    snapshot = dd.tables.snapshots(pd.concat(parts, ignore_index=True))
    times = snapshot.groupby(["symbol", "exchange"])["time"].unique()
    assert [list(time) for time in times] == [[part["time"].max()] for part in parts]


def test_contracts_recorded_a_minute_apart_are_one_chain() -> None:
    """Coin-settled options and USDC-settled ones, each of one request, every five minutes."""
    other = chain()["instrument_name"].str.replace("BTC-", "BTC_USDC-")
    parts = []
    for i in range(4):
        at = NOON + i * pd.Timedelta("5min")
        parts += [chain(at), chain(at + pd.Timedelta("1min"), 15, instrument_name=other[:15])]
    snapshot = dd.tables.snapshots(pd.concat(parts, ignore_index=True))
    assert snapshot.groupby("time").size().tolist() == [55] * 4


def test_chain_that_spans_more_than_the_hold_is_rejected() -> None:
    rows = spread(chain(), 3 * 3600.0)
    with pytest.raises(
        ValueError,
        match=r"BTC on deribit: .* must span at most the hold of 1 h, got 2\.\d+ h \(2026-03-02T",
    ):
        dd.tables.snapshots(rows)
    assert dd.tables.snapshots(rows, hold="3h")["time"].nunique() == 1
    with pytest.raises(ValueError, match="BTC on deribit"):
        dd.analysis.surface.from_chain(rows)


def test_a_poll_that_lacks_instruments_of_the_one_before_is_reported() -> None:
    """30 of 40 instruments after 20 s, then all after an hour and a minute, which is later than the hold."""
    polls = [chain(), chain(NOON + pd.Timedelta("20s"))[:30], chain(NOON + pd.Timedelta("81min"))]
    rows = pd.concat(polls, ignore_index=True)
    with pytest.warns(DataNotice, match=r"1 of 3 option snapshots lack .* less than 1 h older: .* 10 of 40"):
        snapshot = dd.tables.snapshots(rows)
    pd.testing.assert_frame_equal(snapshot, rows)


def test_expired_instruments_are_not_reported_missing() -> None:
    """20 of 40 instruments expire between two polls."""
    early = chain(EXPIRY - pd.Timedelta("1min"))
    early["expiry"] = EXPIRY + pd.to_timedelta(np.where(np.arange(40) < 20, 0, 7), unit="D")
    rows = pd.concat([early, early[20:].assign(time=EXPIRY + pd.Timedelta("1min"))], ignore_index=True)
    pd.testing.assert_frame_equal(dd.tables.snapshots(rows), rows)


def _summary(row: pd.Series, iv: float) -> dict[str, object]:
    return {
        "instrument_name": row["instrument_name"],
        "creation_timestamp": round(row["time"].timestamp() * 1000),
        "open_interest": row["open_interest"],
        "mark_iv": 100.0 * iv,
        "underlying_price": 100_000.0,
        "estimated_delivery_price": 100_000.0,
    }


def _body(seconds: float) -> str:
    offsets = np.linspace(0.0, seconds * 1000.0, 40).round()
    rows = chain().assign(time=lambda frame: frame["time"] + pd.to_timedelta(offsets, unit="ms"))
    summaries = [
        _summary(row, 0.5 + abs(row["strike"] - 100_000.0) / 400_000.0) for _, row in rows.iterrows()
    ]
    return json.dumps({"result": summaries})


def test_body_archive_and_service_give_the_same_chain(tmp_path: Path) -> None:
    """40 summaries within 8 ms: the time is the newest, the open interest 1 + … + 40 = 820."""
    request = "/public/get_book_summary_by_currency?kind=option"
    rows = dd.venues.read("deribit", request, _body(0.008))["options_snapshot"]
    assert rows["time"].unique().tolist() == [NOON + pd.Timedelta(8, "ms")]
    assert rows["quoted_at"].min() == NOON
    open_archive(tmp_path).append("options_snapshot", rows)
    dd.connect(str(tmp_path))
    served = dd.options.snapshot("BTC", "deribit")
    assert served["open_interest"].sum() == 820.0
    assert served["quoted_at"].min() == NOON
    assert dict(dd.options.surface("BTC", "deribit").sizes) == {"expiry": 1, "strike": 40, "side": 2}
    surface = dd.analysis.surface.from_chain(served)
    assert "time" not in surface.dims
    assert (surface["method"] > 0).all()
    assert "time" not in dd.analysis.exposure.max_pain(rows).dims
    with pytest.raises(
        SchemaError, match="BTC on deribit: rows of one chain must span at most the hold of 1 h, got 2 h"
    ):
        dd.venues.read("deribit", request, _body(7200.0))


def test_an_archive_stores_and_serves_one_chain(tmp_path: Path) -> None:
    """Two appends a minute apart with other instruments are one chain too."""
    archive = open_archive(tmp_path)
    rows = spread(chain(), 60.0)
    assert archive.append("options_snapshot", rows[:25]) + archive.append("options_snapshot", rows[25:]) == 40
    stored = archive.read("options_snapshot")
    assert stored["time"].nunique() == 2
    newest = archive.latest("options_snapshot", archive.now, within=pd.Timedelta(1, "h"))
    assert len(newest) == 40
    assert newest["time"].unique().tolist() == [rows["time"].max()]
    with pytest.raises(ArchiveError, match="BTC on deribit"):
        archive.append("options_snapshot", spread(chain(NOON + pd.Timedelta(1, "D")), 9000.0))


def test_an_audit_finds_and_repairs_chains_stored_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two chains of 40 rows, stored as older versions did: 80 timestamps become 2."""
    rows = pd.concat([spread(chain(), 60.0), spread(chain(NOON + pd.Timedelta(1, "h")), 60.0, seed=2)])
    rows = dd.tables.TABLES["options_snapshot"].conform(rows)
    archive = open_archive(tmp_path)
    with monkeypatch.context() as older:
        older.setattr("derivdata.sources.archive.archive.snapshots", lambda frame: frame)
        archive.append("options_snapshot", rows)
    assert archive.read("options_snapshot")["time"].nunique() == 80
    newest = archive.latest("options_snapshot", archive.now, within=pd.Timedelta(1, "h"))
    assert len(newest) == 40
    assert main(["audit", str(tmp_path)]) == 0
    assert (
        "options_snapshot deribit BTC 2026-03-02: 80 timestamps of rows belong to 2 chains"
        in capsys.readouterr().out
    )
    assert archive.read("options_snapshot")["time"].nunique() == 80
    assert main(["audit", str(tmp_path), "--repair"]) == 0
    stored = archive.read("options_snapshot")
    assert stored.groupby("time").size().tolist() == [40, 40]
    assert sorted(stored["quoted_at"]) == sorted(rows["time"])
    capsys.readouterr()
    assert main(["audit", str(tmp_path)]) == 0
    assert "no faults found" in capsys.readouterr().out
    # Each read shows the selection, so it does not list the 40 instruments.
    assert archive.corrections()["where"].tolist() == ["symbol=BTC, exchange=deribit"]


def _two_polls() -> pd.DataFrame:
    """Return a chain, and the same instruments 40 s later; rows of each poll are up to 8 ms apart."""
    first = spread(chain(NOON - pd.Timedelta("60s")), 0.008)
    return pd.concat([first, spread(chain(NOON - pd.Timedelta("20s"), iv=0.6), 0.008)], ignore_index=True)


def _two_pages() -> pd.DataFrame:
    """Return a chain of two requests a minute apart: 25 instruments, then the other 15."""
    later = pd.to_timedelta(np.where(np.arange(40) < 25, 0, 60), unit="s")
    return chain(NOON - pd.Timedelta("90s")).assign(time=lambda rows: rows["time"] + later)


def _tickers() -> pd.DataFrame:
    """Return tickers spread over two minutes; 15 of 40 instruments are quoted again at the end."""
    rows = spread(chain(NOON - pd.Timedelta("4min")), 120.0)
    again = rows[:15].assign(time=NOON - pd.Timedelta("1min"), iv=0.6)
    return pd.concat([rows, again], ignore_index=True)


def _polls_each_minute() -> pd.DataFrame:
    """Return five polls a minute apart, the rows of each within 8 ms."""
    polls = [spread(chain(NOON - i * pd.Timedelta("1min"), iv=0.6 - 0.02 * i), 0.008) for i in range(1, 6)]
    return pd.concat(polls, ignore_index=True)


# Rows, number of snapshots, and sum of the volatilities of the last one, counted by hand.
CASES = {
    "two polls 40 s apart": (_two_polls, 2, 40 * 0.6),
    "two pages a minute apart": (_two_pages, 1, 40 * 0.5),
    "tickers over two minutes": (_tickers, 1, 25 * 0.5 + 15 * 0.6),
    "a poll each minute": (_polls_each_minute, 5, 40 * 0.58),
}


@pytest.mark.filterwarnings("ignore:15 of 55 option rows were dropped", "ignore:.*off the resolution")
@pytest.mark.parametrize("case", CASES)
def test_the_same_rows_are_the_same_snapshots_in_every_path(case: str, tmp_path: Path) -> None:
    make, count, volatility = CASES[case]
    rows = make()

    def require(table: pd.DataFrame) -> None:
        assert table.groupby("time").size().tolist() == [40] * count
        newest = table[table["time"] == table["time"].max()]
        assert newest["iv"].sum() == pytest.approx(volatility)
        assert newest["open_interest"].sum() == 820.0
        assert newest["time"].iloc[0] == rows["time"].max()

    # The function itself, bodies of a venue, an import and an append. A body names an instrument once.
    require(dd.tables.snapshots(rows))
    request = "/public/get_book_summary_by_currency?kind=option"
    bodies = [
        json.dumps({"result": [_summary(row, row["iv"]) for _, row in poll.iterrows()]})
        for _, poll in rows.groupby(rows.groupby("instrument_name").cumcount())
    ]
    read = [dd.venues.read("deribit", request, body)["options_snapshot"] for body in bodies]
    require(dd.tables.snapshots(pd.concat(read, ignore_index=True)))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    import_files("options_snapshot", tmp_path / "rows.csv", tmp_path / "imported")
    require(open_archive(tmp_path / "imported").read("options_snapshot"))
    open_archive(tmp_path / "appended").append("options_snapshot", rows)
    require(open_archive(tmp_path / "appended").read("options_snapshot"))

    # An archive serves the newest snapshot, and the newest one at the start of each hour, with its own time.
    newest = rows["time"].max().tz_localize(None)
    for name in ("imported", "appended"):
        dd.connect(str(tmp_path / name))
        served = dd.options.snapshot("BTC", "deribit")
        assert (len(served), served["time"].nunique()) == (40, 1)
        assert served["iv"].sum() == pytest.approx(volatility)
        grid = dd.options.surface("BTC", "deribit")
        assert pd.Timestamp(grid["as_of"].item()) == newest
        assert float(grid["iv"].sum()) == pytest.approx(volatility)
        hourly = dd.options.surface_history("BTC", "deribit", "2h")
        assert hourly["time"].to_index().tolist() == [newest]
        assert float(hourly["iv"].sum()) == pytest.approx(volatility)

    # Analyses have a dim time if there are several snapshots; figures show one.
    results = [
        dd.analysis.surface.from_chain(rows),
        dd.analysis.chain.smiles(dd.analysis.chain.clean(rows)),
        dd.analysis.exposure.max_pain(rows),
        dd.tables.surface(rows),
    ]
    for result in results:
        assert result.sizes.get("time", 1) == count
    for draw in (dd.plot.smile, dd.plot.strikes):
        if count > 1:
            with pytest.raises(ValueError, match=r"(needs one|must not have the dim)"):
                draw(rows, source="test")
        else:
            draw(rows, source="test")
