import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import liquidations
from derivdata.analysis.liquidations import BranchingStatus
from tests.support.records import assert_identical
from tests.support.shared import known_path

DAY = 1440  # minutes


@pytest.fixture
def events() -> pd.DataFrame:
    frame = pd.read_csv(known_path("liquidation_events"), parse_dates=["time"])
    return frame.rename(columns={"usd_value": "value_usd"})


def known(name: str) -> str:
    frame = pd.read_csv(known_path("liquidation_expected")).set_index("quantity")
    return str(frame.loc[name, "expected"])


def test_liquidation_buckets_equal_hand_calculation(events: pd.DataFrame) -> None:
    result = liquidations.bucket(events, "5min")
    for at, clock in enumerate(("00:00", "00:05")):
        for name in ("long_usd", "short_usd"):
            assert result[name][at].item() == float(known(f"bucket_5min {clock} {name}"))
    assert result["count"][0].item() == float(known("bucket_5min 00:00 count"))
    expected = float(known("bucket_5min 00:00 imbalance=(L-S)/(L+S)"))
    assert result["imbalance"][0].item() == pytest.approx(expected, abs=1e-15)
    assert result["imbalance"][1].item() == float(known("bucket_5min 00:05 imbalance"))
    half_past = result.sel(time="2026-01-01T00:30")
    expected = float(known("bucket_5min 00:30 long_usd"))
    assert half_past["long_usd"].item() == half_past["short_usd"].item() == expected
    assert half_past["imbalance"].item() == float(known("bucket_5min 00:30 imbalance"))
    assert (result["coverage"] == 1).all()


def test_empty_bucket_has_zero_usd_and_no_imbalance(events: pd.DataFrame) -> None:
    empty = liquidations.bucket(events, "5min").sel(time="2026-01-01T00:10")
    assert empty["long_usd"].item() == empty["count"].item() == 0.0
    assert np.isnan(empty["imbalance"].item()), known("bucket_5min 00:10 imbalance (empty bucket)")


def test_buckets_of_venues_add_up_to_those_of_all_events(events: pd.DataFrame) -> None:
    total, by_venue = liquidations.bucket(events), liquidations.bucket(events, by=("exchange",))
    assert by_venue["exchange"].values.tolist() == ["x", "y"]
    for name in ("long_usd", "short_usd", "count"):
        xr.testing.assert_equal(by_venue[name].sum("exchange"), total[name])


def test_buckets_do_not_depend_on_the_order_of_events(events: pd.DataFrame) -> None:
    shuffled = events.sample(frac=1, random_state=3)
    assert_identical(liquidations.bucket(shuffled), liquidations.bucket(events))


def test_unobserved_time_is_nan_not_zero(events: pd.DataFrame) -> None:
    at = pd.Timestamp("2026-01-01", tz="UTC")
    minutes = [(0, 4), (3, 7), (30, 60)]
    seen = pd.DataFrame([(at + pd.Timedelta(a, "min"), at + pd.Timedelta(b, "min")) for a, b in minutes])
    seen.columns = ["start", "end"]
    result = liquidations.bucket(events, coverage=seen, end=at + pd.Timedelta(1, "h"))
    np.testing.assert_allclose(result["coverage"][:3], [1.0, 0.4, 0.0])
    assert np.isnan(result["long_usd"][2])
    assert np.isnan(result["count"][2])
    assert result["long_usd"][7].item() == 0.0, "watched and quiet"
    assert result.sizes["time"] == 12


def test_clusters_equal_hand_calculation(events: pd.DataFrame) -> None:
    result = liquidations.clusters(events, "60s")
    assert len(result) == int(known("clusters gap<=60s: number"))
    clock = [f"{a:%H:%M:%S}..{b:%H:%M:%S}" for a, b in zip(result["start"], result["end"], strict=True)]
    assert clock[0] == known("cluster1 start..end")
    said = [f"{c}, {n}, {v:.0f}" for c, n, v in zip(clock, result["count"], result["value_usd"], strict=True)]
    assert said[0].endswith(known("cluster1 n, usd"))
    assert said[1] == known("cluster2 start..end, n, usd")
    assert said[2] == known("cluster3 start..end, n, usd")
    assert known("cluster4 start..end, n, usd").startswith(said[3])
    assert result["venues"].tolist() == [2, 1, 2, 1]
    assert result.loc[0, "imbalance"] == pytest.approx(1_000_000 / 1_100_000)
    assert result.loc[0, "peak_10s_usd"] == 400_000, "no two of them within ten seconds"
    assert np.isnan(result.loc[0, "price_move"])


def test_cascades_are_large_and_have_no_look_ahead(events: pd.DataFrame) -> None:
    result = liquidations.clusters(events, "60s")
    assert known("cascades min_n=5 min_usd=1e6") == "cluster1 only"
    assert liquidations.cascades(result)["start"].tolist() == [result.loc[0, "start"]]
    rng = np.random.default_rng(7)
    starts = pd.date_range("2026-01-01", periods=300, freq="h", tz="UTC")
    result = pd.DataFrame(
        {"start": starts, "end": starts, "count": 9, "value_usd": rng.lognormal(15, 2, 300)}
    )
    bar = result["value_usd"].expanding(min_periods=20).quantile(0.9).shift(1).fillna(-np.inf)
    expected = result[result["value_usd"] >= np.maximum(bar, 1e6)]["start"].tolist()
    assert liquidations.cascades(result, quantile=0.9)["start"].tolist() == expected
    with pytest.raises(ValueError, match="runs must be the result of clusters, got orders"):
        liquidations.cascades(events)


def test_peak_and_price_move_of_one_asset() -> None:
    frame = pd.DataFrame(
        {
            "time": pd.to_datetime(["2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z", "2026-01-01T00:00:10Z"]),
            "symbol": "BTC",
            "side": ["long", "long", "short"],
            "value_usd": [10.0, 20.0, 40.0],
            "fill_price_usd": [100.0, 99.0, 98.0],
        }
    )
    row = liquidations.clusters(frame).loc[0]
    assert row["peak_10s_usd"] == 60.0, "the window is half-open: 0 s and 10 s are not within ten seconds"
    assert row["price_move"] == pytest.approx(-0.02)
    mixed = frame.assign(symbol=["BTC", "ETH", "BTC"])
    assert np.isnan(liquidations.clusters(mixed).loc[0, "price_move"])
    assert len(liquidations.clusters(mixed, by=("symbol",))) == 2


def test_branching_ratio_equals_hand_calculation() -> None:
    counts = xr.DataArray([5.0, 1, 0, 0, 0, 0, 4, 0], dims="time")
    name = "hawkes branching approx 1-sqrt(mean/var), counts [5,1,0,0,0,0,4,0] (ddof=0)"
    assert liquidations.branching_ratio(counts).item() == pytest.approx(float(known(name)), abs=1e-11)
    assert np.isnan(liquidations.branching_ratio(xr.DataArray([1.0, 1.0], dims="time")).item())
    with pytest.raises(ValueError, match="counts must have the dim 'hour', got dims time"):
        liquidations.branching_ratio(counts, dim="hour")


def test_branching_ratio_without_times_or_with_few_rows_has_a_status() -> None:
    flow = _flow("level", 0.5, 0.5, 3, 30)
    cannot_tell = BranchingStatus.CANNOT_TELL
    complete = liquidations.branching_ratio(flow)
    assert int(complete["status"]) == 0
    assert complete["status"].attrs["flag_meanings"] == "too_few no_excess cycle correlated cannot_tell"
    assert int(liquidations.branching_ratio(flow.drop_vars("time"))["status"]) == cannot_tell
    two_days = liquidations.branching_ratio(flow[: 2 * 48])
    assert int(two_days["status"]) & cannot_tell
    twenty_rows = liquidations.branching_ratio(flow[:20])
    assert int(twenty_rows["status"]) == BranchingStatus.TOO_FEW | cannot_tell
    all_missing = liquidations.branching_ratio(flow.where(flow.time > flow.time[-1]))
    assert np.isnan(all_missing.item())
    assert int(all_missing["status"]) == BranchingStatus.TOO_FEW | BranchingStatus.NO_EXCESS


def _flow(kind: str, ratio: float, lag_minutes: float, seed: int, width: int) -> xr.DataArray:
    """Counts per bucket over four weeks of a Hawkes process, made from its clusters, one event a minute.

    Every event has a Poisson number of children of mean `ratio`, after exponential waits of mean
    `lag_minutes`; those without a parent have a rate that is level, or follows the day, the week or a drift.
    """
    rng, end = np.random.default_rng(seed), 28 * DAY
    parents = np.sort(rng.random(rng.poisson(4.0 * (1.0 - ratio) * end)) * end)
    day = parents // DAY
    share = {
        "level": np.full(parents.size, 0.25),
        "day": 0.25 * (1.0 + 0.8 * np.cos(2.0 * np.pi * parents / DAY)),
        "week": np.where(day % 7 >= 5, 0.1, 0.25),  # 2024-01-01 is a Monday
        "drift": np.where(day < 20, 0.25, 1.0),
    }[kind]
    born = parents[rng.random(parents.size) < share]
    times = [born]
    while born.size:
        born = np.repeat(born, rng.poisson(ratio, born.size))
        born = born + rng.exponential(lag_minutes, born.size)
        times.append(born)
    every = np.concatenate(times)
    counts = np.bincount((every[every < end] // width).astype(int), minlength=end // width)
    starts = pd.date_range("2024-01-01", periods=counts.size, freq=f"{width}min").as_unit("us")
    return xr.DataArray(counts.astype(float), dims="time", coords={"time": starts})


CYCLE, CORRELATED = BranchingStatus.CYCLE, BranchingStatus.CORRELATED
FLOWS = [
    ("level", 0.5, 0.5, 30, 0.5, BranchingStatus(0)),
    ("level", 0.8, 0.5, 30, 0.8, BranchingStatus(0)),
    ("level", 0.95, 1.0, 30, 0.93, BranchingStatus(0)),
    ("level", 0.95, 1.0, 5, None, CORRELATED),
    ("level", 0.5, 5.0, 5, None, CORRELATED),
    ("day", 0.0, 1.0, 30, None, CYCLE),
    ("week", 0.0, 1.0, 30, None, CYCLE),
    ("day", 0.5, 0.5, 30, None, CYCLE),
    ("drift", 0.0, 1.0, 30, None, CORRELATED),
]


@pytest.mark.parametrize(("kind", "ratio", "lag", "width", "figure", "status"), FLOWS)
def test_branching_ratio_is_accurate_or_has_a_status(
    kind: str, ratio: float, lag: float, width: int, figure: float | None, status: BranchingStatus
) -> None:
    """Right within 0.05, or flagged: a cycle, a drift, or bursts that outlast the bucket (also near 1)."""
    result = liquidations.branching_ratio(_flow(kind, ratio, lag, 3, width))
    assert result["status"].item() & (CYCLE | CORRELATED) == status
    if figure is None:
        assert abs(result.item() - ratio) > 0.05, "the status is right to warn"
    else:
        assert result.item() == pytest.approx(figure, abs=0.05)


def test_invalid_arguments_are_rejected(events: pd.DataFrame) -> None:
    doubled = pd.concat([events, events]).assign(order_id="one")
    with pytest.raises(ValueError, match="events has 18 duplicate orders"):
        liquidations.bucket(doubled)
    with pytest.raises(ValueError, match="events must have the column 'side'"):
        liquidations.clusters(events.drop(columns="side"))
    with pytest.raises(ValueError, match="events must have times with a time zone"):
        liquidations.clusters(events.assign(time=events["time"].dt.tz_localize(None)))
    with pytest.raises(ValueError, match="pass start and end"):
        liquidations.bucket(events.iloc[:0])
    quiet = liquidations.bucket(events.iloc[:0], start="2026-01-01", end="2026-01-01T01:00")
    assert quiet["long_usd"].values.tolist() == [0.0] * 12


def test_unfinished_cluster_is_nan() -> None:
    """ETH runs from 00:00 to 02:00 and comes to 9 M; at 01:00 the only cluster that is over came to 1 M."""
    at = pd.to_datetime(["2026-01-01T00:00Z", "2026-01-01T00:10Z", "2026-01-01T01:00Z", "2026-01-01T03:00Z"])
    result = pd.DataFrame(
        {
            "start": at,
            "end": pd.to_datetime(["2026-01-01T02:00Z", "2026-01-01T00:20Z", "2026-01-01T01:01Z", at[3]]),
            "count": 9,
            "value_usd": [9e6, 1e6, 2e6, 5e6],
        }
    )
    large = liquidations.cascades(result, min_usd=1.5e6, quantile=1.0, history=1)
    assert large["value_usd"].tolist() == [9e6, 2e6], (
        "2 M beats the 1 M that was over; 5 M is below 9 M, over by then"
    )
    spoiled = liquidations.cascades(
        result.assign(value_usd=[9e9, 1e6, 2e6, 5e6]), min_usd=1.5e6, quantile=1.0, history=1
    )
    assert spoiled["start"].tolist() == large["start"].tolist()
    touching = result.assign(value_usd=[9e6, 3e6, 2e6, 5e6], end=result["end"].mask(result.index == 1, at[2]))
    large = liquidations.cascades(touching, min_usd=1.5e6, quantile=1.0, history=1)
    assert 2e6 in large["value_usd"].tolist(), "what ends at the instant of a start had not ended before it"


@pytest.mark.parametrize(
    ("sides", "named"),
    [(["Sell", "Buy"], "got 'Sell'"), (["S", "S"], "got 'S'"), (["long", None], "got (None|nan)")],
)
def test_unknown_sides_are_rejected(sides: list[str | None], named: str) -> None:
    frame = pd.DataFrame(
        {"time": pd.to_datetime(["2026-01-01T00:00Z"] * 2), "side": sides, "value_usd": [1.0, 2.0]}
    )
    for refused in (lambda: liquidations.bucket(frame, "1d"), lambda: liquidations.clusters(frame)):
        with pytest.raises(ValueError, match=f"the side of events must be 'long' or 'short'.*{named}"):
            refused()
