import numpy as np
import pytest

from derivdata.sources.sample import noise
from tests.sample import scalar


def test_stream_zero_is_splitmix64_from_seed_zero():
    """The first outputs of the reference implementation (Vigna, splitmix64.c) for seed 0."""
    published = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert noise.bits(np.uint64(0), np.arange(3)).tolist() == published


@pytest.mark.parametrize("name", ["BTC", "币安人生"])
def test_every_number_is_that_of_plain_python(name):
    stream, index = noise.key("pair", name), [0, 1, 77, 5_900_000, 2**40]
    plain = scalar.key("pair", name)
    assert int(stream) == plain
    assert noise.bits(stream, index).tolist() == [scalar.splitmix(plain, i) for i in index]
    assert noise.uniform(stream, index).tolist() == [scalar.uniform(plain, i) for i in index]
    assert noise.normal(stream, index) == pytest.approx([scalar.normal(plain, i) for i in index], rel=1e-15)


def test_normal_and_uniform_have_their_moments():
    """Variance 1 and kurtosis 3 − 1.2/4 = 2.7; neighbours and streams are uncorrelated."""
    x = noise.normal(noise.keys("test", range(4))[:, None], np.arange(100_000))
    assert x.mean() == pytest.approx(0.0, abs=0.006)
    assert x.var() == pytest.approx(1.0, abs=0.01)
    assert (x**4).mean() == pytest.approx(2.7, abs=0.03)
    assert np.abs(np.corrcoef(x) - np.eye(4)).max() < 0.015
    assert abs(np.corrcoef(x[0, 1:], x[0, :-1])[0, 1]) < 0.015
    u = noise.uniform(noise.key("test"), np.arange(100_000))
    assert 0.0 <= u.min() < 1e-4
    assert 1.0 - 1e-4 < u.max() < 1.0
    assert np.histogram(u, 10)[0] == pytest.approx(10_000, abs=400)
