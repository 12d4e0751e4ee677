"""Clean a chain with a reason for each exclusion, and select one volatility per strike for a fit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.black76 import formulas
from derivdata.analysis.chain.forward import METHODS, ForwardMethod, main_contracts, row_terms, slice_forwards
from derivdata.analysis.chain.prepared import (
    PRICES,
    PreparedChain,
    Quoted,
    arranged,
    best_first,
    implied,
    is_cleaned,
    places,
    prepare,
    require_price_units,
    with_rate,
)
from derivdata.analysis.labelling import by_label, keys_of
from derivdata.analysis.panels import require_columns, require_variables
from derivdata.analysis.status import Status
from derivdata.support import times
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import epsilon_in
from derivdata.support.text import warn_caller
from derivdata.tables.panels import provenance

# Minimum volatility step, because the spread of quotes rounded to a tick is uninformative.
_OUTLIER_FLOOR = 1e-3
_NORMAL_MAD = 1.4826
_IV_MAX = 15.0
_MAD = 5.0
# Options without open interest, or whose open interest is in another row.
_GONE = ("expired", "strike", "duplicate")


@typed
def clean(
    chain: pd.DataFrame | xr.Dataset,
    *,
    at: Any = None,
    min_time: str | pd.Timedelta | None = None,
    iv_max: float | None = None,
    iv_unit: Literal["decimal", "percent"] | Mapping[str, str] | None = None,
    mad: float | None = None,
    dates: bool | None = None,
    interest_rate: float | None = None,
) -> pd.DataFrame:
    """Return the usable options of a chain, and count the others by reason.

    Parameters
    ----------
    chain
        The table ``options_snapshot``, of one chain or of many (symbols, venues, times), or a surface. Prices
        are used from ``bid_coin``, ``ask_coin``, ``mark_coin`` for options paid in coin, and from the same in
        ``_usd`` for options paid in USD or a dollar token; one table may have both, each row in its own
        columns. Without ``underlying_price`` forwards come from parity, delta or the argument. Each missing
        ``iv`` is computed from the middle of bid and ask, half the ask without a bid, or else from the mark.
    at
        Timestamp of the quotes if the chain does not have ``time``.
    min_time
        Options closer to expiry are returned with status ``NEAR_EXPIRY``: exposure counts them, fits do not.
        1 hour by default.
    iv_max
        Highest volatility [1/√year] that is used; 15 by default. A cleaned chain is returned unchanged unless
        `min_time`, `iv_max` or `mad` is given, so that other functions do not clean it again.
    iv_unit
        ``"decimal"``, or ``"percent"``, which is divided by 100; or either by venue, ``{"okx": "percent"}``.
        Volatilities without a given unit must be decimal, and raise if the median of a venue is above 15. A
        given unit is not checked.
    mad
        Maximum distance of an option's volatility from the median of itself and its two neighbours of the
        same side, in units of 1.4826 times the median absolute step between neighbours of its expiry (0.1
        volatility points always pass); 5 by default, ``np.inf`` accepts all. The first and the last strike
        are never removed.
    dates
        Whether an expiry at midnight is a date, with the expiry at 08:00 UTC. Default True.
    interest_rate
        Continuous rate [1/year] at which premiums are discounted; None uses the chain's column
        ``interest_rate``, or 0 without one.

    Returns
    -------
    DataFrame
        The remaining rows, in their columns and order, with ``year_fraction`` [years] and ``status`` (int32):

        - ``EXPIRY_TIME_ASSUMED``: the expiry was a date, and 08:00 UTC is used.
        - ``NEAR_EXPIRY``: the expiry is closer than `min_time`.
        - ``ONE_SIDED``: an ask without a bid.
        - ``DUPLICATE``: another row has the same expiry, strike and side. Rows of several contracts, such as
          coin and USDC, are all returned. Of repeated rows of one contract only the best is returned, by
          larger open interest, then tighter quote, then lower volatility.

        ``attrs["dropped"]`` counts removed rows, in this order: ``expired``, ``strike``, ``iv_missing``,
        ``iv_not_positive``, ``iv_too_high``, ``underlying``, ``duplicate``, ``crossed`` (bid above ask),
        ``no_time_value`` (the mark, or else the mid, is not strictly between intrinsic and the forward of a
        call or the strike of a put), ``outlier``. ``attrs["omitted"]`` has the open interest of live options
        that were removed for their volatility or price, which `exposure` counts.

    Raises
    ------
    ValueError
        A column is missing, volatilities look like percent, the time is unknown, prices have no unit, a row
        has prices in two units, or a venue's prices are in the other unit than their name; `dates` for a
        cleaned chain.

    Warns
    -----
    DataNotice
        Volatilities were missing and were computed from prices; states the number by kind of price.

    Examples
    --------
    >>> options = dd.analysis.chain.clean(dd.options.snapshot("BTC", "deribit"))
    >>> {reason: count for reason, count in options.attrs["dropped"].items() if count}
    {'no_time_value': 13}
    """
    if is_cleaned(chain) and dates is not None:
        raise ValueError(
            "dates= applies only to a chain that was not cleaned: expiries of a clean chain have a time of "
            "day; omit it"
        )
    if is_cleaned(chain) and min_time is iv_max is mad is None and iv_unit in (None, "decimal"):
        again: pd.DataFrame = chain.copy()
        return again
    prepared = prepare(chain, at=at, iv_unit=iv_unit, dates=dates, interest_rate=interest_rate)
    omitted = [prepared.rows[:0]]
    options = usable(prepared, chain, min_time=min_time, iv_max=iv_max, mad=mad, omitted=omitted).rows
    options.attrs["omitted"] = _sizes(pd.concat(omitted))
    return options


def usable(
    chain: PreparedChain,
    table: pd.DataFrame | xr.Dataset,
    *,
    min_time: str | pd.Timedelta | None = None,
    iv_max: float | None = None,
    mad: float | None = None,
    omitted: list[pd.DataFrame] | None = None,
) -> PreparedChain:
    """Return the options of a table that can be used, as `clean` does.

    Unexpired options that are dropped for their volatility or price are appended to `omitted`.
    """
    require_price_units(chain)
    chain = with_volatilities(chain)
    dropped: dict[str, int] = {}
    tests = _tests(_IV_MAX if iv_max is None else iv_max, _MAD if mad is None else mad)
    for reason, test in tests.items():
        bad = np.asarray(test(chain), dtype=bool) if len(chain.rows) else np.zeros(0, dtype=bool)
        dropped[reason] = int(np.sum(bad))
        if reason == "duplicate":
            chain = _with_status(chain, _shared(chain))
        if not dropped[reason]:
            continue
        if omitted is not None and reason not in _GONE:
            omitted.append(chain.rows[bad])
        chain = chain.select(~bad)
    chain = _with_status(chain, flags(chain, min_time))
    chain.rows.attrs["dropped"] = dropped
    if "provenance" in table.attrs:
        chain.rows.attrs["provenance"] = provenance(table)
    return chain


def _with_status(chain: PreparedChain, status: Any) -> PreparedChain:
    return chain._replace(rows=chain.rows.assign(status=chain.rows["status"] | status))


def with_volatilities(chain: PreparedChain) -> PreparedChain:
    """Fill missing volatilities from bid and ask, or else from the mark, and count them.

    The price is halfway between bid and ask, half the ask without a bid.
    """
    rows = chain.rows
    prices = chain.prices
    missing = rows["iv"].isna() & (rows["year_fraction"] > 0) & (rows["strike"] > 0)
    middle = (prices.bid.fillna(0.0) + prices.ask) / 2.0
    sources = {"bid and ask": middle.where(middle > 0), "their mark": prices.mark.where(prices.mark > 0)}
    if not any((missing & price.notna()).any() for price in sources.values()):
        if len(rows) and rows["iv"].isna().all():
            warn_caller(f"all of {len(rows):,} options lack a volatility and a price to compute it from")
        return chain
    terms = row_terms(chain)
    iv = rows["iv"].copy()
    computed = []
    for source, price in sources.items():
        is_open = (iv.isna() & missing & price.notna()).to_numpy()
        if is_open.any():
            iv[is_open] = implied(
                rows[is_open],
                price[is_open],
                terms.forward[is_open],
                terms.discount[is_open],
                prices.inverse[is_open],
            )
        count = int((is_open & iv.notna().to_numpy()).sum())
        if count:
            computed.append(f"{count:,} from {source}")
    warn_caller(
        f"{int(missing.sum()):,} of {len(rows):,} options lack a volatility; computed "
        f"{' and '.join(computed) or 'none'}"
    )
    return chain._replace(rows=rows.assign(iv=iv))


def _tests(iv_max: float, mad: float) -> dict[str, Callable[[PreparedChain], Any]]:
    """Return the tests that drop an option, in order.

    Each test applies to options that passed the earlier ones.
    """
    return {
        "expired": lambda chain: ~(chain.rows["year_fraction"] > 0),
        "strike": lambda chain: ~(chain.rows["strike"] > 0),
        "iv_missing": lambda chain: chain.rows["iv"].isna(),
        "iv_not_positive": lambda chain: ~(chain.rows["iv"] > 0),
        "iv_too_high": lambda chain: ~(chain.rows["iv"] <= iv_max),
        "underlying": lambda chain: chain.rows["underlying_price"] <= 0,
        "duplicate": _repeated,
        "crossed": lambda chain: chain.prices.bid > chain.prices.ask,
        "no_time_value": _without_time_value,
        "outlier": lambda chain: _far_out(chain, mad),
    }


def _shared(chain: PreparedChain) -> Any:
    """Return the status of options that share their place (expiry, strike, side) with another one."""
    names = [name for name in places(chain.rows) if name in chain.labels]
    options = chain.rows[["strike", "side"]].assign(slice=chain.numbers(names))
    shared = options.duplicated(keep=False).to_numpy()
    return np.where(shared, np.int32(Status.DUPLICATE), np.int32(0))


def _repeated(chain: PreparedChain) -> Any:
    """Return a mask of repeated rows of one contract and place, except the best row of each."""
    options = chain.rows[["strike", "side"]].assign(slice=chain.place)
    again = options.duplicated().to_numpy()
    if not again.any():
        return again
    options = chain.rows.assign(slice=chain.place)
    ordered = best_first(options, chain.prices)
    return ordered.duplicated(["slice", "strike", "side"]).reindex(options.index).to_numpy()


class _LeftOut(dict[str, list[Any]]):
    """Columns of dropped options, in an object that pandas does not copy at every step."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _LeftOut:
        return self


def _sizes(options: pd.DataFrame) -> _LeftOut:
    """Return places, open interest and volume of options as plain lists, which attributes can store."""
    traded = options[(options["open_interest"] > 0) | (options.get("volume", 0) > 0)]
    columns = _LeftOut()
    for name in (*places(options), "open_interest", "volume"):
        if name not in traded:
            continue
        values = traded[name]
        if values.dtype.kind == "M":
            values = values.map(pd.Timestamp.isoformat)
        columns[name] = values.tolist()
    return columns


def _without_time_value(chain: PreparedChain) -> Any:
    """Return a mask of options at or beyond their price bounds, where no volatility exists."""
    options = chain.rows
    prices = chain.prices
    price = prices.mark.fillna(prices.mid)
    forward, discount = row_terms(chain)
    strike = options["strike"]
    is_call = options["side"] == "call"
    # The bounds are undiscounted USD; prices are discounted, and in coin also divided by the forward.
    undiscounted = forward.where(prices.inverse, 1.0) / discount
    low = (forward - strike).where(is_call, strike - forward).clip(lower=0.0) / undiscounted
    high = forward.where(is_call, strike) / undiscounted
    return (price <= low) | (price >= high)


def _far_out(chain: PreparedChain, mad: float) -> Any:
    """Return a mask of volatilities that differ from both neighbours of their smile in one direction."""
    # 1. Sort the options of each smile (slice and side) by strike.
    options = chain.rows
    smile = 2 * chain.place + (options["side"] == "call").to_numpy()
    _, smiles = np.unique(smile, return_inverse=True)
    order = np.lexsort((options["strike"], smiles))
    ordered_smiles = smiles[order]
    iv = options["iv"].to_numpy()[order]

    # 2. Derive the limit from the usual step between neighbours.
    step = np.where(ordered_smiles[1:] == ordered_smiles[:-1], np.abs(np.diff(iv)), np.nan)
    usual = pd.Series(step).groupby(ordered_smiles[1:]).median().reindex(np.unique(ordered_smiles)).to_numpy()
    limit = np.maximum(mad * _NORMAL_MAD * usual, _OUTLIER_FLOOR)[ordered_smiles[1:-1]]

    # 3. An option is an outlier by the smaller of its steps to both neighbours, if both have the same
    # direction.
    before = iv[1:-1] - iv[:-2]
    after = iv[1:-1] - iv[2:]
    off = np.where(before * after > 0.0, np.minimum(np.abs(before), np.abs(after)), 0.0)
    bad = np.zeros(len(options), dtype=bool)
    bad[order[1:-1]] = (off > limit) & np.isfinite(step[1:] + step[:-1])
    return bad


def flags(chain: PreparedChain, min_time: str | pd.Timedelta | None = None) -> Any:
    """Return the status of each option from its time to expiry and its quotes."""
    minimum = times.length("1h" if min_time is None else min_time, "min_time")
    near = chain.rows["year_fraction"] < minimum / pd.Timedelta(365, "D")
    status = np.where(near, np.int32(Status.NEAR_EXPIRY), np.int32(0))
    prices = chain.prices
    one_sided = (prices.ask > 0) & ~(prices.bid > 0)
    status = status | np.where(prices.bid > prices.ask, np.int32(Status.CROSSED), np.int32(0))
    return status | np.where(one_sided, np.int32(Status.ONE_SIDED), np.int32(0))


_AT_THE_MONEY = 1e-4
_TOLERANCE = 1e-9
_STEP = 1e-4  # resolution of published volatilities: Deribit's have two decimals in percent
_PER_SLICE = ("forward", "forward_source", "forward_status", "discount", "year_fraction")
_NUMBERS = ("strike", "iv", "open_interest", "underlying_price", "year_fraction", "status")
_UNITS = {
    **dict.fromkeys(("iv", "iv_bid", "iv_ask"), "1/√year"),  # states the unit, so that it is not inferred
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
    """Arrange volatilities by expiry and log-moneyness, for `smile` and `surface`.

    At each strike the out-of-the-money option is used, or the mean of both if ``|ln(K/F)| ≤ 1e-4``. If two
    contracts share a strike and expiry (coin and USDC), the quote of the one with more open interest is used,
    at its own forward, and ``open_interest`` is the sum of both. ``forward`` is the forward of the contract
    with more open interest at the expiry.

    Parameters
    ----------
    options
        Result of `clean`.
    given, spot, methods, discount, interest_rate
        Methods for forward and discount, as in `forwards`.

    Returns
    -------
    Dataset, dims ``(expiry, strike)``, preceded by ``symbol``, ``exchange``, ``time`` where several occur
        ``iv`` [1/√year], ``log_moneyness`` ``ln(K/F)``, ``open_interest`` [contracts], ``status``; if the
        chain has quotes ``iv_bid`` and ``iv_ask``, implied at the forward; by expiry ``forward_source``,
        ``forward_status``, ``discount`` and the coordinates ``forward`` [USD] and ``year_fraction`` [years].
        Strikes are the union over expiries: NaN if an expiry does not list one. Over a long history (more
        than 4 million cells) the variables are lazy, chunked along ``time``. ``attrs["dropped"]`` (JSON) has
        the counts of `clean` with ``near_expiry`` and ``no_forward``.

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
    """Prepare a result of `clean`."""
    if not {"year_fraction", "status"}.issubset(options.columns):
        raise ValueError("options must be clean: pass chain.clean(options)")
    present = [name for name in (*PRICES, "interest_rate") if name in options]
    require_columns(options, "options", [*_NUMBERS, *present], others=("expiry", "side"))
    if options["status"].dtype.kind not in "iu":
        raise ValueError(f"options must have flags in the column 'status', got {options['status'].dtype}")
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
    """Return the smiles of usable options; `attrs` are the attributes of their table."""
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
    """Select the options that are far enough from expiry and have a forward, and count the others."""
    by_slice = {name: table[name].to_numpy()[chain.place] for name in _PER_SLICE}
    quotes = chain.rows.assign(**by_slice)
    near = (quotes["status"] & np.int32(Status.NEAR_EXPIRY)) != 0
    lost = quotes["forward"].isna() & ~near
    dropped = {"near_expiry": int(near.sum()), "no_forward": int(lost.sum())}
    stays = ~near & ~lost
    quotes = quotes[stays]
    quotes = quotes.assign(log_moneyness=np.log(quotes["strike"] / quotes["forward"]))
    bid, ask, mark = (price[stays] for price in chain.prices[:3])
    prices = Quoted(bid, ask, mark, chain.prices.inverse[stays.to_numpy()])
    if prices.known:
        at = (quotes["forward"], quotes["discount"], prices.inverse)
        quotes = quotes.assign(iv_bid=implied(quotes, bid, *at), iv_ask=implied(quotes, ask, *at))
    return quotes, dropped


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
    """Return one quote for each strike: the option out of the money, or the mean of both at the money."""
    # 1. Select the out-of-the-money option at each strike, or both at the money.
    k = quotes["log_moneyness"]
    both = k.abs() <= _AT_THE_MONEY
    used = quotes[both | ((quotes["side"] == "call") == (k > 0))]

    # 2. Average the two, only at strikes with both, because grouping is slow.
    names = [*keys_of(used), "expiry", "strike"]
    if not bool(used.loc[both].duplicated(names).any()):
        return used
    groups = used.groupby(names, observed=True, sort=True)
    averaged = [name for name in ("iv", "iv_bid", "iv_ask") if name in used]
    quote = groups[["log_moneyness", *_PER_SLICE]].first()
    quote[averaged] = groups[averaged].mean()
    quote["open_interest"] = groups["open_interest"].sum(min_count=1)
    quote["status"] = groups["status"].first() | groups["status"].last()
    return quote.reset_index()


@typed
def arbitrage(quotes: xr.Dataset) -> pd.DataFrame:
    """Find static arbitrage between the quotes of each expiry; no quote is dropped.

    Parameters
    ----------
    quotes
        Result of `smiles`.

    Returns
    -------
    DataFrame, one row per violation; empty if there are no violations
        The labels of the smile; ``kind``: ``"rising"`` (a call more expensive than one of a lower strike),
        ``"steep"`` (cheaper by more than the difference of strikes), ``"concave"`` (a butterfly with a
        negative price); ``strike`` [USD], the upper or the middle one; ``amount_usd`` [USD], the immediate
        payment of the trade of one call, one spread or ``1/(K₃-K₁)`` times the butterfly.

    Notes
    -----
    The prices are undiscounted calls, computed from ``iv``. If all volatilities of an expiry are rounded to
    hundredths of a percent, violations within the effect of rounding are ignored; violations below 1e-9 of
    each leg's forward always are.
    """
    require_variables(quotes, "quotes", ("iv", "forward", "year_fraction"), dims=("expiry", "strike"))
    # 1. Convert quotes to rows chunk by chunk, because the grid of a long history is almost empty.
    blocks = [quotes]
    if sizes := quotes.chunksizes.get("time", ()):
        cuts = itertools.pairwise(itertools.accumulate(sizes, initial=0))
        blocks = [quotes.isel(time=slice(*cut)) for cut in cuts]
    frame = pd.concat(block[["iv"]].to_dataframe().dropna(subset="iv").reset_index() for block in blocks)
    labels = [str(dim) for dim in quotes["iv"].dims if dim != "strike"]
    frame = frame.sort_values([*labels, "strike"], ignore_index=True)
    forward, strike, years = (frame[name] for name in ("forward", "strike", "year_fraction"))

    # 2. Compute undiscounted calls, and the error of each from the rounding of its volatility.
    frame["call"] = formulas.price(forward, strike, years, frame["iv"], "call")
    steps = 2.0 * frame["iv"] / _STEP  # the mean of call and put is rounded to half a step
    epsilon = epsilon_in(frame["iv"])
    rounded = ((steps - steps.round()).abs() < 1e-5 + epsilon * steps).groupby(
        [frame[name] for name in labels]
    )
    half = 0.5 * _STEP * rounded.transform("all") + epsilon * frame["iv"]
    doubt = formulas.price(forward, strike, years, frame["iv"] + half, "call")
    frame["doubt"] = doubt - frame["call"] + _TOLERANCE * forward

    # 3. Compare each call with its neighbours in strike.
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
