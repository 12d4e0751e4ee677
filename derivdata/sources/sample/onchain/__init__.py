"""The made-up HIP-3 dexes, HIP-4 outcome markets and builders: single traders, prices, open interest."""

from __future__ import annotations

from derivdata.sources.sample.onchain.builders import builders_history
from derivdata.sources.sample.onchain.hip3 import DEXES, hip3_candles, hip3_traders
from derivdata.sources.sample.onchain.hip4 import OUTCOMES, hip4_oi, hip4_traders

__all__ = [
    "DEXES",
    "OUTCOMES",
    "builders_history",
    "hip3_candles",
    "hip3_traders",
    "hip4_oi",
    "hip4_traders",
]


def __dir__() -> list[str]:
    return __all__
