"""The error that asks for what a file does not say."""

from __future__ import annotations

from collections.abc import Sequence

from derivdata.errors import ArchiveError


class Unclear(ArchiveError):
    """A file may be read in several ways: `option` chooses one of the `choices`."""

    def __init__(self, message: str, option: str, choices: Sequence[str]) -> None:
        super().__init__(message)
        self.option = option
        self.choices = [*choices]
