import numpy as np
import pandas as pd
import pytest

from derivdata.sources import sample
from derivdata.sources.sample import noise, paths
from derivdata.tables import TABLES
from tests.sample import scalar

STREAMS = noise.keys("test path", "abc")
DAY = 20_500


def test_value_at_an_instant_is_that_of_plain_python():
    path = paths.ou(STREAMS, np.array([3.0, 24.0, 72.0]), DAY, 2, 24)
    for row, (name, half_life) in enumerate(zip("abc", (3.0, 24.0, 72.0), strict=True)):
        for day, step in ((0, 0), (0, 1), (0, 23), (1, 0), (1, 17)):
            expected = scalar.ou(scalar.key("test path", name), half_life, DAY + day, step, 24)
            assert path[row, day, step] == pytest.approx(expected, abs=1e-13)


def test_values_depend_on_neither_window_nor_step():
    long = paths.ou(STREAMS, 12.0, DAY, 10, 48)
    np.testing.assert_array_equal(paths.ou(STREAMS, 12.0, DAY + 4, 3, 48), long[:, 4:7])
    np.testing.assert_array_equal(paths.ou(STREAMS[1:2], 12.0, DAY + 9, 1, 48), long[1:2, 9:])
    fine, coarse = (paths.ou(STREAMS, 12.0, DAY, 5, steps)[:, :, 0] for steps in (288, 6))
    np.testing.assert_array_equal(fine, coarse)
    np.testing.assert_array_equal(fine, paths.midnights(STREAMS, 12.0, DAY, 5).T)


def test_smooth_path_is_continuously_differentiable_through_the_midnights():
    t = DAY + np.array([0.999, 1.0, 1.001, 1.999, 2.0, 2.001])
    x = paths.smooth(STREAMS, 24.0, t)
    ends = paths.midnights(STREAMS, 24.0, DAY + 1, 2).T
    np.testing.assert_array_equal(x[:, [1, 4]], ends)
    assert np.abs(np.diff(x)[:, [0, 1, 3, 4]]).max() < 2e-5


def test_where_walks_and_months_are_kept_to_leaves_no_seam() -> None:
    """3 October 2025 is 64 days after the anchor: one window over it equals the two that meet there."""
    market, edge, day = sample.open(), pd.Timestamp("2025-10-03", tz="UTC"), pd.Timedelta(1, "D")
    for table in ("oi_history", "options_overview_history"):
        late, early, whole = (
            market.read(table, start, end, symbols=["BTC"], venues=["binance", "deribit"])
            for start, end in ((edge, edge + day), (edge - day, edge), (edge - day, edge + day))
        )
        joined = TABLES[table].conform(pd.concat([early, late], ignore_index=True))
        pd.testing.assert_frame_equal(joined, whole, check_exact=True, check_categorical=False)


def test_stream_zero_is_splitmix64_from_seed_zero():
    """The first outputs of the reference implementation (Vigna, splitmix64.c) for seed 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert noise.bits(np.uint64(0), np.arange(3)).tolist() == published


@pytest.mark.parametrize("name", ["BTC", "币安人生"])
def test_every_number_is_that_of_plain_python(name):
    stream, index = noise.key("pair", name), [0, 1, 77, 5_900_000, 2**40]
    plain = scalar.key("pair", name)
    assert int(stream) == plain
    assert noise.bits(stream, index).tolist() == [scalar.splitmix(plain, i) for i in index]
    assert noise.uniform(stream, index).tolist() == [scalar.uniform(plain, i) for i in index]
    assert noise.normal(stream, index) == pytest.approx([scalar.normal(plain, i) for i in index], rel=1e-15)
