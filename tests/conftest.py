"""Every test runs without a network, with an empty cache and without a connection."""

from __future__ import annotations

import gc
import ipaddress
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

gc.disable()  # until all tests are collected: what is imported is no garbage, and much to look through

# The same examples in every run, however long each takes: few, or many with --hypothesis-profile=long.
settings.register_profile("short", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("long", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("short")

# Run again in other environments: numerics, transport, command line, locale and time. Files that draw many
# examples of one formula, or compare kinds of arrays, add nothing there.
_ENVIRONMENT = (
    *(
        f"analysis/test_{name}"
        for name in """align backtest black76 chain exposure joint_svi liquidations oi quality settlements
        smile_evaluate smile_fit surface_fit surface_recorded variance funding_carry funding_half_life
        funding_recorded funding_zscore""".split()
    ),
    *("transport", "archive/test_import_times.py", "test_cli.py", "test_fetch.py", "test_real_data.py"),
    *("test_report_tables.py", "test_schema.py", "test_tables.py", "test_times.py", "test_units.py"),
)
_ONE_MACHINE = ("TestArrays", "TestKindsOfArray", "TestProperties", "chain_surface")

# The slowest tests, run by `make test-slow`: code of pages and notebooks, pictures, browsers, and many,
# killed or flooded processes.
_SLOW = (
    "test_cassettes_of_users.py::test_the_suite",
    *(
        "docs/test_pages.py::test_code_of_a_page_runs",
        "docs/test_pages.py::test_the_first_block_of_a_page",
        "plot/test_images.py",
    ),
    *("test_notebooks.py::test_notebook_shows", "test_notebooks.py::test_the_switch"),
    "reliability/test_arguments.py::test_each_argument_refuses",
    *(f"reliability/test_{name}.py" for name in ("archive", "every_fetcher")),
    *(
        f"reliability/test_collecting.py::test_{name}"
        for name in ("a_collector", "dexes", "a_venue", "payments", "windows")
    ),
    *(f"reliability/test_{name}.py" for name in ("forks", "interrupts", "kills")),
    *("reliability/test_service_abuse.py", "service/test_workers.py"),
    *("browser/", "test_contributing.py"),
    *("collect/test_every_fetcher.py::test_the_report", "collect/test_refills.py::test_a_signal"),
    *("test_typed_front_door.py::test_mypy", "test_typed_front_door.py::test_pyright"),
)

_connect = socket.socket.connect


def _loopback_only(self: socket.socket, address: object) -> None:
    host = address[0] if isinstance(address, tuple) else None
    if host is not None and host != "localhost" and not ipaddress.ip_address(host).is_loopback:
        raise RuntimeError(f"a test tried to reach {host}: tests talk to this machine only")
    _connect(self, address)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests whose results depend on the environment, tests with drawn examples, and slow tests."""
    here = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        if path.startswith(_ENVIRONMENT) and not any(name in item.nodeid for name in _ONE_MACHINE):
            item.add_marker("environment")
        if f"{path}::{item.name}".startswith(_SLOW):
            item.add_marker("slow")
        if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
            item.add_marker("drawn")


def pytest_collection_finish() -> None:
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_network() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _loopback_only)
        yield


@pytest.fixture(autouse=True)
def _fresh(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    for name in ("DERIVDATA_BASE_URL", "DERIVDATA_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
    if transport := sys.modules.get("derivdata.client.transport"):
        transport.disconnect()
