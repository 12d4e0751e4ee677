"""Optional packages: each is one of an extra, and where it is missing the message names the command."""

from __future__ import annotations

import ast
import functools
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import derivdata as dd
from derivdata.cli import main
from derivdata.sources.archive import open_archive
from derivdata.sources.collect.venue_feeds import VenueStream
from derivdata.sources.venues.registry import VENUES
from derivdata.support.text import import_extra

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


@functools.cache
def trees() -> list[ast.Module]:
    """Every module of the package, parsed."""
    files = sorted(Path(dd.__path__[0]).rglob("*.py"))
    return [ast.parse(path.read_text(encoding="utf-8")) for path in files]


def names(texts: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in texts}


def distributions(modules: set[str]) -> set[str]:
    """Return the distributions that provide these modules, except Python's and this library's."""
    result = packages_distributions()
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"derivdata"}
    return {canonicalize_name(result[top][0]) if top in result else top for top in tops}


def imported(tree: ast.AST) -> set[str]:
    """Return modules that a file imports by a statement, except for type checkers."""
    result: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            result.add(node.module)
        result |= imported(node)
    return result


def extras_imported() -> dict[str, str]:
    """Module to extra, of every call of `import_extra`."""
    calls = [node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    own = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "import_extra"]
    return dict([ast.literal_eval(argument) for argument in call.args[:2]] for call in own)


def test_package_imports_exactly_its_base_dependencies() -> None:
    base = names(PROJECT["dependencies"])
    assert distributions(set().union(*map(imported, trees()))) == base
    assert len(base) <= 18


def test_optional_imports_belong_to_the_named_extra() -> None:
    on_demand = extras_imported()
    assert {"shtab", "s3fs", "websockets.sync.client", "dask.array"} <= on_demand.keys()
    for module, extra in on_demand.items():
        assert distributions({module}) <= names(EXTRAS[extra]), module


def test_extra_all_contains_every_extra() -> None:
    [every] = EXTRAS["all"]
    assert sorted(Requirement(every).extras) == sorted(EXTRAS.keys() - {"all"})


@pytest.mark.parametrize(
    ("module", "call", "message"),
    [
        ("s3fs", lambda: open_archive("s3://bucket/x"), r"on s3:// needs s3fs, .*install 'derivdata\[s3\]'"),
        (
            "websockets.sync.client",
            lambda: VenueStream(VENUES["bybit"], VENUES["bybit"].stream, list, None),  # type: ignore[arg-type]
            r"reading the WebSocket channels of bybit needs websockets, .* 'derivdata\[stream\]'",
        ),
    ],
)
def test_missing_extra_raises_with_the_install_command(
    module: str, call: Callable[[], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        call()


def test_missing_extra_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == (
        "derivdata completion: derivdata completion needs shtab, which is not installed: "
        "pip install 'derivdata[completion]'\n"
    )


def test_broken_package_is_not_reported_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import what_it_needs\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="No module named 'what_it_needs'"):
        import_extra("half_installed", "serve", "a test")
