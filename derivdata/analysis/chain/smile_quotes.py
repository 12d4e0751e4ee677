"""One volatility per strike, ready to be fitted, and the arbitrage that the quotes themselves hold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.black76 import formulas
from derivdata.analysis.chain.forward import METHODS, ForwardMethod, main_contracts, slice_forwards
from derivdata.analysis.chain.prepared import (
    PRICES,
    PreparedChain,
    arranged,
    best_first,
    implied,
    places,
    with_rate,
)
from derivdata.analysis.labelling import by_label, keys_of
from derivdata.analysis.panels import require_columns, require_variables
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import epsilon_in

_AT_THE_MONEY = 1e-4
_TOLERANCE = 1e-9
_STEP = 1e-4  # of volatilities; Deribit's are written as 55.25
_PER_SLICE = ("forward", "forward_source", "forward_status", "discount", "year_fraction")
_NUMBERS = ("strike", "iv", "open_interest", "underlying_price", "year_fraction", "status")
_UNITS = {
    **dict.fromkeys(("iv", "iv_bid", "iv_ask"), "1/√year"),  # which makes them believed
    "log_moneyness": "1",
    "open_interest": "contracts",
    "forward": "USD",
    "discount": "1",
    "year_fraction": "years",
}


@typed
def smiles(
    options: pd.DataFrame,
    *,
    given: Any = None,
    spot: Numbers | None = None,
    methods: Sequence[ForwardMethod] = METHODS,
    discount: float | Literal["fit"] = 1.0,
    interest_rate: float | None = None,
) -> xr.Dataset:
    """Arrange volatility by log-moneyness of every expiry, as `smile` and `surface` take it.

    At each strike the option out of the money counts, the mean of both where ``|ln(K/F)| ≤ 1e-4``. Of two
    contracts at one place (coin and USDC) the quote of the one with more open interest counts, at its own
    forward, and ``open_interest`` is the sum of both. ``forward`` is that of the contract with more open
    interest at the expiry.

    Parameters
    ----------
    options
        What `clean` gave.
    given, spot, methods, discount, interest_rate
        How forward and discount are found, as in `forwards`.

    Returns
    -------
    Dataset, dims ``(expiry, strike)``, before them ``symbol``, ``exchange``, ``time`` if they differ
        ``iv`` [1/√year], ``log_moneyness`` ``ln(K/F)``, ``open_interest`` [contracts], ``status``; where
        the chain has quotes ``iv_bid`` and ``iv_ask``, implied at the forward; by expiry
        ``forward_source``, ``forward_status``, ``discount`` and the coordinates ``forward`` [USD] and
        ``year_fraction`` [years]. Strikes are the union of all: NaN where an expiry does not list one.
        Over a long history (more than 4 million places) the variables are lazy, chunked along ``time``.
        ``attrs["dropped"]`` (JSON) holds the counts of `clean` with ``near_expiry`` and ``no_forward``.

    Raises
    ------
    ValueError
        `options` is not the result of `clean`; an unknown method.
    ImportError
        The history is long and dask is not installed (``derivdata[dask]``).
    """
    chain = prepare_cleaned(options, interest_rate)
    return smiles_of(chain, options.attrs, given=given, spot=spot, methods=methods, discount=discount)


def prepare_cleaned(options: pd.DataFrame, interest_rate: float | None) -> PreparedChain:
    """Prepare what `clean` made."""
    if not {"year_fraction", "status"}.issubset(options.columns):
        raise ValueError("the options were not cleaned: pass chain.clean(options)")
    prices = [name for name in PRICES if name in options]
    require_columns(options, "options", [*_NUMBERS, *prices], others=("expiry", "side"))
    if options["status"].dtype.kind not in "iu":
        raise ValueError(f"options has no flags in the column 'status' but {options['status'].dtype}")
    rows = options.reset_index(drop=True)
    rows.attrs = {}
    return arranged(with_rate(rows, interest_rate))


def smiles_of(
    chain: PreparedChain,
    attrs: Mapping[Any, Any],
    *,
    given: Any = None,
    spot: Any = None,
    methods: Sequence[ForwardMethod] = METHODS,
    discount: float | Literal["fit"] = 1.0,
) -> xr.Dataset:
    """Return what `smiles` does of options that can be used, whose table had the attributes `attrs`."""
    table = slice_forwards(chain, given=given, spot=spot, methods=methods, discount=discount)
    main = main_contracts(table)
    quotes, dropped = _fittable(chain, table)
    if len(main) < len(table):
        quotes = _one_contract(quotes, chain, main)
    quotes = _out_of_the_money(quotes)
    place = ["expiry", "strike"]
    values = [name for name in ("iv", "log_moneyness", "iv_bid", "iv_ask", "open_interest") if name in quotes]
    variables = dict.fromkeys((*values, "status"), place) | {name: ["expiry"] for name in _PER_SLICE}
    labelled = by_label(quotes, place, variables, _UNITS).set_coords(["forward", "year_fraction"])
    provenance = attrs.get("provenance")
    origin = {} if provenance is None else {"provenance": json.dumps(provenance, sort_keys=True)}
    return labelled.assign_attrs(origin, dropped=json.dumps(attrs.get("dropped", {}) | dropped))


def _fittable(chain: PreparedChain, table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Select options far enough from expiry, with their slice's forward; and count those dropped."""
    by_slice = {name: table[name].to_numpy()[chain.place] for name in _PER_SLICE}
    quotes = chain.rows.assign(**by_slice)
    near = (quotes["status"] & np.int32(Status.NEAR_EXPIRY)) != 0
    lost = quotes["forward"].isna() & ~near
    dropped = {"near_expiry": int(near.sum()), "no_forward": int(lost.sum())}
    stays = ~near & ~lost
    quotes = quotes[stays]
    quotes = quotes.assign(log_moneyness=np.log(quotes["strike"] / quotes["forward"]))
    prices = chain.prices
    bid, ask, mark = (price[stays] for price in prices[:3])
    if not any(bool(price.notna().any()) for price in (bid, ask, mark)):
        return quotes, dropped
    at = (quotes["forward"], quotes["discount"], prices.inverse[stays.to_numpy()])
    sides = {"iv_bid": bid, "iv_ask": ask}
    return quotes.assign(**{name: implied(quotes, price, *at) for name, price in sides.items()}), dropped


def _one_contract(quotes: pd.DataFrame, chain: PreparedChain, main: pd.DataFrame) -> pd.DataFrame:
    """Return one quote at each place with the open interest of all contracts, and the main one's forward."""
    place = places(quotes)
    groups = quotes.groupby(place, observed=True, dropna=False)["open_interest"]
    summed = quotes.assign(total=groups.transform("sum", min_count=1))
    prices = chain.prices._replace(bid=chain.prices.bid[quotes.index], ask=chain.prices.ask[quotes.index])
    chosen = best_first(summed, prices).drop_duplicates(place).sort_index()
    names = [*keys_of(quotes), "expiry"]
    others = chosen.assign(open_interest=chosen["total"]).drop(columns=[*_PER_SLICE, "total", "wide"])
    return others.merge(main[[*names, *_PER_SLICE]], on=names, how="left")


def _out_of_the_money(quotes: pd.DataFrame) -> pd.DataFrame:
    k = quotes["log_moneyness"]
    both = k.abs() <= _AT_THE_MONEY
    used = quotes[both | ((quotes["side"] == "call") == (k > 0))]
    names = [*keys_of(used), "expiry", "strike"]
    groups = used.groupby(names, observed=True, sort=True)
    averaged = [name for name in ("iv", "iv_bid", "iv_ask") if name in used]
    one = groups[["log_moneyness", *_PER_SLICE]].first()
    one[averaged] = groups[averaged].mean()
    one["open_interest"] = groups["open_interest"].sum(min_count=1)
    one["status"] = groups["status"].first() | groups["status"].last()
    return one.reset_index()


@typed
def arbitrage(quotes: xr.Dataset) -> pd.DataFrame:
    """Find static arbitrage between the quotes of each expiry; nothing is dropped for it.

    Parameters
    ----------
    quotes
        What `smiles` gave.

    Returns
    -------
    DataFrame, a row per violation, empty if there is none
        The labels of the smile; ``kind``: ``"rising"`` (a call dearer than one of a lower strike),
        ``"steep"`` (cheaper by more than the strikes lie apart), ``"concave"`` (a butterfly with a
        negative price); ``strike`` [USD], the upper or the middle one; ``amount_usd`` [USD], what the
        trade of one call, one spread or ``1/(K₃-K₁)`` times the butterfly pays at once.

    Notes
    -----
    Undiscounted calls rebuilt from ``iv``. Where all volatilities of an expiry are written to hundredths of a
    percent, what rounding alone can do to a trade is no violation; and never is 1e-9 of each leg's forward.
    """
    require_variables(quotes, "quotes", ("iv", "forward", "year_fraction"), dims=("expiry", "strike"))
    sizes = quotes.chunksizes.get("time", ())
    cuts = list(itertools.accumulate(sizes, initial=0)) if sizes else []
    parts = [quotes.isel(time=slice(*cut)) for cut in itertools.pairwise(cuts)] or [quotes]
    frame = pd.concat(part[["iv"]].to_dataframe().dropna(subset="iv").reset_index() for part in parts)
    labels = [str(dim) for dim in quotes["iv"].dims if dim != "strike"]
    frame = frame.sort_values([*labels, "strike"], ignore_index=True)
    forward, strike, years = (frame[name] for name in ("forward", "strike", "year_fraction"))
    frame["call"] = formulas.price(forward, strike, years, frame["iv"], "call")
    steps = 2.0 * frame["iv"] / _STEP  # the mean of call and put lies on half a step
    epsilon = epsilon_in(frame["iv"])
    rounded = ((steps - steps.round()).abs() < 1e-5 + epsilon * steps).groupby(
        [frame[name] for name in labels]
    )
    half = 0.5 * _STEP * rounded.transform("all") + epsilon * frame["iv"]
    doubt = formulas.price(forward, strike, years, frame["iv"] + half, "call")
    frame["doubt"] = doubt - frame["call"] + _TOLERANCE * forward
    groups = frame.groupby(labels, observed=True)[["strike", "call", "doubt"]]
    below = groups.shift(1)
    above = groups.shift(-1)
    step = frame["strike"] - below["strike"]
    fall = below["call"] - frame["call"]
    lower = (above["strike"] - frame["strike"]) / (above["strike"] - below["strike"])
    pair = frame["doubt"] + below["doubt"]
    butterfly = frame["doubt"] + lower * below["doubt"] + (1.0 - lower) * above["doubt"]
    concave = frame["call"] - lower * below["call"] - (1.0 - lower) * above["call"]
    excess = {"rising": (-fall, pair), "steep": (fall - step, pair), "concave": (concave, butterfly)}
    violations = [
        frame.assign(kind=kind, amount_usd=amount)[amount > doubt] for kind, (amount, doubt) in excess.items()
    ]
    columns = [*labels, "kind", "strike", "amount_usd"]
    return pd.concat(violations)[columns].sort_values([*labels, "strike"], ignore_index=True)
