"""From a network that failed to the error that says what, why, and what to do."""

from __future__ import annotations

import requests
import urllib3

from derivdata.errors import FetchError, NetworkError

__all__ = ["lasting", "network_error"]


def lasting(error: FetchError) -> FetchError:
    """The error, said not to pass by itself."""
    error.retryable = False
    return error


def network_error(path: str, error: Exception) -> FetchError:
    """What requests or urllib3 raised, as ours; nothing of the request but its path."""
    if isinstance(error, requests.exceptions.SSLError):
        return lasting(NetworkError(path, f"the server's certificate was refused: {_innermost(error)}"))
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return NetworkError(path, "no connection in time")
    if isinstance(error, requests.exceptions.Timeout | urllib3.exceptions.TimeoutError):
        return NetworkError(path, "the server fell silent")
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return NetworkError(path, f"the connection failed or broke off: {_innermost(error)}")
    if isinstance(error, requests.TooManyRedirects):
        return lasting(NetworkError(path, "the server sends from one address to the next without end"))
    if isinstance(error, requests.exceptions.InvalidSchema):
        return lasting(
            NetworkError(path, "the server sends to an address by plain http, which is not followed")
        )
    return lasting(NetworkError(path, f"the request could not be sent: {type(error).__name__}"))


def _innermost(error: BaseException) -> str:
    """What the system said, without the layers around it."""
    reason = getattr(error, "reason", None)
    found = next((a for a in (reason, *error.args) if isinstance(a, BaseException)), None)
    return _innermost(found) if found is not None else str(error).rpartition(">: ")[2]
