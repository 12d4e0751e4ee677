"""No result depends on the machine's clock: `derivdata.asof` is the clock; one place reads the machine's."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "derivdata"
ASKED = re.compile(
    r"\.(now|today|utcnow)\(|\(['\"](now|today)['\"]"
    r"|\btime\.(time|time_ns|localtime|gmtime|ctime|asctime|strftime|clock_gettime)\b|from time import"
)


def lines_with(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Module and line of each place of the package that has a pattern, but in comments and docstrings."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return [
        (path.relative_to(PACKAGE).as_posix(), line.strip())
        for path, text in texts.items()
        for line in re.sub(r'""".*?"""|#[^\n]*', "", text, flags=re.DOTALL).splitlines()
        if pattern.search(line)
    ]


def test_only_one_function_reads_the_system_clock() -> None:
    for code in ("dt.date.today()", "pd.Timestamp.now('UTC')", "np.datetime64('today')", "time.time_ns()"):
        assert ASKED.search(code)
    assert lines_with(ASKED) == [("support/times.py", "return dt.datetime.now(dt.UTC)")]


def test_system_clock_is_used_only_by_cache_collector_and_future_checks() -> None:
    assert {name for name, _ in lines_with(re.compile(r"\bmachine_now\b"))} == {
        "support/times.py",
        "client/transport/adapter.py",
        "client/transport/settings.py",
        "sources/collect/session.py",
        "sources/archive/audit.py",
        "sources/archive/importing/adjustments.py",
    }
