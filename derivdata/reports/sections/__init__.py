"""The report's sections: each draws what it is about, says how to read it, and what the source lacks."""

from __future__ import annotations

from collections.abc import Callable

from derivdata.reports.data import Data
from derivdata.reports.html_page import Section
from derivdata.reports.sections.about import (
    Earlier,
    changes_section,
    clock_of,
    provenance_section,
    summary_section,
)
from derivdata.reports.sections.carry import carry_section
from derivdata.reports.sections.funding import funding_section
from derivdata.reports.sections.liquidations import liquidations_section
from derivdata.reports.sections.open_interest import oi_section
from derivdata.reports.sections.options import options_section
from derivdata.reports.sections.quality import quality_section

__all__ = ["BY_NAME", "Earlier", "changes_section", "clock_of", "provenance_section", "summary_section"]


BY_NAME: dict[str, Callable[[Data], Section]] = {
    "funding": funding_section,
    "carry": carry_section,
    "oi": oi_section,
    "options": options_section,
    "liquidations": liquidations_section,
    "quality": quality_section,
}
