"""Shared style of figures: palette, axes, UTC time axes, and the footer that names the source."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import require_times, require_unit_if_stated
from derivdata.support.arrays import Array
from derivdata.support.text import warn_caller
from derivdata.tables.panels import panel, provenance
from derivdata.units import RATE_UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap
    from matplotlib.text import Text

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F3C8D")
"""Colours of Okabe and Ito, distinguishable with all kinds of colour vision, and two darker ones."""

GREY = "#8a8a8a"
MUTED = "#5f6670"
"""Secondary text: notes, footers and scales of lanes."""
_MUTED_ON_DARK = "#a9b3bf"
LONG = PALETTE[0]
SHORT = PALETTE[1]
SEQUENTIAL = "viridis"
DIVERGING = "PuOr_r"
NO_DATA = "#c3c7cd"
_PURPLE = "#7b5cc4"
_ORANGE = "#c8640a"
"""Colours of the lowest and highest rates, visible on light and dark pages."""
_LEVELS = (0.3, 0.5, 0.75, 1.0)
"""Opacity of rates near zero to far from it. Levels are easier to tell apart than continuous colours."""

FOOTER = "footer"
"""Id of the text with the source. A report removes it and writes it below its figures."""

Form = Literal["number", "size", "percent"]

_SIZE = (8.0, 4.5)
_TITLE = 80
_INDENT = 28.0
_MAX_INDENT = 120.0
_NARROW = 420.0
"""Figures narrower than this have legends above the axes [points]."""
_DAYS_WITH_HOURS = 3.0
"""Shorter axes have ticks at round hours or minutes [days]."""
_DAYS_WITH_MONTHS = 100.0
"""Longer axes have ticks at months [days]."""
_POINT_WIDTH = 5.0
"""Minimum distance of the points of a line [points]."""
_PHONE = 310.0
"""Figures narrower than this have fewer dates [points]."""


def ink() -> str:
    """Return the colour of text and neutral lines in the user's style, which may be dark."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def paper() -> str:
    """Return the background colour of the axes; white if it is transparent."""
    from matplotlib import rcParams

    ground = str(rcParams["axes.facecolor"])
    return "white" if ground == "none" else ground


def is_dark() -> bool:
    """Return whether the background is darker than medium grey."""
    from matplotlib.colors import to_rgb

    return sum(to_rgb(paper())) < 1.5


def muted() -> str:
    """Return the colour of secondary text, which is readable on the background."""
    if is_dark():
        return _MUTED_ON_DARK
    return MUTED


def look(place: int) -> dict[str, Any]:
    """Return colour and stroke of the n-th line: eight colours, then the same dashed and dotted."""
    strokes = ("-", "--", ":")
    return {"color": PALETTE[place % len(PALETTE)], "ls": strokes[place // len(PALETTE) % len(strokes)]}


def colours_with_gaps(name: str) -> Colormap:
    """Return a colour map that draws missing cells in grey, also on a transparent background."""
    from matplotlib import colormaps

    return colormaps[name].with_extremes(bad=NO_DATA)


def page_colours() -> Colormap:
    """Return four levels of purple and four of orange, pale in the middle, visible on any page.

    Missing cells are grey.
    """
    from matplotlib.colors import ListedColormap, to_rgba

    purples = [to_rgba(_PURPLE, alpha) for alpha in _LEVELS[::-1]]
    colours = purples + [to_rgba(_ORANGE, alpha) for alpha in _LEVELS]
    return ListedColormap(colours).with_extremes(bad=GREY)


def axes(ax: Axes | None, *, size: tuple[float, float] = _SIZE) -> Axes:
    """Return `ax`, or the axes of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, new = plt.subplots(figsize=size, layout="constrained")
    return new


def strips(
    ax: Axes | None, *heights: float, size: tuple[float, float] = (8.0, 5.5), gap: float = 0.05
) -> list[Axes]:
    """Divide `ax` vertically into axes that share the x axis; `gap` is a fraction of the height.

    `ax` becomes an empty frame around them, so that a cell of a grid of figures keeps its size.
    """
    host = axes(ax, size=size)
    host.set_axis_off()
    free = (1.0 - gap * (len(heights) - 1)) / sum(heights)
    strip_axes: list[Axes] = []
    shared = None
    above = 0.0
    for share in free * np.array(heights):
        shared = host.inset_axes((0.0, 1.0 - above - share, 1.0, share), sharex=shared)
        strip_axes.append(shared)
        above += share + gap
    for upper in strip_axes[:-1]:
        upper.tick_params(labelbottom=False)
    return strip_axes


def columns(
    ax: Axes | None, count: int, *, size: tuple[float, float] = _SIZE, gap: float = 0.03
) -> list[Axes]:
    """Divide `ax` horizontally into `count` axes, as `strips` does vertically; they share the y axis."""
    host = axes(ax, size=size)
    host.set_axis_off()
    width = (1.0 - gap * (count - 1)) / count
    drawn: list[Axes] = []
    shared = None
    for place in range(count):
        column = host.inset_axes((place * (width + gap), 0.0, width, 1.0), sharey=shared)
        drawn.append(column)
        shared = column
        column.tick_params(labelleft=place == 0)
    return drawn


def mark_clipped(ax: Axes, x: Any, y: Any, *, color: str = GREY) -> None:
    """Draw an arrowhead at the edge of the axes for each value outside the y limits."""
    low, high = ax.get_ylim()
    x = np.asarray(x)
    y = np.asarray(y, dtype=np.float64)
    for beyond, edge, marker in ((y > high, 0.985, "^"), (y < low, 0.015, "v")):
        if beyond.any():
            look: dict[str, Any] = {"color": color, "label": "_clipped", "zorder": 5, "ms": 4, "lw": 0}
            look["transform"] = ax.get_xaxis_transform()
            ax.plot(x[beyond], np.full(int(beyond.sum()), edge), marker, **look)


def lift(text: Text) -> None:
    """Give text an edge in the colour of the background, so that lines do not strike it through."""
    from matplotlib.patheffects import withStroke

    text.set_path_effects([withStroke(linewidth=2.5, foreground=paper())])


def bars(
    ax: Axes,
    place: Any,
    length: Any,
    width: Any,
    *,
    start: Any = 0.0,
    horizontal: bool = False,
    centred: bool = True,
    **look: Any,
) -> None:
    """Draw bars as one collection, which is much faster than one patch per bar.

    `place` is the position of a bar and `width` its size along that axis. The bar begins at `start` and has
    a signed `length`.
    """
    from matplotlib.collections import PolyCollection

    axis: Any = ax.xaxis
    if horizontal:
        axis = ax.yaxis
    axis.update_units(place)
    at = np.asarray(axis.convert_units(place), dtype=np.float64)
    if isinstance(width, np.timedelta64 | pd.Timedelta):
        width = pd.Timedelta(width) / pd.Timedelta(1, "D")
    # 1. Both ends of each bar, along the axis of places and along the axis of lengths.
    near = at
    if centred:
        near = at - np.asarray(width, dtype=np.float64) / 2.0
    far = near + np.asarray(width, dtype=np.float64)
    first = np.broadcast_to(np.asarray(start, dtype=np.float64), at.shape)
    last = first + np.asarray(length, dtype=np.float64)
    # 2. Four corners, shape (bar, corner, coordinate).
    along = np.stack([near, far, far, near], axis=-1)
    across = np.stack([first, first, last, last], axis=-1)
    vertices = np.stack([along, across], axis=-1)
    if horizontal:
        vertices = vertices[..., ::-1]
    color = look.pop("color", None)
    drawn = PolyCollection(list(vertices), facecolors=color, **({"lw": 0} | look))
    ax.add_collection(drawn)
    # 3. No margin beyond the end at zero, as matplotlib's bars have it.
    if horizontal:
        drawn.sticky_edges.x.append(0.0)
    else:
        drawn.sticky_edges.y.append(0.0)
    ax.autoscale_view()


def row_size(rows: int, each: float, *, wide: float = _SIZE[0]) -> tuple[float, float]:
    """Return the size of a figure with `rows` rows, `each` inches high [inches]."""
    return wide, 1.7 + max(each * rows, 1.3)


def rows(ax: Axes | None, names: Sequence[str], each: float) -> tuple[Axes, Array]:
    """Return axes with a row for each name, first at the top, and the rows' positions; `each` in inches."""
    ax = axes(ax, size=row_size(len(names), each))
    place = np.arange(len(names))
    ax.set_yticks(place, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    return ax, place


def cell_width(ax: Axes) -> float:
    """Return the width of the axes' cell in the grid of the figure [points]."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    width = 72.0 * float(figure.get_figwidth())
    # Axes that the user made have no grid.
    if figure.axes and (grid := figure.axes[0].get_gridspec()) is not None:
        width /= grid.ncols
    return width


def text_width(ax: Axes) -> float:
    """Return the width for text above the axes [points]."""
    return 0.86 * cell_width(ax)


def indent(ax: Axes) -> float:
    """Return the distance by which text above the axes begins left of them [points].

    It begins above the labels of the y axis, so that its lines are long. The estimate is lower than the width
    of the labels, so the text never extends beyond them.
    """
    from matplotlib.ticker import FixedLocator

    if isinstance(ax.yaxis.get_major_locator(), FixedLocator):
        names = "\n".join(label.get_text() for label in ax.get_yticklabels())
        longest = max(map(len, names.split("\n")))
        return min(4.2 * longest, _MAX_INDENT)
    return _INDENT


def set_title(ax: Axes, title: str, *, pad: float = 9.0) -> None:
    """Write a title at the left, `pad` points above the axes."""
    text = ax.set_title(title, loc="left", fontsize=_title_size(cell_width(ax)), pad=pad)
    text.set_transform(text.get_transform() + _to_the_left(ax))


def _to_the_left(ax: Axes) -> Any:
    """Return the shift of text above the axes by `indent`."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    return ScaledTranslation(-indent(ax) / 72.0, 0.0, figure.dpi_scale_trans)


def every(ax: Axes, count: int) -> int:
    """Return the step between drawn points of a line of `count` points: closer ones look like a band."""
    most = max(int(cell_width(ax) / _POINT_WIDTH), 2)
    return max(-(-count // most), 1)


def places(ax: Axes, count: int) -> Array:
    """Return the places of the drawn points of a line of `count` points, with the first and the last."""
    drawn = -(-count // every(ax, count))
    spread: Array = np.unique(np.linspace(0, count - 1, drawn).round().astype(int))
    return spread


def is_narrow(ax: Axes) -> bool:
    """Return whether the axes' cell is about as wide as a phone."""
    return cell_width(ax) < _NARROW


def dress(
    ax: Axes,
    *,
    title: str = "",
    x: str = "",
    y: str = "",
    form: Form | None = None,
    grid: Literal["both", "x", "y", ""] = "both",
) -> None:
    """Style axes: wrapped title at the left, labels, format of the y values, and a faint grid."""
    size = _title_size(cell_width(ax))
    fitting = int(text_width(ax) / (0.55 * size))  # a letter is about 0.55 of the font's size wide
    title = title.removeprefix(": ")  # of a panel without a symbol
    lines = title_lines(title, min(_TITLE, max(fitting, 20)))
    set_title(ax, "\n".join(lines))
    if x:
        ax.set_xlabel(x)
    if y:
        ax.set_ylabel(y)
    if form is not None:
        write(ax.yaxis, form)
    if is_narrow(ax):
        _thin_ticks(ax)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_fontsize(8.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=GREY, alpha=0.25, lw=0.6)


def _thin_ticks(ax: Axes) -> None:
    """Reduce linear axes with automatic ticks to at most six ticks."""
    from matplotlib.ticker import AutoLocator, MaxNLocator

    for axis in (ax.xaxis, ax.yaxis):
        if type(axis.get_major_locator()) is AutoLocator:
            axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def title_lines(title: str, max_length: int) -> list[str]:
    """Wrap a title into as few lines of at most `max_length` letters as possible, of similar length.

    A number and its unit remain on one line.
    """
    joined = re.sub(r"(\d) ?%", "\\1\u00a0%", title)
    joined = re.sub(r"(\d) (d|h|bps|days|hours|points|million|σ)\b", "\\1\u00a0\\2", joined)
    lines = textwrap.wrap(joined, max_length)
    # Make the lines shorter as long as their number does not grow.
    while max_length > 1 and len(narrower := textwrap.wrap(joined, max_length - 1)) <= len(lines):
        lines = narrower
        max_length -= 1
    return [line.replace("\u00a0", " ") for line in lines]


def write(axis: Axis, form: Form) -> None:
    """Format the values of an axis as numbers, numbers without a sign, or fractions as percent."""
    if form == "percent":
        # + 0.0 removes -0.
        axis.set_major_formatter(lambda value, _: f"{number(round(100 * value, 9) + 0.0)} %")
    elif form == "size":
        axis.set_major_formatter(lambda value, _: number(abs(value)))
    else:
        axis.set_major_formatter(lambda value, _: number(value))


def _title_size(width: float) -> float:
    return 11.0 if width >= _NARROW else 10.0


def utc_axis(ax: Axes, *, has_labels: bool = False) -> None:
    """Format short dates, with the zone in the axis label. Days include the month, as there may be two.

    `has_labels` is whether labels right of the axes take a part of the figure's width.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    start, end = ax.get_xlim()
    if _DAYS_WITH_HOURS < end - start < _DAYS_WITH_MONTHS:
        # Evenly spaced ticks: the last of a month would touch the first of the next.
        most = 6 if is_narrow(ax) else 8
        if has_labels and cell_width(ax) < _PHONE:
            most = 4
        locator = AutoDateLocator(minticks=3, maxticks=most, interval_multiples=False)
    else:
        locator = AutoDateLocator(minticks=3, maxticks=6 if is_narrow(ax) else 8)
    ax.set_xlabel("time [UTC]", loc="center")
    if is_narrow(ax):
        # The year, which matplotlib writes at the right, would overlap a label in the middle.
        ax.set_xlabel("time [UTC]", fontsize=8.5, loc="left")
    form = ConciseDateFormatter(locator)
    form.formats[2] = form.zero_formats[2] = form.zero_formats[3] = "%d %b"
    form.offset_formats[2] = "%Y"
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(form)
    ax.xaxis.get_offset_text().set_fontsize(8.5)


def legend(ax: Axes, where: Literal["inside", "right", "above"] = "inside", **options: Any) -> None:
    """Add a small legend: inside the axes, right of them, or between title and axes.

    ``"above"`` uses as many columns as fit, at the left. In a narrow figure ``"right"`` is the same.
    """
    width = cell_width(ax)
    handles, names = ax.get_legend_handles_labels()
    if where == "above" or (where == "right" and width < _NARROW):
        where = "above"
        names = [name.replace("\n", " ") for name in names]
        options["title"] = options.get("title", "").replace("\n", " ") or None
        options = {"ncols": _columns_that_fit(names, text_width(ax)), "columnspacing": 1.0} | options
    places: dict[str, dict[str, Any]] = {
        "inside": {"loc": "best", "framealpha": 0.7, "edgecolor": "none"},
        "right": {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "frameon": False},
        "above": {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "frameon": False, "alignment": "left"},
    }
    if where == "above":  # move the title up, so that it does not overlap the legend
        lines = -(-len(names) // options.get("ncols", 1)) + bool(options.get("title"))
        set_title(ax, ax.get_title(loc="left"), pad=11.0 + 13.6 * lines)
        options |= {"bbox_transform": ax.transAxes + _to_the_left(ax), "borderaxespad": 0.5, "borderpad": 0.2}
    ax.legend(handles, names, **{"fontsize": 8, "title_fontsize": 8} | places[where] | options)


def label_ends(ax: Axes, ends: Sequence[tuple[float, str, str]], *, limits: Any = None) -> None:
    """Write labels right of the axes at the heights of values, at least a line apart.

    `ends` holds value, label and colour; a line in this colour leads from the value to the label. Missing
    values have no label. `limits` are those of the axes, as logarithms if the values are logarithms.
    """
    from matplotlib.transforms import ScaledTranslation

    ordered = sorted(end for end in ends if np.isfinite(end[0]))
    if not ordered:
        return
    if limits is None:
        limits = ax.get_ylim()
    low, high = limits
    height = height_of(ax)
    figure = ax.get_figure(root=True)
    if figure is not None and figure.get_figheight() < 3.0 and height > 80.0:
        height -= 40.0  # titles and labels take much of a low figure
    line = 10.5 / max(height, 10.5)
    # 1. Move labels up until they are a line apart.
    places = [(value - low) / (high - low) for value, _, _ in ordered]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + line)
    # 2. Shift all down so that the highest is inside the axes, and keep them a line apart.
    excess = max(places[-1] - (1.0 - line / 2), 0.0)
    places = [place - excess for place in places]
    for i in range(len(places) - 2, -1, -1):
        places[i] = min(places[i], places[i + 1] - line)
    assert figure is not None
    right = ax.transAxes + ScaledTranslation(14.0 / 72.0, 0.0, figure.dpi_scale_trans)
    for (value, words, color), place in zip(ordered, places, strict=True):
        look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": right, "va": "center"}
        look |= {"fontsize": 8, "annotation_clip": False, "color": ink()}
        leader = {"arrowstyle": "-", "color": color, "lw": 1.6, "shrinkA": 1.0, "shrinkB": 0.0}
        leader["relpos"] = (0.0, 0.5)
        end = min(max((value - low) / (high - low), 0.0), 1.0)
        ax.annotate(words, (1.003, end), (1.0, place), arrowprops=leader, **look)


def height_of(ax: Axes) -> float:
    """Return the approximate height of axes [points], as the layout is not final."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return 72.0 / figure.dpi * float(ax.get_window_extent().height)


def note(ax: Axes, words: str) -> None:
    """Write a line in small letters between the title and the axes."""
    if words:
        title = ax.get_title(loc="left")
        fitting = max(int(text_width(ax) / 4.5), 20)
        lines: list[str] = []
        for paragraph in words.split("\n"):
            joined = re.sub(r"(\d) %", "\\1\u00a0%", paragraph)
            wrapped = textwrap.wrap(joined, fitting) or [""]
            lines += [line.replace("\u00a0", " ") for line in wrapped]
        set_title(ax, title, pad=11.0 + 10.5 * len(lines))
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        look: dict[str, Any] = {
            "ha": "left",
            "va": "bottom",
            "fontsize": 8,
            "color": muted(),
            "linespacing": 1.1,
        }
        start = (-indent(ax), 6.0)
        ax.annotate("\n".join(lines), (0.0, 1.0), start, annotation_clip=False, **place, **look)


def _columns_that_fit(names: Sequence[str], width: float) -> int:
    """Return the number of legend columns that fit into a width [points], at most three."""
    fitting = 1
    for columns in range(2, min(3, len(names)) + 1):
        # matplotlib fills columns in the same way as array_split.
        lengths = [np.max(column) for column in np.array_split(list(map(len, names)), columns)]
        if 4.4 * sum(lengths) + 26.0 * columns <= width:
            fitting = columns
    return fitting


def colorbar(ax: Axes, drawn: ScalarMappable, label: str, **options: Any) -> Axes:
    """Add a colour scale next to the axes, inside their cell of the figure."""
    scale = ax.inset_axes((1.015, 0.0, 0.05 if is_narrow(ax) else 0.02, 1.0))
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.colorbar(drawn, cax=scale, **options)
    scale.set_ylabel(label, fontsize=8.5)
    scale.tick_params(labelsize=8)
    scale.spines[:].set_visible(False)
    return scale


def number(value: float) -> str:
    """Format a number with four digits, or all digits before the point: ``653.2``, ``250,870``."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def days_between(time: Any) -> float:
    """Return the length of the data from its times [days]."""
    return float((time.max() - time.min()) / pd.Timedelta(1, "D"))


def span_words(days: float) -> str:
    """Format a length of time in days or, below two days, in hours: ``30 days``, ``1 hour``."""
    if days < 2.0:
        hours = f"{24.0 * days:.0f}"
        return f"{hours} hour{'s' * (hours != '1')}"
    return day_words(days)


def day_words(days: float) -> str:
    """Format a number of days: ``1 day``, ``9.67 days``."""
    number_of_days = f"{days:.3g}"
    return f"{number_of_days} day{'s' * (number_of_days != '1')}"


def share(fraction: float) -> str:
    """Format a fraction as whole percent: ``46 %``."""
    return f"{100 * fraction:.0f} %"


def footer(ax: Axes, *data: Any, source: Any = None) -> Text:
    """Write below the axes the source and time of `data` or `source`, and whether they are synthetic."""
    # Not set_xlabel, which would move a label at the left to the middle.
    ax.xaxis.label.set_text(textwrap.fill(ax.get_xlabel(), max(int(0.78 * cell_width(ax) / 5.0), 20)))
    text, url = stated(*data, source=source)
    place, side, shift = 1.0, "right", 0.0
    if is_narrow(ax):
        wrap = textwrap.TextWrapper(46, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(map(wrap.fill, text.split("\n")))
        # Aligned left, because axes with labels at their right are too narrow for the text.
        place, side, shift = 0.0, "left", -indent(ax)
    below: dict[str, Any] = {"xycoords": ("axes fraction", ax.xaxis.label), "textcoords": "offset points"}
    look: dict[str, Any] = {"ha": side, "va": "top", "fontsize": 8, "color": muted()}
    written = ax.annotate(text, (place, 0.0), (shift, -5), annotation_clip=False, **below, **look)
    written.set_gid(FOOTER)
    if url:
        written.set_url(url)
    return written


_NO_SOURCE = (
    "the figure cannot state its source: its data has no provenance, which pandas.concat, merge and CSV "
    "drop; join tables with dd.concat, or give source= (a table with provenance, or text)"
)


def stated(*data: Any, source: Any = None) -> tuple[str, str]:
    """Return the text of the footer, and the address in the attribution."""
    origins = [provenance(item) for item in (*data, source) if "provenance" in getattr(item, "attrs", {})]
    if isinstance(source, str):
        # A text replaces the sources of the data. Attributions and "synthetic" stay true.
        origins = [origin | {"source": source, "as_of": None} for origin in origins or [{}]]
    if not origins:
        warn_caller(_NO_SOURCE)
        return "source not stated", ""
    # `dict.fromkeys` removes duplicates and, unlike a set, keeps the order.
    words = "source: " + ", ".join(dict.fromkeys(origin["source"] for origin in origins))
    last = max((origin["as_of"] for origin in origins if origin["as_of"]), default=None)
    if last is not None:
        words += f" · as of {pd.Timestamp(last):%Y-%m-%d %H:%M} UTC"
    if any(origin.get("synthetic") for origin in origins):
        words += " · synthetic data"
    attributions = dict.fromkeys(origin.get("attribution") for origin in origins)
    credit = "; ".join(filter(None, attributions))
    if not credit:
        return words, ""
    [url] = re.findall(r"(?<!\S)https?://\S*", credit)[:1] or [""]
    return f"{words}\n{credit}", url


def panel_of(data: pd.DataFrame | xr.DataArray, column: str) -> xr.DataArray:
    """Return a panel unchanged, or the panel of a table's column; raise for rates in another unit."""
    if not isinstance(data, xr.DataArray):
        return panel(data, column)
    if column == "rate_bps_8h":  # the unit that the axes state
        require_unit_if_stated(data, "data", RATE_UNIT)
    return data


def one_symbol(panel: Any, symbol: str | None) -> tuple[Any, str]:
    """Select one symbol of a panel; None selects the only one."""
    symbols = [symbol or ""]
    if "symbol" in (*panel.dims, *panel.coords):
        symbols = list(map(str, np.atleast_1d(panel["symbol"].values)))
    if symbol is None and len(symbols) == 1:
        symbol = symbols[0]
    if symbol not in symbols:
        raise ValueError(f"symbol must be one of {', '.join(symbols)}, got {symbol!r}")
    if "symbol" in panel.dims:
        panel = panel.sel(symbol=symbol)
    return panel, symbol


def median_price(price: Any, symbol: str | None = None) -> xr.DataArray:
    """Return the median price of venues over time, from a panel or the table ``prices_history``."""
    level = panel_of(price, "price_usd")
    require_times(level, "price")
    if symbol is not None:
        level, _ = one_symbol(level, symbol)
    elif level.sizes.get("symbol", 1) > 1:
        raise ValueError("price has several symbols: select one")
    others = [dim for dim in level.dims if dim != "time"]
    if others:
        level = level.median(others)
    return level
