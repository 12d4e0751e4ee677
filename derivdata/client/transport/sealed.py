"""The sealed record files as a storage of requests-cache, and what requests-cache is told about expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pandas as pd
import requests
from requests.structures import CaseInsensitiveDict
from requests_cache.backends.base import BaseCache, BaseStorage
from requests_cache.models.request import CachedRequest
from requests_cache.models.response import CachedResponse

from derivdata.client.transport.cache import AnswerFiles, Head
from derivdata.client.transport.response import http_date, notices_in

_CLOSED = pd.Timedelta(1, "h")


class SealedStorage(BaseStorage[str, CachedResponse]):
    """Responses of one source by cache key; `is_secret` says of bytes that the key is in them."""

    def __init__(self, files: AnswerFiles, base: str, is_secret: Callable[[bytes], bool]) -> None:
        super().__init__()
        self._files = files
        self._base = base
        self._is_secret = is_secret
        self.doubted: set[str] = set()
        """Keys whose records count as expired, whatever they say: the source's data may be other data now."""

    def __getitem__(self, key: str) -> CachedResponse:
        record = self._files.record(key)
        if record is None:
            raise KeyError(key)
        head = record.head
        url = f"{self._base}{record.head.url}"
        response = CachedResponse(
            content=record.body,
            headers=CaseInsensitiveDict(head.headers),
            status_code=200,
            url=url,
            request=CachedRequest(method="GET", url=url),
            created_at=head.created,
            expires=head.created if key in self.doubted else head.expires,
        )
        response.cache_key = key
        return response

    def __setitem__(self, key: str, response: CachedResponse) -> None:
        received = response.content, repr(response.headers).encode()
        if response.status_code != 200 or any(map(self._is_secret, received)):
            return
        url = str(response.history[0].url if response.history else response.url)
        head = Head(
            key=key,
            url=url.removeprefix(self._base),
            headers=dict(response.headers),
            created=response.created_at,
            expires=response.expires,
            body_bytes=len(response.content),
        )
        self._files.keep(head, response.content)

    def __delitem__(self, key: str) -> None:
        self._files.forget(key)

    def __iter__(self) -> Iterator[str]:
        return self._files.keys()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class SealedBackend(BaseCache):
    """A backend of requests-cache over the sealed record files."""

    def __init__(self, storage: SealedStorage) -> None:
        super().__init__()
        self.responses = storage


def state_expiry(until: pd.Timestamp | None, latest: Callable[[], pd.Timestamp]) -> Callable[..., None]:
    """Return a hook that marks the response to a closed window as ``immutable``.

    A window is closed an hour after its end, by the server's clock, where that is at most `latest`: a server
    whose clock is ahead would have its windows kept for good before their last rows are there. A response
    with notices is never closed, and loses its validators: a later 304 would not show that it has notices.
    """
    is_stated = False

    def state(response: requests.Response, **_: Any) -> None:
        nonlocal is_stated
        # requests-cache calls the hooks of a response twice: as it came, and after it was stored.
        if is_stated or response.status_code not in (200, 304):
            return
        is_stated = True
        date = http_date(response.headers.get("Date"))
        if _has_notices(response.content):
            response.headers.pop("ETag", None)
            response.headers.pop("Last-Modified", None)
        elif until is not None and date is not None and until <= date - _CLOSED and date <= latest():
            response.headers["Cache-Control"] = "immutable"

    return state


def _has_notices(body: bytes) -> bool:
    try:
        return bool(notices_in(body))
    except msgspec.MsgspecError:
        return True
