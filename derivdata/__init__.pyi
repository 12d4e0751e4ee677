# What `derivdata.__getattr__` resolves lazily, for type checkers and completion; never executed.
from derivdata import analysis as analysis
from derivdata import errors as errors
from derivdata import plot as plot
from derivdata import tables as tables
from derivdata import units as units
from derivdata import venues as venues
from derivdata.analysis.quality import quality as quality
from derivdata.archive import open_archive as open_archive
from derivdata.bundle import bundle_diff as bundle_diff
from derivdata.bundle import record as record
from derivdata.bundle import replay as replay
from derivdata.fetch import builders as builders
from derivdata.fetch import funding as funding
from derivdata.fetch import hip3 as hip3
from derivdata.fetch import hip4 as hip4
from derivdata.fetch import liquidations as liquidations
from derivdata.fetch import markets as markets
from derivdata.fetch import oi as oi
from derivdata.fetch import options as options
from derivdata.fetch import orderbook as orderbook
from derivdata.fetch import prices as prices
from derivdata.fetch import rwa as rwa
from derivdata.fetch import volume as volume
from derivdata.fetch.plan import plan as plan
from derivdata.reports import report as report
from derivdata.service import serve as serve
from derivdata.tables import concat as concat
from derivdata.tables import panel as panel
from derivdata.tables import provenance as provenance
from derivdata.transport import asof as asof
from derivdata.transport import cache_clear as cache_clear
from derivdata.transport import cache_info as cache_info
from derivdata.transport import connect as connect
from derivdata.transport import disconnect as disconnect
from derivdata.transport import raw as raw

__version__: str
__all__ = [
    "analysis",
    "asof",
    "builders",
    "bundle_diff",
    "cache_clear",
    "cache_info",
    "concat",
    "connect",
    "disconnect",
    "errors",
    "funding",
    "hip3",
    "hip4",
    "liquidations",
    "markets",
    "oi",
    "open_archive",
    "options",
    "orderbook",
    "panel",
    "plan",
    "plot",
    "prices",
    "provenance",
    "quality",
    "raw",
    "record",
    "replay",
    "report",
    "rwa",
    "serve",
    "tables",
    "units",
    "venues",
    "volume",
]
