"""How many examples hypothesis draws for a property: few in `make test`, many in `make test-long`."""

from __future__ import annotations

from hypothesis import settings


def examples(short: int, long: int) -> settings:
    """Draw `short` examples; `long` in the profile of that name. The same ones in every run, in both."""
    return settings(max_examples=long if settings.get_current_profile_name() == "long" else short)
