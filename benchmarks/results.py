"""From the figures of the rows to RESULTS.md; the text at its end is preserved."""

from __future__ import annotations

import itertools
import math
import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["WORDS", "page", "table"]

WORDS = "## Misses and findings"
"""Heading from which RESULTS.md is written by hand."""

_OURS = "derivdata"
_PACKAGES = """numpy pandas xarray scipy pyarrow msgspec requests-cache starlette uvicorn dask bottleneck
orjson vollib lets-be-rational fast-vollib numba""".split()
_HEAD = """| what | input | derivdata | against | its time | ratio | reach | |
|---|---|---|---|---|---|---|---|"""
_GROWTH_HEAD = """Time over size, once, four and sixteen times an input:

| what | input | 1 × | 4 × | 16 × | exponent | reach | |
|---|---|---|---|---|---|---|---|"""


class _Line(NamedTuple):
    """One comparison of a row; `met` is None without a target."""

    against: str
    time: str
    ratio: str
    reach: str
    met: bool | None


class _Row(NamedTuple):
    what: str
    input: str
    own: str
    lines: list[_Line]
    facts: list[str]

    def told(self) -> str:
        columns = zip(*((*line[:4], _mark(line.met)) for line in self.lines), strict=True)
        return _cells(self.what, self.input, self.own, *map("<br>".join, columns))


class _Growth(NamedTuple):
    """Growth of time with size, as an exponent, and its limit."""

    what: str
    input: str
    seconds: list[float]
    exponent: float
    bound: float

    @property
    def met(self) -> bool:
        return self.exponent <= self.bound

    def told(self) -> str:
        times = map(duration, self.seconds)
        reach = f"≤ {self.bound:g}"
        return _cells(self.what, self.input, *times, f"{self.exponent:.2f}", reach, _mark(self.met))


def page(figures: Mapping[str, Any], before: str) -> str:
    """RESULTS.md from the figures of a whole run; `before` is the page as it was."""
    _, heading, words = before.partition(WORDS)
    return f"""# Results

Written by `make bench`. All sides run alternately in one process, and times are medians of the rounds. Only
ratios are comparable between machines. Times are processor times over all threads of the process. `wall`
marks elapsed times, for sides that wait, write or have two threads; `children` marks times of child
processes.

{_summary(figures)}

{table(figures)}

## Measured with

{_machine()}

{heading or WORDS}{words or chr(10)}"""


def table(figures: Mapping[str, Any]) -> str:
    """The rows as Markdown: times, growth and peers."""
    read = [_read(cases) for cases in _groups(figures)]
    rows = [each for each in read if isinstance(each, _Row)]
    growing = [each for each in read if isinstance(each, _Growth)]
    parts = [
        "\n".join([_HEAD, *(row.told() for row in rows)]) if rows else "",
        "\n".join([_GROWTH_HEAD, *(each.told() for each in growing)]) if growing else "",
        "\n".join(f"- {row.what}, {row.input}: {'; '.join(row.facts)}." for row in rows if row.facts),
    ]
    return "\n\n".join(filter(None, parts))


def _groups(figures: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    each = itertools.groupby(figures["benchmarks"], key=lambda case: case["group"])
    return [list(cases) for _, cases in each]


def _read(cases: Sequence[Mapping[str, Any]]) -> _Row | _Growth:
    goal = cases[0]["extra_info"]["goal"]
    return _growing(cases) if goal is not None and goal[0] == "growth" else _compared(cases)


def _compared(cases: Sequence[Mapping[str, Any]]) -> _Row:
    own = next(case for case in cases if case["extra_info"]["side"] == _OURS)
    told, ours = own["extra_info"], _median(own)
    lines = [_against(case, ours) for case in cases if case is not own]
    lines += [_Line(what, "", value, reach, met) for what, value, reach, met in told["checks"]]
    clock = "" if told["clock"] == "cpu" else f" ({told['clock']})"
    return _Row(told["what"], told["input"], duration(ours) + clock, lines, told["facts"])


def _against(case: Mapping[str, Any], ours: float) -> _Line:
    told, theirs = case["extra_info"], _median(case)
    kind, bound = told["goal"]
    name, time = told["side"], duration(theirs)
    if kind == "faster":
        return _Line(
            name, time, f"{_short(theirs / ours)} × faster", f"≥ {bound:g} ×", theirs / ours >= bound
        )
    ratio = f"{_short(ours / theirs)} × its time"
    if kind == "stated":
        return _Line(name, time, ratio, "", None)
    return _Line(name, time, ratio, f"≤ {bound:g} ×", ours / theirs <= bound)


def _growing(cases: Sequence[Mapping[str, Any]]) -> _Growth:
    told = cases[0]["extra_info"]
    seconds = [_median(case) for case in cases]
    sizes = [float(case["extra_info"]["side"].split()[0]) for case in cases]
    return _Growth(told["what"], told["input"], seconds, _slope(sizes, seconds), told["goal"][1])


def _slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of time over size, by least squares of their logarithms."""
    if len(sizes) < 2:
        return math.nan
    logs = [[math.log(value) for value in values] for values in (sizes, seconds)]
    return statistics.linear_regression(*logs).slope


def _summary(figures: Mapping[str, Any]) -> str:
    marks = list(_marks(figures))
    missed = [what for what, met in marks if not met]
    told = f"{len(marks) - len(missed)} of {len(marks)} goals are met."
    return "\n".join([told, *(f"- MISSED: {what}" for what in missed)])


def _marks(figures: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Every goal in words, and whether it is met."""
    for row in map(_read, _groups(figures)):
        if isinstance(row, _Growth):
            yield (
                f"{row.what}, {row.input}: grows with exponent {row.exponent:.2f} (≤ {row.bound:g})",
                row.met,
            )
            continue
        for line in row.lines:
            if line.met is not None:
                yield f"{row.what}, {row.input}: {line.ratio} ({line.against}; {line.reach})", line.met


def _machine() -> str:
    cores = f"{os.cpu_count()} cores of {_processor()}"
    installed = {d.metadata["Name"].lower().replace("_", "-"): d.version for d in metadata.distributions()}
    versions = (f"{name} {installed[name]}" for name in _PACKAGES if name in installed)
    return f"{cores}; Python {platform.python_version()}; {', '.join(versions)}."


def _processor() -> str:
    """Return the processor's name, as Linux gives it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "an unknown processor"


def _median(case: Mapping[str, Any]) -> float:
    """Seconds for the whole input; a sample's time is divided by the part that it is."""
    return float(case["stats"]["median"] / case["extra_info"]["part"])


def duration(seconds: float) -> str:
    """Seconds with three digits and a unit."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, size = next((each for each in units if seconds >= each[1]), units[-1])
    return f"{seconds / size:.3g} {unit}"


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.2g}" if ratio >= 10 else f"{ratio:.2f}"


def _mark(met: bool | None) -> str:
    return "" if met is None else "met" if met else "**MISSED**"


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
