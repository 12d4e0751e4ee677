"""Text of others (a service, a file name) made safe to show."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["escape_controls"]


def __dir__() -> list[str]:
    return __all__


_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal obeys or does not show: control, direction, line separators."""
_PRINTABLE_ASCII = r"\x20-\x7e"


def escape_controls(text: str, keep: str = "") -> str:
    r"""Replace control characters and changes of direction by their Python escapes.

    Parameters
    ----------
    text
        Any text, also with lone surrogates.
    keep
        Control characters that stay, such as ``"\n\t"``.

    Examples
    --------
    >>> print(escape_controls("red \x1b[31m, Märkte 日本"))
    red \x1b[31m, Märkte 日本
    """
    return re.sub(f"[^{_PRINTABLE_ASCII}{re.escape(keep)}]", _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return ascii(character)[1:-1] if unicodedata.category(character) in _HIDDEN else character
