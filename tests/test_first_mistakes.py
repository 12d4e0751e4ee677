"""Mistakes of the first hour, and their messages."""

from __future__ import annotations

import datetime as dt
import importlib.machinery
import io
import sys
import types
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import surface
from derivdata.cli import main
from derivdata.client.transport import progress
from derivdata.sources.venues import registry
from derivdata.support import text
from derivdata.tables import contracts


@pytest.fixture
def payments() -> pd.DataFrame:
    """Twenty days of payments every eight hours, as a venue makes them."""
    dd.connect("sample")
    return dd.funding.settlements("BTC", "20d", venues=["binance"])


def test_payments_off_their_schedule_suggest_a_time_zone(
    payments: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = payments[["symbol", "time", "rate_bps_8h", "interval_hours"]]
    late = (frame["time"] + pd.Timedelta("3h")).dt.tz_localize(None)
    frame.assign(time=late).to_csv(tmp_path / "rates.csv", index=False)
    command = ["import", "funding_settlements", str(tmp_path / "rates.csv"), "--set", "exchange=binance"]
    assert main([*command, "--to", str(tmp_path / "a"), "--tz", "UTC"]) == 1
    message = capsys.readouterr().err
    assert "binance BTC pays every 8 hours from 00:00 UTC, but these payments are 3 hours later" in message
    assert "--tz UTC+3" in message
    main([*command, "--to", str(tmp_path / "b"), "--tz", "UTC+3"])
    stored = dd.open_archive(tmp_path / "b").read("funding_settlements")
    assert stored["time"].tolist() == payments["time"].tolist()
    main([*command, "--to", str(tmp_path / "c"), "--tz", "UTC", "--accept", "schedule"])
    assert "60 written" in capsys.readouterr().out


def test_archive_of_payments_suggests_settlements_if_rates_are_requested(
    payments: pd.DataFrame, tmp_path: Path
) -> None:
    archive = dd.open_archive(tmp_path / "mine")
    archive.append("funding_settlements", payments)
    assert len(archive.read("funding_settlements")) == len(payments) == 60
    last = payments["time"].max()
    assert archive.read("funding_settlements", last)["time"].tolist() == [last]
    assert len(archive.read("funding_settlements", end=last)) == 59
    dd.connect(str(tmp_path / "mine"))
    with pytest.raises(dd.errors.NotFound, match=r"it has funding_settlements: use dd\.funding\.settlements"):
        dd.funding.history("BTC", "2d")
    with pytest.raises(dd.errors.NotFound, match="does not have oi_history, which this response requires"):
        dd.oi.history("BTC", "2d")


def test_deribit_expiry_codes_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options of Deribit expire at 08:00 UTC."""
    head = "symbol,instrument_name,expiry,strike,side,time,iv\n"
    row = "BTC,BTC-{0}-100000-C,{0},100000,call,2025-12-05T01:00Z,0.5\n"
    (tmp_path / "chain.csv").write_text(head + row.format("6DEC25") + row.format("26JUN26"))
    command = ["import", "options_snapshot", str(tmp_path / "chain.csv"), "--set", "exchange=deribit"]
    assert main([*command, "--to", str(tmp_path / "a")]) == 0, capsys.readouterr().err
    expiries = dd.open_archive(tmp_path / "a").read("options_snapshot")["expiry"]
    assert {*expiries} == {pd.Timestamp("2025-12-06T08:00Z"), pd.Timestamp("2026-06-26T08:00Z")}


def test_invalid_window_error_lists_valid_forms() -> None:
    dd.connect("sample")
    day = dd.funding.history("BTC", dt.date(2026, 6, 1), dt.date(2026, 6, 2), venues=["okx"])
    assert day["time"].iloc[[0, -1]].dt.hour.tolist() == [0, 23]
    for lookback in ("1month", "30 days"):
        with pytest.raises(
            ValueError, match="or a lookback from the end such as '90m', '12h', '30d' or '2w', got"
        ):
            dd.funding.history("BTC", lookback)
    with pytest.warns(dd.errors.DataNotice, match="the window begins after the time of sample"):
        assert dd.funding.history("BTC", "2027-01-01", "2027-01-02").empty


def test_a_notebook_without_widgets_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """As IPython's kernel has it; a bar would be a warning and red lines there."""
    kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    items = [1, 2, 3]
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert progress(items, total=3, label="x") is items
    result = types.ModuleType("ipywidgets")
    result.__spec__ = importlib.machinery.ModuleSpec("ipywidgets", None)
    monkeypatch.setitem(sys.modules, "ipywidgets", result)
    assert progress(items, total=3, label="x") is not items


def test_misspelt_names_get_a_suggestion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dd.connect("sample")
    with pytest.raises(dd.errors.NotFound, match=r"unknown symbol 'BTX'; did you mean BTC, BTT"):
        dd.oi.history("BTX", "1d")
    with pytest.raises(dd.errors.ArchiveError, match=r'dd\.connect\("venues", venues=\["binance"\]\)'):
        dd.connect("binance")
    with pytest.raises(dd.errors.ArchiveError, match=r'dd\.connect\("https://api\.example\.com"\)'):
        dd.connect("api.example.com")


def test_misspelt_function_suggests_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'histroy'; did you mean 'history'\?"):
        _ = dd.funding.histroy  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'spred'; did you mean 'spread'\?"):
        _ = dd.analysis.funding.spred  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'calendar_check'; did you mean surface\.calendar_check\?$"):
        _ = dd.analysis.smile.calendar_check  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = dd.analysis.smile.nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'spread\.mean'$"):
        getattr(dd.analysis.funding, "spread.mean")
    with pytest.raises(AttributeError, match=r"no attribute '__nothing__'$"):
        _ = dd.funding.__nothing__  # type: ignore[attr-defined]


def test_the_snapshot_of_funding_is_selected_by_symbols_and_venues() -> None:
    dd.connect("sample", cache="off")
    everything = dd.funding.snapshot()
    chosen = dd.funding.snapshot(["BTC", "ETH"], venues="okx")
    expected = everything[everything["symbol"].isin(["BTC", "ETH"]) & (everything["exchange"] == "okx")]
    assert chosen["rate_bps_8h"].tolist() == expected["rate_bps_8h"].tolist()
    assert chosen["symbol"].tolist() == ["BTC", "ETH"]
    assert dd.provenance(chosen)["source"] == "sample"
    with pytest.raises(dd.errors.NotFound, match="a rate of 'BTX'; did you mean BTC, BTT, STX"):
        dd.funding.snapshot("BTX")


def test_too_many_positional_arguments_name_the_keyword_ones() -> None:
    with pytest.raises(TypeError, match=r"spread: expected at most 3 positional arguments, got 4$"):
        dd.analysis.funding.spread(1, "a", "b", 2)  # type: ignore[call-arg, arg-type]
    with pytest.raises(
        TypeError, match="expected at most 1 positional arguments, got 2; pass venues by name"
    ):
        dd.funding.snapshot("BTC", "okx")  # type: ignore[misc]


def test_a_symbol_unlike_any_other_has_no_suggestion() -> None:
    dd.connect("sample", cache="off")
    with pytest.warns(dd.errors.DataNotice), pytest.raises(dd.errors.NotFound) as caught:
        dd.funding.history("NOSUCH", "1d")
    assert "did you mean" not in str(caught.value)


def test_a_venue_of_the_adapters_is_not_taken_for_a_similar_one() -> None:
    dd.connect("sample", cache="off")
    with pytest.raises(
        dd.errors.BadRequest, match=r'is not a venue of this source: dd\.connect\("venues"\) has it'
    ):
        dd.funding.history("BTC", "1d", venues=["bitmex"])
    with pytest.raises(dd.errors.BadRequest, match=r"source; dd\.markets\.exchanges\(\) lists its venues"):
        dd.funding.history("BTC", "1d", venues=["nasdaq"])
    panel = dd.panel(dd.funding.history("BTC", "1d", venues=["okx", "bitget"]))
    with pytest.raises(ValueError, match=r"its dim exchange has bitget, okx$"):
        dd.analysis.funding.spread(panel, "bitmex", "okx")


def test_a_snapshot_names_venues_without_a_rate() -> None:
    dd.connect("sample", cache="off")
    with pytest.warns(dd.errors.DataNotice, match=r"no rates of bitmex; the response has \d+ venues"):
        chosen = dd.funding.snapshot("BTC", venues=["bitmex", "okx"])
    assert chosen["exchange"].tolist() == ["okx"]


def test_the_venues_of_adapters_alone_are_those_the_api_does_not_list() -> None:
    listed = {*contracts.VENUES, *contracts.OPTIONS_ONLY}
    assert set(contracts.ADAPTERS_ONLY) == set(registry.VENUES) - listed


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ("okxx", "okx"),  # one letter too many
        ("binanec", "binance"),  # two letters swapped
        ("hyperlqiuidd", "hyperliquid"),  # a swap and a letter too many
        ("rate_bps", "rate_bps_8h"),  # the start of a name
        ("fees", "fee_bps"),  # three quarters of the word
        ("bitmex", None),  # two of six letters: bitget is another venue
        ("threshold", None),
    ],
)
def test_a_name_is_suggested_within_few_edits(wrong: str, name: str | None) -> None:
    names = ["binance", "bitget", "fee_bps", "hyperliquid", "okx", "rate_bps_8h"]
    expected = "" if name is None else f"; did you mean {name!r}?"
    assert text.did_you_mean(wrong, names) == expected


def test_quotes_instead_of_a_fit_name_the_missing_step() -> None:
    dd.connect("sample", cache="off")
    quotes = dd.options.surface("BTC", "deribit")
    with pytest.raises(ValueError, match=r"fit them first with dd\.analysis\.surface\.from_chain"):
        dd.analysis.surface.constant_maturity(quotes, tenors=["30d"])


def test_a_wrong_name_of_an_argument_of_connect_gets_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"connect has no argument 'key'.*api_key"):
        dd.connect("https://data.example.org", key="secret")  # type: ignore[call-arg]


def test_an_argument_given_twice_is_named_with_the_order_of_arguments() -> None:
    with pytest.raises(TypeError, match=r"history got symbols twice.*symbols, start, end"):
        dd.liquidations.history("7d", symbols="BTC")  # type: ignore[call-arg,misc]


def test_table_of_options_in_place_of_a_fit_names_from_chain() -> None:
    dd.connect("sample")
    with pytest.raises(
        TypeError, match=r"convert a table with dd\.panel, or an option chain with surface\.from_chain"
    ):
        surface.constant_maturity(dd.options.snapshot("BTC", "deribit"))
