"""How many examples hypothesis draws for a property: few in `make test`, many in `make test-long`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")


def examples(short: int, long: int) -> settings:
    """Draw `short` examples; `long` in the profile of that name. The same ones in every run, in both."""
    return settings(max_examples=long if settings.get_current_profile_name() == "long" else short)


def some(cases: Sequence[T], step: int) -> list[T]:
    """Return one of each `step` cases; all in the profile ``long``. A test with them is marked ``drawn``."""
    is_long = settings.get_current_profile_name() == "long"
    return list(cases) if is_long else list(cases)[::step]
