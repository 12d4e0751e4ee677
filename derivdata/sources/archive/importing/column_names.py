"""Meanings of the names of columns, in twelve languages; ``names.toml`` lists them."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from functools import cache, lru_cache
from pathlib import Path

_LETTERS = str.maketrans({"ı": "i", "ł": "l", "ß": "ss", "ø": "o"})
"""Letters that are not one of ASCII with an accent."""


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a name in lower case without accents and separators."""
    decomposed = unicodedata.normalize("NFKD", name.lower().translate(_LETTERS))
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFC", letters))


@cache
def names_by_meaning() -> dict[str, list[str]]:
    """Return the plain names of each meaning, the first of which counts where a file has several."""
    listed: dict[str, str] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
    return {meaning: [plain_name(name) for name in names.split()] for meaning, names in listed.items()}


@cache
def _meanings() -> dict[str, str]:
    meanings: dict[str, str] = {}
    for meaning, names in names_by_meaning().items():
        for name in names:
            meanings.setdefault(name, meaning)
    return meanings


def meaning_of(name: str) -> str | None:
    """Return the meaning of a column's name; None for another name."""
    return _meanings().get(plain_name(name))
