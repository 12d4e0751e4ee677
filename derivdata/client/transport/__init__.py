"""All outgoing HTTP: `connect` and `disconnect`; connection, API key, cache, rate limits, retries, errors.

`connect` selects the source. A request first looks in the cache. Below the cache, the adapter adds the key,
waits for the rate limit, applies the deadlines and checks the body. Above it, the status is mapped to an
exception and the body is decoded into a typed struct.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pandas as pd

from derivdata.client.transport.cache import cache_clear, cache_folder, cache_info
from derivdata.client.transport.connection import Connection, local_scope
from derivdata.client.transport.response import Response, notify, progress
from derivdata.client.transport.session import (
    SESSION,
    DecodedResponse,
    get,
    get_each,
    provenance,
    raw,
    unreadable,
)
from derivdata.client.transport.settings import (
    IN_PROCESS,
    ConnectionSettings,
    LocalSource,
    Secret,
    find,
    is_loopback,
    is_url,
    site,
)
from derivdata.errors import NotConnected
from derivdata.support import start_local, times
from derivdata.support.arguments import names_checked
from derivdata.support.text import credentials_in, is_like_key
from derivdata.support.times import asof

__all__ = [
    "SESSION",
    "Connection",
    "DecodedResponse",
    "Response",
    "asof",
    "cache_clear",
    "cache_info",
    "connect",
    "disconnect",
    "get",
    "get_each",
    "notify",
    "progress",
    "provenance",
    "raw",
    "unreadable",
]

if TYPE_CHECKING:
    import requests

_CACHES = ("on", "refresh", "off")
_RULES: dict[Any, tuple[type, ...]] = {
    "expire_after": (int, float, timedelta, datetime),
    "urls_expire_after": (Mapping,),
    "stale_if_error": (bool, int, float, timedelta),
    "always_revalidate": (bool,),
    "read_only": (bool,),
}
"""Settings of requests-cache that `connect` takes, and their types."""


@names_checked
def connect(
    source: str | os.PathLike[str] | None = None,
    *,
    api_key: str | None = None,
    cache: str | Mapping[str, Any] = "on",
    offline: bool = False,
    session: requests.Session | None = None,
    now: times.TimeLike | None = None,
    attribution_url: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    venues: Sequence[str] | None = None,
) -> Connection:
    """Connect to a data source; all fetches use it until the next `connect`.

    Parameters
    ----------
    source
        Address of the hosted service (None: ``DERIVDATA_BASE_URL``), path of an archive, ``"sample"``,
        or ``"venues"``: public APIs of the venues, without a key.
    api_key
        Key of the hosted service. None reads ``DERIVDATA_API_KEY``, then the file
        ``~/.config/derivdata/key``.
    cache
        ``"on"`` reads and stores responses; ``"refresh"`` requests again and stores; ``"off"`` does neither.
        Or a dict of requests-cache settings: ``{"expire_after": 3600, "stale_if_error": True}``, also
        ``urls_expire_after``, ``always_revalidate`` and ``read_only``. See :doc:`/caching`.
    offline
        Use only cached responses, regardless of their age.
    session
        Your own `requests.Session`, with its proxies, certificates, authentication and hooks, or a
        `requests_cache.CachedSession`, whose cache then replaces the library's cache. The API key is added
        only to requests to the origin of `source`, after the session's cache, so the cache never stores it.
        The session stays open.
    now
        Time that an archive or the sample uses as its clock.
    attribution_url
        Address in the attribution text, instead of the service's own.
    archive, venues
        For ``"venues"``: the folder that stores the venues' responses (by default one in the user's data
        folder), and the venues to request (by default all but derive, whose terms forbid most uses).

    Returns
    -------
    Connection
        The open connection, which is also the current one.

    Raises
    ------
    NotConnected, ValueError, TypeError
        No source is given, an argument or the key is not valid, or the key would be sent unencrypted.
    NetworkError
        For ``"venues"``: no venue could be reached within about ten seconds. The message gives the reason.

    Notes
    -----
    The key is sent only to the origin of `source`, over https or to this machine. An active replay ends.

    Examples
    --------
    >>> connection = dd.connect("sample", now="2026-03-02T08:00")
    >>> dd.asof()
    Timestamp('2026-03-02 08:00:00+0000', tz='UTC')
    """
    # The key is wrapped, and its plain text removed from this frame, before anything can raise: a traceback
    # that shows local variables must not show it.
    secret = None if api_key is None else Secret(api_key)
    api_key = None
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    _check(source, attribution_url, offline=offline)
    mode, rules = _cache_settings(cache, session)
    source = source if source is not None else os.environ.get("DERIVDATA_BASE_URL") or None
    problem = _source_problem(source)
    if problem is not None or source is None:
        error = NotConnected() if problem is None else ValueError(problem)
        source = None  # it may be a key: keep it out of the traceback's frames
        raise error
    if is_url(source):
        if now is not None:
            raise ValueError(
                "now= is only for archives and the sample; omit it: a hosted service has its own clock"
            )
        connection = _hosted(
            source, secret, attribution_url, cache=mode, offline=offline, rules=rules, session=session
        )
    else:
        if session is not None:
            raise ValueError(
                f"session= needs the address of a service; got {source!r}, which runs in this process"
            )
        if secret is not None:
            raise ValueError(
                f"{source!r} is a local source and takes no api_key; omit it, or pass the address of a "
                "service, which starts with https://"
            )
        clock = None if now is None else times.timestamp(now, "now")
        options = _venue_options(source, archive, venues)
        connection = _local(
            source, clock, attribution_url, cache=mode, offline=offline, rules=rules, options=options
        )
    if SESSION.responder is not None:
        SESSION.end_active()
    SESSION.replace_connection(connection)
    return connection


def disconnect() -> None:
    """End an active recording or replay, and close the current connection, if any."""
    try:
        SESSION.end_active()
    finally:
        SESSION.replace_connection(None)


def _check(source: str | None, attribution_url: str | None, *, offline: bool) -> None:
    """Raise on arguments of the wrong type. `typed` is not used: it would keep the key in a frame."""
    for name, text in (("source", source), ("attribution_url", attribution_url)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} must be text, got {type(text).__name__}")
        if text is not None and not text.isprintable():
            raise ValueError(f"{name} must be an address or a path without control characters, got {text!r}")
    if not isinstance(offline, bool):
        raise TypeError(f"offline must be True or False, got {type(offline).__name__}")


def _cache_settings(cache: Any, session: Any) -> tuple[str, dict[str, Any]]:
    """Return the cache mode and the settings of requests-cache."""
    # Duck typing instead of isinstance: requests is not imported for a connection without a session.
    if session is not None and not all(hasattr(session, name) for name in ("get_adapter", "mount", "hooks")):
        raise TypeError(f"session must be a requests.Session, got {type(session).__name__}")
    if isinstance(cache, str) and cache in _CACHES:
        return cache, {}
    if not isinstance(cache, Mapping):
        modes = ", ".join(map(repr, _CACHES))
        raise ValueError(f"cache must be one of {modes} or a dict of requests-cache settings, got {cache!r}")
    if hasattr(session, "cache"):
        raise ValueError(
            "cache= and session= both have cache settings; omit cache= and set them on the CachedSession"
        )
    for name, value in cache.items():
        kinds = _RULES.get(name)
        if kinds is None:
            raise ValueError(
                f"cache={{{name!r}: ...}} cannot be set here; expected one of {', '.join(_RULES)}; for other "
                "settings pass a requests_cache.CachedSession as session="
            )
        if not isinstance(value, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"cache={{{name!r}: ...}} must be {expected}, got {type(value).__name__}")
    return "on", dict(cache)


def _source_problem(source: str | None) -> str | None:
    """Return the error text for a source that is or contains a key, without the key; None if it is valid."""
    if source is None:
        return None
    if is_like_key(source) and not os.path.exists(source):
        return (
            "source must be an address, 'sample', 'venues' or an existing folder (the value is not shown: it "
            "may be a key); pass a key as api_key="
        )
    if not is_url(source) and credentials_in(source) is not None:
        return (
            "the address contains a user, a password or a query (it is not shown); set the credentials as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        )
    return credentials_in(source)


def _venue_options(source: str, archive: Any, venues: Any) -> dict[str, Any]:
    """Return the arguments that only the source ``"venues"`` takes."""
    if source == "venues":
        return {"archive": archive and os.fspath(archive), "venues": venues}
    if archive is not None or venues is not None:
        raise ValueError("archive= and venues= are only for dd.connect('venues'); omit them")
    return {}


def _hosted(
    source: str,
    api_key: Secret | None,
    attribution_url: str | None,
    *,
    cache: str,
    offline: bool,
    rules: Mapping[str, Any],
    session: requests.Session | None,
) -> Connection:
    """Return a connection to the service at an address."""
    service = site(source)
    secret = find(api_key)
    if secret is not None and not service.private:
        raise ValueError(f"the key is not sent to {service.host} over plain http: use https://")
    if secret is not None and session is not None and service.origin.startswith("http:"):
        _check_proxies(session.proxies)
    settings = ConnectionSettings(
        scope=service.base, folder=cache_folder(), cache=cache, offline=offline, rules=rules, session=session
    )
    return Connection(service, secret, settings, attribution_url=attribution_url)


def _check_proxies(proxies: Mapping[str, str]) -> None:
    """Raise if a key would be sent over plain http through a proxy on another machine."""
    for address in proxies.values():
        host = urlsplit(address if "://" in address else f"//{address}").hostname
        if not is_loopback(str(host)):
            raise ValueError("the key is not sent over plain http through the session's proxy: use https://")


def _local(
    source: str,
    now: pd.Timestamp | None,
    attribution_url: str | None,
    *,
    cache: str,
    offline: bool,
    rules: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Connection:
    """Start a service of a local source in this process, and return a connection to it."""
    local: LocalSource = start_local(source, now=now, **options)
    try:
        scope = local_scope(local)  # the source "venues" sends its first requests here, which may fail
    except BaseException:
        local.close()
        raise
    settings = ConnectionSettings(
        scope=scope, folder=cache_folder(), cache=cache, offline=offline, rules=rules, paced=False,
        limits=IN_PROCESS,
    )  # fmt: skip
    secret = Secret(local.api_key) if local.api_key else None
    return Connection(site(local.url), secret, settings, local=local, attribution_url=attribution_url)


SESSION.connector = connect
