import hashlib

import numpy as np
import pandas as pd
import pytest

from derivdata.sources import sample
from derivdata.sources.sample import noise
from derivdata.tables import TABLES

STREAMS = noise.keys("test path", "abc")
DAY = 20_500


def test_values_depend_on_neither_window_nor_step():
    long = noise.ou(STREAMS, 12.0, DAY, 10, 48)
    np.testing.assert_array_equal(noise.ou(STREAMS, 12.0, DAY + 4, 3, 48), long[:, 4:7])
    np.testing.assert_array_equal(noise.ou(STREAMS[1:2], 12.0, DAY + 9, 1, 48), long[1:2, 9:])
    fine, coarse = (noise.ou(STREAMS, 12.0, DAY, 5, steps)[:, :, 0] for steps in (288, 6))
    np.testing.assert_array_equal(fine, coarse)
    np.testing.assert_array_equal(fine, noise.midnights(STREAMS, 12.0, DAY, 5).T)


def test_smooth_path_is_continuously_differentiable_through_the_midnights():
    t = DAY + np.array([0.999, 1.0, 1.001, 1.999, 2.0, 2.001])
    x = noise.smooth(STREAMS, 24.0, t)
    ends = noise.midnights(STREAMS, 24.0, DAY + 1, 2).T
    np.testing.assert_array_equal(x[:, [1, 4]], ends)
    assert np.abs(np.diff(x)[:, [0, 1, 3, 4]]).max() < 2e-5


def test_where_walks_and_months_are_kept_to_leaves_no_seam() -> None:
    """3 October 2025 is 64 days after the anchor: one window over it equals two windows that meet there."""
    market, edge, day = sample.open(), pd.Timestamp("2025-10-03", tz="UTC"), pd.Timedelta(1, "D")
    for table in ("oi_history", "options_overview_history"):
        late, early, whole = (
            market.read(table, start, end, symbols=["BTC"], venues=["binance", "deribit"])
            for start, end in ((edge, edge + day), (edge - day, edge), (edge - day, edge + day))
        )
        joined = TABLES[table].conform(pd.concat([early, late], ignore_index=True))
        pd.testing.assert_frame_equal(joined, whole, check_exact=True, check_categorical=False)


def test_numbers_are_splitmix64_of_a_hash_of_their_names():
    """The first outputs of the reference implementation (Vigna, splitmix64.c) for seed 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert noise.bits(np.uint64(0), np.arange(3)).tolist() == published
    named = hashlib.blake2b("20250901|pair|币安人生".encode(), digest_size=8).digest()
    assert noise.key("pair", "币安人生") == int.from_bytes(named, "big")
    for draw, mean, deviation in ((noise.uniform, 0.5, 12**-0.5), (noise.normal, 0.0, 1.0)):
        drawn = draw(np.uint64(0), np.arange(100_000))
        assert [drawn.mean(), drawn.std()] == pytest.approx([mean, deviation], abs=0.01)
