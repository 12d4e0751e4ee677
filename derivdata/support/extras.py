"""Packages that only some users need: imported where they are used, or named with what installs them."""

from __future__ import annotations

import importlib
from typing import Any


def import_extra(module: str, extra: str, use: str) -> Any:
    """Return a module of an optional package.

    Parameters
    ----------
    module
        Its full name, such as ``"dask.array"``.
    extra
        The extra of this library that installs it.
    use
        What needs it, for the message: ``"an archive on s3://"``.

    Raises
    ------
    ImportError
        The package is not installed. That one of its own imports fails is raised as it is.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.partition(".")[0] != package:
            raise
        raise ImportError(
            f"{use} needs {package}, which is not installed: pip install 'derivdata[{extra}]'"
        ) from problem
