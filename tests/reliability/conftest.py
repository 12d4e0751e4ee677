"""The local service that fails on demand, connections to it, and results for the page on reliability."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from derivdata.client.transport import SESSION
from derivdata.client.transport.connection import Connection
from derivdata.client.transport.settings import Limits, Timing
from tests.reliability.promises import PAGE, PROMISES, SOAK, machine, written
from tests.support import faults
from tests.transport.conftest import KEY, Open, fake, open_connection

__all__ = ["fake", "open_connection"]  # fixtures of the transport tests

_figures = pytest.StashKey[dict[str, list[str]]]()

PATIENT = Limits(connect=300.0, read=300.0, answer=300.0, budget=1500.0, patience=1500.0)
"""No machine is slow enough that a response in transit is abandoned."""

Measured = Callable[[str, str], None]
Use = Callable[..., Connection]


def pytest_configure(config: pytest.Config) -> None:
    if SOAK and config.getoption("numprocesses", None):
        raise pytest.UsageError("the figures of a soak are of one process: leave -n out")
    config.stash[_figures] = {}


@pytest.fixture
def measured(request: pytest.FixtureRequest) -> Measured:
    """Record the result of a run for a guarantee; a soak writes it into the page."""

    def say(promise: str, figure: str) -> None:
        assert promise in PROMISES
        request.config.stash[_figures].setdefault(promise, []).append(figure)

    return say


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    figures = session.config.stash[_figures]
    if SOAK and figures and exitstatus == 0:
        import fcntl  # of the systems on which a soak runs

        with PAGE.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another soak may end at the same time
            table = file.read()
            file.seek(0)
            file.write(written(table, figures, machine()))
            file.truncate()


@pytest.fixture(scope="package")
def faulty() -> Iterator[str]:
    """Address of the sample, served with faults on demand."""
    with faults.serve({KEY: "team"}) as url:
        yield url


@pytest.fixture
def use(faulty: str, open_connection: Open, monkeypatch: pytest.MonkeyPatch) -> Use:
    """Make a connection to the faulty service the current one; its pauses take no time."""

    def connect(plan: str, **settings: object) -> Connection:
        settings.setdefault("timing", Timing(sleep=lambda _: None))
        settings.setdefault("limits", PATIENT)
        settings.setdefault("paced", False)
        connection = open_connection(f"{faulty}/fault:{plan}", **settings)
        monkeypatch.setattr(SESSION, "connection", connection)
        return connection

    return connect
