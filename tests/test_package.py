"""What the top of the package promises: names without weight, and no I/O on import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import derivdata as dd

HEAVY = (
    "pandas numpy xarray matplotlib scipy requests requests_cache pyarrow starlette uvicorn dask msgspec"
).split()


def test_import_loads_nothing_heavy_and_opens_nothing() -> None:
    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda e, a: opened.append((e, a[0])) if e.startswith(('socket', 'sqlite')) "
        "or (e == 'open' and not str(a[0]).endswith(('.py', '.pyc'))) else None)\n"
        "import derivdata\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], opened)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] []"


def test_every_public_name_is_there() -> None:
    assert list(dd.__all__) == sorted(dd.__all__)
    assert set(dd.__all__) <= set(dir(dd))
    for name in dd.__all__:
        assert getattr(dd, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'days'"):
        _ = dd.days


def test_the_path_to_a_first_table_loads_no_plots_and_no_arrays() -> None:
    code = (
        "import sys, derivdata as dd\n"
        "dd.funding.history, dd.connect\n"
        "print([m for m in ('xarray', 'matplotlib', 'scipy', 'starlette') if m in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_function_of_the_families_is_documented_in_numpydoc() -> None:
    root = Path(dd.__file__).parent
    for path in sorted([*(root / "fetch").glob("*.py"), *(root / "analysis").rglob("*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = {
            constant.value
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
            for constant in ast.walk(node.value)
            if isinstance(constant, ast.Constant)
        }
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in public:
                assert ast.get_docstring(node), f"{path.name}: {node.name}"
