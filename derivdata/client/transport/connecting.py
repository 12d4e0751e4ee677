"""Connect to a source of data, and disconnect."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pandas as pd

from derivdata.client.transport.adapter import IN_PROCESS, ConnectionSettings
from derivdata.client.transport.cache import cache_folder
from derivdata.client.transport.connection import Connection, local_scope
from derivdata.client.transport.origin import LocalSource, Secret, find, is_loopback, is_url, site
from derivdata.client.transport.session import SESSION
from derivdata.errors import NotConnected
from derivdata.support import times
from derivdata.support.arguments import names_checked
from derivdata.support.local import start_local
from derivdata.support.text import credentials_in, is_like_key

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
    now: times.Instant | None = None,
    attribution_url: str | None = None,
    archive: str | os.PathLike[str] | None = None,
    venues: Sequence[str] | None = None,
) -> Connection:
    """Connect to a source of data; every fetch asks it until the next `connect`.

    Parameters
    ----------
    source
        Address of the hosted service (None: ``DERIVDATA_BASE_URL``), path of an archive, ``"sample"``,
        or ``"venues"``: public APIs of the venues, without a key.
    api_key
        Key of the hosted service; else ``DERIVDATA_API_KEY``, else the file ``~/.config/derivdata/key``.
    cache
        ``"on"``; ``"refresh"`` requests again and keeps the answer; ``"off"`` neither reads nor keeps. Or
        settings of requests-cache by their names: ``{"expire_after": 3600, "stale_if_error": True}``, also
        ``urls_expire_after``, ``always_revalidate`` and ``read_only``. See :doc:`/caching`.
    offline
        Answer from the cache only, with answers of any age.
    session
        A `requests.Session` of your own with its proxies, certificates, authentication and hooks, or a
        `requests_cache.CachedSession`, whose cache then replaces the one of this library. Only requests to
        the origin of `source` get the API key, below the session's cache, which never has it. The session
        stays open.
    now
        Clock of an archive or the sample, instead of its own.
    attribution_url
        Address that the attribution text names, instead of the service's own.
    archive, venues
        Of ``"venues"``: the folder that keeps what they answered (one in the user's data folder unless
        given), and the venues to ask (all but derive, whose terms forbid most uses).

    Raises
    ------
    NotConnected, ValueError, TypeError
        No source is named, an argument or the key is not valid, or the key would travel in clear.
    NetworkError
        Of ``"venues"``: none of them could be reached, within about ten seconds; the message says why.

    Notes
    -----
    The key goes to the origin of `source` only, by https or on this machine. A replay that is active ends.

    Examples
    --------
    >>> connection = dd.connect("sample", now="2026-03-02T08:00")
    >>> dd.asof()
    Timestamp('2026-03-02 08:00:00+0000', tz='UTC')
    """
    given = None if api_key is None else Secret(api_key)
    api_key = None
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    _check(source, attribution_url, offline=offline)
    mode, rules = _cache_settings(cache, session)
    source = source if source is not None else os.environ.get("DERIVDATA_BASE_URL") or None
    problem = _refused(source)
    if problem is not None or source is None:
        source = None  # no frame of the traceback holds what may be a key
        raise NotConnected if problem is None else ValueError(problem)
    if is_url(source):
        if now is not None:
            raise ValueError("now= is for archives and the sample: a hosted service has its own clock")
        connection = _hosted(
            source, given, attribution_url, cache=mode, offline=offline, rules=rules, session=session
        )
    else:
        if session is not None:
            raise ValueError(f"session= is for the address of a service; {source!r} runs in this process")
        if given is not None:
            raise ValueError(
                f"{source!r} is a local source and takes no api_key: an address starts with https://"
            )
        instant = None if now is None else times.instant(now, "now")
        options = _venue_options(source, archive, venues)
        connection = _local(
            source, instant, attribution_url, cache=mode, offline=offline, rules=rules, options=options
        )
    if SESSION.responder is not None:
        SESSION.end_active()
    SESSION.replace_connection(connection)
    return connection


def disconnect() -> None:
    """End a recording or a replay that is under way, and close the connection, if there is one."""
    try:
        SESSION.end_active()
    finally:
        SESSION.replace_connection(None)


def _check(source: str | None, attribution_url: str | None, *, offline: bool) -> None:
    """Refuse arguments of another kind by name; by hand, since `typed` would keep the key in a frame."""
    for name, text in (("source", source), ("attribution_url", attribution_url)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} must be text, not {type(text).__name__}")
        if text is not None and not text.isprintable():
            raise ValueError(f"{name} holds characters that no address or path has: {text!r}")
    if not isinstance(offline, bool):
        raise TypeError(f"offline must be True or False, not {type(offline).__name__}")


def _cache_settings(cache: Any, session: Any) -> tuple[str, dict[str, Any]]:
    """Return the mode of the cache, and settings of requests-cache."""
    # A session is known by what it does: requests is not imported for a connection without one.
    if session is not None and not all(hasattr(session, name) for name in ("get_adapter", "mount", "hooks")):
        raise TypeError(f"session must be a requests.Session, not {type(session).__name__}")
    if isinstance(cache, str) and cache in _CACHES:
        return cache, {}
    if not isinstance(cache, Mapping):
        known = ", ".join(map(repr, _CACHES))
        raise ValueError(f"cache={cache!r} is not one of {known} or a dict of settings of requests-cache")
    if hasattr(session, "cache"):
        raise ValueError("cache= holds settings, and so does the CachedSession of session=: set them there")
    for name, value in cache.items():
        kinds = _RULES.get(name)
        if kinds is None:
            raise ValueError(
                f"cache={{{name!r}: ...}} is not a setting that can be changed here: use "
                f"{', '.join(_RULES)}, or a requests_cache.CachedSession as session="
            )
        if not isinstance(value, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"cache={{{name!r}: ...}} must be {expected}, not {type(value).__name__}")
    return "on", dict(cache)


def _refused(source: str | None) -> str | None:
    """Return why a source is refused that is or holds a key, without showing it."""
    if source is None:
        return None
    if is_like_key(source) and not os.path.exists(source):
        return (
            "source= is not an address, 'sample', 'venues' or a folder that exists; it is not shown, as it "
            "may be a key: give a key as api_key="
        )
    if not is_url(source) and credentials_in(source) is not None:
        return (
            "the address holds a user, a password or a query (it is not shown): the environment gives "
            "credentials, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return credentials_in(source)


def _venue_options(source: str, archive: Any, venues: Any) -> dict[str, Any]:
    """Return the arguments that only the source ``"venues"`` takes."""
    if source == "venues":
        return {"archive": archive and os.fspath(archive), "venues": venues}
    if archive is not None or venues is not None:
        raise ValueError("archive= and venues= are for dd.connect('venues')")
    return {}


def _hosted(
    source: str,
    given: Secret | None,
    attribution_url: str | None,
    *,
    cache: str,
    offline: bool,
    rules: Mapping[str, Any],
    session: requests.Session | None,
) -> Connection:
    place = site(source)
    secret = find(given)
    if secret is not None and not place.private:
        raise ValueError(f"the key is not sent to {place.host} over plain http: use https://")
    if secret is not None and session is not None and place.origin.startswith("http:"):
        _refuse_open_proxies(session.proxies)
    settings = ConnectionSettings(
        scope=place.base, folder=cache_folder(), cache=cache, offline=offline, rules=rules, session=session
    )
    return Connection(place, secret, settings, attribution_url=attribution_url)


def _refuse_open_proxies(proxies: Mapping[str, str]) -> None:
    """Refuse to send a key by plain http through a proxy on another machine."""
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
    local: LocalSource = start_local(source, now=now, **options)
    try:
        scope = local_scope(local)  # venues are asked for their state first
    except BaseException:
        local.close()
        raise
    settings = ConnectionSettings(
        scope=scope,
        folder=cache_folder(),
        cache=cache,
        offline=offline,
        rules=rules,
        paced=False,
        limits=IN_PROCESS,
    )
    secret = Secret(local.api_key) if local.api_key else None
    return Connection(site(local.url), secret, settings, local=local, attribution_url=attribution_url)


SESSION.connector = connect
