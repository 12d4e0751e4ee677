"""The table of benchmarks from the figures of a run, and how the sides of a row are timed."""

from __future__ import annotations

from benchmarks import alternation
from benchmarks.results import WORDS, page
from benchmarks.row import Made, Row, stated


def case(group, side, median, goal, **told):
    """One case of a run; the row's figures are in `extra_info`."""
    told = {"what": "decode", "input": "5 MB", "clock": "cpu", "part": 1.0, "goal": goal, "side": side} | told
    return {"group": group, "extra_info": told, "stats": {"median": median}}


OURS = case("a", "derivdata", 0.25, None, checks=[["peak", "3.5 MB", "≤ 3 MB", False]], facts=["all equal"])


def test_results_page_has_every_ratio_and_preserves_manual_text():
    """A twentieth of the work in 0.1 s is 2 s; 8 and 64 times the time of 4 and 16 times the input: 1.5."""
    growing = [case("g", f"{n} ×", n**1.5, ["growth", 1.1]) for n in (1, 4, 16)]
    json = case("a", "json", 0.1, ["faster", 10], part=0.05)
    alone = case("a", "decode alone", 0.1, ["within", 2.5])
    written = page({"benchmarks": [OURS, json, alone, *growing]}, "")
    assert (
        "| decode | 5 MB | 250 ms | json<br>decode alone<br>peak | 2 s<br>100 ms<br> "
        "| 8.00 × faster<br>2.50 × its time<br>3.5 MB | ≥ 10 ×<br>≤ 2.5 ×<br>≤ 3 MB "
        "| **MISSED**<br>met<br>**MISSED** |"
    ) in written
    assert "| 1.50 | ≤ 1.1 | **MISSED** |" in written
    assert "1 of 4 goals are met.\n- MISSED: decode, 5 MB: " in written
    assert "- decode, 5 MB: all equal." in written
    kept = page({"benchmarks": [OURS, alone]}, f"{written}\nA word of ours.\n")
    assert "1 of 2 goals are met." in kept.split(WORDS)[0]
    assert kept.endswith("A word of ours.\n")


def test_compared_libraries_run_alternately():
    """So that a load which lasts a second is on both; where a side has a state, all its rounds come first."""
    for in_turns, expected in ((True, "ababab"), (False, "aaabbb")):
        order = []
        sides = {
            "derivdata": lambda order=order: order.append("a"),
            "b": lambda order=order: order.append("b"),
        }
        row = Row("r", "w", "g", None, {"b": stated()}, rounds=3)
        assert alternation.medians(row, Made(sides, in_turns=in_turns)).keys() == {"derivdata", "b"}
        assert "".join(order) == expected
