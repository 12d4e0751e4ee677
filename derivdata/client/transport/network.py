"""The network: a session that keeps what it brings, over the adapter that sends.

It is imported when the cache does not answer: it takes a third of the time that pandas takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib.metadata import version
from typing import NamedTuple

import msgspec
import pandas as pd
import requests

from derivdata.client.transport.adapter import Adapter
from derivdata.client.transport.cache import AnswerFiles, Head, Record
from derivdata.client.transport.keyless import keep_anonymous
from derivdata.client.transport.origin import Secret, Site
from derivdata.client.transport.response import http_date, network_error, notices_in
from derivdata.client.transport.settings import ConnectionSettings
from derivdata.client.transport.worker import SharedRequests
from derivdata.tables.endpoints import Endpoint

_CLOSED = pd.Timedelta(1, "h")
_DEFAULT_FRESH_SECONDS = 60.0
_MAX_REDIRECTS = 5


class Reply(NamedTuple):
    """Reply of the network to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Network:
    """Sends requests to one site, and keeps what comes: `latest` is the last ``Date`` that is believed."""

    def __init__(
        self,
        site: Site,
        secret: Secret | None,
        settings: ConnectionSettings,
        files: AnswerFiles,
        *,
        key: Callable[[str], str],
        turn: Callable[[str], None],
        latest: Callable[[], pd.Timestamp],
    ) -> None:
        self._base = f"{site.base}/"
        self._secret = secret
        self._settings = settings
        self._files = files
        self._key = key
        self._latest = latest
        self._shared: SharedRequests[Reply] = SharedRequests()
        self._session = _session()
        self._session.mount("https://", _adapter(site, None, settings, turn))
        for prefix in site.prefixes:
            self._session.mount(prefix, _adapter(site, secret, settings, turn))

    def get(
        self,
        path: str,
        url: str,
        endpoint: Endpoint | None,
        until: pd.Timestamp | None,
        cached: Callable[[], Record | None],
    ) -> Reply:
        """Return the answer to a request; callers that request the same at once share one."""

        def send() -> Reply:
            # Since the caller looked into the cache another one's request may have ended.
            if (record := cached()) is not None:
                return Reply(200, record.head.headers, record.body)
            response = _ours(path, lambda: self._session.get(url))
            reply = Reply(response.status_code, response.headers, response.content)
            if reply.status == 200 and self._settings.cache != "off":
                self._keep(url, reply, endpoint, until)
            return reply

        return self._shared.run(url, send)

    def head(self) -> Mapping[str, str]:
        """Return what the server's headers say now: an answer of any status carries its ``Date``."""
        return _ours("/", lambda: self._session.head(self._base, allow_redirects=False)).headers

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _keep(self, url: str, reply: Reply, endpoint: Endpoint | None, until: pd.Timestamp | None) -> None:
        """Keep an answer: for good once its window has closed, and never one that repeats the key."""
        received = reply.body, repr(reply.headers).encode()
        if self._secret is not None and any(map(self._secret.within, received)):
            return
        fresh = endpoint.fresh_seconds if endpoint is not None else _DEFAULT_FRESH_SECONDS
        now = self._settings.timing.machine()
        head = Head(
            key=self._key(url),
            url=url.removeprefix(self._base.removesuffix("/")),
            headers=dict(reply.headers),
            created=now,
            expires=None if _is_closed(reply, until, self._latest()) else now + timedelta(seconds=fresh),
            body_bytes=len(reply.body),
        )
        self._files.keep(head, reply.body)


def _ours(path: str, ask: Callable[[], requests.Response]) -> requests.Response:
    """Return the response, or what requests raised as an error of ours."""
    try:
        return ask()
    except requests.RequestException as error:
        failure = network_error(path, error)
    raise failure


def _session() -> requests.Session:
    session = requests.Session()
    session.headers.clear()
    session.headers.update(
        {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "User-Agent": f"derivdata/{version('derivdata')}",
        }
    )
    keep_anonymous(session)
    session.max_redirects = _MAX_REDIRECTS
    session.adapters.clear()
    return session


def _adapter(
    site: Site, secret: Secret | None, settings: ConnectionSettings, turn: Callable[[str], None]
) -> Adapter:
    return Adapter(
        origin=site.origin,
        secret=secret,
        turn=turn if settings.paced else lambda _: None,
        limits=settings.limits,
        timing=settings.timing,
    )


def _is_closed(reply: Reply, until: pd.Timestamp | None, latest: pd.Timestamp) -> bool:
    """Return whether the window ended an hour before the server's clock, and the answer has no notices.

    A server whose clock is ahead would have windows closed that are not: what it answers before their last
    rows are there would be kept for good.
    """
    date = http_date(reply.headers.get("Date"))
    if until is None or date is None or date > latest or until > date - _CLOSED:
        return False
    try:
        return not notices_in(reply.body)
    except msgspec.MsgspecError:
        return False
