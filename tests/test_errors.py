"""The error tree: attributes for a caller, and errors across a process boundary."""

from __future__ import annotations

import importlib
import inspect
import pickle  # noqa: TID251 - errors travel by it
import pkgutil

import derivdata
from derivdata import errors
from derivdata.sources.service.data.store import Refusal


def every_exception() -> set[type[BaseException]]:
    """Return every exception class of the package except the service's `Refusal`, which is a response."""
    modules = (module.name for module in pkgutil.walk_packages(derivdata.__path__, "derivdata."))
    return {
        kind
        for name in modules
        if not name.endswith("__main__")
        for kind in vars(importlib.import_module(name)).values()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == name
    } - {Refusal}


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
    """A process pool passes on a worker's error; an exception that cannot be pickled breaks the pool."""
    assert {getattr(errors, name) for name in errors.__all__} <= every_exception()
    for kind in every_exception():
        error = made(kind)
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (kind, str(error), vars(error)), kind
        assert kind.__doc__


def test_fetch_errors_have_documented_attributes() -> None:
    error = errors.ServerError("/funding", "no answer", status=503, retry_after=1.5)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == "/funding: no answer"
    assert (copy.path, copy.status, copy.retry_after) == ("/funding", 503, 1.5)


def test_only_transient_errors_are_retryable() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    retryable = [kind.__name__ for kind in kinds if issubclass(kind, errors.FetchError) and kind.retryable]
    assert sorted(retryable) == ["NetworkError", "RateLimited", "ServerError"]


def test_not_connected_names_the_three_ways() -> None:
    message = str(errors.NotConnected())
    for way in ("DERIVDATA_BASE_URL", "path/to/archive", "dd.connect('sample')"):
        assert way in message
