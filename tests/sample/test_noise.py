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
