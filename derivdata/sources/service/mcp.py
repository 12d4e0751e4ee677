"""The service as tools of the Model Context Protocol: ``serve --mcp`` over standard input and output.

Every endpoint is a tool, and a call is a request to the service that runs in this process, with the checks
and limits of HTTP. Six analyses are tools as well; they fetch their data from the same service.
Every tool is read-only, and its response has at most 32,000 characters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import numpy as np
import pandas as pd
import xarray as xr

import derivdata
from derivdata import funding, liquidations, options
from derivdata.analysis import exposure, quality, surface
from derivdata.analysis import funding as carry
from derivdata.analysis import liquidations as bursts
from derivdata.client import transport
from derivdata.errors import DataNotice, DerivdataError
from derivdata.sources.service.server import start
from derivdata.support import times
from derivdata.support.text import did_you_mean, import_extra
from derivdata.tables.panels import panel, provenance

_SYMBOL = {"type": "string", "minLength": 1, "description": "Base symbol, such as BTC."}
_VENUE = {
    "type": "string",
    "description": "Venue with options, such as deribit.",
    "default": "deribit",
    "minLength": 1,
}
_TOP = {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "Rows to return."}
_FEE = {
    "type": "number",
    "minimum": 0,
    "default": 5.0,
    "description": "Fee of one trade [bps of notional]; a pair trades four times.",
}
_NAIVE_DEALER = {"call": 1.0, "put": -1.0}
_PROVENANCE = ("source", "synthetic", "as_of", "attribution", "notices")


class AnalysisTool(NamedTuple):
    """One analysis: its description, its arguments as JSON schemas, and the function that runs it."""

    description: str
    arguments: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    run: Callable[..., dict[str, Any]]


def _since(days: int, data: str) -> dict[str, Any]:
    text = f"Start of the {data}: a lookback such as {days}d, or an ISO 8601 time."
    return {"type": "string", "minLength": 1, "default": f"{days}d", "description": text}


def best_pairs(symbol: str, since: str = "30d", fee_bps: float = 5.0, top: int = 10) -> dict[str, Any]:
    """Return the pairs of venues with the widest mean funding spread, before and after fees."""
    rates = funding.history(symbol, since)
    by_venue = panel(rates).sel(symbol=symbol)
    mean = by_venue.mean("time")
    is_covered = by_venue.notnull().mean("time") >= 0.5
    level = mean.sel(exchange=mean["exchange"].values[is_covered.values])
    spread = (level.rename(exchange="short") - level.rename(exchange="long")).to_series()
    wide = spread[spread > 0.0].nlargest(top)
    days = float(np.ptp(by_venue["time"].values) / np.timedelta64(1, "D"))
    gross_bps = wide * 3.0 * days  # three periods of 8 hours a day
    rows = pd.DataFrame(
        {
            "long": wide.index.get_level_values("long"),
            "short": wide.index.get_level_values("short"),
            "mean_spread_bps_8h": wide.to_numpy(),
            "earned_bps": gross_bps.to_numpy(),
            "earned_after_fees_bps": (gross_bps - 4.0 * fee_bps).to_numpy(),
            "days_to_pay_fees": (4.0 * fee_bps / (wide * 3.0)).to_numpy(),
        }
    )
    units = {
        "mean_spread_bps_8h": "bps of notional per 8 hours",
        "earned_bps": f"bps of one leg's notional over the {days:.1f} days of the window",
        "earned_after_fees_bps": f"the same after four trades of {fee_bps:g} bps",
        "days_to_pay_fees": "days at the mean spread",
    }
    note = "Means of the past, not forecasts. Venues with rates in less than half of the window are omitted."
    return _result(rows, units, note, rates)


def carry_forecast(
    symbol: str, since: str = "90d", hold: str = "7d", fee_bps: float = 5.0, top: int = 10
) -> dict[str, Any]:
    """Return the pairs with the highest forecast carry after fees, with a 90 % interval."""
    rates = funding.history(symbol, since)
    forecast = carry.forecast_carry(panel(rates).sel(symbol=symbol), hold=hold, fee_bps=fee_bps)
    names = [
        "net_bps",
        "net_low_bps",
        "net_high_bps",
        "gross_bps",
        "probability_net_positive",
        "decisions",
    ]
    figures = forecast[names].drop_indexes(["long", "short"])  # to_dataframe omits indexed coordinates
    rows = figures.to_dataframe().reset_index()[["long", "short", *names]]
    units = dict.fromkeys(names[:4], f"bps of one leg's notional over {hold}") | {
        "probability_net_positive": "fraction",
        "decisions": "independent past decisions behind the interval",
    }
    note = (
        f"Net of four trades of {fee_bps:g} bps; low and high are a 90 % interval from past forecast errors. "
        "Prices of the legs are not included. The largest of many forecasts is partly luck."
    )
    return _result(rows.dropna(subset="net_bps").nlargest(top, "net_bps"), units, note, rates)


def surface_summary(symbol: str = "BTC", exchange: str = "deribit") -> dict[str, Any]:
    """Return at-the-money volatility, risk reversals and butterflies at fixed tenors."""
    chain = options.snapshot(symbol, exchange)
    fit = surface.from_chain(chain)
    fixed = surface.constant_maturity(fit)
    points = ["atm", "rr25", "bf25", "rr10", "bf10"]
    rows = fixed[points].to_dataframe().reset_index()[["tenor", *points]].rename(columns={"tenor": "days"})
    units = {"days": "days to expiry"} | dict.fromkeys(
        points, "implied volatility, decimal, per square root of a year"
    )
    note = (
        f"SVI without arbitrage, {fit.sizes['expiry']} expiries, {len(chain)} options; delta is the forward "
        f"delta. {_unfitted(fit)}"
    )
    return _result(rows.dropna(how="all", subset=points), units, note, chain)


def data_quality(symbol: str, since: str = "30d") -> dict[str, Any]:
    """Return gaps, duplicates, frozen values, outliers and scale errors of funding rates by venue."""
    rates = funding.history(symbol, since)
    checked = quality.quality(rates)
    names = [
        "exchange",
        "expected",
        "present",
        "missing",
        "gaps",
        "longest_gap_hours",
        "duplicates",
        "frozen",
    ]
    names += ["outliers", "spikes", "scale_change", "peer_scale"]
    worst = checked.sort_values(["missing", "outliers"], ascending=False)[names]
    units = {
        "longest_gap_hours": "hours",
        "frozen": "longest run of equal values [points]",
        "scale_change": "factor within the series; 1 means no change",
        "peer_scale": "factor against other venues; 1 means equal",
    }
    return _result(worst, units, str(checked.attrs["summary"]), rates)


def liquidation_cascades(
    since: str = "24h", symbol: str | None = None, min_usd: float = 1e6, top: int = 10
) -> dict[str, Any]:
    """Return the largest bursts of liquidations: orders at most 10 seconds apart."""
    orders = liquidations.events(since=since, symbols=symbol)
    runs = bursts.clusters(orders, gap="10s", by=("symbol",))
    largest = bursts.cascades(runs, min_count=2, min_usd=min_usd, quantile=0.0)
    names = ["symbol", "start", "end", "count", "value_usd", "imbalance", "venues", "price_move"]
    units = {
        "count": "orders",
        "value_usd": "USD",
        "imbalance": "(long - short) / total: 1 is only longs liquidated",
        "venues": "venues with an order in it",
        "price_move": "fraction, first to last order",
    }
    counted = f"{len(orders):,} orders, {len(runs):,} bursts."
    note = f"{counted} Venues throttle their feeds, so values are lower bounds."
    return _result(largest.nlargest(top, "value_usd")[names], units, note, orders)


def option_exposure(symbol: str = "BTC", exchange: str = "deribit") -> dict[str, Any]:
    """Return put/call ratio, max pain by expiry and the price of zero gamma for naive dealers."""
    chain = options.snapshot(symbol, exchange)
    pain = exposure.max_pain(chain)["max_pain"].to_series()
    by_expiry = exposure.open_interest(chain, by=("expiry",))
    name = next(iter(by_expiry.data_vars))
    rows = pd.DataFrame({"expiry": pain.index, "max_pain_usd": pain.to_numpy()})
    rows["open_interest_coins"] = by_expiry[name].reindex(expiry=pain.index).to_numpy()
    zero = exposure.zero_gamma(chain, dealer=_NAIVE_DEALER)
    result = _result(
        rows,
        {
            "max_pain_usd": "USD",
            "open_interest_coins": "coins",
            "put_call_ratio": "open interest of puts divided by open interest of calls",
            "zero_gamma_usd": "USD",
        },
        "Zero gamma assumes that dealers are long calls and short puts, which no venue publishes.",
        chain,
    )
    ratio = exposure.put_call_ratio(chain)["put_call_ratio"]
    figures = {"put_call_ratio": float(ratio), "zero_gamma_usd": float(zero["price_usd"])}
    return {**result, "figures": _plain_fields(figures)}


TOOLS: dict[str, AnalysisTool] = {
    "analysis_best_pairs": AnalysisTool(
        "Which pairs of venues had the widest funding spread of a symbol, before and after fees?",
        {"symbol": _SYMBOL, "since": _since(30, "rates"), "fee_bps": _FEE, "top": _TOP},
        ("symbol",),
        best_pairs,
    ),
    "analysis_carry_forecast": AnalysisTool(
        "What are pairs of venues forecast to earn after fees over a holding time, with an interval?",
        {
            "symbol": _SYMBOL,
            "since": _since(90, "rates that the forecast is fitted to"),
            "hold": {"type": "string", "default": "7d", "description": "Holding time, such as 7d."},
            "fee_bps": _FEE,
            "top": _TOP,
        },
        ("symbol",),
        carry_forecast,
    ),
    "analysis_surface_summary": AnalysisTool(
        "What does the option market imply: at-the-money volatility, skew and wings at fixed tenors?",
        {"symbol": {**_SYMBOL, "default": "BTC"}, "exchange": _VENUE},
        (),
        surface_summary,
    ),
    "analysis_data_quality": AnalysisTool(
        "Can the funding rates of a symbol be trusted: gaps, frozen values, outliers, scale, by venue?",
        {"symbol": _SYMBOL, "since": _since(30, "rates")},
        ("symbol",),
        data_quality,
    ),
    "analysis_liquidation_cascades": AnalysisTool(
        "Which bursts of liquidations were the largest?",
        {
            "since": _since(1, "orders"),
            "symbol": _SYMBOL,
            "min_usd": {
                "type": "number",
                "minimum": 0,
                "default": 1e6,
                "description": "Minimum value of a burst [USD].",
            },
            "top": _TOP,
        },
        (),
        liquidation_cascades,
    ),
    "analysis_exposure": AnalysisTool(
        "How is the open interest of options distributed: max pain by expiry, put/call ratio, zero gamma?",
        {"symbol": {**_SYMBOL, "default": "BTC"}, "exchange": _VENUE},
        (),
        option_exposure,
    ),
}
"""Name of a tool to its analysis."""


def run(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run an analysis; its notices are part of the result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        result = TOOLS[name].run(**arguments)
    origin = result["provenance"]
    notices = dict.fromkeys(origin["notices"])
    for warning in caught:
        if issubclass(warning.category, DataNotice):
            notices[str(warning.message)] = None
    origin["notices"] = list(notices)
    return result


def _result(rows: pd.DataFrame, units: Mapping[str, str], note: str, data: pd.DataFrame) -> dict[str, Any]:
    """Return rows with their units and the provenance of their data."""
    origin = provenance(data)
    return {
        "rows": [_plain_fields(row) for row in rows.to_dict("records")],
        "units": dict(units),
        "note": note,
        "provenance": {name: origin[name] for name in _PROVENANCE if name in origin},
    }


def _plain_fields(fields: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): _plain(value) for name, value in fields.items()}


def _plain(value: Any) -> Any:
    """Convert a value for JSON: six significant digits, times as ISO 8601, missing as null."""
    if value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, pd.Timestamp):
        if value.tzinfo is None:
            value = value.tz_localize("UTC")
        return times.iso(value)
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return None
        return float(f"{value:.6g}")
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


def _unfitted(fit: xr.Dataset) -> str:
    """Return a sentence with the number of expiries without a fit, or an empty text."""
    if "a" not in fit:
        return ""
    missing = int(fit["a"].isnull().sum())
    if not missing:
        return ""
    return f"{missing} expiries were not fitted."


LARGEST = 32_000
"""Maximum length of a tool's response in characters."""

_ROWS = (200, 100, 50, 25, 12, 6, 3, 2, 1, 0)
"""Rows to show at each end of a list; the largest number that fits is used."""
_LONGEST_TEXT = 2_000
_TIMES = ("timestamp", "hour", "date", "time")


def fitted(body: Any, advice: str) -> dict[str, Any]:
    """Return a response of at most `LARGEST` characters.

    ``data`` is the body. If it is too long, each long list is replaced by an object with its ``count`` and
    its ``first`` and ``last`` items, and each long object by an object with ``count`` and ``first``.
    ``truncated`` is true if rows were omitted. ``window`` has the first and last time of all rows,
    including omitted rows. ``more`` explains how to request the rest.
    """
    response: dict[str, Any] = {"data": body, "truncated": False}
    window = _window(body)
    if window is not None:
        response["window"] = window
    if _size(response) <= LARGEST:
        return response
    response |= {"truncated": True, "more": advice}
    for rows in _ROWS:
        response["data"] = _shortened(body, rows)
        if _size(response) <= LARGEST:
            return response
    return {**response, "data": None}


def text_of(response: Mapping[str, Any]) -> str:
    """Return a response as the text that is counted and sent."""
    return json.dumps(response, ensure_ascii=False, allow_nan=False)


def _size(response: Mapping[str, Any]) -> int:
    return len(text_of(response))


def _shortened(value: Any, rows: int) -> Any:
    """Shorten lists and objects of data to at most twice `rows` items, and long texts."""
    if isinstance(value, str):
        if len(value) > _LONGEST_TEXT:
            value = f"{value[:_LONGEST_TEXT]}…"
        return value
    if isinstance(value, Mapping):
        # Up to twelve names are the fields of a row; more are data, such as one field per symbol.
        most = max(2 * rows, 12)
        names = list(value)
        shown = {name: _shortened(value[name], rows) for name in names[:most]}
        if len(names) > most:
            return {"count": len(names), "first": shown}
        return shown
    if isinstance(value, Sequence):
        if len(value) <= 2 * rows:
            return [_shortened(item, rows) for item in value]
        first = [_shortened(item, rows) for item in value[:rows]]
        last = [_shortened(item, rows) for item in value[len(value) - rows :]]
        return {"count": len(value), "first": first, "last": last}
    return value


def _window(body: Any) -> dict[str, str] | None:
    """Return the first and last time in the rows of a body, or None if the rows have no times."""
    times = set(_row_times(body, in_list=False))
    if not times:
        return None
    return {"start": min(times), "end": max(times)}


def _row_times(value: Any, *, in_list: bool) -> Iterator[str]:
    """Yield the time of every row, that is, of every object in a list, at any depth."""
    if isinstance(value, Mapping):
        if in_list:
            stamps = [value[name] for name in _TIMES if isinstance(value.get(name), str)]
            yield from stamps[:1]
        for item in value.values():
            yield from _row_times(item, in_list=False)
    elif isinstance(value, list):
        for item in value:
            yield from _row_times(item, in_list=True)


_MAX_ARGUMENTS = 16_384
"""Maximum bytes of a tool's name and arguments: servers reject a longer request line."""
_HINT = (
    "Read-only data on crypto derivatives, documented under each tool. Rates are basis points of notional "
    "per 8 hours; longs pay shorts where they are positive. Tools named analysis_… return figures with "
    "units. A long response has the first and last rows, their count, and how to request the rest."
)


def serve_mcp(source: str, *, now: times.TimeLike | None = None, live: bool = False) -> None:
    """Serve the program that started this process until it closes standard input.

    Raises `ImportError` without the extra ``mcp``, else as `start`.
    """
    stdio = import_extra("mcp.server.stdio", "mcp", "serve --mcp")
    with contextlib.closing(start(source, now=now, live=live)) as local:
        transport.connect(local.url, api_key=local.api_key)
        server = mcp_server(local.url, local.api_key)

        async def run() -> None:
            async with stdio.stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())

        asyncio.run(run())


def mcp_server(url: str, key: str) -> Any:
    """Return a server of the protocol whose tools are the endpoints of a running service, and the analyses.

    The analyses use the source that this process is connected to.
    """
    lowlevel = import_extra("mcp.server.lowlevel", "mcp", "serve --mcp")
    tools = _Tools(url, key)
    return lowlevel.Server(
        "derivdata",
        version=derivdata.__version__,
        instructions=_HINT,
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )


class _Tools:
    """The tools of a server, whose data comes from a running service."""

    def __init__(self, url: str, key: str) -> None:
        self._types = import_extra("mcp.types", "mcp", "serve --mcp")
        self._http = import_extra("httpx2", "mcp", "serve --mcp")
        self._url = url
        self._headers = {"X-Api-Key": key}

    async def list(self, _context: Any, _params: Any) -> Any:
        """Return the tools: one per endpoint of the service, and the analyses."""
        tools = []
        for name, (_path, about) in (await self._operations()).items():
            arguments = {}
            required = []
            for parameter in about["parameters"]:
                arguments[parameter["name"]] = {
                    **parameter["schema"],
                    "description": parameter["description"],
                }
                if parameter["required"]:
                    required.append(parameter["name"])
            description = f"{about['summary']} {about['description']}"
            tools.append(self._tool(name, description, arguments, required))
        for name, tool in TOOLS.items():
            tools.append(self._tool(name, tool.description, tool.arguments, tool.required))
        return self._types.ListToolsResult(tools=tools)

    def _tool(self, name: str, about: str, arguments: dict[str, Any], required: Sequence[str]) -> Any:
        """Return the description of a tool; `arguments` are JSON schemas by name."""
        schema = {
            "type": "object",
            "properties": arguments,
            "required": list(required),
            "additionalProperties": False,
        }
        hints = self._types.ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return self._types.Tool(name=name, description=about, input_schema=schema, annotations=hints)

    async def call(self, _context: Any, request: Any) -> Any:
        """Run a tool; an error is a result with its text."""
        name = request.name
        given = request.arguments or {}
        error = _unreadable(name, given)
        if error is not None:
            return self._refused(error)
        operations = await self._operations()
        names = [*operations, *TOOLS]
        if name not in names:
            return self._refused(f"unknown tool {name!r}{did_you_mean(name, names)}")
        if name in TOOLS:
            return await self._analysis(name, given)
        path, about = operations[name]
        parameters = [p["name"] for p in about["parameters"]]
        error = _unknown(name, given, parameters)
        if error is not None:
            return self._refused(error)
        response = await self._get(_address(path, about["parameters"], given))
        if response.status_code != 200:
            return self._refused(response.text)
        return self._fitted(response.json(), _advice(parameters))

    async def _analysis(self, name: str, given: Mapping[str, Any]) -> Any:
        """Run an analysis in a thread."""
        tool = TOOLS[name]
        error = _unknown(name, given, list(tool.arguments))
        if error is not None:
            return self._refused(error)
        missing = [argument for argument in tool.required if argument not in given]
        if missing:
            return self._refused(f"{name} requires {', '.join(missing)}")
        try:
            result = await asyncio.to_thread(run, name, given)
        except (DerivdataError, ValueError, TypeError) as problem:
            return self._refused(f"{name}: {problem}")
        return self._fitted(result, "request fewer rows with top, or a shorter window with since")

    async def _operations(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Map the name of each endpoint's tool to its path and OpenAPI description."""
        paths = (await self._get("/openapi.json")).json()["paths"]
        return {about["get"]["operationId"]: (path, about["get"]) for path, about in paths.items()}

    async def _get(self, address: str) -> Any:
        """Request an address of the service; a local service may take long, so no timeout is set."""
        client = self._http.AsyncClient(
            base_url=self._url, headers=self._headers, timeout=None, trust_env=False
        )
        async with client:
            return await client.get(address)

    def _fitted(self, body: Any, advice: str) -> Any:
        """Return a result whose rows are limited by `fitted`; `advice` says how to request the rest."""
        response = fitted(body, advice)
        content = [self._types.TextContent(type="text", text=text_of(response))]
        return self._types.CallToolResult(content=content, structured_content=response, is_error=False)

    def _refused(self, text: str) -> Any:
        content = [self._types.TextContent(type="text", text=text)]
        return self._types.CallToolResult(content=content, is_error=True)


def _unknown(tool: str, given: Mapping[str, Any], parameters: Sequence[str]) -> str | None:
    """Return an error text for an argument that a tool does not take; an endpoint would ignore it."""
    for name in given:
        if name not in parameters:
            return f"{tool}: unknown argument {name!r}{did_you_mean(name, parameters)}"
    return None


_NARROWER = {
    "symbol": "one symbol",
    "exchanges": "fewer exchanges",
    "exchange": "one exchange",
    "range": "a shorter range",
    "start": "a shorter window with start and end",
    "resolution": "a coarser resolution",
    "limit": "a smaller limit",
}


def _advice(parameters: Sequence[str]) -> str:
    """Return advice on how to request the omitted rows of a response."""
    ways = [words for name, words in _NARROWER.items() if name in parameters]
    if not ways:
        return "fetch the whole response with the library, dd.raw(path)"
    return f"request {', '.join(ways)}; or fetch the whole response with the library, dd.raw(path, …)"


def _unreadable(name: str, given: Mapping[str, Any]) -> str | None:
    """Return an error text if the arguments are not valid Unicode or too long, else None."""
    try:
        size = len(json.dumps([name, given], ensure_ascii=False).encode())
    except UnicodeEncodeError:
        return "the arguments must be valid Unicode, got a lone surrogate"
    if size > _MAX_ARGUMENTS:
        limit = f"at most {_MAX_ARGUMENTS:,} bytes"
        return f"the arguments must have {limit}, got {size:,}; request fewer names at once"
    return None


def _address(path: str, parameters: list[dict[str, Any]], given: Mapping[str, Any]) -> str:
    """Return path and query of a call; the endpoint itself rejects missing parameters."""
    texts: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, list):
            texts[name] = ",".join(map(str, value))
        else:
            texts[name] = str(value)
    for parameter in parameters:
        if parameter["in"] == "path":
            text = texts.pop(parameter["name"], "")
            path = path.replace(f"{{{parameter['name']}}}", quote(text, safe=""))
    return f"{path}?{urlencode(texts)}"
