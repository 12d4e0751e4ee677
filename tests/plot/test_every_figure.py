"""Rules of every figure: units, UTC, source of the data, and only the given axes.

The drawn numbers equal those at the last visual check: one wrong line fails.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from derivdata import errors, plot
from derivdata.plot.style import PALETTE, dress, stated
from tests.plot import made
from tests.plot.cases import CASES
from tests.plot.drawn_data import BASELINE, FIGURES, all_axes, drawn

EXPECTED: dict[str, list[dict[str, Any]]] = json.loads(BASELINE.read_text(encoding="utf-8"))

WORDS = {"venue", "long / short venue", "venue and tenor", "watched", ""}
"""Axes of names have no unit."""


def footers(figure: Figure) -> list[Any]:
    texts = [text for ax in all_axes(figure) for text in ax.texts]
    return [text for text in texts if text.get_text().startswith("source")]


@functools.cache
def made_once(name: str) -> tuple[Axes, list[dict[str, Any]]]:
    """Return the axes of a figure and its drawn data, before anything else is done with it."""
    ax = FIGURES[name]()
    return ax, drawn(ax.get_figure(root=True))


def test_every_figure_has_a_case() -> None:
    figures = set()
    for name in set(plot.__all__) - {"card", "data"}:
        kinds = get_args(get_type_hints(getattr(plot, name), localns={"Axes": Axes}).get("kind"))
        figures |= {f"{name}_{kind}" for kind in kinds} or {name}
    assert figures == set(CASES)
    assert set(EXPECTED) == set(FIGURES)


def test_pages_have_a_caption_for_every_figure() -> None:
    captions = pd.read_csv(Path(__file__).parents[2] / "docs" / "figure_captions.csv")
    assert captions.notna().all(axis=None)
    for name in set(plot.__all__) - {"card", "data"}:
        assert any(re.match(pattern, f"{name}(x)") for pattern in captions["call"]), name


@pytest.mark.parametrize("name", FIGURES)
def test_figure_draws_the_recorded_data(name: str) -> None:
    _, found = made_once(name)
    assert len(found) == len(EXPECTED[name])
    for axes, expected in zip(found, EXPECTED[name], strict=True):
        assert axes["words"] == expected["words"]
        assert axes["ticks"] == expected["ticks"]
        for kind in ("lines", "patches", "collections"):
            assert len(axes[kind]) == len(expected[kind]), kind
            for one, other in zip(axes[kind], expected[kind], strict=True):
                numbers = (np.array(each, dtype=np.float64) for each in (one, other))
                np.testing.assert_allclose(*numbers, rtol=1e-5, atol=1e-7, err_msg=kind)


@pytest.mark.parametrize(
    ("figure", "data", "kind", "option", "message"),
    [
        (plot.strikes, made.chain, "gamma", {"expiry": "2026-02-04"}, "expiry is an option of kind='open_"),
        (plot.strikes, made.chain, "open_interest", {"dealer": {"call": 1.0}}, "dealer .*'gamma', got kind="),
        (plot.open_interest, made.holdings, "share", {"price": made.price()}, "option of kind='level'"),
        (plot.open_interest, made.holdings, "level", {"top": 3}, "top is an .* kind='share' and 'trend'"),
        (plot.open_interest, made.holdings, "level", {"window": "7d"}, "window is an option of kind='trend'"),
        (plot.volatility, made.index_history, "history", {"implied": {7.0: 0.5}}, "implied .*kind='cone'"),
        (plot.volatility, lambda: made.volatility(0.5), "history", {}, "needs a Dataset, got a DataArray"),
        (
            plot.backtest,
            made.swept,
            "equity",
            {},
            "'equity' does not draw a table; for backtest.sweep pass kind='sweep'",
        ),
        (plot.backtest, made.backtested, "sweep", {}, "draws the table of backtest.sweep"),
    ],
)
def test_invalid_options_and_results_are_rejected(
    figure: Any, data: Any, kind: str, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        figure(data(), kind, **option)


@pytest.mark.parametrize("name", CASES)
def test_axes_state_units_and_utc(name: str) -> None:
    ax, _ = made_once(name)
    figure = ax.get_figure(root=True)
    figure.canvas.draw()
    shown = [each for each in all_axes(figure) if each.axison]
    labels = [label for each in shown for label in (each.get_xlabel(), each.get_ylabel())]
    for label in labels:
        assert re.search(r"\[.+\]", label.replace("\n", " ")) or label in WORDS, label
        assert label == "time [UTC]" or not label.startswith("time [")
    assert ax.get_title(loc="left")
    table = plot.data(ax)
    assert len(table) > 1
    assert not table.isna().all().any()
    for when in table.select_dtypes("datetime"):
        raise AssertionError(f"{when} has no time zone")


def test_plot_data_requires_axes_returned_by_a_figure_function() -> None:
    with pytest.raises(ValueError, match="ax must be returned by a function of derivdata"):
        plot.data(Figure().subplots())
    ax = plot.open_interest(made.holdings(), price=made.price())
    changed = plot.data(ax)
    changed.loc[:, "oi_coins"] = 0.0
    table = plot.data(ax)
    assert list(table.columns) == ["time", "oi_usd", "oi_coins", "price_usd"]
    assert table["oi_coins"].iloc[[0, -1]].tolist() == pytest.approx([1.0, 0.5]), "a copy each time"
    assert table["time"].iloc[0] == made.START


@pytest.mark.parametrize("name", CASES)
def test_the_footer_names_the_source_once(name: str) -> None:
    [footer] = footers(made_once(name)[0].get_figure(root=True))
    assert footer.get_text() == "source: made by hand · as of 2026-01-15 00:00 UTC · synthetic data"


@pytest.mark.parametrize("name", CASES)
def test_figure_is_drawn_into_the_given_axes(name: str) -> None:
    figure = Figure(figsize=(9, 7))
    cells = figure.subplots(2, 2)
    ax = CASES[name](ax=cells[0, 1])
    assert plt.get_fignums() == [], "no other figure was made"
    assert ax.get_figure(root=True) is figure
    figure.canvas.draw()
    cell, inner = cells[0, 1].get_position(original=True), ax.get_position()
    window = figure.transFigure.inverted().transform_bbox(ax.get_window_extent())
    assert cell.x0 - 1e-6 <= window.x0 <= window.x1 <= cell.x1 + 1e-6
    assert cell.y0 - 1e-6 <= window.y0 <= window.y1 <= cell.y1 + 1e-6
    assert inner.width > 0
    for other in (cells[0, 0], cells[1, 0], cells[1, 1]):
        assert not other.has_data()
        assert not other.child_axes


def test_footers_state_source_and_attribution_or_their_absence() -> None:
    pair = made.carry("low", "high", "7d")
    with pytest.warns(errors.DataNotice, match="join tables with dd.concat, or give source=") as notices:
        [footer] = footers(plot.carry(pair).get_figure(root=True))
    assert len(notices) == 1
    assert notices[0].filename == __file__
    assert footer.get_text() == "source not stated"
    table = made.funding()
    credit = "Funding rate data provided by https://data.example.org"
    table.attrs["provenance"] = made.SAID | {"synthetic": False, "attribution": credit}
    [footer] = footers(plot.funding_history(table).get_figure(root=True))
    assert footer.get_text() == f"source: made by hand · as of 2026-01-15 00:00 UTC\n{credit}"
    assert footer.get_url() == "https://data.example.org"
    [footer] = footers(plot.open_interest(made.holdings(), source="a desk's own, 2026").get_figure(root=True))
    assert footer.get_text() == "source: a desk's own, 2026 · synthetic data"
    other = made.SAID | {"source": "elsewhere", "as_of": "2026-01-16T08:00:00Z", "synthetic": False}
    frames = [pd.DataFrame() for _ in range(2)]
    for frame, said in zip(frames, (made.SAID, other), strict=True):
        frame.attrs["provenance"] = said
    text, url = stated(*frames)
    assert text == "source: made by hand, elsewhere · as of 2026-01-16 08:00 UTC · synthetic data"
    assert url == ""


def test_titles_wrap_into_lines_of_similar_length() -> None:
    _, ax = plt.subplots(figsize=(4.5, 3.5))
    dress(ax, title="one word and a few others and a last one that would stand alone at 46 %")
    lines = ax.get_title(loc="left").split("\n")
    assert lines == ["one word and a few others and a last", "one that would stand alone at 46 %"]


def test_the_line_of_carry_crosses_zero_at_the_dotted_line() -> None:
    """Carry is linear in days between two holding times, and the axis is logarithmic."""
    ax = FIGURES["carry_hold"]()
    solid = [line for line in ax.lines if line.get_color() == PALETTE[0] and len(line.get_xdata()) > 50]
    (dotted,) = [line for line in ax.lines if line.get_linestyle() == ":"]
    even = float(dotted.get_xdata()[0])
    assert even == pytest.approx(2.0 + 2.0 * 1.8 / 5.9, abs=0.02)  # -1.8 bps at 2 days, +4.1 at 4
    assert np.interp(even, *solid[0].get_data()) == pytest.approx(0.0, abs=0.01)
