"""Market snapshots: symbols, venues, price movers, funding leaders.

Price and current funding refresh about once a minute, rolling figures about every ten; ``time`` is the
answer's own time and not the age of each figure.
"""

from derivdata.markets.rankings import funding_leaders, price_buckets, price_movers, symbol_stats, symbols
from derivdata.markets.states import exchange_history, exchange_symbols, exchanges, symbol_exchanges

__all__ = [
    "exchange_history",
    "exchange_symbols",
    "exchanges",
    "funding_leaders",
    "price_buckets",
    "price_movers",
    "symbol_exchanges",
    "symbol_stats",
    "symbols",
]
__dir__ = __all__.copy
