"""Exceptions and warnings, as one tree.

::

    DerivdataError
    ├── NotConnected        nothing was connected before the first fetch
    ├── FetchError          no usable answer came (.status, .retry_after, .retryable)
    │   ├── BadRequest      400: the service refused an argument
    │   ├── AuthError       401: no key, or one that is not known
    │   ├── TierError       403: the key's tier does not include this
    │   ├── NotFound        404: no such symbol, venue or path
    │   ├── RateLimited     429
    │   ├── ServerError     5xx
    │   ├── NetworkError    nothing came back, or only half of it
    │   ├── NotCached       offline, and the answer is not in the cache
    │   ├── NotRecorded     in replay, and the answer is not in the bundle
    │   └── VenueError      a venue answered with an error of its own (.code, .reason)
    ├── SchemaError         the answer or the frame is not the table that it should be
    ├── BundleError         a recording is damaged or hostile
    └── ArchiveError        an archive, or a file on its way into one, is not usable

Arguments that make no sense raise ``ValueError`` or ``TypeError`` before anything is sent.
"""

from __future__ import annotations

import copyreg

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


class DerivdataError(Exception):
    """Base of every error that the library raises for data and services.

    All of them survive pickling: a pool of processes hands the error of a worker to its caller that way.
    """

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with `args`, which is the message and not what the class takes.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class NotConnected(DerivdataError):
    """A fetch was asked for before `derivdata.connect`."""

    def __init__(self) -> None:
        super().__init__(
            "not connected: call dd.connect(url, api_key=...) for the hosted service (or set "
            "DERIVDATA_BASE_URL and DERIVDATA_API_KEY), dd.connect('path/to/archive') for your own data, "
            "or dd.connect('sample') for the synthetic market"
        )


class FetchError(DerivdataError):
    """No usable answer came for one request.

    Attributes
    ----------
    path
        The request's path, without host and key.
    status
        HTTP status, or None where none arrived.
    retry_after
        Seconds that the service asked to wait, or None.
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
    """The service refused an argument (HTTP 400); the message is the service's own."""


class AuthError(FetchError):
    """The key is missing or not known (HTTP 401)."""


class TierError(FetchError):
    """The key's tier does not include this request (HTTP 403)."""


class NotFound(FetchError):
    """The symbol, venue or path is not known (HTTP 404)."""


class RateLimited(FetchError):
    """Too many requests (HTTP 429), still so after every retry."""

    retryable = True


class ServerError(FetchError):
    """The service failed (HTTP 5xx), still so after every retry."""

    retryable = True


class NetworkError(FetchError):
    """No answer, or only a part of one, after every retry."""

    retryable = True


class NotCached(FetchError):
    """``offline=True``, and this answer is not in the cache."""


class NotRecorded(FetchError):
    """In replay, and this answer is not in the bundle."""


class VenueError(FetchError):
    """A venue's public API answered with an error, which some venues send with HTTP 200.

    Attributes
    ----------
    code
        The venue's own code, as text.
    reason
        ``"limit"`` (asked too often), ``"busy"`` (try later), ``"region"`` (not available from this address)
        or ``"refused"``.
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
    """An answer or a frame that is not the table that it should be."""


class BundleError(DerivdataError):
    """A bundle that is damaged, truncated or hostile."""


class ArchiveError(DerivdataError):
    """An archive that cannot be read or written, or a file that does not fit into it."""


class DataNotice(UserWarning):
    """The data is usable but not all of what was asked: a clamp, an empty range, a tie."""


class CacheNotice(UserWarning):
    """An answer was served but could not be kept on disk."""


class DeprecationNotice(UserWarning):
    """The service announced that something the library asked for will be retired."""
