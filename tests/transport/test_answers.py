"""Typed responses: decoding, notices, provenance, many at once, and raw access."""

from __future__ import annotations

import hashlib
import json
import pickle  # noqa: TID251 - provenance outlasts it
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport import DecodedResponse
from derivdata.tables.endpoints import FUNDING, OI_TIMESERIES, Request
from tests.support.records import attrs_of
from tests.transport.server import NOON, ReceivedRequest, Reply, serving


class Body(msgspec.Struct):
    rate: float
    notices: list[Any] | None = None


def test_response_is_decoded_with_its_date() -> None:
    with serving(lambda _: Reply.json({"rate": 1.0, "new_field": [1]})) as server:
        transport.connect(server.url)
        answer = transport.get(OI_TIMESERIES, {"symbol": "A/B", "range": "7d"}, into=Body)
        assert server.paths == ["/oi/A%2FB/timeseries?range=7d"]
    assert answer.body == Body(rate=1.0)
    assert answer.as_of == NOON
    assert answer.request == Request("/oi/A%2FB/timeseries", (("range", "7d"),))
    assert answer.sha256 == hashlib.sha256(b'{"rate": 1.0, "new_field": [1]}').hexdigest()
    assert (answer.source, answer.synthetic) == (f"127.0.0.1:{server.port}", False)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"rate": "much"}, r"Expected `float`, got `str` - at `\$\.rate`"),
        ({}, "missing required field `rate`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_response_of_another_shape_names_path_and_field_and_is_not_cached(body: Any, says: str) -> None:
    replies = iter([Reply.json(body), Reply.json({"rate": 2.0})])
    with serving(lambda _: next(replies)) as server:
        transport.connect(server.url)
        with pytest.raises(errors.SchemaError, match=rf"/funding: .*{says}.*dd\.raw\('/funding'"):
            transport.get(FUNDING, {}, into=Body)
        assert transport.get(FUNDING, {}, into=Body).body.rate == 2.0


def test_notices_are_given_again_from_the_cache() -> None:
    said = ["clamped", {"b": 1, "a": None}, 3]
    with serving(lambda _: Reply.json({"rate": 1.0, "notices": said})) as server:
        transport.connect(server.url)
        for _ in range(2):
            with pytest.warns(errors.DataNotice) as caught:
                answer = transport.get(FUNDING, {}, into=Body)
            assert answer.notices == ("clamped", '{"a": null, "b": 1}', "3")
            assert [str(w.message) for w in caught] == [f"/funding: {n}" for n in answer.notices]
            assert {w.filename for w in caught} == {__file__}, "the warning points at the user's line"
        assert len(server.received) == 1


class Loose(msgspec.Struct):
    notices: Any = None


class Silent(msgspec.Struct):
    rate: float


@pytest.mark.parametrize(
    ("notices", "kept"),
    [(None, ()), ([], ()), ("one", ("one",)), (["a", 3], ("a", "3")), ({"b": 1}, ('{"b": 1}',))],
)
@pytest.mark.parametrize("into", [Loose, Silent, dict[str, Any]])
def test_notices_of_any_form_are_given_for_every_response_type(
    into: Any, notices: Any, kept: tuple[str, ...]
) -> None:
    with serving(lambda _: Reply.json({"rate": 1.0, "notices": notices})) as server:
        transport.connect(server.url)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answer = transport.get(FUNDING, {}, into=into)
    assert answer.notices == kept
    assert [str(w.message) for w in caught] == [f"/funding: {notice}" for notice in kept]


@pytest.mark.parametrize("body", [["notices"], "notices", [{"notices": ["x"]}]])
def test_response_that_is_not_an_object_has_no_notices(body: Any) -> None:
    with serving(lambda _: Reply.json(body)) as server:
        transport.connect(server.url)
        assert transport.get(FUNDING, {}, into=Any).notices == ()


HEADERS = {"Deprecation": "true", "Sunset": "Tue, 21 Jul 2026 00:00:00 GMT", "Link": "</oi>; rel=x"}


def test_deprecation_is_reported_once_per_endpoint() -> None:
    with serving(lambda _: Reply.json({"rate": 1.0}, headers=HEADERS)) as server:
        transport.connect(server.url)
        with pytest.warns(errors.DeprecationNotice, match="/funding: Deprecation: true; Sunset: .*Link"):
            transport.get(FUNDING, {}, into=Body)
        transport.get(FUNDING, {}, into=Body)
        with pytest.warns(errors.DeprecationNotice, match="/oi/BTC/timeseries: ") as caught:
            transport.get(OI_TIMESERIES, {"symbol": "BTC"}, into=Body)
        assert {w.filename for w in caught} == {__file__}
        transport.get(OI_TIMESERIES, {"symbol": "ETH"}, into=Body)
    with serving(lambda _: Reply.json({"rate": 1.0}, headers=HEADERS)) as server:
        transport.connect(server.url)
        with pytest.warns(errors.DeprecationNotice, match="/oi/coin: Deprecation: true"):
            transport.raw("/oi/coin", coin="BTC")
        transport.raw("/oi/coin", coin="ETH")


def test_provenance_is_preserved_by_pandas_operations(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    provenance = transport.provenance([])
    frame.attrs["provenance"] = provenance
    for made in (
        frame["a"],
        frame[frame["a"] > 1],
        frame.copy(),
        frame.sort_values("b"),
        pickle.loads(pickle.dumps(frame)),
    ):
        assert attrs_of(made) == {"provenance": provenance}
        assert json.loads(json.dumps(made.attrs["provenance"])) == dict(provenance)
    frame.to_parquet(tmp_path / "frame.parquet")
    assert pd.read_parquet(tmp_path / "frame.parquet").attrs == {"provenance": dict(provenance)}


def one_symbol(request: ReceivedRequest) -> Reply:
    if "BAD" in request.path:
        return Reply.json({"error": "no such symbol"}, status=404)
    return Reply.json({"rate": float(request.path.count("A"))})


def test_get_each_requires_one_end_per_query() -> None:
    params = [{"symbol": s} for s in ("A", "B")]
    with serving(one_symbol) as server:
        transport.connect(server.url)
        assert len(list(transport.get_each(OI_TIMESERIES, params, into=Body, until=[NOON, None]))) == 2
        assert list(transport.get_each(OI_TIMESERIES, [], into=Body)) == []
        with pytest.raises(ValueError, match="zip"):
            list(transport.get_each(OI_TIMESERIES, params, into=Body, until=[NOON]))


def test_progress_bar_is_shown_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(one_symbol) as server:
        transport.connect(server.url)
        symbols = [{"symbol": s} for s in ("A", "B")]
        list(transport.get_each(OI_TIMESERIES, symbols, into=Body))
        assert capsys.readouterr() == ("", ""), "no bar where there is nobody to see it"
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        list(transport.get_each(OI_TIMESERIES, symbols, into=Body))
    assert "/oi/{symbol}/timeseries" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "params", "sent"),
    [
        ("/funding", {}, "/funding"),
        (
            "/funding/historical",
            {"symbol": "BTC", "start": "2026-01-01"},
            "/funding/historical?start=2026-01-01T00:00:00Z&symbol=BTC",
        ),
        (
            "/funding/historical",
            {"symbol": "BTC", "exchanges": ["okx", "binance"]},
            "/funding/historical?exchanges=binance,okx&symbol=BTC",
        ),
        ("/oi/BTC/timeseries", {"range": "7d", "new": True}, "/oi/BTC/timeseries?new=true&range=7d"),
        ("/oi/BTC/timeseries", {"range": "180d"}, "/oi/BTC/timeseries?range=180d"),
        ("/liquidations/aggregates", {"range": "2h"}, "/liquidations/aggregates?range=2h"),
        (
            "/no/such/path",
            {"b": [1, 2.5], "a": None, "c": pd.Timestamp("2026-01-01")},
            "/no/such/path?b=1,2.5&c=2026-01-01T00:00:00Z",
        ),
    ],
)
def test_raw_normalises_known_parameters(path: str, params: dict[str, Any], sent: str) -> None:
    with serving(lambda _: Reply.json([1, {"a": None}])) as server:
        transport.connect(server.url)
        assert transport.raw(path, **params) == [1, {"a": None}]
        assert server.paths == [sent]


@pytest.mark.parametrize(
    "path", ["funding", "//evil.example/x", "/funding?x=1", "/a#b", "https://x", "", "/a b"]
)
def test_raw_accepts_a_path_without_parameters(path: str) -> None:
    with pytest.raises(ValueError, match="path must start with one /"):
        transport.raw(path)


def test_raw_rejects_invalid_paths_and_parameters() -> None:
    with pytest.raises(ValueError, match="already in the path"):
        transport.raw("/oi/BTC/timeseries", symbol="ETH")
    with pytest.raises(ValueError, match="exclude each other"):
        transport.raw("/oi/BTC/timeseries", range="7d", start="2026-01-01")
    with pytest.raises(TypeError, match="x must be"):
        transport.raw("/anything", x={})


def answer_of(n: int, **rest: Any) -> DecodedResponse[Any]:
    given: dict[str, Any] = {
        "body": n,
        "as_of": NOON + pd.Timedelta(n, "h"),
        "request": Request("/funding", (("n", str(n)),)),
        "sha256": str(n) * 64,
        "notices": (),
        "source": "api.example.com",
        "synthetic": False,
    }
    return DecodedResponse(**(given | rest))


def test_provenance_is_complete_and_serialises_to_json() -> None:
    answers = [answer_of(2, notices=("clamped",)), answer_of(1, synthetic=True, notices=("clamped", "short"))]
    provenance = transport.provenance(answers)
    assert provenance == {
        "source": "api.example.com",
        "synthetic": True,
        "as_of": "2026-06-30T14:00:30Z",
        "requests": [
            {"path": "/funding", "query": {"n": "2"}, "sha256": "2" * 64, "as_of": "2026-06-30T14:00:30Z"},
            {"path": "/funding", "query": {"n": "1"}, "sha256": "1" * 64, "as_of": "2026-06-30T13:00:30Z"},
        ],
        "notices": ["clamped", "short"],
        "attribution": "",
    }
    assert json.loads(json.dumps(provenance)) == provenance
    assert transport.provenance([])["as_of"] is None
