"""Record the payments and the cards of docs/methods/does-carry-pay.md from recorded data.

    python -m tests.measured.does_carry_pay

The payments are of two years, BTC and ETH, seven venues (MIT licence, notebooks/LICENSES.md).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd

import derivdata as dd
from docs import carry_page
from tests.support.recorded_funding import first_set

_HOURLY = ("dydx",)


def main() -> None:
    """Write the recording and one card for each fee."""
    with tempfile.TemporaryDirectory() as folder:
        archive = dd.open_archive(Path(folder) / "paid")
        archive.append("funding_settlements", _payments())
        dd.connect(str(Path(folder) / "paid"), cache="off")
        with dd.record(carry_page.RECORDING):
            results = {fee: carry_page.picks(fee) for fee in carry_page.FEES_BPS}
        dd.disconnect()
    for fee, result in results.items():
        dd.card(result, carry_page.card_of(fee))


def _payments() -> pd.DataFrame:
    frames = []
    for (symbol, venue), rates in first_set().items():
        exchange = {"gate": "gateio", "htx": "huobi"}.get(venue, venue)
        hours = 1.0 if venue in _HOURLY else 8.0
        rows = {"symbol": symbol, "exchange": exchange, "kind": "settled", "interval_hours": hours}
        frames.append(
            pd.DataFrame({"time": rates.index.tz_localize("UTC"), "rate_bps_8h": rates.to_numpy(), **rows})
        )
    paid = pd.concat(frames, ignore_index=True)
    start, end = (pd.Timestamp(day, tz="UTC") for day in carry_page.WINDOW)
    # htx paid once more than its schedule on that day, and for which hours is not known.
    is_extra = (paid["exchange"] == "huobi") & (paid["time"] == pd.Timestamp("2021-10-28T03:00", tz="UTC"))
    return paid[(paid["time"] >= start) & (paid["time"] < end) & ~is_extra]


if __name__ == "__main__":
    main()
