"""The service described by itself, made from `derivdata.tables` and its `endpoints`: OpenAPI, and a page."""

from __future__ import annotations

from derivdata.sources.service.openapi.html_page import page
from derivdata.sources.service.openapi.payloads import PAYLOADS
from derivdata.sources.service.openapi.specification import PLAIN, document

__all__ = ["PAYLOADS", "PLAIN", "document", "page"]


def __dir__() -> list[str]:
    return __all__
