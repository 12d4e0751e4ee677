"""The batched SVI fit against slow, readable fits of one slice at a time."""

import numpy as np
import pytest

from derivdata.analysis import smile
from derivdata.analysis.smile.evaluate import RAW
from tests.analysis.smile_reference import best_of_starts, rms
from tests.analysis.smiles import crypto_like
from tests.reliability.promises import count


def errors(k, iv, t):
    """Root mean squares, linearised, of the batched fit and of the slow one, slice by slice."""
    fit = smile.fit(k, iv, t, weights="equal")
    raw = np.stack([np.atleast_1d(fit[name]) for name in RAW], axis=1)
    found = []
    for i in range(len(t)):
        used = np.isfinite(iv[i])
        slice_ = k[i, used], iv[i, used], t[i]
        found.append((rms(*slice_, raw[i]), rms(*slice_, best_of_starts(*slice_))))
    return np.array(found).T


def test_clean_and_a_few_noisy_slices_are_as_good_as_the_best_of_twelve_starts():
    for slices, strikes, options, room in (
        (1, 12, {"seed": 20}, 1.0),
        (3, 10, {"seed": 21, "noise": 0.03, "fewest": 8}, 1.0001),
    ):
        k, iv, t, _ = crypto_like(slices, strikes, **options)
        ours, theirs = errors(k, iv, t)
        assert (ours <= room * theirs + 1e-12).all()


@pytest.mark.slow
def test_noisy_slices_are_as_good_as_the_best_of_twelve_starts():
    """Eight to twenty quotes with 3 % noise have local minima; thirty with 0.3 % have none."""
    k, iv, t, _ = crypto_like(count(16, 40), 20, seed=22, noise=0.03, fewest=8)
    ours, theirs = errors(k, iv, t)
    assert (ours <= 1.01 * theirs).all()
    assert np.median(ours / theirs) == pytest.approx(1.0, abs=1e-6)
    ours, theirs = errors(*crypto_like(12, 30, seed=23, noise=0.003)[:3])
    assert (ours <= theirs * (1 + 1e-6)).all()
