"""Packages that only some users need: imported where they are used, or named with what installs them."""

from __future__ import annotations

import importlib
from typing import Any


def import_extra(module: str, extra: str, use: str) -> Any:
    """Return a module of an optional package, or name the extra that installs it; `use` is what needs it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.partition(".")[0] != package:
            raise
        raise ImportError(
            f"{use} needs {package}, which is not installed: pip install 'derivdata[{extra}]'"
        ) from problem
