"""Tell people about requests: warnings, deprecations, a progress bar."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from typing import TypeVar

from derivdata.client.transport.response import Response, plain_text
from derivdata.errors import DataNotice, DeprecationNotice
from derivdata.support.notices import warn_caller
from derivdata.tables.endpoints import Request, endpoint_of

T = TypeVar("T")

NOTICE_LENGTH = 300
"""Most characters of a notice that are shown."""

_DEPRECATION = ("Deprecation", "Sunset", "Link", "Warning")
_deprecated: set[tuple[str, str]] = set()
"""Source and endpoint of every deprecation that a warning was given for."""


def notify(about: Request | str, notice: str, category: type[Warning] = DataNotice) -> None:
    """Warn the caller of the library of something about a request or a path."""
    warn_caller(f"{about}: {notice}", category)


def warn_deprecated(response: Response) -> None:
    """Warn that an endpoint of a source, or the way in which it was requested, will end; once for each."""
    path = response.request.path
    endpoint = endpoint_of(path)
    about = response.source, path if endpoint is None else endpoint.path
    if ("Deprecation" in response.headers or "Sunset" in response.headers) and about not in _deprecated:
        _deprecated.add(about)
        headers = response.headers
        text = "; ".join(f"{name}: {headers[name]}" for name in _DEPRECATION if name in headers)
        notify(path, plain_text(text, NOTICE_LENGTH), DeprecationNotice)


def progress(items: Iterable[T], *, total: int, label: str) -> Iterable[T]:
    """Return `items`, with a bar on a terminal, and in a notebook where ipywidgets can draw one.

    Without ipywidgets a bar would be a warning and lines of red text: a notebook is quiet then.
    """
    drawn = _in_notebook() and importlib.util.find_spec("ipywidgets") is not None
    if total < 2 or not (drawn or sys.stderr.isatty()):
        return items
    from tqdm.auto import tqdm

    return tqdm(items, total=total, desc=label, leave=False)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in running.config
