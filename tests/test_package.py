"""Rules of the top of the package: names without weight, and no I/O on import."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import derivdata as dd

HEAVY = ("pandas numpy xarray matplotlib scipy requests pyarrow starlette uvicorn dask msgspec").split()

MAX_NAMES = 280  # option strategies, sessions of stock perpetuals and their facts are the newest
"""Adding a name is a decision: a new function replaces another one."""


def test_import_loads_nothing_heavy_and_opens_nothing() -> None:
    """Nor does the path to a first table load plots and arrays."""
    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda e, a: opened.append((e, a[0])) if e.startswith(('socket', 'sqlite')) "
        "or (e == 'open' and not str(a[0]).endswith(('.py', '.pyc'))) else None)\n"
        "import derivdata\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], opened)\n"
        "derivdata.funding.history, derivdata.connect\n"
        "print([m for m in ('xarray', 'matplotlib', 'scipy', 'starlette') if m in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[] []\n[]\n"


def test_every_public_name_exists() -> None:
    assert list(dd.__all__) == sorted(dd.__all__)
    assert set(dd.__all__) <= set(dir(dd))
    for name in dd.__all__:
        assert getattr(dd, name).__doc__, name
    with pytest.raises(AttributeError, match=r"no attribute 'days'$"):
        _ = dd.days
    with pytest.raises(AttributeError, match=r"no attribute 'fundng'; did you mean 'funding'\?"):
        _ = dd.fundng


def test_no_dynamic_code_execution() -> None:
    """The linter forbids exec, eval, shells and pickles; these are methods, options and other built-ins."""
    risky = re.compile(r"__import__\(|(?<!re\.)\bcompile\(|allow_pickle|\.to_pickle|\bbreakpoint\(")
    sources = [path.read_text(encoding="utf-8") for path in Path(dd.__file__).parent.rglob("*.py")]
    assert [result for text in sources for result in risky.findall(text)] == []


def test_family_is_a_documented_module_that_lists_its_functions() -> None:
    """Each is imported by its documented name before the package has loaded it."""
    code = "".join(
        f"import derivdata.{family} as module, derivdata as dd\n"
        f"assert module is dd.{family} and module.__spec__.name == 'derivdata.{family}'\n"
        f"from derivdata.{family} import __all__ as names\n"
        "assert dir(module) == sorted(names) and all(callable(getattr(module, name)) for name in names)\n"
        for family in dd._FAMILIES
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_function_hides_the_module_of_its_name() -> None:
    """`import derivdata.x.y as m` would be a function of that name in the package `x`."""
    modules = (module.name for module in pkgutil.walk_packages(dd.__path__, "derivdata."))
    names = [name for name in modules if not name.endswith("__main__")]
    assert "derivdata.sources.collect.histories" in names
    for name in names:
        module = importlib.import_module(name)
        parent, _, last = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(parent), last, module), types.ModuleType), name


def test_completion_shows_public_names_only() -> None:
    """`dd.module.<TAB>` and `dd.analysis.module.<TAB>`."""
    fronts = [getattr(dd, name) for name in dd.__all__]
    fronts += [getattr(dd.analysis, name) for name in dd.analysis.__all__]
    modules = [module for module in fronts if isinstance(module, types.ModuleType)]
    assert len(modules) > 30
    for module in modules:
        assert dir(module) == sorted(module.__all__), module.__name__


def _public(module: types.ModuleType, path: str) -> dict[int, str]:
    """Return the functions, classes and constants of a module and its submodules, each by one name."""
    results: dict[int, str] = {}
    for name in module.__all__:
        value = getattr(module, name)
        own = isinstance(value, types.ModuleType) and value.__name__.startswith("derivdata")
        inside = _public(value, f"{path}.{name}") if own else {id(value): f"{path}.{name}"}
        results = inside | results
    return results


def test_number_of_public_names_is_limited() -> None:
    names = _public(dd, "dd").values()
    assert {"dd.funding.history", "dd.analysis.smile.fit", "dd.plot.smile"} <= {*names}
    assert len(names) <= MAX_NAMES, sorted(names)
