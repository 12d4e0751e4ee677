"""What every figure shares: palette, axes, UTC time axes, and the line that says where the data is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from derivdata import tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F3C8D")
"""Okabe and Ito's colours that stand apart for every kind of colour vision, two darker ones added."""

GREY = "#8a8a8a"
LONG, SHORT = PALETTE[0], PALETTE[1]


def axes(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    _, new = plt.subplots(figsize=(8.0, 4.5), layout="constrained")
    return new


def utc_axis(ax: Axes) -> None:
    """Dates written short, and the zone in the label."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.set_xlabel("time [UTC]")


def footer(ax: Axes, *data: Any) -> None:
    """Source, as-of time and, where it is so, that the data is synthetic, below the axes."""
    said = next((d for d in map(_provenance, data) if d), None)
    if said is None:
        return
    words = [f"source: {said['source']}", f"as of {said['as_of']}"]
    if said.get("synthetic"):
        words.append("synthetic data")
    elif said.get("attribution"):
        words.append(str(said["attribution"]))
    ax.annotate(
        " · ".join(words),
        xy=(1.0, 0.0),
        xycoords="axes fraction",
        xytext=(0, -42),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=7,
        color=GREY,
    )


def panel_of(data: Any, column: str) -> Any:
    """A panel from a panel or from a table."""
    return data if hasattr(data, "dims") else tables.panel(data, column)


def one_symbol(panel: Any, symbol: str | None) -> tuple[Any, str]:
    """The panel of one symbol, which may go unnamed where there is but one.

    Raises
    ------
    ValueError
        The symbol is not in the panel, or is not named and there are several.
    """
    held = [str(s) for s in panel["symbol"].values]
    if symbol is None and len(held) == 1:
        symbol = held[0]
    if symbol not in held:
        raise ValueError(f"symbol={symbol!r}: name one of {', '.join(held)}")
    return panel.sel(symbol=symbol), symbol


def _provenance(data: Any) -> dict[str, Any] | None:
    return tables.provenance(data) if "provenance" in getattr(data, "attrs", {}) else None
