"""Every figure against a picture that was looked at, for its layout; `test_every_figure` compares numbers.

Regenerate with ``pytest tests/plot/test_images.py --mpl-generate-path=tests/baseline``, and look at them.
"""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from tests.plot.drawn_data import FIGURES

compared = pytest.mark.mpl_image_compare(
    baseline_dir="../baseline", tolerance=4, style="default", savefig_kwargs={"dpi": 55}, deterministic=True
)


@pytest.mark.parametrize("name", FIGURES)
@compared
def test_figure(name: str) -> Figure:
    return FIGURES[name]().get_figure(root=True)
