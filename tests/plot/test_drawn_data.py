"""Every figure against the numbers that it drew when it was looked at: one wrong line fails."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.plot.drawn_data import BASELINE, FIGURES, drawn

EXPECTED: dict[str, list[dict[str, Any]]] = json.loads(BASELINE.read_text(encoding="utf-8"))


def test_every_figure_has_a_baseline() -> None:
    assert set(EXPECTED) == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_draws_the_same_data(name: str) -> None:
    found = drawn(name)
    assert len(found) == len(EXPECTED[name])
    for axes, expected in zip(found, EXPECTED[name], strict=True):
        assert axes["words"] == expected["words"]
        assert axes["ticks"] == expected["ticks"]
        for kind in ("lines", "patches", "collections"):
            assert len(axes[kind]) == len(expected[kind]), kind
            for one, other in zip(axes[kind], expected[kind], strict=True):
                np.testing.assert_allclose(
                    np.array(one, dtype=np.float64),
                    np.array(other, dtype=np.float64),
                    rtol=1e-5,
                    atol=1e-7,
                    err_msg=kind,
                )
