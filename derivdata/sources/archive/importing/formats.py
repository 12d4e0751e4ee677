"""Files of venues and sellers of data, as data: how each is recognised, its columns, and their units."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.plan import Adjust, Given
from derivdata.sources.archive.importing.readers import Header, column_names
from derivdata.sources.venues.binance import named as binance_contract
from derivdata.sources.venues.tabulation import payment_hours, settled_time

_KINDS = {
    "accounts": "count_long_short_ratio",
    "top_accounts": "count_toptrader_long_short_ratio",
    "top_positions": "sum_toptrader_long_short_ratio",
}
_FIVE_MINUTES = pd.Timedelta(5, "min")
_LABELS_MOVED = pd.Timestamp("2026-06-25", tz="UTC")


class Reads(NamedTuple):
    """What a file tells of one table: arguments of an import, and what is done to the rows at last."""

    table: str
    map: Mapping[str, str]
    set: Mapping[str, str]
    unit: str | None = None
    adjust: Adjust | None = None

    def adjusted_by(self, given: Given) -> Adjust | None:
        """Return what is done to the rows: intervals that the caller states are not taken from spacing."""
        if self.adjust is not spaced:
            return self.adjust
        if "interval_hours" in {*given.map, *given.set}:
            return _paid_once
        return partial(spaced, per_interval=given.unit != "bps_8h")


def _pairs(text: str) -> dict[str, str]:
    """Return the mapping that a text of ``name=word`` writes down."""
    return dict(pair.split("=") for pair in text.split())


def _reads(table: str, columns: str, fixed: str = "", **more: Any) -> Reads:
    """Return what a file tells of a table, its columns and constants as pairs."""
    return Reads(table, _pairs(columns), _pairs(fixed), **more)


class Format(NamedTuple):
    """One form of files: who writes them, their name, their columns in order and what they tell by table.

    `file` is a pattern of the path's end, where that tells more than the columns: its groups are values of
    columns. Names in the first line are not to be trusted where columns are found `by_position`. `set` and
    `values` hold for every table.
    """

    source: str
    name: str
    columns: str
    reads: tuple[Reads, ...]
    file: str = ""
    by_position: bool = False
    set: Mapping[str, str] = {}
    values: Mapping[str, Mapping[str, str]] = {}

    @property
    def header(self) -> Header:
        """The columns, for a reader."""
        return Header(tuple(self.columns.split()), self.by_position)

    def constants(self, path: Path) -> dict[str, str] | None:
        """Return what a file's path says of all its rows; None: it is no file of this form."""
        match = re.search(rf"(?:^|[/_]){self.file}$", path.as_posix()) if self.file else None
        if self.file and match is None:
            return None
        return {name: word for name, word in (match.groupdict() if match else {}).items() if word}


def format_of(source: str, table: str, path: Path) -> tuple[Format, Mapping[str, str]]:
    """Return the form of a file, and what its path says of all its rows."""
    if source not in {one.source for one in FORMATS}:
        raise ValueError(
            f"from={source!r} is not one of {', '.join(dict.fromkeys(f.source for f in FORMATS))}"
        )
    telling = [one for one in FORMATS if one.source == source and any(r.table == table for r in one.reads)]
    if not telling:
        tables = sorted({reads.table for one in FORMATS if one.source == source for reads in one.reads})
        raise ValueError(f"no file of {source} is read as {table}; they are read as {', '.join(tables)}")
    by_name = [(one, said) for one in telling if (said := one.constants(path)) is not None]
    for form, said in by_name:
        names = {*column_names(path, form.header)}
        wanted = {column for reads in form.reads if reads.table == table for column in reads.map.values()}
        if wanted <= names:
            return form, said
    forms = {" ".join(one.columns.split()): one for one in telling}
    has = " ".join(column_names(path))
    near = difflib.get_close_matches(has, forms, n=1, cutoff=0.0)
    expected = (forms[near[0]] if near else telling[0]).columns.split()
    file = " or its name" if any(one.file for one in telling) else ""
    raise ArchiveError(
        f"{path}: no file of {source} that tells of {table} has this header{file}; it has {has[:200]}, and "
        f"the nearest form {', '.join(expected)}"
    )


def _paid_at(frame: pd.DataFrame) -> pd.DataFrame:
    """Stamp payments at the hour that they are of: files have them some ms or seconds late."""
    late = settled_time(frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy())
    return frame.assign(time=pd.DatetimeIndex(late.view("datetime64[us]"), tz="UTC"))


def _paid_once(frame: pd.DataFrame) -> pd.DataFrame:
    ordered = _paid_at(frame).sort_values("time", kind="stable")
    return ordered.drop_duplicates(["symbol", "contract_name", "time"])


def spaced(frame: pd.DataFrame, *, per_interval: bool = True) -> pd.DataFrame:
    """Take each payment's interval from the spacing of the contract's rows: the file has none."""
    frame = _paid_once(frame)
    stamps = frame["time"].astype("int64")
    hours = stamps.groupby(frame["contract_name"]).transform(lambda of: payment_hours(of.to_numpy(), 8.0))
    # Rates per interval came as those of 8 hours.
    rates = frame["rate_bps_8h"] * 8.0 / hours if per_interval else frame["rate_bps_8h"]
    return frame.assign(interval_hours=hours, rate_bps_8h=rates)


def state_times(stamps: pd.Series, *, inverse: bool) -> pd.Series:
    """Return when the figures of one day's file of binance's metrics were so.

    Rows were labelled 00:05 to 00:00 of the next day, each with its own instant. Since 2026-06-25, and for
    coin-margined contracts always, they are labelled 00:00 to 23:55 and tell of five minutes later.
    """
    first, last = stamps.min(), stamps.max()
    moved = first == last.floor("D") or last == first.floor("D") + pd.Timedelta("23:55:00")
    own = first == first.floor("D") + _FIVE_MINUTES or last == last.floor("D")
    # A day that lacks its first or last row may look like both.
    later = moved if moved != own else inverse or first >= _LABELS_MOVED
    return stamps + _FIVE_MINUTES if later else stamps


def _metrics(frame: pd.DataFrame) -> pd.DataFrame:
    if frame.empty:
        return frame
    inverse = "USD_" in str(frame["contract_name"].iloc[0])
    frame = frame.assign(time=state_times(frame["time"], inverse=inverse))
    if frame["time"].is_unique:
        return frame
    keys = [name for name in ("symbol", "time", "kind") if name in frame]
    return frame.drop_duplicates(keys, keep="last")  # labels that stand twice: the later one counts


def _contracts_in_usd(frame: pd.DataFrame) -> pd.DataFrame:
    sizes = {name: binance_contract(name).size for name in set(frame["contract_name"])}
    return _metrics(frame.assign(oi_usd=frame["oi_usd"] * frame["contract_name"].map(sizes)))


def _dated(frame: pd.DataFrame) -> pd.DataFrame:
    """Take the coin and the expiry of dated futures from their names; nothing is traded after it."""
    items = {name: binance_contract(name) for name in set(frame["contract_name"])}
    if other := next((name for name, item in items.items() if not item.is_dated), None):
        raise ArchiveError(f"{other} is no dated future")
    names = frame["contract_name"]
    expiry = pd.to_datetime(
        names.map({name: item.expiry for name, item in items.items()}), unit="us", utc=True
    )
    symbol = names.map({name: item.symbol for name, item in items.items()})
    return frame.assign(symbol=symbol, expiry=expiry, instrument_name=names)[frame["time"] < expiry]


def _hourly(frame: pd.DataFrame) -> pd.DataFrame:
    """Take of a series with a row each second the last of each hour, at the hour's end."""
    hour = frame["time"].dt.floor("h") + pd.Timedelta(1, "h")
    return frame.assign(time=hour).drop_duplicates(["symbol", "time"], keep="last")


def _bought_and_sold(frame: pd.DataFrame) -> pd.DataFrame:
    """Take what takers bought from all that was traded; the rest they sold."""
    if frame["contract_name"].astype(str).str.contains("USD_").any():
        raise ArchiveError(
            f"turnover of {frame['contract_name'].iloc[0]} is in coins, as of all coin-margined contracts, "
            "and not in USD: import it without --from, after multiplying it by the price"
        )
    sold = frame["sell_usd"] - frame["buy_usd"]
    return frame.assign(sell_usd=np.where(np.abs(sold) < 1e-9 * frame["sell_usd"], 0.0, sold))


def _in_coins(frame: pd.DataFrame) -> pd.DataFrame:
    """Value liquidations whose amounts are coins; of other contracts the file does not tell their size."""
    others = frame[~frame["contract_name"].str.contains("USDT|USDC") | ~frame["exchange"].isin(_COIN_AMOUNTS)]
    if len(others):
        first = others.iloc[0]
        raise ArchiveError(
            f"amounts of {first['contract_name']} on {first['exchange']} are contracts or USD, and the file "
            "does not say of what size: import it without --from, with --map value_usd=COLUMN"
        )
    return frame.assign(
        filled_quantity=frame["quantity"], value_usd=frame["quantity"] * frame["fill_price_usd"]
    )


_COIN_AMOUNTS = ("binance", "bybit")
_METRICS = (
    "create_time symbol sum_open_interest sum_open_interest_value count_toptrader_long_short_ratio "
    "sum_toptrader_long_short_ratio count_long_short_ratio sum_taker_long_short_vol_ratio"
)
_BARS = (
    "open_time open high low close volume close_time quote_volume count taker_buy_volume "
    "taker_buy_quote_volume ignore"
)
_DAY = r"\d{4}-\d{2}(?:-\d{2})?"
_STATE = "symbol=symbol time=create_time"
_RATIOS = tuple(
    _reads(
        "positioning_history", f"{_STATE} long_short_ratio={c}", f"kind={k} resolution=5m", adjust=_metrics
    )
    for k, c in _KINDS.items()
)


def _payments(source: str, name: str, exchange: str, columns: str, house: str, file: str = "") -> Format:
    """Return the form of files of payments without intervals; `house` are our names of its columns."""
    mapped = dict(zip(house.split(), columns.split(), strict=True))
    reads = Reads("funding_settlements", mapped, {"interval_hours": "8"}, "native", spaced)
    return Format(source, name, columns, (reads,), file, set={"exchange": exchange})


def _metrics_file(oi_usd: str, adjust: Adjust, file: str = "") -> Format:
    """Return the form of binance's metrics, with the column of open interest and what makes it USD."""
    reads = _reads("oi_history", f"{_STATE} oi_usd={oi_usd}", "resolution=5m", adjust=adjust)
    return Format("binance", "metrics", _METRICS, (reads, *_RATIOS), file, set={"exchange": "binance"})


def _prices(kinds: str, columns: str) -> tuple[Reads, ...]:
    """Return what a file with a column for each kind of price tells; `columns` are those of the others."""
    return tuple(
        _reads("prices_history", f"{columns} price_usd={price}", f"kind={kind}")
        for kind, price in _pairs(kinds).items()
    )


_TARDIS = "exchange symbol timestamp local_timestamp "
_TARDIS_VENUES = _pairs(
    "binance-futures=binance binance-delivery=binance okex-swap=okx okex-futures=okx huobi-dm-swap=huobi "
    "huobi-dm-linear-swap=huobi gate-io-futures=gateio cryptofacilities=kraken dydx-v4=dydx "
    "bitget-futures=bitget"
)
_HYPE = "symbol=coin time=time"
_VELO = "symbol=coin exchange=exchange time=time"
_CRYPTOHFT = r"(?P<exchange>[a-z_]+)/\d{4}-\d{2}-\d{2}/\d{2}/(?P<symbol>[^/]+)_"
_CRYPTOHFT_VENUES = _pairs(
    "binance_futures=binance okx_futures=okx kraken_derivatives=kraken hyperliquid_futures=hyperliquid "
    "aster_futures=aster bitmex_futures=bitmex"
)


def _coinglass(name: str, table: str, columns: str, fixed: str = "", **more: Any) -> Format:
    """Return the form of a body of CoinGlass: instants start buckets; it names no venue and no symbol."""
    reads = _reads(table, f"time=time {columns}", fixed, **more)
    return Format("coinglass", name, " ".join(reads.map.values()), (reads,))


FORMATS = (
    Format(
        "binance",
        "fundingRate",
        "calc_time funding_interval_hours last_funding_rate",
        (
            _reads(
                "funding_settlements",
                "time=calc_time interval_hours=funding_interval_hours rate_bps_8h=last_funding_rate",
                unit="native",
                adjust=_paid_at,
            ),
        ),
        rf"(?P<symbol>[^/]+?)-fundingRate-{_DAY}\.(?:zip|csv)",
        set={"exchange": "binance"},
    ),
    _metrics_file("sum_open_interest", _contracts_in_usd, rf"[^/]+USD_PERP-metrics-{_DAY}\.(?:zip|csv)"),
    _metrics_file("sum_open_interest_value", _metrics),
    Format(
        "binance",
        "klines",
        _BARS,
        (
            _reads("prices_history", "time=open_time price_usd=open"),
            _reads(
                "volume_taker",
                "time=open_time buy_usd=taker_buy_quote_volume sell_usd=quote_volume",
                adjust=_bought_and_sold,
            ),
            _reads(  # these two are what the name of the contract tells, at last
                "futures_history",
                "time=open_time price_usd=open",
                "instrument_name=named expiry=2000-01-01",
                adjust=_dated,
            ),
        ),
        rf"(?P<symbol>[^/]+?)-(?P<resolution>\d+[mhdw])-{_DAY}\.(?:zip|csv)",
        by_position=True,
        set={"exchange": "binance"},
    ),
    Format(
        "binance",
        "BVOLIndex",
        "calc_time symbol base_asset quote_asset index_value",
        (
            _reads(
                "volatility_index_published",
                "time=calc_time index_pct=index_value",
                "resolution=1h",
                adjust=_hourly,
            ),
        ),
        rf"(?P<symbol>[A-Z]+)BVOLUSDT-BVOLIndex-{_DAY}\.(?:zip|csv)",
        set={"exchange": "binance"},
    ),
    _payments(
        "okx", "fundingrates", "okx", "instrument_name funding_rate funding_time", "symbol rate_bps_8h time"
    ),
    _payments(
        "gate",
        "funding_applies",
        "gateio",
        "time rate",
        "time rate_bps_8h",
        r"(?P<symbol>[^/]+_USDT?)-\d{6}\.csv(?:\.gz)?",
    ),
    _payments("kucoin", "fundingRates", "kucoin", "symbol time fundingRate", "symbol time rate_bps_8h"),
    _payments("htx", "funding", "huobi", "instId fundingRate fundingTime", "symbol rate_bps_8h time"),
    Format(
        "hyperliquid",
        "asset_ctxs",
        "time coin funding open_interest prev_day_px day_ntl_vlm premium oracle_px mark_px mid_px "
        "impact_bid_px impact_ask_px",
        (
            *_prices("mark=mark_px index=oracle_px", _HYPE),
            _reads("funding_history", f"{_HYPE} rate_bps_8h=funding", "interval_hours=1", unit="native"),
            _reads("oi_history", f"{_HYPE} oi_usd=open_interest price_usd=mark_px", unit="coins"),
        ),
        set={"exchange": "hyperliquid"},
    ),
    Format(
        "tardis",
        "derivative_ticker",
        f"{_TARDIS} funding_timestamp funding_rate predicted_funding_rate open_interest last_price "
        "index_price mark_price",
        _prices("mark=mark_price index=index_price last=last_price", "symbol=symbol time=timestamp"),
        values={"exchange": _TARDIS_VENUES},
    ),
    Format(
        "tardis",
        "liquidations",
        f"{_TARDIS} id side price amount",
        (
            _reads(
                "liquidations_fills",
                "time=timestamp quantity=amount fill_price_usd=price value_usd=amount",
                "status=filled",
                adjust=_in_coins,
            ),
        ),
        values={"exchange": _TARDIS_VENUES, "side": {"buy": "short", "sell": "long"}},
    ),
    Format(
        "velo",
        "futures",
        "exchange coin product time",
        (
            _reads("oi_history", f"{_VELO} oi_usd=dollar_open_interest_close"),
            _reads("funding_history", f"{_VELO} rate_bps_8h=funding_rate", "interval_hours=8", unit="native"),
            _reads("volume_taker", f"{_VELO} buy_usd=buy_dollar_volume sell_usd=sell_dollar_volume"),
            *_prices("last=open_price", _VELO),
        ),
        values={"exchange": {"binance-futures": "binance", "okex-swap": "okx"}},
    ),
    Format(
        "cryptohftdata",
        "mark_price",
        "received_time event_time mark_price index_price funding_rate next_funding_time",
        _prices("mark=mark_price index=index_price", "time=event_time"),
        _CRYPTOHFT + r"mark_price\.parquet",
        values={"exchange": _CRYPTOHFT_VENUES},
    ),
    Format(
        "cryptohftdata",
        "open_interest",
        "received_time timestamp sum_open_interest sum_open_interest_value",
        (_reads("oi_history", "time=timestamp oi_usd=sum_open_interest_value"),),
        _CRYPTOHFT + r"open_interest\.parquet",
        values={"exchange": _CRYPTOHFT_VENUES},
    ),
    _coinglass("open-interest/history", "oi_history", "oi_usd=open"),
    _coinglass("funding-rate/history", "funding_history", "rate_bps_8h=open", unit="percent"),
    *(
        _coinglass(
            f"{path}-ratio/history",
            "positioning_history",
            f"long_share={word}_long_percent short_share={word}_short_percent",
            f"kind={kind}",
            adjust=lambda rows: rows.assign(
                long_share=rows["long_share"] / 100, short_share=rows["short_share"] / 100
            ),
        )
        for path, word, kind in (
            ("global-long-short-account", "global_account", "accounts"),
            ("top-long-short-account", "top_account", "top_accounts"),
            ("top-long-short-position", "top_position", "top_positions"),
        )
    ),
    _coinglass(
        "taker-buy-sell-volume/history",
        "volume_taker",
        "buy_usd=taker_buy_volume_usd sell_usd=taker_sell_volume_usd",
    ),
)
"""Every form of files that is known, in the order in which they are looked for."""
