"""A summary of a fit or a surface, for the last line of a notebook cell."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.analysis.smile.evaluate import Method
from derivdata.plot import style
from derivdata.plot.fits import at_the_money, days, is_fit, name_of, single, verdicts
from derivdata.plot.frames import figure_function
from derivdata.plot.smiles import smile
from derivdata.plot.surfaces import surface


@dataclass(frozen=True)
class Card:
    """Words and numbers by name, a table with a row per expiry, and a PNG; a notebook displays it."""

    title: str
    facts: dict[str, str]
    table: pd.DataFrame
    picture: bytes = field(repr=False)

    def __repr__(self) -> str:
        facts = "\n".join(f"{name}: {value}" for name, value in self.facts.items())
        return f"{self.title}\n{facts}\n{self.table.to_string(index=False)}"

    def _repr_html_(self) -> str:
        facts = " · ".join(f"{escape(name)}: <b>{escape(value)}</b>" for name, value in self.facts.items())
        image = base64.b64encode(self.picture).decode()
        drawn = f'<img alt="{escape(self.title)}" src="data:image/png;base64,{image}">' if image else ""
        table = self.table.to_html(index=False, border=0, na_rep="")
        beside = "display: flex; flex-wrap: wrap; align-items: flex-start; gap: 1em"
        return f'<div><b>{escape(self.title)}</b><br>{facts}<div style="{beside}">{drawn}{table}</div></div>'


@figure_function
def card(data: xr.Dataset) -> Card:
    """Summarise a fit (parameters, error, arbitrage, a small picture) or a surface of quotes.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.smile`` or ``dd.analysis.surface`` to one chain, or a surface of
        ``dd.options.surface``.

    Returns
    -------
    Card
        Volatilities and errors in percent and points. The Dataset itself keeps the representation that
        xarray gives it.

    Raises
    ------
    TypeError
        It is neither.
    ValueError
        It is of several chains.
    """
    if is_fit(data):
        return _of_fit(single(data, "a card"))
    if isinstance(data, xr.Dataset) and {"iv", "observed"} <= set(data.data_vars):
        return _of_quotes(data)
    raise TypeError(f"data must be a fit or a surface of dd.options.surface, not {type(data).__name__}")


def _of_fit(fit: xr.Dataset) -> Card:
    parameters = ("theta", "rho", "psi") if "theta" in fit else ("a", "b", "rho", "m", "sigma")
    require_variables(fit, "data", ("n", "method", "rmse_vol", *parameters))
    words = verdicts(fit)
    level = at_the_money(fit).values
    defects = {word for of_one in words for word in of_one.split(", ")}
    error = 100 * fit["rmse_vol"].values
    alive = np.isfinite(level)
    rungs = [Method(int(m)).name.lower() for m in np.unique(fit["method"].values[alive])]
    table = {
        "days": days(fit).round(2),
        "ATM [%]": (100 * level).round(2),
        **{n: [float(f"{v:.4g}") for v in fit[n].values] for n in parameters},
        "quotes": fit["n"].values,
        "error [points]": error.round(4),
        "status": words,
    }
    facts = {
        "fit": str(fit.attrs.get("surface", ", ".join(rungs) or "none")),
        "expiries": f"{alive.sum()} of {alive.size} fitted",
        **_errors(fit),
        "arbitrage": ", ".join(kind for kind in ("butterfly", "calendar") if kind in defects) or "none",
    }
    draw: Callable[..., Any] = surface if alive.sum() > 1 else smile
    return Card(name_of(fit), facts, pd.DataFrame(table), _picture(draw, fit) if alive.any() else b"")


def _errors(fit: xr.Dataset) -> dict[str, str]:
    """Describe how far the fit lies off at the money, where it is traded, and off all quotes."""
    names = {"error at the money": "atm_error_vol", "error of all quotes": "rmse_vol"}
    facts = {}
    for words, name in names.items():
        error = 100 * np.abs(fit[name].values) if name in fit else np.array([])
        if np.isfinite(error).any():
            worst = int(np.nanargmax(error))
            length = days(fit)
            middle, most = (style.number(float(f(error))) for f in (np.nanmedian, np.nanmax))
            facts[words] = f"median {middle}, largest {most} points at {length[worst]:.3g} days"
    return facts or {"error": "unknown"}


def _of_quotes(data: xr.Dataset) -> Card:
    require_variables(data, "data", ("underlying_price", "open_interest", "year_fraction"))
    seen = data["observed"]
    table = {
        "days": days(data).round(2),
        "underlying [USD]": data["underlying_price"].values.round(2),
        "calls": seen.sel(side="call").sum("strike").values,
        "puts": seen.sel(side="put").sum("strike").values,
        "with iv": data["iv"].notnull().sum(("strike", "side")).values,
        "open interest": data["open_interest"].sum(("strike", "side"), min_count=1).values,
    }
    facts = {
        "options": f"{int(seen.sum()):,}",
        "expiries": str(data.sizes["expiry"]),
        "strikes": str(data.sizes["strike"]),
        "as of": f"{pd.Timestamp(data['as_of'].values):%Y-%m-%d %H:%M} UTC",
    }
    return Card(name_of(data), facts, pd.DataFrame(table), _picture(smile, data))


def _picture(draw: Callable[..., Any], data: xr.Dataset) -> bytes:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.1), layout="constrained")
    out = io.BytesIO()
    draw(data, ax=figure.subplots())
    figure.savefig(out, format="png", dpi=70)
    return out.getvalue()
