"""The endpoints as tools of a language model: what is listed, answered and refused."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from derivdata.cli import main
from derivdata.sources import service
from derivdata.sources.service.mcp_server import mcp_server
from derivdata.tables import endpoints
from tests.service import market
from tests.service.memory_store import MemoryStore

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")


def asked(*calls: tuple[str, dict[str, Any]], tier: str = "dev", server: Any = None) -> list[Any]:
    """The answers of a server to some calls of its tools, or its tools where a call has no name."""
    if server is None:
        store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
        server = mcp_server(service.app(store, keys={"k": tier}), "k")

    async def ask() -> list[Any]:
        async with mcp.Client(server) as client:
            return [await client.call_tool(*call) if call[0] else await client.list_tools() for call in calls]

    return asyncio.run(ask())


def test_every_endpoint_is_a_tool_with_its_parameters() -> None:
    [listed] = asked(("", {}))
    assert len(listed.tools) == len(endpoints.ENDPOINTS)
    [series] = [tool for tool in listed.tools if tool.name == "oi_symbol_timeseries"]
    symbol = {"type": "string", "minLength": 1, "description": "Base symbol."}
    assert series.input_schema["properties"]["symbol"] == symbol
    assert series.input_schema["required"] == ["symbol"]


def test_a_tool_answers_as_the_endpoint_does() -> None:
    """With its symbol in the path, and venues as a list."""
    call = {"symbol": "BTC", "exchanges": ["okx", "bybit"], "range": "1d"}
    [found] = asked(("oi_symbol_timeseries", call))
    assert not found.is_error, found.content[0].text
    assert json.loads(found.content[0].text)["symbol"] == "BTC"


@pytest.mark.parametrize(
    ("tier", "name", "arguments", "words"),
    [
        ("dev", "oi_exchanges-sumary", {}, "there is no tool 'oi_exchanges-sumary'; did you mean"),
        ("dev", "funding_historical", {}, "symbol"),
        (
            "dev",
            "funding_historical",
            {"symbol": "BTC", "strat": "2026"},
            "has no 'strat'; did you mean 'start'?",
        ),
        ("free", "oi_exchanges-summary", {}, "required_tier"),
    ],
)
def test_a_refusal_is_an_error_that_says_why(
    tier: str, name: str, arguments: dict[str, Any], words: str
) -> None:
    [found] = asked((name, arguments), tier=tier)
    assert found.is_error
    assert words in found.content[0].text


@pytest.mark.slow
def test_the_command_speaks_over_standard_input_and_output() -> None:
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "derivdata", "serve", "sample", "--mcp"]
    )
    long = {"symbol": "BTC", "start": "2026-06-01T00:00:00Z", "resolution": "raw"}
    found, too_long = asked(("funding", {}), ("funding_historical", long), server=command)
    assert "BTC" in json.loads(found.content[0].text)["symbols"]
    assert too_long.is_error
    assert "characters" in too_long.content[0].text


def test_options_of_a_port_are_refused_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "sample", "--mcp", "--port", "99"]) == 1
    assert "--port is of a port, and --mcp has none" in capsys.readouterr().err
