"""The service described by itself, made from `derivdata.api` and `derivdata.tables`: OpenAPI, and a page."""

from __future__ import annotations

from derivdata.service.openapi.document import PLAIN, document
from derivdata.service.openapi.page import page
from derivdata.service.openapi.payloads import PAYLOADS

__all__ = ["PAYLOADS", "PLAIN", "document", "page"]
