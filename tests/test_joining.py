"""Tables joined by `dd.concat` keep their provenance; several chains are one table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

import derivdata as dd
from derivdata import plot
from derivdata.errors import SchemaError
from tests.support.rows import rows

DAYS = [("2026-06-01", "2026-06-02"), ("2026-06-08", "2026-06-09")]


def rates(venue: str, day: int, source: str, *, synthetic: bool) -> pd.DataFrame:
    stamp, kind = f"2026-06-{day:02d}T00:00:00Z", {"resolution": "1h", "kind": "sampled"}
    frame = rows("funding_history", symbol="BTC", exchange=[venue], timestamp=stamp, y=1.5, **kind)
    frame.attrs["provenance"] = {
        "source": source,
        "synthetic": synthetic,
        "as_of": f"2026-06-{day + 1:02d}T00:00:00Z",
        "requests": [{"path": "/funding/historical", "query": {}, "sha256": f"{day}", "as_of": ""}],
        "notices": ["clamped"],
        "attribution": f"by {source}",
    }
    return frame


def test_provenance_of_all_is_kept_and_one_synthetic_table_makes_all_synthetic() -> None:
    one, two = rates("okx", 2, "mine", synthetic=False), rates("binance", 1, "sample", synthetic=True)
    joined = dd.concat([one, two])
    assert joined["exchange"].tolist() == ["binance", "okx"], "in the table's order"
    assert joined.dtypes.astype(str).equals(one.dtypes.astype(str))
    assert dd.provenance(joined) == {
        "source": "mine, sample",
        "synthetic": True,
        "as_of": "2026-06-03T00:00:00Z",
        "requests": [*one.attrs["provenance"]["requests"], *two.attrs["provenance"]["requests"]],
        "notices": ["clamped"],
        "attribution": "by mine; by sample",
    }
    assert one.attrs["provenance"]["source"] == "mine", "what was given is not changed"
    one.attrs = {}
    provenance = dd.provenance(dd.concat([two, one]))
    assert (provenance["source"], provenance["synthetic"]) == ("sample, not stated", True)


def test_duplicate_rows_and_other_tables_raise() -> None:
    one = rates("okx", 2, "mine", synthetic=False)
    with pytest.raises(SchemaError, match="1 rows repeat a key"):
        dd.concat([one, one])
    with pytest.raises(
        ValueError,
        match=r"frames\[1\] must have the columns of frames\[0\], but only one of them has resolution",
    ):
        dd.concat([one, one.drop(columns="resolution")])
    for none in ([], np.empty(0)):
        with pytest.raises(ValueError, match="frames is empty"):
            dd.concat(none)


def test_chains_of_lists_join_to_one_table_marked_synthetic() -> None:
    dd.connect("sample")
    both = dd.options.snapshot(["BTC", "ETH"], ["deribit", "okx"])
    each = [dd.options.snapshot(s, e) for s in ("BTC", "ETH") for e in ("deribit", "okx")]
    assert len(dd.provenance(both)["requests"]) == 4
    joined = dd.concat(each)
    pd.testing.assert_frame_equal(both, joined, check_flags=False)
    assert dd.provenance(joined)["synthetic"] is True
    axes = plot.venue_difference(joined[joined["symbol"] == "BTC"])
    assert any("synthetic" in text.get_text() for text in axes.figure.findobj(Text))


def test_prices_of_an_archive_reach_the_chain(tmp_path: Path) -> None:
    dd.connect("sample")
    chain = dd.options.snapshot("BTC", "deribit")
    prices = ["bid_coin", "ask_coin", "mark_coin", "index_price_usd", "volume"]
    assert chain[["ask_coin", "mark_coin", "index_price_usd"]].notna().all().all()
    assert 0.5 < chain["bid_coin"].notna().mean() < 1, "worthless options have no bid"
    chain = chain.assign(volume=3.0)
    dd.open_archive(tmp_path / "a").append("options_snapshot", chain)
    dd.connect(str(tmp_path / "a"))
    served = dd.options.snapshot("BTC", "deribit")
    pd.testing.assert_frame_equal(served[prices], chain[prices], check_flags=False)
    assert served[["bid_usd", "ask_usd", "mark_usd"]].isna().all().all()
