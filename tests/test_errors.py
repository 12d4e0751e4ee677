"""The error tree: attributes for a caller, and errors across a process boundary."""

from __future__ import annotations

import importlib
import inspect
import pickle  # noqa: TID251 - errors travel by it
import pkgutil
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

import derivdata
import derivdata as dd
from derivdata import errors
from derivdata.client.transport.response import network_error
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


@pytest.mark.parametrize(
    "call",
    [
        lambda address: dd.replay(f"{address}/a.ddz"),
        lambda address: dd.record(f"{address}/a.ddz").__enter__(),
        lambda address: dd.bundle.info(Path(f"{address}/a.ddz")),
        lambda address: dd.open_archive(address),
    ],
)
def test_messages_do_not_show_user_and_password_of_an_address(call: Callable[[str], object]) -> None:
    with pytest.raises(errors.DerivdataError) as raised:
        call("https://me:pass@word77@host.example")
    assert "word77" not in str(raised.value)
    assert "word77" not in repr(raised.value)


def test_messages_keep_addresses_without_a_user_and_paths() -> None:
    for text in ("https://host.example/a@b", "C:/me@host/file", "write to me@host.example", "a: b@c"):
        assert str(errors.ArchiveError(text)) == text


def test_a_slash_in_a_password_is_hidden_and_a_port_is_kept() -> None:
    message = str(errors.ArchiveError("http://me:pass/word77@host.example:80 and http://localhost:80/a@b"))
    assert message == "http://***@host.example:80 and http://localhost:80/a@b"


def test_a_proxy_that_needs_another_package_is_named() -> None:
    error = network_error(
        "/funding", requests.exceptions.InvalidSchema("Missing dependencies for SOCKS support.")
    )
    assert "install PySocks" in str(error)
    assert not error.retryable


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
