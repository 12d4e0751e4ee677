"""The way to one source: what is kept of it, and the network where that does not do."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

import pandas as pd

from derivdata.api import Endpoint, Request, endpoint_of
from derivdata.errors import NetworkError, NotCached
from derivdata.transport.keys import Secret
from derivdata.transport.origin import Site
from derivdata.transport.pace import Pace
from derivdata.transport.records import Record
from derivdata.transport.served import Reply
from derivdata.transport.settings import Settings
from derivdata.transport.store import AnswerFiles
from derivdata.transport.worker import TookTooLong, in_worker

if TYPE_CHECKING:
    from derivdata.transport.network import Network

__all__ = ["Channel"]

T = TypeVar("T")


class Channel:
    """Sends canonical requests to one site, through the cache."""

    def __init__(self, site: Site, secret: Secret | None, settings: Settings) -> None:
        self._site = site
        self._secret = secret
        self._settings = settings
        fingerprint = secret.fingerprint() if secret is not None else ""
        self._scope = f"{settings.scope}\n{fingerprint}"
        self._pace = Pace(settings.folder / "turns", self._scope, settings.timing)
        self._files = AnswerFiles(settings.folder / "answers", _digest(self._scope)[:32])
        self._opening = threading.Lock()
        self._opened: Network | None = None

    def exchange(self, request: Request, endpoint: Endpoint | None, until: pd.Timestamp | None) -> Reply:
        """The answer to a request, from the cache or the network.

        Raises
        ------
        NotCached, NetworkError, SchemaError
            Offline and not there; nothing whole came; what came is not JSON.
        """
        url = f"{self._site.base}{_path_and_query(request)}"
        kept = self._kept(url)
        if kept is not None:
            return Reply(200, kept.head.headers, kept.body, from_cache=True)
        reply = self._in_worker(request.path, lambda: self._network().get(request.path, url, endpoint, until))
        if self._settings.offline and reply.status == 504:
            raise NotCached(str(request), "not in the cache, and this connection is offline")
        return reply

    def date(self) -> pd.Timestamp:
        """The server's ``Date`` now.

        Raises
        ------
        NetworkError
            Nothing came, or nothing with a date.
        """
        found = self._in_worker("/", lambda: self._network().date())
        if found is None:
            raise NetworkError("/", "the server's answer carries no Date header, which is the clock here")
        return found

    def newest(self) -> pd.Timestamp | None:
        """The latest ``Date`` among this source's cached answers."""
        return self._files.newest()

    def forget(self, request: Request) -> None:
        """Let go of a cached answer."""
        self._files.forget(self._key("GET", f"{self._site.base}{_path_and_query(request)}"))

    def trouble(self) -> str | None:
        """Why an answer could not be kept, told once."""
        found, self._files.trouble = self._files.trouble, None
        return found

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()

    def _network(self) -> Network:
        """The network, imported and opened when it is first needed."""
        with self._opening:
            if self._opened is None:
                from derivdata.transport.network import Network

                self._opened = Network(
                    self._site, self._secret, self._settings, self._files, key=self._key, turn=self._turn
                )
            return self._opened

    def _kept(self, url: str) -> Record | None:
        """A cached answer that may be used as it is: one that has not expired, offline any.

        The session would find the same, ten times slower and in a thread, which only the network needs.
        """
        if self._settings.cache != "on" and not self._settings.offline:
            return None
        found = self._files.record(self._key("GET", url))
        if found is None or self._settings.offline or found.head.expires is None:
            return found
        return None if self._network().expired(found.head) else found

    def _in_worker(self, path: str, work: Callable[[], T]) -> T:
        try:
            return in_worker(work, seconds=self._settings.limits.patience)
        except TookTooLong:
            seconds = self._settings.limits.patience
            raise NetworkError(path, f"no answer within {seconds:.0f} s") from None

    def _key(self, method: str, url: str) -> str:
        """Cache key: method, source, path, sorted query, fingerprint of the key; the port plays no part."""
        return _digest(f"{method}\n{self._scope}\n{url.removeprefix(self._site.base)}")

    def _turn(self, url: str) -> None:
        path = url.removeprefix(self._site.base).partition("?")[0]
        self._pace.wait(endpoint_of(path))


@lru_cache(maxsize=1024)
def _path_and_query(request: Request) -> str:
    query = urlencode(request.query, safe=",:")
    return f"{request.path}{'?' if query else ''}{query}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
