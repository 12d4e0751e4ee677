"""Where a source is: its base address, checked once, and when a key may travel to it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests

__all__ = ["Site", "is_url", "origin_of", "site"]

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Site:
    """The base address of a service.

    Attributes
    ----------
    base
        Address that request paths are appended to, without a slash at its end.
    origin
        Scheme, host and port, the port always written.
    host
        Host, with its port where that is not the scheme's own: what people know the source by.
    private
        Whether nobody else can read on the way: https, or this machine.
    """

    base: str
    origin: str
    host: str
    private: bool

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Every spelling of the origin, each with its closing slash."""
        scheme = self.origin.partition(":")[0]
        return (f"{self.origin}/", f"{scheme}://{self.host}/")


def is_url(source: str) -> bool:
    """Whether a source is an address and not a path or a name."""
    return source.lower().startswith(("http://", "https://"))


def site(url: str) -> Site:
    """The site at an address.

    Raises
    ------
    ValueError
        The address cannot be read, or holds a user, a password, a query or a fragment.
    """
    if "@" in url.split("//", 1)[-1].split("/", 1)[0]:
        raise ValueError("the address holds a user or a password: give the key as api_key= instead")
    try:
        address = str(requests.Request("GET", url).prepare().url)
        parts = urlsplit(address)
        origin = origin_of(address)
    except ValueError:
        raise ValueError(f"{url!r} is not an address: write it like 'https://api.example.com'") from None
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} holds a query or a fragment: give the address alone")
    host = origin.removeprefix(f"{parts.scheme}://").removesuffix(f":{_PORTS[parts.scheme]}")
    private = parts.scheme == "https" or _is_loopback(str(parts.hostname))
    base = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
    return Site(base=base, origin=origin, host=host, private=private)


def origin_of(url: str) -> str:
    """Scheme, host and port of an address, the port always written."""
    parts = urlsplit(url)
    host = str(parts.hostname)
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or _PORTS[parts.scheme]}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
