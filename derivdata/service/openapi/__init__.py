"""The service described by itself, made from `derivdata.api` and `derivdata.tables`: OpenAPI, and a page."""

from __future__ import annotations

from derivdata.service.openapi.html_page import page
from derivdata.service.openapi.payloads import PAYLOADS
from derivdata.service.openapi.specification import PLAIN, document

__all__ = ["PAYLOADS", "PLAIN", "document", "page"]


def __dir__() -> list[str]:
    return __all__
