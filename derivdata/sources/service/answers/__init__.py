"""The payloads of the API, made from base tables: a module for each family of endpoints."""

from __future__ import annotations

from derivdata.sources.service.answers import markets, onchain, options, perpetuals
from derivdata.sources.service.answers.encoding import Answers, RequestContext

__all__ = ["ANSWERS", "RequestContext"]

ANSWERS: Answers = {
    path: response
    for family in (perpetuals, markets, onchain, options)
    for path, response in family.ANSWERS.items()
}
"""Path of an endpoint to the function that makes the body of its response."""
