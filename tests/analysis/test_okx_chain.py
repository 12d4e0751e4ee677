"""A chain of OKX recorded by drewverzino/option-density-viz (MIT), with bids and asks in coin only.

BTC of 2025-09-08 02:27 UTC, 50 strikes of 26 September, ``docs/run_btc/chain.csv`` at commit 9d385a3.
"""

from pathlib import Path

import numpy as np
import pytest

from derivdata.analysis import chain, smile, surface
from derivdata.errors import DataNotice
from tests.analysis.violations import violations
from tests.measured import public_chains

FILE = Path(__file__).resolve().parents[1] / "data" / "okx_options_2025" / "BTC_20250908T022708Z.csv"


@pytest.fixture(scope="module")
def options():
    (table,) = public_chains.chains(FILE).values()
    with pytest.warns(DataNotice, match="100 of 100 options lack a volatility; computed 87 from bid and ask"):
        return chain.clean(table)


def test_forward_comes_from_the_five_strikes_nearest_the_money(options):
    """In coin, call - put = 1 - K / F, so that F = K / (1 - (call - put)) at each strike."""
    mids = {}
    for row in options.itertuples():
        if row.bid_coin > 0 and row.ask_coin > 0:
            mids.setdefault(row.strike, {})[row.side] = (row.bid_coin + row.ask_coin) / 2
    distances_and_forwards = []
    for strike, mid in mids.items():
        if len(mid) == 2:
            difference = mid["call"] - mid["put"]
            distances_and_forwards.append((abs(difference), strike / (1 - difference)))
    nearest = sorted(distances_and_forwards)[:5]
    expected = float(np.median([forward for _, forward in nearest]))
    forwards = chain.forwards(options)
    assert forwards["forward_source"].item() == "parity"
    assert forwards["forward"].item() == pytest.approx(expected, rel=1e-12)
    index = 110_727.4  # 18 days before the expiry
    assert 1.0 < expected / index < 1.005


def test_all_quotes_are_met_without_arbitrage(options):
    fitted = surface.from_chain(options)
    quotes = chain.smiles(options)
    model = smile.iv(fitted, quotes["log_moneyness"], extrapolate=True)
    used = quotes["iv_ask"].notnull()
    outside = (model < quotes["iv_bid"].fillna(0.0)) | (model > quotes["iv_ask"])
    assert int(used.sum()) == 50
    assert not bool((outside & used).any())
    assert violations(fitted) == (0, 0, 0)
