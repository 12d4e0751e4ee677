"""A connection: who answers, with which key, from which cache, and what time it is there."""

from __future__ import annotations

from html import escape
from typing import NoReturn, Protocol
from urllib.parse import unquote

import pandas as pd

from derivdata.api import Endpoint, Request
from derivdata.errors import CacheNotice, NotCached
from derivdata.notices import warn_caller
from derivdata.transport.channel import Channel
from derivdata.transport.keys import Secret
from derivdata.transport.origin import Site
from derivdata.transport.served import DIGEST_HEADER, Reply, Served
from derivdata.transport.settings import Settings
from derivdata.transport.timing import http_date

__all__ = ["Connection", "Local"]

_MEMO_SECONDS = 15.0


class Local(Protocol):
    """A local service, running in this process."""

    @property
    def url(self) -> str: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def identity(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def synthetic(self) -> bool: ...
    @property
    def now(self) -> pd.Timestamp: ...

    def close(self) -> None:
        """Stop it."""
        ...


class Connection:
    """A source of data that is connected: hosted service, archive or sample.

    Attributes
    ----------
    source
        What people know it by: the host, the archive's name, ``sample``.
    synthetic
        Whether its data is made up.
    """

    def __init__(
        self,
        place: Site,
        secret: Secret | None,
        settings: Settings,
        *,
        local: Local | None = None,
        attribution_url: str | None = None,
    ) -> None:
        self.source = place.host if local is None else local.label
        self.synthetic = local is not None and local.synthetic
        self._place = place
        self._attribution_url = attribution_url
        self._secret = secret
        self._settings = settings
        self._local = local
        self._channel = Channel(place, secret, settings)
        self._dated: tuple[float, pd.Timestamp] | None = None
        self._told = False

    def serve(
        self, request: Request, endpoint: Endpoint | None = None, until: pd.Timestamp | None = None
    ) -> Served:
        """The answer to a request, of any HTTP status, from the cache or the network.

        Parameters
        ----------
        endpoint
            Whose freshness the answer has; None for one that the API document does not name.
        until
            End of the window; an hour later the answer is kept for good.

        Raises
        ------
        NotCached, NetworkError, SchemaError
            Offline and not there; nothing whole came; what came is not JSON.
        """
        reply = self._channel.exchange(request, endpoint, until)
        self._tell_trouble()
        served = self._served(request, reply)
        if not reply.from_cache and served.as_of is not pd.NaT:
            self._dated = self._settings.timing.monotonic(), served.as_of
        return served

    def clock(self) -> pd.Timestamp:
        """The source's time, floored to the minute.

        A local source's is its service's. The hosted service's is its ``Date``, asked for at most every
        15 seconds; offline it is the newest one in the cache.

        Raises
        ------
        NetworkError, NotCached
            The service cannot be reached; offline, and nothing of it is in the cache.
        """
        return self._instant().floor("min")

    def forget(self, request: Request) -> None:
        """Let go of a cached answer, so that it is asked for again."""
        self._channel.forget(request)

    def holds_key(self, data: bytes) -> bool:
        """Whether the key's bytes are in `data`."""
        return self._secret is not None and self._secret.within(data)

    def close(self) -> None:
        """Close the connections, and stop the local service if there is one."""
        self._channel.close()
        if self._local is not None:
            self._local.close()

    def _instant(self) -> pd.Timestamp:
        if self._local is not None:
            return self._local.now
        if self._settings.offline:
            newest = self._channel.newest()
            if newest is None:
                raise NotCached(
                    "/", "offline, and the cache holds no answer of this source to take the time from"
                )
            return newest
        now = self._settings.timing.monotonic()
        if self._dated is None or now - self._dated[0] > _MEMO_SECONDS:
            self._dated = now, self._channel.date()
        return self._dated[1]

    def _served(self, request: Request, reply: Reply) -> Served:
        headers = {name: str(v) for name, v in reply.headers.items() if name != "Cache-Control"}
        digest = headers.pop(DIGEST_HEADER, "")
        body = reply.body
        if reply.status != 200:
            body, digest = self._redacted(body), ""
            headers = {name: self._redacted(v.encode()).decode() for name, v in headers.items()}
        date = http_date(headers.get("Date"))
        return Served(
            request=request,
            status=reply.status,
            headers=dict(sorted(headers.items())),
            body=body,
            as_of=pd.NaT if date is None else date,
            source=unquote(headers.get("X-Derivdata-Source", "")) or self.source,
            synthetic=self.synthetic or headers.get("X-Derivdata-Synthetic") == "1",
            attribution=self._attribution(own="X-Derivdata-Source" in headers),
            digest=digest,
        )

    def _redacted(self, data: bytes) -> bytes:
        return data if self._secret is None else self._secret.redact(data)

    def _attribution(self, *, own: bool) -> str:
        """The text that the API's terms ask for; none for data of one's own, unless an address was given."""
        url = self._attribution_url or (None if own or self._local is not None else self._place.base)
        return f"Funding rate data provided by {url}" if url else ""

    def _tell_trouble(self) -> None:
        trouble = self._channel.trouble()
        if trouble is not None and not self._told:
            self._told = True
            warn_caller(f"answers are not kept in the cache: {trouble}", CacheNotice)

    def _facts(self) -> dict[str, str]:
        settings = self._settings
        mode = "offline" if settings.offline else settings.cache
        return {
            "source": f"{self.source} (synthetic)" if self.synthetic else self.source,
            "key": "none" if self._secret is None else "given, tier unknown",
            "cache": f"{mode}, {settings.folder}",
        }

    def __repr__(self) -> str:
        return "Connection(" + ", ".join(f"{name}: {value}" for name, value in self._facts().items()) + ")"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{n}</th><td>{escape(v)}</td></tr>" for n, v in self._facts().items())
        return f"<table><caption>derivdata connection</caption>{''.join(rows)}</table>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection holds a key and is not pickled: call dd.connect where the work is done")
