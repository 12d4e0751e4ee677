"""Crypto derivatives data as tidy pandas frames and xarray surfaces, replayable offline.

>>> import derivdata as dd
>>> dd.connect("sample")  # doctest: +SKIP
>>> dd.funding.history("BTC", "30d")  # doctest: +SKIP
"""

import sys as _sys
from importlib import import_module as _import_module

from derivdata.support import set_local as _set_local

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
    "catalog": "client.quantities",
    "concat": "tables.frames",
    "connect": "client.transport",
    "disconnect": "client.transport",
    "features": "matrix",
    "gaps": "analysis.quality",
    "instruments": "client.quantities",
    "live": "sources.collect.live_feed",
    "open_archive": "sources.archive",
    "panel": "tables.panels",
    "plan": "client.quantities",
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


class _AfterImport:
    """Register the accessors when pandas or xarray is imported.

    `import derivdata` imports neither, to stay fast. Without this, ``.dd`` would exist only after the first
    use of the package.
    """

    waiting = ("pandas", "xarray")

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return the module's own spec, whose loader also registers the accessors."""
        if name not in self.waiting:
            return None
        self.waiting = tuple(other for other in self.waiting if other != name)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: object) -> None:
            execute(module)  # type: ignore[arg-type]
            _register(name)

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign, assignment]
        return spec


def _register(library: str) -> None:
    _import_module("derivdata.accessors").register(library)


def _start_local(source: str, **options: object) -> object:
    service = _import_module("derivdata.sources.service")
    return service.start(source, **options)


_set_local(_start_local)
for _library in _AfterImport.waiting:
    if _library in _sys.modules:
        _register(_library)
if not {*_AfterImport.waiting} <= {*_sys.modules}:
    _sys.meta_path.insert(0, _AfterImport())  # type: ignore[arg-type]
