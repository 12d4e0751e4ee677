"""The true parameters of the sample, for tests of analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.sample import market, noise, option_model, option_quotes, perpetuals, store, universe
from derivdata.sources.sample.noise import DAY_US, HOUR_US, NOW, START_DAY, STEP_US, timestamps
from derivdata.sources.sample.option_model import EXPIRY_US, forwards, listing
from derivdata.sources.sample.universe import (
    FOREVER,
    MODELS,
    Pairs,
    exchange_names,
    pairs,
    select,
    symbols,
    venue_values,
)
from derivdata.support import times
from derivdata.support.arrays import Ints

_Names = Sequence[str] | None


def truth(
    topic: str,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
    start: times.TimeLike | None = None,
    end: times.TimeLike | None = None,
) -> pd.DataFrame:
    """Return the parameters of the sample.

    Parameters
    ----------
    topic
        ``"funding"``
            Per pair, the spread over the symbol's base rate, an OU process: mean and standard deviation
            [bps/8h], half-life [h]. The rate of a venue whose style is not ``free`` is
            ``p + clamp(1 − p, ±band)`` of the sum p. `start` and `end` of trading; `end` may be missing.
        ``"funding_base"``
            Per symbol, the base rate ``mean + deviation (x + tail x³)`` [bps/8h] of a unit OU process x;
            if `squeezed`, jumps that fade within a day are added.
        ``"spreads"``
            Pairs of free venues with equal half-lives: the rate on `exchange` minus the rate on
            `other_exchange` is an OU process with this mean, standard deviation and half-life.
        ``"intervals"``
            Native intervals, one row per pair and start of an interval's validity.
        ``"oi"``
            Per pair, ``oi_usd = level_usd × e^(growth t) × price/centre × e^z``: t in years of 365 days from
            the sample's start, z an OU process.
        ``"positioning"``
            Per pair and kind, the log of long over short is ``mean + crowding × x + deviation × z``: x is the
            process of the symbol's base rate, z a process of the pair and kind with this half-life [h].
        ``"taker_volume"``
            Per pair, ``(buy − sell) / (buy + sell) = tanh(impact × r + deviation × z)``: r the hour's return
            in its standard deviations, z standard normal.
        ``"prices"``
            Per symbol, centre, volatility [1/√year] and half-life of the log price.
        ``"option_trades"``
            Per chain, the probabilities that takers buy a call and a put and that a trade is a block, and the
            factor of block sizes: see `derivdata.sources.sample.option_quotes`.
        ``"spot"``
            Per pair with a spot price, its currency; the standard deviation [bps] of the spot price from the
            venue's index; the standard deviation [bps] of USDT from 1 USD, which moves prices in USD, and its
            half-life [h].
        ``"liquidations"``
            Per symbol, clusters a day, branching ratio, mean delay to a child [s], Pareto law of the values.
        ``"shocks"``
            Times of the market-wide shocks.
        ``"clusters"``
            Clusters of liquidations that begin in the window.
        ``"premium"``
            Per pair and five minutes of the window, the mark over the index minus 1 [bps]: the premium of the
            funding rate, before its clamp.
        ``"surface"``
            Parameters of the options' model, forward and spot of every expiry open at each full hour of the
            window: see `derivdata.sources.sample.option_model.Bates`. They are equal for all expiries at one
            time. ``expected_variance`` is the expected quadratic variation, ``atm_iv`` the volatility at the
            forward.
        ``"futures"``
            Per contract and full hour of the window, ``price_usd = spot × e^(carry × year_fraction)``,
            unrounded, and ``oi_usd``.
        ``"volatilities"``
            Volatility and log-moneyness of every strike, expiry and full hour of the window.
    symbols, venues
        Symbols and venues to include; None is all.
    start, end
        Half-open window, for the last five topics only; by default the last hour up to and including the
        sample's clock.

    Returns
    -------
    DataFrame
        Rows sorted by symbol, exchange and time, if the topic has them. Numbers are not rounded.

    Raises
    ------
    ValueError
        The topic is unknown, or a window is given for a topic without time.
    """
    if topic in _TOPICS_OF_PAIRS or topic in _TOPICS_OF_CHAINS:
        if start is not None or end is not None:
            raise ValueError(f"topic {topic!r} does not have timestamps: omit start and end")
        if topic in _TOPICS_OF_CHAINS:
            return _TOPICS_OF_CHAINS[topic](symbols, venues)
        return _TOPICS_OF_PAIRS[topic](select(symbols, venues))
    if topic not in TOPICS:
        raise ValueError(f"topic must be one of {', '.join(TOPICS)}, got {topic!r}")
    if start is None:
        start = NOW - pd.Timedelta(1, "h")
    if end is None:
        end = NOW + pd.Timedelta(1, "us")
    window = times.window(start, end)
    first = times.us(window.start)
    last = times.us(window.end)
    return _TOPICS_OF_WINDOWS[topic](first, last, symbols, venues)


def _symbol_names(positions: Any) -> Any:
    return np.array(symbols().name, dtype=object)[positions]


def _keys(selection: Pairs) -> dict[str, Any]:
    """Return the columns with symbol and venue of pairs."""
    return {
        "symbol": _symbol_names(selection.symbol),
        "exchange": np.array(exchange_names(), dtype=object)[selection.exchange],
    }


def _funding(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``funding``, as documented in `truth`."""
    scale = symbols().scale[selection.symbol]
    style = np.array([MODELS[v].style for v in exchange_names()], dtype=object)[selection.exchange]
    until = np.where(selection.until == FOREVER, np.iinfo(np.int64).min, selection.until * DAY_US)
    return pd.DataFrame(
        {
            **_keys(selection),
            "style": style,
            "mean_bps_8h": scale * venue_values("offset")[selection.exchange],
            "deviation_bps_8h": scale * venue_values("deviation")[selection.exchange],
            "half_life_hours": venue_values("half_life")[selection.exchange],
            "band_bps_8h": np.where(style == "free", np.nan, venue_values("band")[selection.exchange]),
            "start": timestamps(selection.since * DAY_US),
            "end": timestamps(until),
        }
    )


def _per_symbol(selection: Pairs, **values: Any) -> pd.DataFrame:
    """Return the values of the pairs' symbols from values of all symbols, or one value for all."""
    symbol_codes = np.unique(selection.symbol)
    columns = {"symbol": _symbol_names(symbol_codes)}
    for name, value in values.items():
        columns[name] = value[symbol_codes] if isinstance(value, np.ndarray) else value
    return pd.DataFrame(columns)


def _funding_base(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``funding_base``, as documented in `truth`."""
    s = symbols()
    return _per_symbol(
        selection,
        mean_bps_8h=s.base,
        deviation_bps_8h=s.base_deviation,
        tail=s.base_tail,
        half_life_hours=s.base_half_life,
        squeezed=s.squeezed,
    )


def _spreads(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``spreads``, as documented in `truth`."""
    table = _funding(selection).query("style == 'free'")
    both = table.merge(table, on=["symbol", "half_life_hours"], suffixes=("", "_other"))
    both = both.query("exchange < exchange_other").reset_index(drop=True)
    return pd.DataFrame(
        {
            "symbol": both["symbol"],
            "exchange": both["exchange"],
            "other_exchange": both["exchange_other"],
            "mean_bps_8h": both["mean_bps_8h"] - both["mean_bps_8h_other"],
            "deviation_bps_8h": np.hypot(both["deviation_bps_8h"], both["deviation_bps_8h_other"]),
            "half_life_hours": both["half_life_hours"],
        }
    )


def _intervals(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``intervals``, as documented in `truth`."""
    changed = selection.take(
        np.flatnonzero((selection.change > selection.since) & (selection.change < selection.until))
    )
    first = np.where(selection.since < selection.change, selection.interval, selection.later_interval)
    at_first = _intervals_from(selection, selection.since, first)
    later = _intervals_from(changed, changed.change, changed.later_interval)
    return pd.concat([at_first, later]).sort_values(["symbol", "exchange", "time"], ignore_index=True)


def _intervals_from(selection: Pairs, day: Ints, hours: Ints) -> pd.DataFrame:
    """Return the intervals of pairs that are valid from a day on."""
    columns = {"time": timestamps(day * DAY_US), "interval_hours": hours.astype(float)}
    return pd.DataFrame(_keys(selection) | columns)


def _oi(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``oi``, as documented in `truth`."""
    s = symbols()
    return pd.DataFrame(
        {
            **_keys(selection),
            "level_usd": s.oi[selection.symbol] * selection.share,
            "growth_per_year": s.trend[selection.symbol] + venue_values("growth")[selection.exchange],
            "deviation": perpetuals.OI_DEVIATION,
            "half_life_hours": perpetuals.OI_HALF_LIFE_HOURS,
            "turnover_per_day": venue_values("turnover")[selection.exchange],
        }
    )


def _positioning(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``positioning``, as documented in `truth`."""
    crowds = pd.DataFrame(perpetuals.CROWDS.values()).assign(kind=[*perpetuals.CROWDS])
    table = pd.DataFrame(_keys(selection)).merge(crowds, how="cross")
    return table[["symbol", "exchange", "kind", *perpetuals.Crowd._fields]]


def _prices(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``prices``, as documented in `truth`."""
    s = symbols()
    half_life = universe.PRICE_HALF_LIFE_HOURS
    return _per_symbol(selection, centre_usd=s.price, volatility=s.volatility, half_life_hours=half_life)


def _spot(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``spot``, as documented in `truth`."""
    table = pd.DataFrame(_keys(selection))
    table["quote"] = table["exchange"].map(market.SPOT_QUOTES)
    return table.dropna(subset="quote").assign(
        deviation_bps=market.SPOT_DEVIATION_BPS,
        usdt_deviation_bps=market.USDT_DEVIATION_BPS,
        usdt_half_life_hours=market.USDT_HALF_LIFE_HOURS,
    )


def _liquidations(selection: Pairs) -> pd.DataFrame:
    """Return the topic ``liquidations``, as documented in `truth`."""
    return _per_symbol(
        selection,
        clusters_per_day=perpetuals.starts_per_day(),
        branching=perpetuals.BRANCHING,
        delay_seconds=perpetuals.DELAY_SECONDS,
        smallest_usd=perpetuals.smallest_usd(),
        largest_usd=perpetuals.LARGEST_USD,
        tail=perpetuals.TAIL,
    )


def _option_trades(names: _Names, venues: _Names) -> pd.DataFrame:
    """Return the topic ``option_trades``, as documented in `truth`."""
    table = pd.DataFrame(option_quotes.option_markets(names, venues), columns=["symbol", "exchange"])
    for side, probability in option_quotes.BUY_PROBABILITY.items():
        table[f"buy_{side}"] = probability
    return table.assign(block=option_quotes.BLOCK_PROBABILITY, block_size=option_quotes.BLOCK_SIZE)


def _clusters(first: int, last: int, names: _Names, venues: _Names) -> pd.DataFrame:
    """Return the clusters that begin in ``[first, last)`` [µs], with their orders on the venues."""
    selection = select(names, venues)
    days = range(first // DAY_US, (last - 1) // DAY_US + 1)
    table = pd.concat([_clusters_of_day(day, selection.row) for day in days])
    inside = (table["time"] >= first) & (table["time"] < last)
    table = table[inside].sort_values(["symbol_code", "time", "cluster"], ignore_index=True)
    return pd.DataFrame(
        {
            "symbol": _symbol_names(table["symbol_code"]),
            "time": timestamps(table["time"]),
            "end": timestamps(table["end"]),
            "cluster": table["cluster"].map("{:016x}".format),
            "order_count": table["order_count"],
            "value_usd": table["value_usd"],
        }
    )


def _clusters_of_day(day: int, rows: Ints) -> pd.DataFrame:
    """Return the clusters that begin on a day, with the orders of some pairs (`rows`)."""
    orders = perpetuals.orders(day)
    frame = pd.DataFrame(
        {
            "cluster": orders.cluster,
            "symbol_code": pairs().symbol[orders.pair],
            "time": orders.time,
            "value_usd": orders.price * orders.quantity,
        }
    )
    grouped = frame[np.isin(orders.pair, rows)].groupby("cluster", as_index=False)
    return grouped.agg(
        symbol_code=("symbol_code", "first"),
        time=("time", "min"),
        end=("time", "max"),
        order_count=("time", "size"),
        value_usd=("value_usd", "sum"),
    )


def _premium(first: int, last: int, names: _Names, venues: _Names) -> pd.DataFrame:
    """Return the premium of the mark over the index at each five-minute step of ``[first, last)`` [µs]."""
    selected = select(names, venues)
    by_day = []
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        selection = selected.trading(day, day + 1)
        value = perpetuals.premium(selection, day, 1)
        row, step = np.indices(value.shape).reshape(2, -1)
        time = day * DAY_US + step * STEP_US
        columns = {"time": timestamps(time), "premium_bps": value.ravel()}
        table = pd.DataFrame(_keys(selection.take(row)) | columns)
        by_day.append(table[(time >= first) & (time < last)])
    return pd.concat(by_day).sort_values(["symbol", "exchange", "time"], ignore_index=True)


def _futures(first: int, last: int, names: _Names, venues: _Names) -> pd.DataFrame:
    """Return price, carry and open interest of the dated futures at each full hour of ``[first, last)``."""
    by_session = []
    hours = noise.grid(first, last, HOUR_US)
    for symbol, exchange, expiry, time, curve in store.future_sessions(hours, names, venues):
        price = curve.underlying_price
        years = curve.year_fraction
        columns = {
            "time": time,
            "expiry": expiry[:, None] * DAY_US + EXPIRY_US,
            "year_fraction": years,
            "price_usd": price,
            "spot": curve.spot,
            "carry": np.log(price / curve.spot) / years,
            "oi_usd": store.future_oi(symbol, exchange, curve),
        }
        by_session.append(_frame(symbol, exchange, columns))
    return pd.concat(by_session).sort_values(["symbol", "exchange", "time", "expiry"], ignore_index=True)


def _hourly(
    read: Callable[[str, str, int, Ints], pd.DataFrame],
    by: list[str],
    first: int,
    last: int,
    names: _Names,
    venues: _Names,
) -> pd.DataFrame:
    """Return the frames of `read` for every market and trading day, sorted by time and then `by`."""
    hours = noise.grid(first, last, HOUR_US)
    # The empty frame comes first, so that columns and dtypes are defined without hours or markets.
    frames = [read("BTC", "deribit", START_DAY, np.array([START_DAY * DAY_US])).iloc[:0]]
    frames += [read(*market_hours) for market_hours in option_quotes.option_sessions(hours, names, venues)]
    return pd.concat(frames).sort_values(["symbol", "exchange", "time", *by], ignore_index=True)


def _expiries(symbol: str, exchange: str, trading_day: int, hours: Ints) -> pd.DataFrame:
    """Return the topic ``surface`` of one market and trading day."""
    expiry = listing(symbol, exchange, trading_day).expiry
    curve = forwards(symbol, exchange, expiry, hours)
    parameters = option_model.parameters(symbol, exchange, curve.year_fraction, hours)
    columns: dict[str, Any] = {"time": hours, "expiry": expiry[:, None] * DAY_US + EXPIRY_US}
    columns |= {"year_fraction": curve.year_fraction, **parameters}
    columns |= {"underlying_price": curve.underlying_price, "spot": curve.spot}
    return _frame(symbol, exchange, columns)


def _strikes(symbol: str, exchange: str, trading_day: int, hours: Ints) -> pd.DataFrame:
    """Return the topic ``volatilities`` of one market and trading day."""
    listed = listing(symbol, exchange, trading_day)
    strike = listed.strike[listed.call]
    expiry_row = listed.expiry_row[listed.call]
    curve = forwards(symbol, exchange, listed.expiry, hours)
    years = curve.year_fraction
    forward = curve.underlying_price[expiry_row]
    k = np.log(strike[:, None] / forward)
    w = option_model.total_variance(symbol, exchange, years, hours, k, expiry_row)
    columns = {
        "time": hours,
        "expiry": listed.expiry[expiry_row][:, None] * DAY_US + EXPIRY_US,
        "strike": strike[:, None],
        "year_fraction": years[expiry_row],
        "log_moneyness": k,
        "iv": np.sqrt(w / years[expiry_row]),
        "underlying_price": forward,
    }
    return _frame(symbol, exchange, columns)


def _frame(symbol: str, exchange: str, columns: dict[str, Any]) -> pd.DataFrame:
    """Return columns by contract and time, which are broadcast against each other, as a table."""
    arrays = np.broadcast_arrays(*columns.values())
    table = pd.DataFrame(dict(zip(columns, map(np.ravel, arrays), strict=True)))
    table["time"] = timestamps(table["time"])
    table["expiry"] = timestamps(table["expiry"])
    table.insert(0, "symbol", symbol)
    table.insert(1, "exchange", exchange)
    return table


_TOPICS_OF_PAIRS: dict[str, Callable[[Pairs], pd.DataFrame]] = {
    "funding": _funding,
    "funding_base": _funding_base,
    "spreads": _spreads,
    "intervals": _intervals,
    "oi": _oi,
    "positioning": _positioning,
    "taker_volume": lambda selection: pd.DataFrame(
        {**_keys(selection), "impact": perpetuals.TAKER_IMPACT, "deviation": perpetuals.TAKER_DEVIATION}
    ),
    "prices": _prices,
    "spot": _spot,
    "liquidations": _liquidations,
    "shocks": lambda _: pd.DataFrame({"time": times.parse(perpetuals.SHOCKS)}),
}
_TOPICS_OF_WINDOWS: dict[str, Callable[[int, int, _Names, _Names], pd.DataFrame]] = {
    "clusters": _clusters,
    "futures": _futures,
    "premium": _premium,
    "surface": partial(_hourly, _expiries, ["expiry"]),
    "volatilities": partial(_hourly, _strikes, ["expiry", "strike"]),
}
_TOPICS_OF_CHAINS = {"option_trades": _option_trades}
TOPICS = (*_TOPICS_OF_PAIRS, *_TOPICS_OF_CHAINS, *_TOPICS_OF_WINDOWS)
