"""The error tree: what a caller can read from every error, and that it survives a process boundary."""

from __future__ import annotations

import pickle

import pytest

from derivdata import errors

FETCH_ERRORS = [
    kind for kind in (getattr(errors, name) for name in errors.__all__) if issubclass(kind, errors.FetchError)
]


def test_every_public_name_is_documented_and_in_the_tree() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert kind.__doc__
        assert issubclass(kind, errors.DerivdataError | UserWarning)


@pytest.mark.parametrize("kind", FETCH_ERRORS)
def test_fetch_error_carries_status_and_survives_pickling(kind: type[errors.FetchError]) -> None:
    error = kind("/funding", "no answer", status=503, retry_after=1.5)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == "/funding: no answer"
    assert (copy.path, copy.status, copy.retry_after) == ("/funding", 503, 1.5)


def test_only_passing_faults_are_retryable() -> None:
    assert {kind.__name__ for kind in FETCH_ERRORS if kind.retryable} == {
        "NetworkError",
        "RateLimited",
        "ServerError",
    }


def test_not_connected_names_the_three_ways() -> None:
    message = str(errors.NotConnected())
    for way in ("DERIVDATA_BASE_URL", "path/to/archive", "dd.connect('sample')"):
        assert way in message
