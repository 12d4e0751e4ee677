"""vollib's core, Let's Be Rational, compiled by numba as fast as it goes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import cody_special
import numba

__all__ = ["implied_vol"]


def _compile(module: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """Compile the functions of a module in place, in order, with those in `given` replaced."""
    vars(module).update(given)
    own = [name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
    vars(module).update({name: numba.njit(vars(module)[name]) for name in own})
    return {name: vars(module)[name] for name in own}


# The core's own switch for numba (an environment variable) omits these functions, which it calls.
_errors = _compile(sys.modules["cody_special.erf_cody"], {})
_normal = _compile(sys.modules["cody_special.normaldistribution"], {"erfc_cody": _errors["erfc_cody"]})
vars(cody_special).update({name: _normal[name] for name in ("inverse_norm_cdf", "norm_cdf", "norm_pdf")})

from vollib.lets_be_rational import (  # noqa: E402
    implied_volatility_from_a_transformed_rational_guess as implied_vol,
)
