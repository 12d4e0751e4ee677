"""Messages: escaping of foreign text, similar names, warnings at the caller, lines on the terminal."""

from __future__ import annotations

import html
import importlib
import math
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Any, TextIO

from derivdata.errors import DataNotice

_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal executes or does not show: control, direction, line separators."""
_LONGEST_TIER = 8
_SHORTEST_START = 3
_PRINTABLE_ASCII = r"\x20-\x7e"

_OTHER_WORDS = {
    "exchange": ("venues", "venue"),
    "exchanges": ("venues", "venue"),
    "coin": ("symbols", "symbol"),
    "coins": ("symbols", "symbol"),
    "asset": ("symbols", "symbol"),
    "assets": ("symbols", "symbol"),
    "htx": ("huobi",),
    "ticker": ("symbols", "symbol"),
    "tickers": ("symbols", "symbol"),
    "since": ("start",),
    "until": ("end",),
    "freq": ("resolution", "interval"),
    "frequency": ("resolution", "interval"),
    "interval": ("resolution",),
    "seed": ("rng",),
    "n": ("top", "limit"),
}
"""Terms of other libraries, mapped to arguments whose spelling is too different for a suggestion."""


_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/{1,2}", re.IGNORECASE)
_KEY_LIKE = re.compile(r"(?=.*\d)(?=.*[a-z])[\w+=.~-]{12,}", re.IGNORECASE)


def credentials_in(address: str) -> str | None:
    """Return an error text for an address with a user, password, query or fragment, else None.

    The text does not have the address, which may contain a key.
    """
    scheme = _ADDRESS.match(address.strip())
    if scheme is None:
        return None
    rest = address.strip()[scheme.end() :]
    if "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        return "the address has a user or a password (it is not shown): pass the key as api_key= instead"
    if "?" in rest or "#" in rest:
        return "the address has a query or a fragment (it is not shown): pass the address without it"
    return None


def is_like_key(text: str) -> bool:
    """Return whether a text may be a key instead of a path: one long word of letters and digits."""
    return _KEY_LIKE.fullmatch(text.strip()) is not None


def nearest_symbols(symbol: str, listed: Iterable[str]) -> list[str]:
    """Return up to three similar symbols, first those with the same first letter: BTC, not ZBT, for BTX."""
    similar = near_names(symbol, sorted(listed))
    return sorted(similar, key=lambda name: name[:1] != symbol[:1])[:3]


def near_names(wrong: str, names: Iterable[str]) -> list[str]:
    """Return the names that `wrong` may be a misspelling of, the most similar first.

    Up to 6 letters a name may differ by one edit, up to 10 by two, then by three or more. The ratio of
    ``difflib`` is more generous to short words: it suggests ``bitget`` for ``bitmex``. Ties keep the order
    of `names`.
    """
    allowed = max(1, (len(wrong) + 1) // 4)
    if len(wrong) < 2:
        allowed = 0  # one edit turns a single letter into any other
    edits = {name: _edits(wrong, name) for name in names if abs(len(name) - len(wrong)) <= allowed}
    near = [name for name, count in edits.items() if count <= allowed]
    return sorted(near, key=edits.__getitem__)


def _edits(first: str, second: str) -> int:
    """Return the number of edits between two words: insert, delete, replace, or swap two neighbours.

    This is the optimal string alignment distance.
    """
    before: list[int] = []
    previous = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        row = [i]
        for j, other in enumerate(second, start=1):
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (letter != other))
            swapped = i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other
            if swapped:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before = previous
        previous = row
    return previous[-1]


def did_you_mean(wrong: object, names: Iterable[object], otherwise: str = "") -> str:
    """Return the end of a message about an unknown name: the nearest of `names`, or `otherwise`."""
    if isinstance(names, Set):
        names = sorted(names, key=str)
    folded = {str(name).casefold(): str(name) for name in names}
    for word in _OTHER_WORDS.get(str(wrong), ()):
        if word in folded:
            return f"; did you mean {word!r}?"
    unknown = str(wrong).casefold()
    near = near_names(unknown, folded) or _with_same_start(unknown, folded)
    if not near:
        return otherwise
    return f"; did you mean {folded[near[0]]!r}?"


def _with_same_start(wrong: str, names: Iterable[str]) -> list[str]:
    """Return the names that begin with three quarters of `wrong`, as ``fee_bps`` for ``fees``."""
    letters = max(_SHORTEST_START, math.ceil(len(wrong) * 3 / 4))
    start = wrong[:letters]
    if len(start) < letters:
        return []
    matches = [name for name in names if name.startswith(start)]
    return sorted(matches, key=lambda name: (len(name), name))


def described(value: object) -> str:
    """Return the text of an object without its place in memory, which differs between runs."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def html_page(title: str, body: str, *, style: str, policy: str, head: str = "") -> str:
    """Return an HTML page with its own style; its `policy` allows neither external files nor forms."""
    forms = "base-uri 'none'; form-action 'none'"
    return escape_controls(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}; {forms}">{head}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head>\n<body>{body}</body></html>\n",
        keep="\n\t",
    )


def escape_controls(text: str, keep: str = "") -> str:
    """Replace control characters, except those in `keep`, and direction marks by their Python escapes."""
    return re.sub(f"[^{_PRINTABLE_ASCII}{re.escape(keep)}]", _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) in _HIDDEN:
        return ascii(character)[1:-1]
    return character


_PACKAGE = str(Path(__file__).resolve().parent.parent)


class HiddenKeys(dict[str, str]):
    """API keys and their tiers, in either order, whose repr does not show them.

    Tools that print the locals of a traceback print reprs. A function that takes keys wraps them before
    anything can raise.
    """

    def __repr__(self) -> str:
        return f"<{len(self)} API keys, not shown>"


def shown_tier(name: str) -> str:
    """Return the name of a tier for a message; a longer word is not shown, because it may be a key."""
    if name.isalpha() and len(name) <= _LONGEST_TIER:
        return repr(name)
    return "(not shown: it may be a key)"


def warn_caller(message: str, category: type[Warning] = DataNotice) -> None:
    """Warn at the first line outside the library."""
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def import_extra(module: str, extra: str, use: str) -> Any:
    """Return a module of an optional package; if it is missing, raise with `use` and the extra."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name is None or problem.name.partition(".")[0] != package:
            raise
        raise ImportError(
            f"{use} needs {package}, which is not installed: pip install 'derivdata[{extra}]'"
        ) from problem


def say(result: Any) -> None:
    """Print a result. Characters that the terminal cannot encode are printed as escapes."""
    _print(escape_controls(str(result), keep="\n"), sys.stdout)


def notify(message: str, program: str = "derivdata") -> None:
    """Print a notice about a result, or the error of a command, on stderr in one line."""
    _print(f"{program}: {escape_controls(message)}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
