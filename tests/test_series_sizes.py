"""Sorted sizes of series, by hand and against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata.tables.history_rows import _common, _may_repeat
from derivdata.tables.series_faults import series_sizes


def test_sizes_by_hand() -> None:
    series = np.array([4, 4, 4, 4, 4, 2, 2, 9])
    values = np.array([-3.0, 0.0, np.nan, 1.0, 0.0, 5.0, -7.0, np.inf])
    sizes = series_sizes(series, values)
    assert sizes.ordered.tolist() == [0.0, 0.0, 1.0, 3.0, np.inf, 5.0, 7.0, np.inf]
    assert sizes.starts.tolist() == [0, 5, 7]
    assert sizes.rows.tolist() == [5, 2, 1]
    assert sizes.finite.tolist() == [4, 2, 0]
    assert sizes.zeros.tolist() == [2, 0, 0]
    np.testing.assert_array_equal(sizes.medians(), [0.5, 6.0, np.nan])
    assert values.tolist()[:2] == [-3.0, 0.0], "the values are unchanged"


def test_sizes_of_no_rows() -> None:
    sizes = series_sizes(np.zeros(0, dtype=np.int64), np.zeros(0))
    assert sizes.ordered.size == sizes.starts.size == sizes.medians().size == 0
    assert _may_repeat(sizes).size == 0


_RATE = st.sampled_from([0.0, -1.0, 1.0, 0.125, 8.0, 0.3, 0.7, -2.2, np.nan])
_RATES = st.lists(_RATE, min_size=1, max_size=60)


@given(st.lists(_RATES, min_size=1, max_size=4))
def test_medians_equal_numpy_and_include_repeated_rates(several: list[list[float]]) -> None:
    series = np.repeat(np.arange(len(several)), [len(rates) for rates in several])
    sizes = series_sizes(series, np.concatenate(several))
    may_repeat = _may_repeat(sizes)
    for place, rates in enumerate(map(np.abs, several)):
        median = np.nan if np.isnan(rates).all() else np.nanmedian(rates)
        assert sizes.medians()[place] == pytest.approx(median, nan_ok=True)
        if _common(rates).size > 1:
            assert may_repeat[place]


def test_series_without_repeated_rates_are_omitted() -> None:
    different = np.linspace(0.1, 9.0, 2_000)
    one_repeated = np.append(different[:1_500], np.full(500, 1.0))
    two_repeated = np.append(one_repeated[:1_500], np.repeat([1.0, 8.0], 250))
    series = np.repeat([0, 1, 2], 2_000)
    sizes = series_sizes(series, np.concatenate([different, one_repeated, two_repeated]))
    assert _may_repeat(sizes).tolist() == [False, False, True]
