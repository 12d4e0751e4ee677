"""Functions that take a chain say the same whatever the order of its rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import chain, exposure, surface
from derivdata.sources import sample

NOW = pd.Timestamp("2026-06-30 12:00", tz="UTC").as_unit("us")


@cache
def snapshot() -> pd.DataFrame:
    """The chains of two assets of one instant, some seven hundred options."""
    return sample.open().latest(
        "options_snapshot",
        NOW,
        within=pd.Timedelta("1h"),
        symbols=["BTC", "XRP"],
        venues=["deribit"],
    )


def sorted_rows(options: pd.DataFrame) -> pd.DataFrame:
    return options.sort_values(["symbol", "expiry", "strike", "side"], ignore_index=True)


FUNCTIONS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "clean": lambda options: sorted_rows(chain.clean(options)),
    "forwards": chain.forwards,
    "smiles": lambda options: chain.smiles(chain.clean(options)),
    "arbitrage": lambda options: chain.arbitrage(chain.smiles(chain.clean(options))),
    "executable": chain.executable,
    "from_chain": lambda options: surface.from_chain(options, method="essvi"),
    "history": lambda options: surface.history(options, method="essvi"),
    "open_interest": exposure.open_interest,
    "gamma_exposure": exposure.gamma_exposure,
    "zero_gamma": lambda options: exposure.zero_gamma(options, dealer={"call": 1.0, "put": -1.0}),
    "max_pain": exposure.max_pain,
    "put_call_ratio": exposure.put_call_ratio,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_order_of_rows_changes_nothing(name: str) -> None:
    of, options = FUNCTIONS[name], snapshot()
    expected = of(options)
    for order in (options[::-1], options.sample(frac=1.0, random_state=1)):
        found = of(order.reset_index(drop=True))
        if isinstance(expected, xr.Dataset):
            xr.testing.assert_allclose(found, expected, rtol=1e-9)
        else:
            pd.testing.assert_frame_equal(found, expected, check_like=False, rtol=1e-9)


def test_an_arbitrage_across_expiries_needs_the_later_one_to_be_later() -> None:
    """Of the sample nothing can be traded; taking expiries as they came found 815 calendars."""
    assert chain.executable(snapshot()).empty
    shuffled = snapshot().sample(frac=1.0, random_state=1)
    assert chain.executable(shuffled).empty
    # A calendar that is there: the far call's ask below the near one's bid, at the same strike and forward.
    rows = snapshot()[lambda o: (o["symbol"] == "BTC") & (o["side"] == "call")]
    near, far = np.sort(rows["expiry"].unique())[[4, 5]]
    both = rows[rows["expiry"].isin([near, far])].assign(underlying_price=rows["underlying_price"].iloc[0])
    dear = both.assign(bid_coin=both["bid_coin"].where(both["expiry"] == far, 0.9))
    dear["ask_coin"] = dear["ask_coin"].where(dear["expiry"] == far, 0.95)
    for order in (dear, dear[::-1]):
        found = chain.executable(order)
        calendars = found[found["kind"] == "calendar"]
        assert len(calendars) > 0
        assert (calendars["expiry"] < calendars["far_expiry"]).all()
