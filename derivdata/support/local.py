"""Sources that run in this process: the top of the package says who starts them, and transport asks.

Transport lies below every source and imports none. Nothing is imported here, so that the top stays light.
"""

# typing.TYPE_CHECKING without typing, which takes longer to load than the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_start: "Callable[..., Any] | None" = None


def set_local(start: "Callable[..., Any]") -> None:
    """Set what starts a source: called with its name and the options of `connect`."""
    global _start
    _start = start


def start_local(source: str, **options: "Any") -> "Any":
    """Start a source in this process, and return the service that answers for it."""
    assert _start is not None, "the package sets it when it is imported"
    return _start(source, **options)
