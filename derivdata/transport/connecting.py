"""The one connection that fetchers use: made, ended, found."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

import pandas as pd

from derivdata import times
from derivdata.errors import NotConnected
from derivdata.transport.connection import Connection, Local
from derivdata.transport.folders import cache_folder
from derivdata.transport.keys import Secret, find
from derivdata.transport.origin import is_url, site
from derivdata.transport.served import replaying
from derivdata.transport.settings import Settings
from derivdata.transport.timing import IN_PROCESS

__all__ = ["Starter", "at_disconnect", "connect", "current", "disconnect", "holds_key", "set_starter"]

Starter: TypeAlias = Callable[[str, pd.Timestamp | None], Local]

_CACHES = ("on", "refresh", "off")

_starter: Starter | None = None
_current: Connection | None = None
_enders: list[Callable[[], None]] = []


def set_starter(starter: Starter | None) -> Starter | None:
    """Set who starts the local service for an archive or the sample; return who did before."""
    global _starter
    before, _starter = _starter, starter
    return before


def connect(
    source: str | None = None,
    *,
    api_key: str | None = None,
    cache: str = "on",
    offline: bool = False,
    now: times.Instant | None = None,
    attribution_url: str | None = None,
) -> Connection:
    """Connect to a source of data; every fetch asks it until the next `connect`.

    Parameters
    ----------
    source
        Address of the hosted service (None: ``DERIVDATA_BASE_URL``), path of an archive, or ``"sample"``.
    api_key
        Key of the hosted service; else ``DERIVDATA_API_KEY``, else the file ``~/.config/derivdata/key``.
    cache
        ``"on"``; ``"refresh"`` asks anew and keeps the answer; ``"off"`` neither reads nor keeps.
    offline
        Answer from the cache only, whatever the age of what is there.
    now
        Clock of an archive or the sample, instead of its own.
    attribution_url
        Address that the attribution text names, instead of the service's own.

    Raises
    ------
    NotConnected, ValueError, TypeError
        No source is named; an argument or the key makes no sense, the key would travel in clear, or a
        replay is under way.

    Notes
    -----
    The key goes to the origin of `source` only, by https or on this machine.

    Examples
    --------
    >>> connection = dd.connect("sample", now="2026-03-02T08:00")
    >>> dd.asof()
    Timestamp('2026-03-02 08:00:00+0000', tz='UTC')
    """
    if replaying():
        raise ValueError("a replay is under way and asks nobody: end it first, with dd.disconnect()")
    given, api_key = (None if api_key is None else Secret(api_key)), None
    _check(source, attribution_url, cache=cache, offline=offline)
    source = source if source is not None else os.environ.get("DERIVDATA_BASE_URL") or None
    if source is None:
        raise NotConnected
    if is_url(source):
        if now is not None:
            raise ValueError("now= is for archives and the sample: a hosted service has its own clock")
        opened = _hosted(source, given, attribution_url, cache=cache, offline=offline)
    else:
        if given is not None:
            raise ValueError(
                f"{source!r} is a local source and takes no api_key: an address starts with https://"
            )
        instant = None if now is None else times.instant(now, "now")
        opened = _started(source, instant, attribution_url, cache=cache, offline=offline)
    _replace(opened)
    return opened


def _check(source: str | None, attribution_url: str | None, *, cache: str, offline: bool) -> None:
    """Refuse arguments of another kind by name; by hand, since `typed` would keep the key in a frame."""
    for name, text in (("source", source), ("attribution_url", attribution_url)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} must be text, not {type(text).__name__}")
        if text is not None and not text.isprintable():
            raise ValueError(f"{name} holds characters that no address or path has: {text!r}")
    if not isinstance(cache, str) or cache not in _CACHES:
        raise ValueError(f"cache={cache!r} is not one of {', '.join(_CACHES)}")
    if not isinstance(offline, bool):
        raise TypeError(f"offline must be True or False, not {type(offline).__name__}")


def disconnect() -> None:
    """End a recording or a replay that is under way, and close the connection, if there is one."""
    while _enders:
        _enders.pop()()
    _replace(None)


def at_disconnect(ender: Callable[[], None]) -> Callable[[], None]:
    """Have `disconnect` call something, once, before it closes; return how to take that back."""
    _enders.append(ender)

    def forget() -> None:
        if ender in _enders:
            _enders.remove(ender)

    return forget


def holds_key(data: bytes) -> bool:
    """Whether the key of the connection is in `data`."""
    return _current is not None and _current.holds_key(data)


def _replace(connection: Connection | None) -> None:
    global _current
    before, _current = _current, connection
    if before is not None:
        before.close()


def current() -> Connection:
    """The connection; made from ``DERIVDATA_BASE_URL`` where that is set and nothing is connected.

    Raises
    ------
    NotConnected
        There is none, and nothing says where to connect.
    """
    return _current if _current is not None else connect()


def _hosted(
    source: str, given: Secret | None, attribution_url: str | None, *, cache: str, offline: bool
) -> Connection:
    place = site(source)
    secret = find(given)
    if secret is not None and not place.private:
        raise ValueError(f"the key is not sent to {place.host} over plain http: use https://")
    settings = Settings(scope=place.base, folder=cache_folder(), cache=cache, offline=offline)
    return Connection(place, secret, settings, attribution_url=attribution_url)


def _started(
    source: str, now: pd.Timestamp | None, attribution_url: str | None, *, cache: str, offline: bool
) -> Connection:
    if _starter is None:
        raise NotConnected
    local = _starter(source, now)
    settings = Settings(
        scope=f"local {local.identity}",
        folder=cache_folder(),
        cache=cache,
        offline=offline,
        paced=False,
        limits=IN_PROCESS,
    )
    secret = Secret(local.api_key) if local.api_key else None
    return Connection(site(local.url), secret, settings, local=local, attribution_url=attribution_url)


def _clock() -> pd.Timestamp:
    return current().clock()


times.set_clock(_clock)
