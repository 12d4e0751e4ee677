"""Who may ask: keys and tiers, and how often."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections import deque
from collections.abc import Callable, Mapping

from derivdata import api
from derivdata.service.refusal import DOCS, Refusal

__all__ = ["FREE_SYMBOLS", "Keys", "RateLimit"]

FREE_SYMBOLS = ("BTC", "ETH")
"""What the tier Free sees where it sees single symbols."""


class Keys:
    """The keys that the service knows, kept as digests, and the tier of each.

    Parameters
    ----------
    tiers
        Key to tier.
    keyless
        Whether a request without a known key counts as Team.
    """

    def __init__(self, tiers: Mapping[str, str], *, keyless: bool = False) -> None:
        unknown = sorted(set(tiers.values()) - set(api.TIERS))
        if unknown:
            raise ValueError(f"tier {unknown[0]!r} is not one of {', '.join(api.TIERS)}")
        if not all(tiers):
            raise ValueError("a key is empty: give each tier a key of its own")
        self._tiers = [(_digest(key), tier) for key, tier in tiers.items()]
        self._keyless = keyless

    def tier(self, sent: str | None) -> str:
        """The tier of a key as sent; every known key is compared, in constant time.

        Raises
        ------
        Refusal
            No key was sent, or one that is not known (401).
        """
        digest = _digest(sent or "")
        found = [tier for known, tier in self._tiers if hmac.compare_digest(known, digest)]
        if found:
            return found[0]
        if self._keyless:
            return api.TIERS[-1]
        why = "invalid API key" if sent else "missing API key: send it in the header X-Api-Key"
        raise Refusal(401, why, docs=DOCS)

    @staticmethod
    def admit(tier: str, needed: str) -> None:
        """Refuse a tier below the one that is needed (403)."""
        if not api.allows(tier, needed):
            error = f"this endpoint needs {needed.title()} or higher; the key's tier is {tier.title()}"
            raise Refusal(403, error, required_tier=needed, docs=DOCS)


class RateLimit:
    """A strict sliding window: at most `limit` requests of one key in any span of `seconds`."""

    def __init__(
        self, limit: int, *, seconds: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._seconds, self._clock = limit, seconds, clock
        self._admitted: dict[bytes, deque[float]] = {}

    def admit(self, sent: str | None) -> dict[str, str]:
        """Count a request and return the headers that say what is left.

        Raises
        ------
        Refusal
            The window is full (429); a refused request does not count.
        """
        now = self._clock()
        recent = self._admitted.setdefault(_digest(sent or ""), deque())
        while recent and now - recent[0] >= self._seconds:
            recent.popleft()
        if len(recent) >= self._limit:
            raise self._refusal(recent[0] + self._seconds - now)
        recent.append(now)
        return self._headers(self._limit - len(recent))

    def _refusal(self, wait: float) -> Refusal:
        message = f"at most {self._limit} requests in {self._seconds:g} s for each key; wait {wait:.3f} s"
        headers = {"Retry-After": str(math.ceil(wait)), **self._headers(0)}
        return Refusal(
            429, "rate limit exceeded", headers=headers, message=message, retry_after=math.ceil(wait)
        )

    def _headers(self, remaining: int) -> dict[str, str]:
        return {"X-RateLimit-Limit": str(self._limit), "X-RateLimit-Remaining": str(remaining)}


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
