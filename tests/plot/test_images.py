"""Every figure against a picture that was looked at, for its layout; `test_every_figure` compares numbers.

Regenerate with ``pytest tests/plot/test_images.py --mpl-generate-path=tests/baseline``, and look at them.
"""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib.figure import Figure

from derivdata import plot
from tests.plot import made
from tests.plot.cases import CASES

matplotlib.use("Agg")

compared = pytest.mark.mpl_image_compare(
    baseline_dir="../baseline", tolerance=4, style="default", savefig_kwargs={"dpi": 55}, deterministic=True
)


@pytest.mark.parametrize("name", CASES)
@compared
def test_figure(name: str) -> Figure:
    return CASES[name]().get_figure(root=True)


@compared
def test_depth_over_time() -> Figure:
    return plot.orderbook_depth(made.depths()).get_figure(root=True)


@compared
def test_quotes_without_a_fit() -> Figure:
    return plot.smile(made.chain()).get_figure(root=True)
