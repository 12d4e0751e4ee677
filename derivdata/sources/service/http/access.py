"""Keys and their tiers, and how often each may ask."""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from derivdata.sources.service.refusal import DOCS, Refusal
from derivdata.tables import endpoints


class Caller(NamedTuple):
    """Sender of a request: a tier, and a name under which requests are counted, never the key itself."""

    tier: str
    name: bytes


class Keys:
    """Keys as digests, with their tiers; with `keyless` a request without a known one counts as Team."""

    def __init__(self, tiers: Mapping[str, str], *, keyless: bool = False) -> None:
        unknown = sorted(set(tiers.values()) - set(endpoints.TIERS))
        if unknown:
            raise ValueError(f"tier {unknown[0]!r} is not one of {', '.join(endpoints.TIERS)}")
        if not all(tiers):
            raise ValueError("a key is empty: give each tier its own key")
        self._tiers = [(_digest(key), tier) for key, tier in tiers.items()]
        self._keyless = keyless

    def caller(self, sent: str | None, address: str = "") -> Caller:
        """Return who sent a key, all known ones compared in constant time; without one, it is the `address`.

        Raises `Refusal`: no key was sent, or one that is not known (401).
        """
        digest = _digest(sent or "")
        matches = [tier for stored, tier in self._tiers if hmac.compare_digest(stored, digest)]
        if matches:
            return Caller(matches[0], digest)
        if self._keyless:
            return Caller(endpoints.TIERS[-1], address.encode())
        why = "invalid API key" if sent else "missing API key: send it in the header X-Api-Key"
        raise Refusal(401, why, docs=DOCS)

    @staticmethod
    def admit(tier: str, needed: str) -> None:
        """Refuse a tier below the one that is needed (403)."""
        if not endpoints.allows(tier, needed):
            error = f"this endpoint needs {needed.title()} or higher; the key's tier is {tier.title()}"
            raise Refusal(403, error, required_tier=needed, docs=DOCS)


class RateLimit:
    """At most `limit` requests of one caller in any `seconds`; `most_callers` are remembered."""

    def __init__(
        self,
        limit: int,
        *,
        seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        most_callers: int = 4096,
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._most = most_callers
        self._admitted: OrderedDict[Hashable, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._admitted)

    def admit(self, caller: Hashable) -> dict[str, str]:
        """Count a request and return the headers that say what is left.

        Raises `Refusal`: the window is full (429); a refused request does not count.
        """
        now = self._clock()
        recent = self._admitted.setdefault(caller, deque())
        self._admitted.move_to_end(caller)
        if len(self._admitted) > self._most:
            self._admitted.popitem(last=False)
        while recent and now - recent[0] >= self._seconds:
            recent.popleft()
        if len(recent) >= self._limit:
            wait = recent[0] + self._seconds - now
            message = f"at most {self._limit} requests in {self._seconds:g} s for each key; wait {wait:.3f} s"
            headers = {"Retry-After": str(math.ceil(wait)), **self._headers(0)}
            about = {"message": message, "retry_after": math.ceil(wait)}
            raise Refusal(429, "rate limit exceeded", headers=headers, **about)
        recent.append(now)
        return self._headers(self._limit - len(recent))

    def _headers(self, remaining: int) -> dict[str, str]:
        return {"X-RateLimit-Limit": str(self._limit), "X-RateLimit-Remaining": str(remaining)}


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
