"""Attributes distinguish results that were computed differently; a card computes its result again."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import derivdata as dd
from derivdata.analysis import backtest, funding, oi
from derivdata.cli import main
from derivdata.sources.archive import open_archive
from derivdata.support import calls
from tests import rules_of_my_own
from tests.analysis.option_oracle import made_chains, settlements

VENUES = ["binance", "hyperliquid", "okx"]
COSTS = backtest.Costs(fee_bps=2.0)
RULE = backtest.SpreadThreshold(enter_bps_8h=0.05, exit_bps_8h=-9.0)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Payments of BTC and ETH over ten days, and open interest of a week, of the sample."""
    path = tmp_path_factory.mktemp("cards") / "week.ddz"
    dd.connect("sample", cache="off")
    with dd.record(path):
        paid()
        dd.oi.history("BTC", "7d", venues=VENUES)
    dd.disconnect()
    return path


@pytest.fixture
def replayed(recording: Path) -> Iterator[None]:
    with dd.replay(recording):
        yield


def paid() -> pd.DataFrame:
    return dd.funding.settlements(["BTC", "ETH"], "10d", venues=VENUES)


def call_of(result: Any) -> dict[str, Any]:
    record = calls.record_of(result)
    assert record is not None
    return record


ONE_ARGUMENT: list[dict[str, Any]] = [
    {"maintenance": 0.02},
    {"costs": backtest.Costs(fee_bps=9.0)},
    {"costs": backtest.Costs(fee_bps=2.0, slippage_bps=0.1)},
    {"rule": backtest.SpreadThreshold(enter_bps_8h=0.6, window="1d")},
    {"rule": rules_of_my_own.hold_nothing},
    {"rule": functools.partial(rules_of_my_own.hold, symbol="BTC")},
    {"rule": functools.partial(rules_of_my_own.hold, symbol="ETH")},
    {"rule": rules_of_my_own.Stateful(1)},
    {"rule": rules_of_my_own.Stateful(2)},
    {"capital": 2e6},
    {"delay": "1h"},
    {"transfer_every": "7d"},
    {"leverage": 2.0},
]


@pytest.mark.usefixtures("replayed")
def test_backtests_that_differ_in_one_argument_differ_in_their_attributes() -> None:
    panel = paid()
    made = []
    for change in [{}, *ONE_ARGUMENT]:
        arguments = {"rule": RULE, "costs": COSTS} | change
        made.append(backtest.carry(panel, **arguments).attrs["call"])
    again = backtest.carry(panel, RULE, COSTS).attrs["call"]
    assert again == made[0]
    assert len(set(made)) == len(made)
    assert " at 0x" not in "".join(made), "an address differs from run to run"


@pytest.mark.usefixtures("replayed")
def test_attributes_depend_on_data_and_windows() -> None:
    panel = dd.panel(paid())
    less = panel.isel(time=slice(1, None))
    assert call_of(funding.best_pair(panel)) != call_of(funding.best_pair(less))
    chain = call_of(funding.best_pair(panel))["arguments"]["panel"]["call"]
    fetched = chain["arguments"]["table"]["call"]
    assert fetched["function"] == "funding.settlements"
    given = {"symbols": ["BTC", "ETH"], "start": "10d", "end": None, "venues": VENUES}
    assert fetched["arguments"].items() >= given.items()
    assert set(call_of(panel)["versions"]) >= {"derivdata", "numpy", "pandas", "python", "xarray"}


@pytest.mark.usefixtures("replayed")
def test_record_of_a_call_does_not_change_arguments_and_survives_files(tmp_path: Path) -> None:
    table = paid()
    before = dict(table.attrs)
    panel = dd.panel(table)
    assert dict(table.attrs) == before
    panel.to_dataset().to_netcdf(tmp_path / "panel.nc")
    back = xr.open_dataarray(tmp_path / "panel.nc").load()
    assert back.attrs["call"] == panel.attrs["call"]
    assert call_of(panel)["function"] == "panel"


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.floats(allow_nan=False),
        st.text(max_size=3),
        st.datetimes(min_value=pd.Timestamp("2020").to_pydatetime(), timezones=st.none()),
        st.timedeltas(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_equal_descriptions_have_equal_values(one: Any, other: Any) -> None:
    first, second = (json.dumps(calls.described(value), sort_keys=True) for value in (one, other))
    is_equal = repr(one) == repr(other) or one == other
    assert is_equal or first != second
    assert first == json.dumps(calls.described(one), sort_keys=True)


def test_hash_of_an_array_depends_only_on_values_labels_and_types() -> None:
    values = np.arange(12.0).reshape(3, 4)
    base = xr.DataArray(values, {"symbol": ["a", "b", "c"]}, ("symbol", "time"))
    equal = [
        base.copy(data=np.asfortranarray(values)),
        base.copy(data=np.ascontiguousarray(values.T).T),
        base.assign_attrs(anything=1),
    ]
    assert {calls.digest(array) for array in equal} == {calls.digest(base)}
    changed = [
        base + 1,
        base.T,
        base.astype("float32"),
        base.assign_coords(symbol=["a", "b", "d"]),
        base.isel(symbol=[0, 2, 1]),
        base.rename(symbol="exchange"),
    ]
    assert len({calls.digest(array) for array in [base, *changed]}) == 1 + len(changed)


def test_hash_of_a_table_depends_on_values_names_types_and_order() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": pd.Categorical(["a", "b"])})
    changed = [
        frame.assign(x=[1.0, 3.0]),
        frame.rename(columns={"x": "z"}),
        frame.assign(y=["a", "b"]),
        frame[::-1],
    ]
    assert len({calls.digest(table) for table in [frame, *changed]}) == 1 + len(changed)


def test_card_reruns_from_its_recording(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with dd.replay(recording):
        result = backtest.carry(paid(), RULE, COSTS, maintenance=0.02)
        dd.card(result, tmp_path / "carry.json", tolerances={"net_usd": 0.5})
    table = dd.rerun(tmp_path / "carry.json", recording).set_index("figure")
    assert table["equal"].all()
    assert table.attrs["identical"]
    assert float(result["net_usd"]) != 0.0
    assert table.loc["net_usd", "recorded"] == float(result["net_usd"]) == table.loc["net_usd", "new"]
    assert table.loc["net_usd", "tolerance"] == 0.5
    assert main(["rerun", str(tmp_path / "carry.json"), str(recording)]) == 0
    assert "0 beyond their tolerance; the result is bit-equal" in capsys.readouterr().out


def test_rerun_exits_with_1_if_a_figure_is_beyond_its_tolerance(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "carry.json"
    with dd.replay(recording):
        dd.card(backtest.carry(paid(), RULE, COSTS, maintenance=0.02), path)
    card = json.loads(path.read_text())
    card["figures"]["net_usd"]["value"] *= 1.01
    card["figures"]["net_usd"]["tolerance"] = 1e-3
    path.write_text(json.dumps(card))
    assert main(["rerun", str(path), str(recording)]) == 1
    assert "1 beyond their tolerance" in capsys.readouterr().out


def test_card_of_a_function_of_an_xarray_dataset_reruns(recording: Path, tmp_path: Path) -> None:
    with dd.replay(recording):
        pairs = dd.analysis.funding.pick_record(dd.panel(paid()), hold="1d", fee_bps=0.1, overlap="nan")
        dd.card(dd.analysis.funding.pick_summary(pairs), tmp_path / "picks.json")
    again = dd.rerun(tmp_path / "picks.json", recording)
    assert again["equal"].all()
    assert again.attrs["identical"]


def test_argument_named_data_is_not_a_description(tmp_path: Path) -> None:
    dd.connect("sample", cache="off")
    prices = dd.panel(dd.prices.history("BTC", "10d", venues=["okx"], kind="mark"), "price_usd")
    bars = dd.analysis.volatility.bars(prices)
    written = dd.card(dd.analysis.volatility.realised(bars, "5d"), tmp_path / "realised.json")
    assert written["call"]["arguments"]["data"]["call"]["function"] == "analysis.volatility.bars"
    assert dd.rerun(tmp_path / "realised.json")["equal"].all()


def test_selection_between_calls_is_repeated_and_other_changes_are_named(
    recording: Path, tmp_path: Path
) -> None:
    with dd.replay(recording):
        panel = dd.panel(paid())
        chosen = panel.sel(symbol="ETH", exchange=["okx", "binance"]).isel(time=slice(3, 20))
        dd.card(funding.best_pair(chosen), tmp_path / "selected.json")
        dd.card(funding.best_pair(chosen.copy(data=chosen * 2)), tmp_path / "changed.json")
    again = dd.rerun(tmp_path / "selected.json", recording)
    assert again.attrs["identical"]
    with pytest.raises(
        ValueError, match=r"panel of analysis\.funding\.best_pair: the data differs from the card"
    ):
        dd.rerun(tmp_path / "changed.json", recording)


def test_card_of_user_functions(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with dd.replay(recording):
        table = paid()
        rule = functools.partial(rules_of_my_own.hold, symbol="BTC")
        dd.card(backtest.carry(table, rule, COSTS), tmp_path / "own.json")
        unnamed = backtest.carry(table, lambda past: {}, COSTS)
        with pytest.raises(
            TypeError, match=r"carry, rule: .*<lambda> must be a function defined at the top of a module"
        ):
            dd.card(unnamed, tmp_path / "x.json")

        def closure(past: Any) -> dict[str, Any]:
            return {}

        with pytest.raises(TypeError, match=r"closure must be defined at the top of a module"):
            dd.card(backtest.carry(table, closure, COSTS), tmp_path / "x.json")
    assert dd.rerun(tmp_path / "own.json", recording)["equal"].all()
    monkeypatch.setattr(calls, "source_of", lambda _: "0" * 64)
    with pytest.raises(ValueError, match=r"the source code of \S+ has changed since the card was written"):
        dd.rerun(tmp_path / "own.json", recording)


def test_results_without_a_record_and_invalid_card_files_raise(tmp_path: Path) -> None:
    times = pd.date_range("2026-01-01", periods=2, freq="h")
    coords = {"exchange": ["a", "b"], "time": times}
    bare = xr.DataArray(np.ones((2, 2)), coords, ("exchange", "time"), attrs={"units": "USD"})
    with pytest.raises(TypeError, match="result must have a record of its call"):
        dd.card(bare, tmp_path / "x.json")
    share = oi.market_share(bare)
    with pytest.raises(
        TypeError, match=r"market_share, \w+: the DataArray was not returned by a function of derivdata"
    ):
        dd.card(share, tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()
    for text in ("{", "[]", '{"format": 1}'):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ValueError, match=r"x\.json must be a card"):
            dd.rerun(tmp_path / "x.json")


@pytest.mark.usefixtures("replayed")
def test_tolerances_must_name_known_variables() -> None:
    share = oi.market_share(dd.panel(dd.oi.history("BTC", "7d", venues=VENUES), "oi_usd"))
    with pytest.raises(ValueError, match=r"unknown figure 'net'"):
        dd.card(share, "never-written.json", tolerances={"net": 1.0})


def test_card_of_a_report_reruns(tmp_path: Path) -> None:
    page, bundle = tmp_path / "report.html", tmp_path / "report.ddz"
    dd.connect("sample", cache="off")
    with dd.record(bundle):
        dd.report("BTC", out=page, window="3d", sections=["funding", "oi"], venues=["binance", "okx"])
    dd.disconnect()
    again = dd.rerun(page, bundle)
    assert again["equal"].all()
    assert again.attrs["identical"]
    assert {"BTC open interest", "BTC price"} <= set(again["figure"])
    text = page.read_text(encoding="utf-8")
    recorded = again.set_index("figure").loc["BTC price", "recorded"]
    assert f'"value": {recorded}' in text
    page.write_text(text.replace(f'"value": {recorded}', f'"value": {recorded + 1.0}'), encoding="utf-8")
    changed = dd.rerun(page, bundle).set_index("figure")
    assert not changed.loc["BTC price", "equal"]
    assert changed.loc["BTC open interest", "equal"]


def test_analysis_is_compared_by_values_and_table_by_hash(recording: Path, tmp_path: Path) -> None:
    """Processors round an analysis differently, so its hash may differ if its sums agree.

    The hash of a fetched table must be equal.
    """
    path = tmp_path / "picks.json"
    with dd.replay(recording):
        pairs = dd.analysis.funding.pick_record(dd.panel(paid()), hold="1d", fee_bps=0.1, overlap="nan")
        dd.card(dd.analysis.funding.pick_summary(pairs), path)
    card = json.loads(path.read_text())
    [analysed] = [value for value in card["call"]["arguments"].values() if isinstance(value, dict)]
    analysed["sha256"] = "0" * 64
    path.write_text(json.dumps(card))
    assert dd.rerun(path, recording)["equal"].all()

    sums = next(sums for sums in analysed["sums"].values() if sums[1] > 1.0)
    sums[1] *= 1.00001
    path.write_text(json.dumps(card))
    with pytest.raises(ValueError, match="the data differs from the card's"):
        dd.rerun(path, recording)

    sums[1] /= 1.00001
    analysed["call"]["arguments"]["panel"]["sha256"] = "0" * 64
    path.write_text(json.dumps(card))
    with pytest.raises(ValueError, match="the data differs from the card's"):
        dd.rerun(path, recording)


ROLL = backtest.Roll(
    [backtest.OptionLeg("call", -1.0, "7d", delta=0.3), backtest.OptionLeg("put", -1.0, "7d", delta=0.3)]
)


@pytest.fixture(scope="module")
def option_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chains of ten days, their delivery price and funding payments in an archive."""
    spots = np.linspace(100_000.0, 104_000.0, 31)
    folder = tmp_path_factory.mktemp("chains") / "archive"
    archive = open_archive(folder)
    chains = made_chains(spots, expiries=2, strikes=(80e3, 120e3, 4e3))
    names = "BTC-" + chains["expiry"].dt.strftime("%d%b%y").str.upper() + "-"
    names += chains["strike"].astype(int).astype(str) + "-" + chains["side"].str[0].str.upper()
    archive.append("options_snapshot", chains.assign(instrument_name=names))
    delivered = pd.DataFrame(
        {
            "symbol": "BTC",
            "exchange": "deribit",
            "contract": "option:USD",
            "time": [pd.Timestamp("2026-01-09T08:00Z")],
            "price_usd": [102_800.0],
        }
    )
    archive.append("delivery_prices", delivered)
    archive.append("funding_settlements", settlements(len(spots)))
    return folder


def hedged_strangle(folder: Path) -> xr.Dataset:
    archive = open_archive(folder)
    return backtest.options(
        archive.read("options_snapshot", "2026-01-02", symbols=["BTC"], venues=["deribit"]),
        ROLL,
        backtest.OptionCosts(option_fee_bps=3.0, fee_bps=5.0),
        hedge=backtest.DeltaHedge(every="16h"),
        funding=dd.panel(archive.read("funding_settlements")),
        delivery=archive.read("delivery_prices"),
        capital=100_000.0,
    )


def test_a_backtest_of_options_on_an_archive_runs_again(
    option_archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No session is connected, and the archive is a copy in another folder."""
    card = tmp_path / "strangle.json"
    written = dd.card(hedged_strangle(option_archive), card)
    assert written["figures"]["net_usd"]["value"] != 0.0
    copied = tmp_path / "copy"
    shutil.copytree(option_archive, copied)
    table = dd.rerun(card, archive=copied)
    assert table["equal"].all()
    assert table.attrs["identical"]
    assert main(["rerun", str(card), "--archive", str(copied)]) == 0
    assert "bit-equal" in capsys.readouterr().out
    with pytest.raises(ValueError, match="the card uses rows of an archive: pass its folder as archive="):
        dd.rerun(card)


def test_other_rows_in_the_archive_are_named(option_archive: Path, tmp_path: Path) -> None:
    card = tmp_path / "strangle.json"
    dd.card(hedged_strangle(option_archive), card)
    changed = tmp_path / "changed"
    shutil.copytree(option_archive, changed)
    later = settlements(40).tail(3)
    open_archive(changed).append("funding_settlements", later)
    with pytest.raises(ValueError, match=r"dd\.archive\.read returns other data"):
        dd.rerun(card, archive=changed)
