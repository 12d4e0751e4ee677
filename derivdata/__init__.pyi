# What `derivdata.__getattr__` resolves lazily, for type checkers and completion; never executed.
from derivdata import analysis as analysis
from derivdata import builders as builders
from derivdata import bundle as bundle
from derivdata import delivery as delivery
from derivdata import errors as errors
from derivdata import funding as funding
from derivdata import futures as futures
from derivdata import hip3 as hip3
from derivdata import hip4 as hip4
from derivdata import liquidations as liquidations
from derivdata import markets as markets
from derivdata import oi as oi
from derivdata import options as options
from derivdata import orderbook as orderbook
from derivdata import plot as plot
from derivdata import positioning as positioning
from derivdata import prices as prices
from derivdata import rwa as rwa
from derivdata import tables as tables
from derivdata import units as units
from derivdata import volatility as volatility
from derivdata import volume as volume
from derivdata.analysis.quality import quality as quality
from derivdata.bundle import bundle_diff as bundle_diff
from derivdata.bundle import record as record
from derivdata.bundle import replay as replay
from derivdata.client.plan import catalog as catalog
from derivdata.client.plan import instruments as instruments
from derivdata.client.plan import plan as plan
from derivdata.client.transport import asof as asof
from derivdata.client.transport import cache_clear as cache_clear
from derivdata.client.transport import cache_info as cache_info
from derivdata.client.transport import connect as connect
from derivdata.client.transport import disconnect as disconnect
from derivdata.client.transport import raw as raw
from derivdata.matrix import features as features
from derivdata.reports import report as report
from derivdata.sources import archive as archive
from derivdata.sources import collect as collect
from derivdata.sources import sample as sample
from derivdata.sources import venues as venues
from derivdata.sources.archive import open_archive as open_archive
from derivdata.sources.collect.live_feed import live as live
from derivdata.sources.service import serve as serve
from derivdata.tables.joining import concat as concat
from derivdata.tables.panels import panel as panel
from derivdata.tables.panels import provenance as provenance

__version__: str
_FAMILIES: tuple[str, ...]
__all__ = [
    "analysis",
    "archive",
    "asof",
    "builders",
    "bundle",
    "bundle_diff",
    "cache_clear",
    "cache_info",
    "catalog",
    "collect",
    "concat",
    "connect",
    "delivery",
    "disconnect",
    "errors",
    "features",
    "funding",
    "futures",
    "hip3",
    "hip4",
    "instruments",
    "liquidations",
    "live",
    "markets",
    "oi",
    "open_archive",
    "options",
    "orderbook",
    "panel",
    "plan",
    "plot",
    "positioning",
    "prices",
    "provenance",
    "quality",
    "raw",
    "record",
    "replay",
    "report",
    "rwa",
    "sample",
    "serve",
    "tables",
    "units",
    "venues",
    "volatility",
    "volume",
]
