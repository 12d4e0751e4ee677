"""Parse values of options, and print results on the terminal."""

from __future__ import annotations

import argparse
import sys
from typing import Any, TextIO

from derivdata.support.text import escape_controls


class FeesAction(argparse.Action):
    """Parse costs by venue, such as ``4 binance=2.5``; the bare number applies to all other venues."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        """Store the costs."""
        try:
            pairs = [(name, float(fee)) for name, _, fee in (word.rpartition("=") for word in values)]
        except ValueError:
            parser.error(f"--fee-bps must be numbers [bps] or VENUE=BPS, got {' '.join(values)!r}")
        setattr(namespace, self.dest, {name or "others": fee for name, fee in pairs})


class PairsAction(argparse.Action):
    """Collect ``NAME=VALUE`` options into a dict; a repeated name is an error."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        """Add one pair."""
        name, value = values
        pairs: dict[str, str] = getattr(namespace, self.dest)
        if name in pairs:
            parser.error(f"{self.option_strings[0]} must have {name} once")
        setattr(namespace, self.dest, type(pairs)(pairs | {name: value}))


def pair(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``."""
    name, sign, value = text.partition("=")
    if not (sign and name and value):
        raise argparse.ArgumentTypeError(
            "expected NAME=VALUE (the value is not shown, because it may be a key)"
        )
    return name, value


def value_pair(text: str) -> tuple[str, str, str]:
    """Parse ``COLUMN:WORD=WORD``."""
    column, colon, words = text.partition(":")
    old, equals, new = words.rpartition("=")
    if not (colon and equals and column and old and new):
        raise argparse.ArgumentTypeError(f"expected COLUMN:WORD=WORD, got {text!r}")
    return column, old, new


def say(result: Any) -> None:
    """Print a result. Characters that the terminal cannot encode are printed as escapes."""
    _print(escape_controls(str(result), keep="\n"), sys.stdout)


def notify(message: str, program: str = "derivdata") -> None:
    """Print a notice about a result, or the error of a command, on stderr in one line."""
    _print(f"{program}: {escape_controls(message)}", sys.stderr)


def _print(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
