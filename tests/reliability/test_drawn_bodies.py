"""Bodies of venues with a drawn fault: rejected, reported, harmless, or of a kind that may be silent."""

from __future__ import annotations

import copy
import json
import random
import warnings
from functools import cache
from typing import Any

import derivdata as dd
from derivdata.errors import DataNotice, DerivdataError
from tests.reliability.drawn_bodies import KINDS, Kind
from tests.reliability.drawn_changes import Unfit
from tests.reliability.promises import SOAK
from tests.support.shared import shared_path
from tests.venues import test_recorded as recorded
from tests.venues import test_wrong_bodies as histories
from tests.venues.test_each_value import Told

_RATE = "a rate has any size and sign, and one venue has no peers in its own body"
_TWO = "the two are of one kind and size"
_ROWS = "a list states neither its names nor its number of rows"
_TIME = "another time before now is as good, if it is on the grid"
_AMOUNT = "an amount that nothing in the body repeats"
_FLOOR = "rates repeat the interest of the venue's formula"
REASONS: dict[str, str] = {
    "a field in another unit": _AMOUNT,
    "prices in another unit": "a premium of an option without its underlying",
    "some rows in another unit": "a single rate that is small or large, as in a squeeze",
    "contracts for coins": _AMOUNT,
    "USD for coins": _AMOUNT,
    "rates in percent": _RATE,
    "rates in basis points": _RATE,
    "rates of 8 hours for 1": _RATE,
    "rates of a year": _RATE,
    "percent for fraction": "a change of a day is small or large",
    "another interval": "each of 1, 2, 4 and 8 hours is an interval",
    "intervals in another unit": "the interval is missing in the table",
    "times by an hour": _TIME,
    "times of another zone": _TIME,
    "times of another day": _TIME,
    "bids for asks": "sizes of both sides are alike",
    "two fields exchanged": _TWO,
    "one field in another": _TWO,
    "sides exchanged": "nothing else states who bought",
    "a row is missing": _ROWS,
    "a third of the rows is missing": _ROWS,
    "a page again": f"a short page of few distinct values: {_FLOOR}",
    "rows again": _ROWS,
    "rows again with other figures": "a level of a book may be in two parts",
    "stale rows": _FLOOR,
    "figures of earlier rows": "a delay, which only other venues show",
    "figures of another symbol": _TWO,
    "another name": "another coin has such rows, too",
    "zeros": "a rate of 0, in few rows",
    "zeros in some rows": "a market without trades, or a rate of 0",
    "placeholders": "a small amount or rate",
    "another sign": "rates and changes have any sign",
    "rates of another sign": _RATE,
    "another order": "rates in any order are as likely; levels of a book are sorted",
    "limited figures": f"few rows, or {_FLOOR}",
    "sums": _AMOUNT,
    "inverse figures": _AMOUNT,
}
"""Kinds of which some draws are silent, with the reason."""
SILENT = {
    "a field in another unit",
    "some rows in another unit",
    "contracts for coins",
    "rates of 8 hours for 1",
    "rates of a year",
    "percent for fraction",
    "times by an hour",
    "times of another day",
    "two fields exchanged",
    "sides exchanged",
    "a row is missing",
    "a third of the rows is missing",
    "a page again",
    "figures of earlier rows",
    "figures of another symbol",
    "another name",
    "zeros",
    "zeros in some rows",
    "another sign",
    "rates of another sign",
    "another order",
    "limited figures",
    "sums",
}
"""Kinds with a silent draw from `_SEED`; a rule that goes or comes changes the list."""
_SEED = 20_261_130
_DRAWS = 3
_LONGEST = 150_000  # characters of a body that is read as it is


@cache
def told_of(name: str) -> Told:
    """Return a recorded body, or a history of `test_wrong_bodies`, as a collector gets it."""
    if name in histories.BODIES:
        return Told(*histories.BODIES[name], {})
    row = next(row for row in recorded.listed() if row["file"] == name)
    body = json.loads(recorded.body_of(name))
    if len(json.dumps(body)) > _LONGEST:
        body = recorded.shortened(body)
    return Told(row["exchange"], recorded.request_of(name), body, recorded.context_of(name))


def notices(told: Told, body: Any) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dd.venues.read(told.venue, told.request, json.dumps(body), at=told.now, context=told.context)
    return {str(warning.message) for warning in caught if issubclass(warning.category, DataNotice)}


def outcome(told: Told, kind: Kind, seed: int) -> str:
    """Return "unfit", "harmless", "detected" or "silent".

    A change is detected if a collector with the body of a minute before rejects or reports it, or if
    `dd.venues.read` does.
    """
    true = told.body["$"]
    body = copy.deepcopy(true)
    try:
        kind(random.Random(seed), body)
    except Unfit:
        return "unfit"
    if body == true:
        return "unfit"
    result = told.outcome(lambda changed, _: changed.update({"$": body}))
    if result in ("seen", "same"):
        return "detected" if result == "seen" else "harmless"
    try:
        messages = notices(told, body) - notices(told, true)
    except DerivdataError:
        return "detected"
    return "detected" if messages else "silent"


def drawn_names(rng: random.Random) -> list[str]:
    """Return all bodies in drawn order, every fourth one a history."""
    files = [row["file"] for row in recorded.listed() if row["what"] != "error"]
    rng.shuffle(files)
    names: list[str] = []
    for place, file in enumerate(files):
        names.append(file)
        if place % 3 == 2:
            names.append(rng.choice(sorted(histories.BODIES)))
    return names


def test_drawn_faults_of_venues_are_detected_or_listed_with_a_reason() -> None:
    shared_path("data/venues/what.csv")
    found: dict[str, list[str]] = {}
    for number, (title, kind) in enumerate(KINDS.items()):
        rng = random.Random(1000 * _SEED + number)
        results = found.setdefault(title, [])
        for name in drawn_names(rng):
            result = outcome(told_of(name), kind, rng.randrange(2**31))
            if result in ("detected", "silent"):
                results.append(result)
            if len(results) == _DRAWS * (6 if SOAK else 1):
                break
    silent = {title for title, results in found.items() if "silent" in results}
    assert sum(map(len, found.values())) >= 100
    assert silent <= REASONS.keys()
    if not SOAK:
        assert silent == SILENT
