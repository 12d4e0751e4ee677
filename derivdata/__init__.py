"""Crypto derivatives data as tidy pandas frames and xarray surfaces, replayable offline.

>>> import derivdata as dd
>>> dd.connect("sample")  # doctest: +SKIP
>>> dd.funding.history("BTC", "30d")  # doctest: +SKIP
"""

from importlib import import_module as _import_module

from derivdata.support import local as _local

__version__ = "0.2.0"

_FAMILIES = (
    "builders",
    "delivery",
    "funding",
    "futures",
    "hip3",
    "hip4",
    "liquidations",
    "markets",
    "oi",
    "options",
    "orderbook",
    "positioning",
    "prices",
    "rwa",
    "volatility",
    "volume",
)
_MODULES = {
    **{family: family for family in _FAMILIES},
    "analysis": "analysis",
    "archive": "sources.archive",
    "bundle": "bundle",
    "collect": "sources.collect",
    "datasets": "sources.datasets",
    "errors": "errors",
    "plot": "plot",
    "sample": "sources.sample",
    "tables": "tables",
    "units": "units",
    "venues": "sources.venues",
}
_NAMES = {
    "asof": "client.transport",
    "bundle_diff": "bundle",
    "cache_clear": "client.transport",
    "cache_info": "client.transport",
    "card": "cards",
    "catalog": "client.plan",
    "concat": "tables.joining",
    "connect": "client.transport",
    "disconnect": "client.transport",
    "features": "matrix",
    "instruments": "client.plan",
    "live": "sources.collect.live_feed",
    "open_archive": "sources.archive",
    "panel": "tables.panels",
    "plan": "client.plan",
    "provenance": "tables.panels",
    "quality": "analysis.quality",
    "raw": "client.transport",
    "record": "bundle",
    "replay": "bundle",
    "rerun": "cards",
    "report": "reports",
    "serve": "sources.service",
}

__all__ = sorted([*_MODULES, *_NAMES])


def __getattr__(name: str) -> object:
    from derivdata.support.forking import import_unforked

    value: object
    if name in _MODULES:
        value = import_unforked(f"derivdata.{_MODULES[name]}")
    elif name in _NAMES:
        value = getattr(import_unforked(f"derivdata.{_NAMES[name]}"), name)
    else:
        from derivdata.support.text import did_you_mean

        raise AttributeError(f"module 'derivdata' has no attribute {name!r}{did_you_mean(name, __all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _start_local(source: str, **options: object) -> object:
    service = _import_module("derivdata.sources.service")
    return service.start(source, **options)


_local.set_local(_start_local)
