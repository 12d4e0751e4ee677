"""Liquidations: sums per bucket, imbalance, clusters and cascades.

``side`` is the side that was liquidated. Feeds are throttled or sampled on some venues, so levels are not
comparable across venues: use a venue's own shares. An order counts once, by venue and order id.
"""

from derivdata.analysis.liquidations.branching import branching_ratio
from derivdata.analysis.liquidations.buckets import bucket, imbalance, observed
from derivdata.analysis.liquidations.clustering import cascades, clusters

__all__ = ["branching_ratio", "bucket", "cascades", "clusters", "imbalance", "observed"]
__dir__ = __all__.copy
