"""The payloads of the API, made from base tables: a module for each family of endpoints, named after it."""

from __future__ import annotations

from importlib import import_module

from derivdata.sources.service.answers.context import Answers, RequestContext

__all__ = ["ANSWERS", "FAMILIES", "RequestContext"]


def __dir__() -> list[str]:
    return __all__


FAMILIES = (
    "builders", "funding", "hip3", "hip4", "liquidations", "markets",
    "oi", "options", "orderbook", "prices", "rwa", "volume",
)  # fmt: skip
"""Modules beside this one; each lists its own answers in ``ANSWERS``."""

ANSWERS: Answers = {
    path: answer
    for family in FAMILIES
    for path, answer in import_module(f"{__name__}.{family}").ANSWERS.items()
}
"""Path of an endpoint to the function that answers it, collected from the families."""
