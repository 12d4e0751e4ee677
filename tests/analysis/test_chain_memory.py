import sys

import dask.array  # noqa: F401  (imported here, so that no measurement holds the import)
import numpy as np
import pytest

from derivdata.analysis import chain, labelling, surface
from tests.analysis.made_chains import daily_chains
from tests.support.records import assert_identical


def test_lazy_smiles_equal_eager_ones(monkeypatch):
    options = chain.clean(daily_chains(12))
    filled = chain.smiles(options)
    assert not filled.chunks
    violations = chain.arbitrage(
        filled.assign(iv=filled["iv"].where(filled["strike"] != 9e4, filled["iv"] * 1.5))
    )
    monkeypatch.setattr(labelling, "MAX_CELLS", 10_000)
    monkeypatch.setattr(labelling, "CHUNK_CELLS", 20_000)
    lazy = chain.smiles(options.sample(frac=1.0, random_state=1))
    assert len(lazy.chunksizes["time"]) > 2
    assert max(lazy["iv"].data.blocks[i].size for i in range(len(lazy.chunksizes["time"]))) <= 20_000
    assert_identical(lazy.compute(), filled)
    bent = lazy.assign(iv=lazy["iv"].where(lazy["strike"] != 9e4, lazy["iv"] * 1.5))
    assert len(violations) > 0
    assert chain.arbitrage(bent).equals(violations)
    fits = [
        surface.fit(two["log_moneyness"], two["iv"], two["year_fraction"], method="slices")["a"]
        for two in (lazy.isel(time=slice(2)), filled.isel(time=slice(2)))
    ]
    np.testing.assert_allclose(*(fit.compute() for fit in fits), rtol=1e-9)


def test_too_long_history_without_dask_raises_with_advice(monkeypatch):
    monkeypatch.setattr(labelling, "MAX_CELLS", 10_000)
    monkeypatch.setitem(sys.modules, "dask", None)
    monkeypatch.setitem(sys.modules, "dask.array", None)
    options = chain.clean(daily_chains(12))
    with pytest.raises(ImportError, match=r"one grid of 12 chains .* use surface.from_chain"):
        chain.smiles(options)
    assert chain.forwards(options).sizes["time"] == 12, "a grid of expiries alone is small"
