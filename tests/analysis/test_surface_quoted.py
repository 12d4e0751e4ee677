import numpy as np

from derivdata.analysis import smile, surface
from tests.support.records import assert_identical

K = np.linspace(-0.3, 0.3, 15)


def noisy(count: int) -> tuple[np.ndarray, ...]:
    """Return smiles with five points of noise, bids and asks one to three points away, and their times."""
    iv, below, above = np.empty((3, count, K.size))
    for seed in range(count):
        random = np.random.default_rng(seed)
        iv[seed] = 0.5 - 0.1 * K + 0.4 * K**2 + 0.05 * random.standard_normal(K.size)
        below[seed], above[seed] = random.uniform(0.01, 0.03, (2, K.size))
    return iv, iv - below, iv + above, np.full(count, 0.25)


def test_bid_and_ask_never_make_a_fit_worse() -> None:
    """By the loss that they define, of twenty smiles that no form fits; most get better."""
    iv, bid, ask, t = noisy(20)
    losses = []
    for sides in ({}, {"iv_bid": bid, "iv_ask": ask}):
        model = smile.iv(smile.fit(K, iv, t, weights="equal", **sides), K).to_numpy()
        losses.append((np.maximum(bid - model, model - ask).clip(0.0) ** 2).sum(axis=1))
    plain, sided = losses
    assert (sided <= plain * (1 + 1e-12)).all()
    assert (sided < 0.99 * plain).sum() > 10


def test_a_quote_without_bid_and_ask_counts_as_the_widest_that_has_them() -> None:
    """Next to quotes with both sides it moves the smile a little, and belongs to the range of k."""
    k, t = np.linspace(-0.3, 0.3, 13), np.array([0.25])
    iv = (0.5 - 0.1 * k + 0.4 * k**2)[None]
    half = np.linspace(0.01, 0.03, 13)[None]
    bid, ask = iv - half, iv + half
    bid[:, [0, 5]], ask[:, [0, 5]] = np.nan, np.nan
    lone = iv.copy()
    lone[:, 5] += 0.05
    both = [
        (fit(k, lone, t, iv_bid=bid, iv_ask=ask), fit(k, iv, t, iv_bid=bid, iv_ask=ask))
        for fit in (smile.fit, lambda k, iv, t, **sides: surface.fit(k[None], iv, t, **sides))
    ]
    for moved, flat in both:
        assert moved["n"].to_numpy().tolist() == flat["n"].to_numpy().tolist() == [13]
        assert float(flat["k_min"].squeeze()) == -0.3
        rise = smile.iv(moved, k[5]) - smile.iv(flat, k[5])
        assert 1e-4 < float(rise.squeeze()) < 0.05
    width = 2 * half[0, -1]
    given = np.where(np.isnan(bid), 4 / width**2, 1 / half**2)
    same = smile.fit(k, lone, t, weights=given, iv_bid=bid, iv_ask=ask)
    np.testing.assert_allclose(smile.iv(same, k), smile.iv(both[0][0], k), rtol=1e-9)


def test_slices_without_bid_and_ask_or_inside_them_are_unchanged() -> None:
    iv, bid, ask, t = noisy(3)
    bid[1], ask[1] = np.nan, np.nan
    plain, sided = smile.fit(K, iv, t), smile.fit(K, iv, t, iv_bid=bid, iv_ask=ask)
    assert_identical(sided.isel(slice=1), plain.isel(slice=1))
    for none in (0.0, -1e308):
        given = {"iv_bid": np.nan_to_num(bid, nan=none), "iv_ask": np.nan_to_num(ask, nan=none)}
        assert_identical(smile.fit(K, iv, t, **given), sided)
        assert (
            surface.fit(np.tile(K, (3, 1)), iv, t + np.arange(3.0), method="essvi", **given)["n"].sum() == 45
        )
    assert (sided["nfev"] > plain["nfev"]).to_numpy().tolist() == [True, False, True]
    iv, _, _, t = noisy(1)
    # By vega both: of a fit with sides the default weight is of the spreads.
    plain = smile.fit(K, iv, t, weights="vega")
    sided = smile.fit(K, iv, t, weights="vega", iv_bid=iv - 0.3, iv_ask=iv + 0.3)
    assert_identical(sided, plain)
    assert int(plain["nfev"].sum()) > 0


def test_a_surface_inside_all_spreads_has_no_loss() -> None:
    """Marks alternate by ±0.4 points around 50 %, and spreads are ±1 point: the distance outside is zero."""
    k, iv = np.tile(np.linspace(-0.3, 0.3, 31), (2, 1)), np.full((2, 31), 0.5)
    wavy = iv + 0.004 * (-1.0) ** np.arange(31)
    fit = surface.fit(k, wavy, np.array([0.1, 0.3]), iv_bid=iv - 0.01, iv_ask=iv + 0.01)
    assert float(np.abs(smile.iv(fit, k[0]) - 0.5).max()) < 0.01
