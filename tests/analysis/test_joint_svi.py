import numpy as np
import pytest

from derivdata.analysis import smile, surface
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.evaluate import Method
from derivdata.analysis.smile.joint_svi import never_below
from derivdata.analysis.smile.svi import Raw
from derivdata.analysis.status import Status
from tests.analysis import mingone
from tests.analysis.test_surface_fit import garbage
from tests.analysis.violations import violations


@pytest.fixture
def rng():
    return np.random.default_rng(20260105)


def noisy(rng, surfaces, expiries, noise):
    k, iv, t = mingone.ragged([mingone.draw(rng, expiries) for _ in range(surfaces)])
    return k, iv * np.exp(noise * rng.standard_normal(iv.shape)), t


def has(fitted, bit):
    return ((fitted["status"] & np.int32(bit)) != 0).to_numpy()


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
def test_noisy_surfaces_are_fitted_arbitrage_free_without_a_fallback(rng, noise):
    fitted = surface.fit(*noisy(rng, 8, 6, noise))
    assert violations(fitted) == (0, 0, 0)
    assert not has(fitted, Status.FALLBACK_USED).any()
    assert (fitted["method"] == Method.SVI).all()


@pytest.mark.parametrize("most", [0.2, 1.0, 4.0])
def test_random_quotes_give_an_arbitrage_free_fit_or_flagged_essvi(rng, most):
    k, iv, t = garbage(rng, 6, most, 1.0)
    fitted = surface.fit(k, iv, t)
    assert violations(fitted)[:2] == (0, 0)
    fallback = has(fitted, Status.FALLBACK_USED)
    essvi = surface.fit(k, iv, t, method="essvi")
    assert ((fitted["method"] == Method.SSVI).to_numpy() == fallback).all()
    for name in Raw._fields:
        np.testing.assert_allclose(fitted[name].to_numpy()[fallback], essvi[name].to_numpy()[fallback])


def test_known_svi_slices_without_arbitrage_are_recovered():
    """Neither slice is SSVI (its vertex is not where it would be); both are free, and far apart."""
    years = np.array([0.1, 0.4])
    both = np.array([(0.01, 0.08, -0.3, 0.02, 0.08), (0.05, 0.12, -0.2, 0.05, 0.2)])
    raw = Raw(*(both[:, i, None] for i in range(5)))
    k = np.linspace(-0.8, 0.8, 33)
    iv = np.sqrt(svi.total_variance(k, raw) / years[:, None])
    fitted = surface.fit(np.tile(k, (2, 1)), iv, years)
    assert violations(fitted) == (0, 0, 0)
    for name, value in raw._asdict().items():
        np.testing.assert_allclose(fitted[name], value[:, 0], rtol=1e-3, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(fitted["atm_error_vol"], 0.0, atol=1e-6)


def slices(*raw):
    return Raw(*(np.array([part]) for part in raw))


@pytest.mark.parametrize(
    ("earlier", "later", "free"),
    [
        # b, ρ, m, σ alike: the gap is a₂ − a₁ everywhere.
        ((0.01, 0.1, -0.3, 0.0, 0.1), (0.02, 0.1, -0.3, 0.0, 0.1), True),
        ((0.02, 0.1, -0.3, 0.0, 0.1), (0.01, 0.1, -0.3, 0.0, 0.1), False),
        # Higher at the money, but a flatter right wing: 0.5 (1 + 0) against 0.4: they meet near k = 10.
        ((0.01, 0.5, 0.0, 0.0, 0.1), (1.01, 0.4, 0.0, 0.0, 0.1), False),
        # Touching at k = 0 and nowhere below: |k|/2 + … with another σ and the same w(0).
        ((0.0, 0.5, 0.0, 0.0, 0.2), (0.0, 1.0, 0.0, 0.0, 0.1), True),
        # Shifted copies of one V: w₂ − w₁ tends to −b m on the right.
        ((0.0, 0.5, 0.0, 0.0, 0.1), (0.0, 0.5, 0.0, 0.1, 0.1), False),
    ],
)
def test_never_below_is_right_for_obvious_pairs(earlier, later, free):
    assert never_below(slices(*earlier), slices(*later)).tolist() == [free]


def test_never_below_agrees_with_a_dense_grid(rng):
    count = 1000
    first = Raw(
        *(
            rng.uniform(low, high, count)
            for low, high in ((0, 0.1), (0.05, 0.6), (-0.9, 0.9), (-0.3, 0.3), (0.02, 0.5))
        )
    )
    second = Raw(*(part * rng.uniform(0.9, 1.4, count) for part in first))
    second = second._replace(rho=np.clip(second.rho, -0.99, 0.99))
    k = np.concatenate([-np.geomspace(1e4, 1e-4, 3000), [0.0], np.geomspace(1e-4, 1e4, 3000)])
    gap = svi.total_variance(k, Raw(*(p[:, None] for p in second))) - svi.total_variance(
        k, Raw(*(p[:, None] for p in first))
    )
    crossed = (gap < -1e-9 * (1 + np.abs(k))).any(axis=1)
    said = never_below(first, second)
    assert 50 < said.sum() < count - 50
    assert not (said & crossed).any()
    assert (~said & ~crossed).mean() < 0.01  # what crosses between two places, or beyond 10⁴


def test_atm_error_is_fit_minus_quote():
    """Quotes at k = ∓0.1 of 0.5 and 0.7: variance between them is (0.25 + 0.49)/2, its root 0.60828."""
    k = np.array([[-0.3, -0.1, 0.1, 0.3]])
    fitted = surface.fit(k, np.array([[0.5, 0.5, 0.7, 0.7]]), np.array([0.25]), method="essvi")
    expected = float(smile.iv(fitted, 0.0)[0]) - np.sqrt((0.25 + 0.49) / 2)
    assert float(fitted["atm_error_vol"][0]) == pytest.approx(expected, abs=1e-12)
    one_side = surface.fit(k + 0.5, np.full((1, 4), 0.5), np.array([0.25]), method="essvi")
    assert np.isnan(one_side["atm_error_vol"][0])
