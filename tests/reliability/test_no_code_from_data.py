"""Nothing that is read is ever run: no source of ours evaluates, unpickles, or hands text to a shell."""

from __future__ import annotations

import ast
import functools
import json
import operator
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
FOLDERS = ("derivdata", "tests", "docs", "notebooks", "benchmarks", "paper", ".ci")

MODULES = frozenset(
    "pickle cPickle marshal shelve dill cloudpickle joblib jsonpickle yaml ruamel torch code".split()
)
"""Modules whose reading runs what it reads, or that exist to run it."""

NAMES = frozenset(("eval", "exec", "compile", "__import__", "execfile", "breakpoint"))
"""Built-ins that run text."""

CALLS = frozenset(
    "read_pickle to_pickle read_hdf HDFStore run_path run_module full_load getoutput getstatusoutput".split()
)
"""Functions that do so, of whatever module."""

SHELLS = {("os", "system"), ("os", "popen")}
"""Functions that hand text to a shell."""

PIPES = {
    (
        "derivdata/reports/drawing.py",
        "pickle",
    ): "figures go to a process of ours and back by its pipes",
}
"""What the package needs of this: nothing that comes from a file or a network."""

ALLOWED = PIPES | {
    ("tests/bundle/test_record_replay.py", "pickle"): "asserts that a recording refuses to be pickled",
    ("tests/reliability/test_key.py", "pickle"): "looks for the key in what pickles of errors hold",
    ("tests/test_arguments.py", "pickle"): "asserts that decorated functions travel by multiprocessing",
    ("tests/reliability/pools.py", "joblib"): "asserts that its workers get right answers",
    ("tests/test_typed_front_door.py", "compile"): "runs our own stubs, which only import",
    ("tests/test_typed_front_door.py", "exec"): "runs our own stubs, which only import",
    ("tests/test_errors.py", "pickle"): "errors travel between processes of one user, by multiprocessing",
    ("tests/transport/test_answers.py", "pickle"): "asserts that provenance outlasts multiprocessing",
    ("tests/transport/test_keys.py", "pickle"): "asserts that keys and connections refuse to be pickled",
    ("notebooks/record.py", "compile"): "runs our own notebooks' cells, as a kernel does",
    ("notebooks/record.py", "eval"): "runs our own notebooks' cells, as a kernel does",
    ("notebooks/record.py", "exec"): "runs our own notebooks' cells, as a kernel does",
    ("docs/outputs.py", "compile"): "runs the code of our own pages",
    ("docs/outputs.py", "eval"): "runs the code of our own pages",
    ("docs/outputs.py", "exec"): "runs the code of our own pages",
    (
        "tests/archive/test_object_store.py",
        "pickle",
    ): "archives on S3 travel without their secret",
    ("tests/test_release.py", "yaml"): "safe_load of our own files of releases",
    ("tests/docs/test_pages.py", "compile"): "runs the code of our own pages",
    ("tests/docs/test_pages.py", "exec"): "runs the code of our own pages",
    ("tests/support/real_archive.py", "compile"): "runs the code of one of our own pages",
    ("tests/collect/test_live.py", "exec"): "runs the code of one of our own pages",
    ("tests/collect/test_live.py", "compile"): "names that page in its tracebacks",
    ("tests/support/real_archive.py", "exec"): "runs the code of one of our own pages",
}
"""What files of the project need of this, and why."""


_WORDS = MODULES | NAMES | CALLS | {"shell", "allow_pickle"} | set(map(operator.itemgetter(1), SHELLS))
_WORD = re.compile(rf"(?<!re\.)(\b|\\[nrt])({'|'.join(sorted(_WORDS))})\b")
"""What the text of a finding holds: a file without it need not be parsed."""


def findings(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What in a source could run data, and its line."""
    for node in ast.walk(tree):
        for found in _found(node):
            yield found, getattr(node, "lineno", 0)


def _found(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [n.name for n in names if n.name.partition(".")[0] in MODULES]
        case ast.ImportFrom(module=str(module), level=0, names=names):
            whole = [module] if module.partition(".")[0] in MODULES else []
            return whole + [n.name for n in names if n.name in CALLS or (module, n.name) in SHELLS]
        case ast.Name(id=name) if name in NAMES:
            return [name]
        case ast.Attribute(value=ast.Name(id=module), attr=name) if (module, name) in SHELLS:
            return [f"{module}.{name}"]
        case ast.Attribute(attr=name) if name in CALLS:
            return [name]
        case ast.Call(func=function, keywords=keywords):
            return [f"{k.arg}=True" for k in keywords if _risky(k)] + _dynamic(function, node)
    return []


def _risky(keyword: ast.keyword) -> bool:
    """An option that is not written out as False counts as on."""
    off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg in ("shell", "allow_pickle") and not off


def _dynamic(function: ast.expr, call: ast.Call) -> list[str]:
    """Modules of the list that are imported by name."""
    named = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if named != "import_module" or not call.args or not isinstance(call.args[0], ast.Constant):
        return []
    module = str(call.args[0].value)
    return [module] if module.partition(".")[0] in MODULES else []


def sources() -> list[Path]:
    return sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py") if "_build" not in p.parts)


def suspects() -> list[Path]:
    return [path for path in sources() if _WORD.search(path.read_text(encoding="utf-8"))]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def cells(notebook: Path) -> str:
    parts = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(p["source"]) for p in parts if p["cell_type"] == "code")


def embedded(tree: ast.AST) -> Iterator[ast.AST]:
    """Scripts that a source holds as text and gives to a process of its own."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and "import " in text and _WORD.search(text):
            try:
                yield ast.parse(textwrap.dedent(text))
            except SyntaxError:
                continue


def test_the_package_runs_nothing_that_it_reads() -> None:
    found = [
        (named(path), *each)
        for path in suspects()
        if named(path).startswith("derivdata/")
        for each in findings(parsed(path))
        if (named(path), each[0]) not in PIPES
    ]
    assert found == []


def test_every_use_has_a_reason_and_every_reason_a_use() -> None:
    used = set()
    for path in suspects():
        tree = parsed(path)
        scripts = embedded(tree) if path != HERE else ()
        used |= {(named(path), what) for part in (tree, *scripts) for what, _ in findings(part)}
    assert used - set(ALLOWED) == set(), "give the reason, or do without"
    assert set(ALLOWED) - used == set(), "a reason for what is not there"


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_no_notebook_does(notebook: Path) -> None:
    assert list(findings(ast.parse(cells(notebook)))) == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("eval('1')", "eval"),
        ("run = exec", "exec"),
        ("compile('1', '', 'eval')", "compile"),
        ("__import__('os')", "__import__"),
        ("import pickle", "pickle"),
        ("import os, marshal as m", "marshal"),
        ("from pickle import loads", "pickle"),
        ("from joblib.numpy_pickle import load", "joblib.numpy_pickle"),
        ("def f():\n    import yaml\n", "yaml"),
        ("importlib.import_module('shelve')", "shelve"),
        ("import_module('torch.serialization')", "torch.serialization"),
        ("pd.read_pickle('x')", "read_pickle"),
        ("from pandas import read_pickle", "read_pickle"),
        ("frame.to_pickle('x')", "to_pickle"),
        ("np.load(f, allow_pickle=True)", "allow_pickle=True"),
        ("np.load(f, allow_pickle=maybe)", "allow_pickle=True"),
        ("subprocess.run('ls', shell=True)", "shell=True"),
        ("os.system('ls')", "os.system"),
        ("from os import popen", "popen"),
    ],
)
def test_each_way_is_found(source: str, what: str) -> None:
    assert [found for found, _ in findings(ast.parse(source))] == [what]


@pytest.mark.parametrize(
    "source",
    [
        "re.compile('x')",
        "np.load(f, allow_pickle=False)",
        "from derivdata.units import x",
        "platform.system()",
    ],
)
def test_what_only_looks_like_it_is_not(source: str) -> None:
    assert list(findings(ast.parse(source))) == []


def test_all_folders_are_looked_at_and_scripts_in_texts_too() -> None:
    source = 'RUN = """\n    import pickle\n    pickle.loads(b"")\n"""'
    assert [what for tree in embedded(ast.parse(source)) for what, _ in findings(tree)] == ["pickle"]
    tops = {named(path).partition("/")[0] for path in sources()}
    assert {"derivdata", "tests", "docs", "notebooks"} <= tops
    assert len(sources()) > 300
    elsewhere = {p.name for p in ROOT.iterdir() if p.is_dir() and any(p.glob("*.py"))}
    assert elsewhere <= set(FOLDERS)
