"""The report's sections: each draws what it is about, says how to read it, and what the source lacks."""

from __future__ import annotations

from collections.abc import Callable

from derivdata.reports.data import Data
from derivdata.reports.page import Section
from derivdata.reports.sections.carry import carry_section
from derivdata.reports.sections.coverage import quality_section
from derivdata.reports.sections.holdings import oi_section
from derivdata.reports.sections.liquidated import liquidations_section
from derivdata.reports.sections.origin import origin_section
from derivdata.reports.sections.rates import funding_section
from derivdata.reports.sections.summary import summary_section
from derivdata.reports.sections.volatility import options_section

__all__ = ["BY_NAME", "origin_section", "summary_section"]

BY_NAME: dict[str, Callable[[Data], Section]] = {
    "funding": funding_section,
    "carry": carry_section,
    "oi": oi_section,
    "options": options_section,
    "liquidations": liquidations_section,
    "quality": quality_section,
}
