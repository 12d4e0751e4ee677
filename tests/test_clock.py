"""No result depends on the machine's clock: `derivdata.asof` is the clock; one place reads the machine's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "derivdata"

METHODS = {"now", "today", "utcnow"}
OF_TIME = {"time", "time_ns", "localtime", "gmtime", "ctime", "asctime", "strftime"}
OF_CLOCKS = {"clock_gettime", "clock_gettime_ns"}
PARSERS = {"Timestamp", "datetime64", "to_datetime", "DatetimeIndex", "Period"}


def asked(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every place that reads a wall clock."""
    aliases = {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and reads_clock(node, aliases):
            yield node.lineno, ast.unparse(node)


def reads_clock(call: ast.Call, aliases: dict[str, str | None]) -> bool:
    if isinstance(call.func, ast.Attribute):
        name = call.func.attr
        if name in METHODS | OF_CLOCKS or (name in OF_TIME and ast.unparse(call.func.value) == "time"):
            return True
    elif isinstance(call.func, ast.Name):
        name = call.func.id
        if aliases.get(name) == "time" and name in OF_TIME | OF_CLOCKS:
            return True
    else:
        return False
    words = [a.value for a in call.args if isinstance(a, ast.Constant)]
    return name in PARSERS and any(w in METHODS for w in words)


@pytest.mark.parametrize(
    "code",
    [
        "datetime.datetime.now(tz)",
        "dt.date.today()",
        "datetime.utcnow()",
        "pd.Timestamp.now('UTC')",
        "pd.Timestamp.utcnow()",
        "pd.Timestamp('now')",
        "np.datetime64('today')",
        "pd.to_datetime('now', utc=True)",
        "time.time()",
        "time.time_ns()",
        "time.gmtime()",
        "time.clock_gettime(0)",
        "from time import time\ntime()",
    ],
)
def test_every_way_to_ask_is_seen(code: str) -> None:
    assert list(asked(ast.parse(code)))


def modules(word: str) -> Iterator[tuple[str, ast.Module]]:
    """Those of the package whose text has `word`, a pattern."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if re.search(word, text := path.read_text(encoding="utf-8")):
            yield str(path.relative_to(PACKAGE)), ast.parse(text)


def test_one_place_asks_the_machine_for_the_time() -> None:
    word = rf"\b(({'|'.join(METHODS)})\b|(from|import) time\b)"
    found = [f"{name}: {code}" for name, tree in modules(word) for _, code in asked(tree)]
    assert found == ["support/times.py: dt.datetime.now(dt.UTC)"]


def test_the_machines_time_is_for_the_cache_for_collecting_and_for_stamps_of_the_future_only() -> None:
    users = {name for name, tree in modules("machine_now") if "machine_now" in ast.unparse(tree)}
    assert users == {
        "support/times.py",
        "client/transport/settings.py",
        "sources/collect/clock.py",
        "sources/archive/audit.py",
    }
