"""What a file does not say: the error that asks for it, and what the names of file and folders state."""

from __future__ import annotations

import re
from collections.abc import Sequence

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.venues.registry import VENUES as ADAPTERS
from derivdata.tables.contracts import OPTIONS_ONLY, VENUES, contract, venue_slug


class Unclear(ArchiveError):
    """A file may be read in several ways: `option` chooses one of the `choices`."""

    def __init__(self, message: str, option: str, choices: Sequence[str]) -> None:
        super().__init__(message)
        self.option = option
        self.choices = [*choices]


_WORD = re.compile(r"[^A-Za-z0-9]+")
_FOLDERS = 4
_COINS = frozenset("BTC ETH SOL XRP BNB DOGE ADA AVAX LTC BCH".split())
"""Coins that a word of a file's name states alone; other coins need their quote currency."""


def names_in_path(source: Source) -> dict[str, str]:
    """Return the one venue and the one contract that the names of a file and its folders state."""
    parts = source.name.split("/")[-_FOLDERS:]
    words = {word.lower() for part in parts for word in _WORD.split(part)}
    venues = {venue_slug(word) for word in words if not word.isdigit()}  # 01 of a date is not the venue 01
    venues = {venue for venue in venues if venue in VENUES or venue in OPTIONS_ONLY or venue in ADAPTERS}
    stem = parts[-1].split(".")[0]
    pairs = re.findall(r"[A-Z0-9]{2,}[-_]?(?:USDT|USDC|USD)(?![A-Z])", stem)
    symbols = {contract(pair.replace("_", "-")).symbol for pair in pairs}
    if not symbols:
        symbols = {word for word in _WORD.split(stem.upper()) if word in _COINS}
    named = {"exchange": venues, "symbol": symbols}
    return {name: words.pop() for name, words in named.items() if len(words) == 1}
