"""Published and made smiles for the tests of `derivdata.analysis.smile`."""

from typing import Any

import numpy as np
import pandas as pd

from derivdata.analysis.smile import svi
from tests.support.shared import known_path


def published(name: str, family: str) -> dict[str, float]:
    """Parameters or figures of one set of ``svi_parameters.csv``."""
    table = pd.read_csv(known_path("svi_parameters"))
    rows = table[(table["set"] == name) & (table["family"] == family)]
    return dict(zip(rows["name"], rows["value"], strict=True))


def raw_sets() -> dict[str, svi.Raw]:
    table = pd.read_csv(known_path("svi_parameters"))
    names = table.loc[table["family"] == "raw", "set"].unique()
    return {name: svi.Raw(**published(name, "raw")) for name in names}


def points(name: str) -> pd.DataFrame:
    """Columns k, w, dw, d2w, g of one set of ``svi_points.csv``."""
    table = pd.read_csv(known_path("svi_points"))
    return table[table["set"] == name]


def crypto_like(
    slices: int, strikes: int, *, seed: int, noise: float = 0.0, fewest: int | None = None
) -> tuple[Any, Any, Any, svi.Raw]:
    """Log-moneyness, volatility, years and true parameters of random smiles that have no butterfly.

    Two days to a year, 30 to 120 % at the money, quotes to 1.5 to 4 deviations on either side. `noise` is
    relative. With `fewest`, slices have that many to `strikes` quotes, the rest being NaN.
    """
    rng = np.random.default_rng(seed)
    size = 6 * slices + 60
    t = np.exp(rng.uniform(np.log(2 / 365), 0.0, size))
    level = np.square(rng.uniform(0.3, 1.2, size)) * t
    deviation = np.sqrt(level)
    b, rho = level / deviation * rng.uniform(0.1, 0.8, size), rng.uniform(-0.8, 0.6, size)
    m, sigma = deviation * rng.uniform(-0.5, 0.5, size), deviation * rng.uniform(0.2, 2.0, size)
    a = level - b * (np.hypot(m, sigma) - rho * m)
    good = (a + b * sigma * np.sqrt(1 - rho**2) > 0.1 * level) & (b * (1 + np.abs(rho)) < 1.9)
    t, deviation, a, b, rho, m, sigma = (x[good][:slices] for x in (t, deviation, a, b, rho, m, sigma))
    low, high = -deviation * rng.uniform(1.5, 4, slices), deviation * rng.uniform(1.5, 4, slices)
    k = np.sort(low[:, None] + (high - low)[:, None] * rng.random((slices, strikes)), axis=1)
    raw = svi.Raw(a, b, rho, m, sigma)
    w = svi.total_variance(k, svi.Raw(*(x[:, None] for x in raw)))
    iv = np.sqrt(w / t[:, None]) * (1.0 + noise * rng.standard_normal(k.shape))
    if fewest is not None:
        count = rng.integers(fewest, strikes + 1, slices)
        order = np.argsort(rng.random(k.shape), axis=1)
        iv = np.where(order < count[:, None], iv, np.nan)
    return k, iv, t, raw
