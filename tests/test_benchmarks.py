"""The table of benchmarks from the figures of a run, and how the sides of a row are timed."""

from __future__ import annotations

from benchmarks import alternation
from benchmarks.results import WORDS, page, table
from benchmarks.row import GROWTH, Made, Row, stated


def case(group, side, median, goal, **told):
    """One case of a run; what stands in `extra_info` is the row's."""
    told = {"what": "decode", "input": "5 MB", "clock": "cpu", "part": 1.0, "goal": goal, "side": side} | told
    return {"group": group, "extra_info": told, "stats": {"median": median}}


def figures(*cases):
    return {"benchmarks": list(cases)}


OURS = case("a", "derivdata", 0.25, None, checks=[["peak", "3.5 MB", "≤ 3 MB", False]], facts=["all equal"])


def test_a_row_has_a_line_with_every_ratio_and_whether_it_is_reached():
    found = table(
        figures(
            OURS,
            case("a", "json", 2.0, ["faster", 10]),
            case("a", "decode alone", 0.1, ["within", 2.5]),
            case("a", "copy", 0.005, ["stated", None]),
        )
    )
    assert found.splitlines()[2] == (
        "| decode | 5 MB | 250 ms | json<br>decode alone<br>copy<br>peak | 2 s<br>100 ms<br>5 ms<br> "
        "| 8.00 × faster<br>2.50 × its time<br>50 × its time<br>3.5 MB | ≥ 10 ×<br>≤ 2.5 ×<br><br>≤ 3 MB "
        "| **MISSED**<br>met<br><br>**MISSED** |"
    )
    assert found.endswith("- decode, 5 MB: all equal.")


def test_the_time_of_a_sample_counts_for_the_whole():
    """A twentieth of the work in 0.5 s is 10 s, forty times ours."""
    found = table(figures(OURS, case("a", "loop", 0.5, ["faster", 30], part=0.05)))
    assert "| 10 s<br> | 40 × faster<br>3.5 MB |" in found


def growing(*medians):
    sides = ("1 ×", "4 ×", "16 ×")
    return [case("g", side, t, ["growth", 1.1]) for side, t in zip(sides, medians, strict=True)]


def test_growth_is_the_slope_of_logarithms():
    """Eightfold and 64-fold time over 4 and 16 times the input: exponent 1.5."""
    assert table(figures(*growing(0.001, 0.004, 0.016))).splitlines()[-1].endswith("| 1.00 | ≤ 1.1 | met |")
    assert (
        table(figures(*growing(0.001, 0.008, 0.064)))
        .splitlines()[-1]
        .endswith("| 1.50 | ≤ 1.1 | **MISSED** |")
    )


def test_the_page_counts_goals_and_keeps_what_people_wrote():
    written = page(figures(OURS, case("a", "json", 5.0, ["faster", 10]), *growing(1, 4, 16)), "")
    assert "2 of 3 goals are met.\n- MISSED: decode, 5 MB: 3.5 MB (peak; ≤ 3 MB)\n" in written
    assert " cores of " in written
    kept = page(figures(OURS, case("a", "json", 1.0, ["faster", 10])), f"{written}\nA word of ours.\n")
    assert "1 of 2" not in kept.split(WORDS)[0]
    assert "0 of 2 goals are met." in kept
    assert kept.endswith("A word of ours.\n")


def timed(rounds, in_turns=True):
    """The order in which two sides run, of a row of a certain number of rounds."""
    order = []
    made = Made(
        {"derivdata": lambda: order.append("a"), "pandas": lambda: order.append("b")}, in_turns=in_turns
    )
    found = alternation.medians(Row("r", "w", "g", None, {"pandas": stated()}, rounds=rounds), made)
    assert found.keys() == {"derivdata", "pandas"}
    return "".join(order)


def test_sides_run_in_turns():
    """So that a load which lasts a second is on both; where a side has a state, all its rounds come first."""
    assert timed(3) == "ababab"
    assert timed(3, in_turns=False) == "aaabbb"


def test_a_short_side_runs_often_in_a_round(monkeypatch):
    """Of two seconds that a clock tells for each call, one run is enough; of 0.1 ms, 200 make a round."""
    for step, runs in ((2.0, 1), (1e-4, 200)):
        ticks = iter(range(10**9))
        monkeypatch.setitem(alternation._CLOCKS, "cpu", lambda ticks=ticks, step=step: next(ticks) * step)
        assert timed(None) == "ab" * 2 + ("a" * runs + "b" * runs) * (5 if runs == 1 else 25)


def test_sizes_of_a_growing_input_are_sides():
    order = []
    sides = {side: (lambda side=side: order.append(side)) for side in GROWTH}
    assert list(alternation.medians(Row("g", "w", "g", None, GROWTH, rounds=2), Made(sides))) == list(GROWTH)
    assert order == [*GROWTH, *GROWTH]
