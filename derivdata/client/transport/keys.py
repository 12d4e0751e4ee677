"""The API key: where it is found, and an object that never shows it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import NoReturn

__all__ = ["Masked", "Secret", "find"]

_MASK = "***"
_LEAST_SECRET = 8
"""A shorter key is found in words by chance: masking it would garble them, and hide nothing."""
_REMEDY = "pass api_key=, set DERIVDATA_API_KEY, or put it into ~/.config/derivdata/key (chmod 600)"


class Masked(str):
    """A header value whose repr is masked."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(_MASK)


class Secret:
    """An API key that no repr, pickle or message shows.

    Making one never raises, so that no frame with the bare text is left in a traceback; `check` does.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = Masked(text.strip() if isinstance(text, str) else "")

    def check(self) -> None:
        """Refuse what cannot be a key.

        Raises
        ------
        ValueError
            It is empty or no text, or holds spaces, control characters or letters outside ASCII.
        """
        if not self._text or any(not 33 <= ord(c) <= 126 for c in self._text):
            raise ValueError(
                f"the API key is empty, no text, or holds characters that no key has (not shown): {_REMEDY}"
            )

    def reveal(self) -> Masked:
        """Return the key itself, for the one header that carries it."""
        return self._text

    def fingerprint(self) -> str:
        """Text that tells keys apart without telling them."""
        return hashlib.sha256(b"derivdata key\0" + self._text.encode()).hexdigest()[:32]

    def within(self, data: bytes) -> bool:
        """Return whether the key's bytes are in `data`; always False for a key under 8 characters."""
        return len(self._text) >= _LEAST_SECRET and self._text.encode() in data

    def redact(self, data: bytes) -> bytes:
        """Return `data` with every copy of the key masked, if it has 8 characters or more."""
        return data.replace(self._text.encode(), _MASK.encode()) if self.within(data) else data

    def __repr__(self) -> str:
        return f"Secret({_MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled: connect again where the work is done")


def find(given: Secret | None) -> Secret | None:
    """Return the key: the argument's, else the environment's, else the key file's; None where there is none.

    Raises
    ------
    ValueError
        The key cannot be one, or its file may be read by others.
    """
    in_environment = os.environ.get("DERIVDATA_API_KEY")
    secret = given or (Secret(in_environment) if in_environment else _from_file())
    if secret is not None:
        secret.check()
    return secret


def _from_file() -> Secret | None:
    try:
        path = Path.home() / ".config" / "derivdata" / "key"
        mode = path.stat().st_mode
    except (OSError, RuntimeError):  # no file, or a user without a home folder
        return None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"{path} may be read by others: run chmod 600 {path}")
    return Secret(path.read_text(encoding="utf-8"))
