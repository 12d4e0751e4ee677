"""Code for every layer: times, argument checks, notices, atomic files, forks; and the start of local sources.

The top of the package sets the function that starts a source, and transport calls it: transport is a layer
below the sources and may not import them. This module imports nothing, so that ``import derivdata`` remains
fast.
"""

# typing.TYPE_CHECKING without typing, which takes longer to load than the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_start: "Callable[..., Any] | None" = None


def set_local(start: "Callable[..., Any]") -> None:
    """Set the function that starts a source, with its name and the options of `connect`."""
    global _start
    _start = start


def start_local(source: str, **options: "Any") -> "Any":
    """Start a source in this process, and return its running service."""
    assert _start is not None, "the package sets it when it is imported"
    return _start(source, **options)
