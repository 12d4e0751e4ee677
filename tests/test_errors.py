"""The error tree: what a caller can read from every error, and that it survives a process boundary."""

from __future__ import annotations

import importlib
import inspect
import pickle  # noqa: TID251 - errors travel by it
import pkgutil

import pytest

import derivdata
from derivdata import errors
from derivdata.sources.service.refusal import Refusal

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


def every_exception() -> list[type[BaseException]]:
    """Every exception class of the package but the service's `Refusal`, which becomes an answer at once."""
    modules = [
        importlib.import_module(m.name)
        for m in pkgutil.walk_packages(derivdata.__path__, "derivdata.")
        if not m.name.endswith("__main__")
    ]
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if kind is not Refusal
        and inspect.isclass(kind)
        and issubclass(kind, BaseException)
        and kind.__module__ == module.__name__
    }
    return sorted(kinds, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}")


def made(kind: type[BaseException]) -> BaseException:
    """An exception of a class, with a word for each argument that it cannot do without."""
    signature = inspect.signature(kind.__init__)
    needed = [
        p
        for p in list(signature.parameters.values())[1:]
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    return kind(*(f"word {n}" for n, _ in enumerate(needed)))


def test_every_exception_of_the_package_survives_pickling() -> None:
    """A pool of processes hands on what a worker raises; what cannot be pickled breaks the whole pool."""
    kinds = every_exception()
    assert {errors.NotConnected, errors.BundleError, errors.DataNotice} < set(kinds)
    for kind in kinds:
        error = made(kind)
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (kind, str(error), vars(error)), kind


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
