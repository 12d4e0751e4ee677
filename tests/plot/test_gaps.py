"""Missing values have their own colour on any background."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_rgba

import derivdata as dd
from derivdata.plot.style import GREY


@pytest.mark.parametrize("transparent", [False, True])
def test_missing_funding_is_grey_not_the_colour_of_zero(transparent: bool) -> None:
    """Ten days: okx pays 0 on the third day, and bybit has no rates on the sixth and seventh."""
    times = pd.date_range("2026-01-01", periods=240, freq="h", tz="UTC").as_unit("us")
    rows = {"symbol": "BTC", "kind": "sampled", "resolution": "1h"}
    rates = np.where((np.arange(240) >= 48) & (np.arange(240) < 72), 0.0, 1.5)
    whole = pd.DataFrame({"exchange": "okx", "time": times, "rate_bps_8h": rates, **rows})
    gappy = pd.DataFrame({"exchange": "bybit", "time": times, "rate_bps_8h": -1.0, **rows})
    frames = [whole, gappy.drop(index=range(120, 168))]
    ax = dd.plot.funding_heatmap(pd.concat(frames))
    mesh = next(c for c in ax.collections if isinstance(c, QuadMesh))
    assert tuple(mesh.cmap.get_bad()) == to_rgba(GREY)
    values = np.ma.masked_invalid(mesh.get_array())
    colours = mesh.to_rgba(values).reshape(-1, 4)
    missing = np.ma.getmaskarray(values).reshape(-1)
    zero = (values.filled(99.0) == 0.0).reshape(-1)
    assert missing.sum() >= 1
    assert zero.sum() >= 1
    assert np.allclose(colours[missing], to_rgba(GREY))
    assert not np.allclose(colours[zero][0], to_rgba(GREY))
    image = io.BytesIO()
    ax.figure.savefig(image, format="png", transparent=transparent, dpi=60)
    image.seek(0)
    pixels = plt.imread(image)
    near = np.abs(pixels[..., :3] - np.array(to_rgba(GREY))[:3]).max(axis=-1) < 0.02
    assert (near & (pixels[..., 3] > 0.99)).sum() > 100, "the missing cell is drawn, not left out"
    plt.close("all")


@pytest.mark.parametrize("missing", ["last", "all"])
def test_a_depth_that_ends_without_a_value_is_drawn(missing: str) -> None:
    """Asks are 5 million at the end, where bids are missing: the mean is of asks alone."""
    times = pd.date_range("2026-01-01", periods=3, freq="h", tz="UTC").as_unit("us")
    data = pd.DataFrame(
        {"symbol": "BTC", "exchange": "okx", "time": times, "depth_bps": 10.0, "resolution": "1h"}
    )
    data["ask_depth_usd"] = [3e6, 4e6, 5e6]
    data["bid_depth_usd"] = [2e6, 2e6, np.nan] if missing == "last" else np.nan
    ax = dd.plot.orderbook_depth(data, source="made by hand")
    ax.figure.canvas.draw()
    labels = [text.get_text() for text in ax.texts]
    assert "10 bps: 5.0 M USD" in labels
    assert not [label for label in labels if "nan" in label]
    plt.close("all")
