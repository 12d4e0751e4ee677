"""Exceptions and warnings, as one tree.

::

    DerivdataError
    ├── NotConnected        nothing was connected before the first fetch
    ├── FetchError          no usable response (.status, .retry_after, .retryable)
    │   ├── BadRequest      400: the service rejected an argument
    │   ├── AuthError       401: missing or unknown key
    │   ├── TierError       403: the key's tier excludes the request
    │   ├── NotFound        404: unknown symbol, venue or path
    │   ├── RateLimited     429
    │   ├── ServerError     5xx
    │   ├── NetworkError    no complete response
    │   ├── NotCached       offline, and the response is not in the cache
    │   ├── NotRecorded     in replay, and the response is not in the bundle
    │   └── VenueError      error of a venue's API (.code, .reason)
    ├── SchemaError         a response or frame is not the expected table
    ├── BundleError         a recording is damaged or malicious
    └── ArchiveError        an archive or an imported file is not usable

Wrong arguments raise ``ValueError`` or ``TypeError`` before anything is sent.
"""

from __future__ import annotations

import copyreg
import re

__all__ = [
    "ArchiveError",
    "AuthError",
    "BadRequest",
    "BundleError",
    "CacheNotice",
    "DataNotice",
    "DeprecationNotice",
    "DerivdataError",
    "FetchError",
    "NetworkError",
    "NotCached",
    "NotConnected",
    "NotFound",
    "NotRecorded",
    "RateLimited",
    "SchemaError",
    "ServerError",
    "TierError",
    "VenueError",
]
__dir__ = __all__.copy


_USER_IN_ADDRESS = re.compile(
    r"\b([a-z][a-z0-9+.-]+):/{1,2}(?:[^/\s]+|[^/\s:@]+:(?!\d{1,5}/)[^\s@]+)@", re.IGNORECASE
)
"""User and password of an address, also where a path has joined the two slashes.

A password may have a slash that is not escaped, for which the address is wrong and in the message.
"""


class DerivdataError(Exception):
    """Base class of the errors that the library raises for data and services.

    All errors can be pickled, so a pool of processes can pass them from a worker to its caller. Messages do
    not show the user and password of an address.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_USER_IN_ADDRESS.sub(r"\1://***@", message))

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with `args`, the message, instead of the arguments of the class.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class NotConnected(DerivdataError):
    """Data was requested without a connection; call `derivdata.connect` first."""

    def __init__(self) -> None:
        super().__init__(
            "not connected: call dd.connect(url, api_key=...) for the hosted service (or set "
            "DERIVDATA_BASE_URL and DERIVDATA_API_KEY), dd.connect('path/to/archive') for your own data, "
            "or dd.connect('sample') for the synthetic market"
        )


class FetchError(DerivdataError):
    """A request did not get a usable response.

    Attributes
    ----------
    path
        The request's path, without host and key.
    status
        HTTP status; None if there was no response.
    retry_after
        Time to wait that the service stated [s]; None if it stated none.
    retryable
        Whether the same request may succeed later.
    """

    retryable: bool = False

    def __init__(
        self, path: str, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.status = status
        self.retry_after = retry_after


class BadRequest(FetchError):
    """The service rejected an argument (HTTP 400); the message is the service's own."""


class AuthError(FetchError):
    """The key is missing or unknown (HTTP 401)."""


class TierError(FetchError):
    """The key's tier does not include this request (HTTP 403)."""


class NotFound(FetchError):
    """The symbol, venue or path is unknown (HTTP 404)."""


class RateLimited(FetchError):
    """The service rejected too many requests (HTTP 429), and all retries failed."""

    retryable = True


class ServerError(FetchError):
    """The service failed (HTTP 5xx), and all retries failed."""

    retryable = True


class NetworkError(FetchError):
    """No complete response arrived, and all retries failed."""

    retryable = True


class NotCached(FetchError):
    """The connection is offline, and this response is not in the cache."""


class NotRecorded(FetchError):
    """A replay is active, and this response is not in its bundle."""


class VenueError(FetchError):
    """A venue's public API returned an error, possibly with HTTP 200.

    Attributes
    ----------
    code
        The venue's own code, as text.
    reason
        ``"limit"`` (too many requests), ``"busy"`` (try later), ``"region"`` (not available from this
        address) or ``"refused"``.
    """

    def __init__(
        self,
        path: str,
        message: str,
        *,
        code: object = "",
        reason: str = "refused",
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        text = f"{message} (code {code})" if code != "" else message
        super().__init__(path, text, status=status, retry_after=retry_after)
        self.code = str(code)
        self.reason = reason
        self.retryable = reason in ("limit", "busy")


class SchemaError(DerivdataError):
    """A response or a frame is not the expected table."""


class BundleError(DerivdataError):
    """A bundle is damaged, truncated or malicious."""


class ArchiveError(DerivdataError):
    """An archive cannot be read or written, or an imported file cannot be stored."""


class DataNotice(UserWarning):
    """The data is usable but not as requested, for example because a window was shortened or is empty."""


class CacheNotice(UserWarning):
    """A response was returned but could not be stored on disk."""


class DeprecationNotice(UserWarning):
    """The service announced that an endpoint or parameter in use will be retired."""
