"""Exercise prices of options, and bodies whose prices contradict the index."""

from __future__ import annotations

import json

import pytest

from derivdata import venues
from derivdata.errors import SchemaError

_OKX = "/api/v5/public/delivery-exercise-history?instType=OPTION&instFamily=BTC-USD"


def _exercises(*rows: tuple[str, str, str]) -> str:
    details = [{"insId": name, "px": price, "type": word} for name, price, word in rows]
    return json.dumps({"code": "0", "msg": "", "data": [{"ts": "1569571200000", "details": details}]})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("BTC-USD-190927-8000-C", "0.016", "exercised"), "8000-C is exercised at 0.016"),
        (("BTC-USD-190927-8000-P", "0.016", "exercised"), "8000-P is exercised at 0.016"),
        (("BTC-USD-190927-8000-C", "8016.3", "expired_otm"), "8000-C is expired_otm at 8016.3"),
        (("BTC-USD-190927-9000-P", "8016.3", "expired_otm"), "9000-P is expired_otm at 8016.3"),
    ],
)
def test_a_price_on_the_wrong_side_of_a_strike_is_rejected(row: tuple[str, str, str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        venues.read("okx", _OKX, _exercises(row))


def test_two_prices_of_one_expiry_are_rejected() -> None:
    rows = ("BTC-USD-190927-8000-C", "8016.3", "exercised"), ("BTC-USD-190927-7000-C", "8017", "exercised")
    with pytest.raises(SchemaError, match="two rows at 2019-09-27T08:00:00Z with different values"):
        venues.read("okx", _OKX, _exercises(*rows))
