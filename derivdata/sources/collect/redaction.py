"""Bodies of venues without what tells who asked: for reports of errors.

No key is ever sent, but an answer may name the address that asked, or accounts whose trades it lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

__all__ = ["REDACTED", "redacted"]

REDACTED = "[redacted]"
_ROWS = 20
"""Rows of a list that are kept, so that a report stays small."""
_TEXT = 2_000
"""Characters that are kept of a body that is not JSON."""

_PRIVATE = re.compile(
    r"((client|remote|source|your)[-_]?)?(account|address|client|cookie|device|email|ip|liquidator|maker|nick|owner|password|secret|session"
    r"|signature|signer|subaccount|taker|token|trace|trader|uid|user|wallet)"
    r"(s|_?(id|ids|name|addr|address|hash|key|order_?id))?",
    re.IGNORECASE,
)
"""Names of fields whose text is removed; numbers and flags of these names, such as ``maker: true``, stay."""
_REQUEST = re.compile(r"(x-)?(request|trace|correlation|ray|span|cf-?ray)[-_]?(id|no)?", re.IGNORECASE)
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b[\w.+-]+@[\w-]+\.[\w.]+\b",  # e-mail
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",  # IPv4
        r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4})*(?![\w:])",  # IPv6
        r"(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}:?)*(?![\w:])",  # IPv6, shortened
        r"\b0x[0-9a-f]{40,}\b",  # account or transaction of a chain
        r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{32,}\b",  # key or hash
        r"\b(?:eyJ|Bearer )[\w.+/=-]{20,}",  # token
        r"\b(?:dydx1|inj1|cosmos1|paradex1)[0-9a-z]{30,}\b",
    )
)


def redacted(body: bytes) -> tuple[Any, list[str]]:
    """Return a body without private values, and what was removed or cut.

    Parameters
    ----------
    body
        An answer as it came: JSON, or a page.

    Returns
    -------
    tuple
        The body as JSON has it, or its text; and one note per kind of change.
    """
    notes: dict[str, int] = {}

    def count(kind: str) -> None:
        notes[kind] = notes.get(kind, 0) + 1

    try:
        found = json.loads(body)
    except ValueError:
        text = body.decode(errors="replace")
        if len(text) > _TEXT:
            count(f"a text of {len(text)} characters was cut")
        found = _without(text[:_TEXT], count)
    else:
        found = _cleaned(found, "", count)
    return found, [kind if times == 1 else f"{kind} ({times} times)" for kind, times in notes.items()]


def _cleaned(value: Any, name: str, count: Callable[[str], None]) -> Any:
    if isinstance(value, dict):
        return {_without(key, count): _cleaned(inner, key, count) for key, inner in value.items()}
    if isinstance(value, list):
        if len(value) > _ROWS:
            count(f"a list of {len(value)} rows was cut to {_ROWS}")
        return [_cleaned(inner, name, count) for inner in value[:_ROWS]]
    is_identifier = isinstance(value, int) and not isinstance(value, bool) and value > _LARGEST_FIGURE
    is_private = _PRIVATE.fullmatch(name) or _REQUEST.fullmatch(name)
    if is_private and value != "" and (isinstance(value, str) or is_identifier):
        count(f"{name} was removed")
        return REDACTED
    return _without(value, count) if isinstance(value, str) else value


_LARGEST_FIGURE = 9_999
"""A larger number in a field of a private name is an identifier, and no share or count."""


def _without(text: str, count: Callable[[str], None]) -> str:
    for pattern in _PATTERNS:
        text, times = pattern.subn(REDACTED, text)
        for _ in range(times):
            count("an address, a key or an account in a text was removed")
    return text
