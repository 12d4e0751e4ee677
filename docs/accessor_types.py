"""Types of the methods of ``.dd``; run ``python docs/accessor_types.py`` after a change of `KINDS`."""

from __future__ import annotations

import inspect
from collections import Counter
from operator import attrgetter
from pathlib import Path

import derivdata as dd
from derivdata import accessors

__all__ = ["FILE", "types_text"]

FILE = Path(accessors.__file__).with_name("methods.py")
_HEAD = '''"""Types of the methods of ``.dd``, for type checkers; ``docs/accessor_types.py`` writes this file.

A class has the methods of all kinds of an object, since a type checker does not see which columns and
variables it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import derivdata as dd

__all__ = ["DataArrayMethods", "DataFrameMethods", "DatasetMethods"]

D = TypeVar("D")
P = ParamSpec("P")
R = TypeVar("R")


class _Method(Generic[P, R]):
    """A function whose first argument is the object."""

    def __init__(self, function: Callable[Concatenate[D, P], R]) -> None:
        self._function: Callable[..., R] = function

    def __get__(self, methods: Any, owner: type) -> Callable[P, R]:
        raise NotImplementedError("methods of .dd are made at run time by derivdata.accessors.Accessor")
'''


def types_text() -> str:
    """Return the text of the file, from `accessors.KINDS`."""
    classes = [_HEAD]
    for kind in ("DataArray", "DataFrame", "Dataset"):
        paths = sorted({path for k in accessors.KINDS if k.type == kind for path in k.functions})
        families: dict[str, dict[str, str]] = {}
        for path in paths:
            module, _, name = path.rpartition(".")
            family = module.rpartition(".")[2]
            if family not in ("", "analysis"):
                families.setdefault(family, {})[name] = path
        for alias, name in accessors.PLOT_ALIASES.items():
            if name in families["plot"]:
                families["plot"][alias] = families["plot"][name]
        # 1. A class for each family.
        for family, functions in families.items():
            classes.append(_class(f"_{kind}{_title(family)}", f"``.dd.{family}``.", _methods(functions)))
        # 2. The families, and the functions whose name no other module has.
        unfamiliar = [path for path in paths if not path.startswith("plot.")]
        counts = Counter(path.rpartition(".")[2] for path in unfamiliar)
        unique = {path.rpartition(".")[2]: path for path in unfamiliar}
        flat = {name: path for name, path in unique.items() if counts[name] == 1}
        lines = [f"{family}: _{kind}{_title(family)}" for family in sorted(families) if family not in flat]
        classes.append(
            _class(
                f"{kind}Methods",
                f"Methods of the accessor ``.dd`` of a {kind}, with types.",
                [*lines, *_methods(flat)],
            )
        )
    return "\n\n".join(classes)


def _class(name: str, doc: str, lines: list[str]) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f'class {name}:\n    """{doc}"""\n\n{body}\n'


def _methods(functions: dict[str, str]) -> list[str]:
    lines = []
    for name, path in sorted(functions.items()):
        function = attrgetter(path)(dd)
        parameters = inspect.signature(function).parameters.values()
        # mypy takes options by name for a second way to pass the object
        has_options = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        remark = "  # type: ignore[arg-type]" if has_options else ""
        lines.append(f"{name} = _Method(dd.{path}){remark}")
    return lines


def _title(family: str) -> str:
    return family.title().replace("_", "")


if __name__ == "__main__":
    FILE.write_text(types_text(), encoding="utf-8")
