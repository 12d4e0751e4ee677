"""The endpoints as tools of a language model: lists, responses and errors."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import derivdata as dd
from derivdata.cli import main
from derivdata.sources import service
from derivdata.sources.service import mcp as mcp_server_module
from derivdata.sources.service.mcp import mcp_server
from derivdata.tables import endpoints
from tests.service import market
from tests.service.memory_store import MemoryStore

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")


def asked(*calls: tuple[str, dict[str, Any]], tier: str = "dev", server: Any = None) -> list[Any]:
    """The responses of a server to some calls of its tools, or its tools where a call has no name."""
    if server is None:
        store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
        with closing(service.start(store, keys={"k": tier})) as local:
            return asked(*calls, server=mcp_server(local.url, "k"))

    async def ask() -> list[Any]:
        async with mcp.Client(server) as client:
            return [await client.call_tool(*call) if call[0] else await client.list_tools() for call in calls]

    return asyncio.run(ask())


@pytest.fixture(scope="module")
def sample_service() -> Iterator[service.RunningService]:
    with closing(service.start("sample")) as local:
        yield local


@pytest.fixture
def on_the_sample(sample_service: service.RunningService) -> Any:
    """A server whose service and connection are the sample's."""
    dd.connect(sample_service.url, api_key=sample_service.api_key)
    return mcp_server(sample_service.url, sample_service.api_key)


def test_every_endpoint_is_a_tool_with_its_parameters() -> None:
    [listed] = asked(("", {}))
    assert len(listed.tools) == len(endpoints.ENDPOINTS) + 6
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    [series] = [tool for tool in listed.tools if tool.name == "oi_symbol_timeseries"]
    symbol = {"type": "string", "minLength": 1, "description": "Base symbol."}
    assert series.input_schema["properties"]["symbol"] == symbol
    assert series.input_schema["required"] == ["symbol"]


def test_tool_returns_the_response_of_its_endpoint() -> None:
    """With its symbol in the path, and venues as a list."""
    call = {"symbol": "BTC", "exchanges": ["okx", "bybit"], "range": "1d"}
    [found] = asked(("oi_symbol_timeseries", call))
    assert not found.is_error, found.content[0].text
    assert json.loads(found.content[0].text)["data"]["symbol"] == "BTC"
    assert found.structured_content == json.loads(found.content[0].text)


@pytest.mark.parametrize(
    ("tier", "name", "arguments", "words"),
    [
        ("dev", "oi_exchanges-sumary", {}, "unknown tool 'oi_exchanges-sumary'; did you mean"),
        ("dev", "funding_historical", {}, "symbol"),
        (
            "dev",
            "funding_historical",
            {"symbol": "BTC", "strat": "2026"},
            "unknown argument 'strat'; did you mean 'start'?",
        ),
        ("free", "oi_exchanges-summary", {}, "required_tier"),
    ],
)
def test_rejected_call_is_a_tool_error_with_the_reason(
    tier: str, name: str, arguments: dict[str, Any], words: str
) -> None:
    [found] = asked((name, arguments), tier=tier)
    assert found.is_error
    assert words in found.content[0].text


ARGUMENTS: dict[str, dict[str, Any]] = {
    "markets_exchanges_exchange_timeseries": {"exchange": "binance"},
    "markets_exchanges_exchange_symbols": {"exchange": "binance"},
    "hip3-analytics_dex-detail": {"dex": "xyz"},
    "hip3-analytics_oi-trends_dex": {"dex": "xyz"},
    "hip3-analytics_candles": {"coin": "xyz:TSLA"},
    "hip4-analytics_outcome_outcome_id": {"outcome_id": "1"},
}
"""Arguments of the tools that need others than a symbol and a venue."""


@pytest.mark.slow
def test_every_endpoint_answers_within_the_limit(on_the_sample: Any) -> None:
    """With required arguments only, which give the longest default responses."""
    [listed] = asked(("", {}), server=on_the_sample)
    calls = []
    for tool in listed.tools:
        needed = {"symbol": "BTC", "exchange": "deribit" if "options" in tool.name else "binance"}
        given = ARGUMENTS.get(tool.name, {n: needed[n] for n in tool.input_schema["required"] if n in needed})
        calls.append((tool.name, given))
    answers = asked(*calls, server=on_the_sample)
    refused = {call[0]: a.content[0].text for call, a in zip(calls, answers, strict=True) if a.is_error}
    assert {
        name for name, text in refused.items() if "does not have" not in text and "unknown" not in text
    } == set()
    longest = max(len(answer.content[0].text) for answer in answers)
    assert 20_000 < longest <= 32_000


def test_long_response_is_shortened_to_both_ends_with_count_and_window(on_the_sample: Any) -> None:
    """30 days of hourly points of one venue."""
    call = {"symbol": "BTC", "start": "2026-05-31T12:00:00Z", "exchanges": ["binance"], "resolution": "1h"}
    [found] = asked(("funding_historical", call), server=on_the_sample)
    answer = found.structured_content
    points = answer["data"]["series"]["binance"]
    assert answer["truncated"]
    counted = len(dd.raw("/funding/historical", **call)["series"]["binance"])
    assert 700 < points["count"] == counted
    assert points["first"][0]["timestamp"] == "2026-05-31T12:00:00Z" == answer["window"]["start"]
    assert points["last"][-1]["timestamp"] == "2026-06-30T12:00:00Z" == answer["window"]["end"]
    assert "a coarser resolution" in answer["more"]
    short = {**call, "start": "2026-06-30T00:00:00Z"}
    [whole] = asked(("funding_historical", short), server=on_the_sample)
    assert not whole.structured_content["truncated"]
    assert len(whole.structured_content["data"]["series"]["binance"]) == 13


@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")
def test_analyses_give_figures_with_units_and_provenance(on_the_sample: Any) -> None:
    calls = [
        ("analysis_best_pairs", {"symbol": "BTC", "since": "10d", "fee_bps": 2.0, "top": 3}),
        ("analysis_carry_forecast", {"symbol": "BTC", "since": "45d", "top": 2}),
        ("analysis_surface_summary", {}),
        ("analysis_data_quality", {"symbol": "BTC", "since": "3d"}),
        ("analysis_liquidation_cascades", {"since": "2d", "min_usd": 1e5}),
        ("analysis_exposure", {"symbol": "ETH"}),
    ]
    results = asked(*calls, server=on_the_sample)
    for (name, _), result in zip(calls, results, strict=True):
        assert not result.is_error, (name, result.content[0].text)
        answer = result.structured_content["data"]
        assert answer["provenance"]["synthetic"] is True
        assert answer["units"]
        assert answer["rows"]
        assert len(result.content[0].text) <= 32_000

    best = results[0].structured_content["data"]["rows"]
    rates = dd.panel(dd.funding.history("BTC", "10d")).sel(symbol="BTC").mean("time")
    widest = float(rates.max() - rates.min())
    assert best[0]["mean_spread_bps_8h"] == pytest.approx(widest, rel=1e-5)
    assert best[0]["long"] == str(rates.idxmin("exchange").item())
    assert best[0]["short"] == str(rates.idxmax("exchange").item())
    span_days = 10 - 1 / 24
    assert best[0]["earned_after_fees_bps"] == pytest.approx(widest * 3 * span_days - 8.0, rel=1e-4)
    assert len(best) == 3


def test_arguments_of_an_analysis_are_checked(on_the_sample: Any) -> None:
    unknown, missing, wrong = asked(
        ("analysis_best_pairs", {"symbol": "BTC", "fees": 1.0}),
        ("analysis_best_pairs", {}),
        ("analysis_surface_summary", {"symbol": "DOGE", "exchange": "okx"}),
        server=on_the_sample,
    )
    assert "unknown argument 'fees'; did you mean 'fee_bps'?" in unknown.content[0].text
    assert "requires symbol" in missing.content[0].text
    assert "no options of DOGE on okx" in wrong.content[0].text
    assert unknown.is_error
    assert missing.is_error
    assert wrong.is_error


@pytest.mark.slow
def test_command_serves_tools_over_stdio() -> None:
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "derivdata", "serve", "sample", "--mcp"]
    )
    long = {"symbol": "BTC", "start": "2026-06-01T00:00:00Z", "resolution": "raw"}
    result, cut, analysed = asked(
        ("funding", {}), ("funding_historical", long), ("analysis_surface_summary", {}), server=command
    )
    assert result.structured_content["data"]["symbols"]["count"] > 300
    assert cut.structured_content["truncated"]
    assert analysed.structured_content["data"]["rows"][0]["days"] == 7.0


def test_port_options_are_rejected_with_stdio(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "sample", "--mcp", "--port", "99"]) == 1
    assert "--port needs a port, but --mcp does not open one" in capsys.readouterr().err


def test_tool_rejects_arguments_that_are_too_long_or_not_unicode() -> None:
    long = {"symbols": ",".join(["BTC"] * 300_000)}
    half = {"symbols": "\ud800"}
    many = {"symbols": ["\ud800"]}
    for arguments, why in ((long, "the arguments must have"), (half, "surrogate"), (many, "surrogate")):
        refusal = mcp_server_module._unreadable("oi_history", arguments)
        assert refusal is not None
        assert why in refusal
    assert mcp_server_module._unreadable("\udfff", {}) is not None
    assert mcp_server_module._unreadable("oi_history", {"symbols": "BTC,Ξ,😀"}) is None
    [answer] = asked(("oi_exchanges", long))
    assert answer.is_error
