"""Rules of every page: accessibility, by axe-core, and widths, in the browser."""

from __future__ import annotations

from typing import Any

import pytest


def violations(page: Any, *, allowed: tuple[str, ...] = ()) -> list[str]:
    """Findings of axe-core: rules of WCAG 2.1, levels A and AA, and the elements that break them.

    Among them are the contrast of texts, names of controls and pictures, and the language.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    levels = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
    result = axe.Axe().run(page, options=levels).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:90]}"
        for rule in result
        if rule["id"] not in allowed
        for node in rule["nodes"]
    ]


LEGIBLE = 9.0
"""Least height of letters [pixels] in figures."""

SMALL = """(least) => [...document.querySelectorAll("figure svg")].flatMap((svg) => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const height = (text) => parseFloat(getComputedStyle(text).fontSize) * scale;
  return [...svg.querySelectorAll("text")]
    .filter((text) => height(text) < least)
    .map((text) => `${height(text).toFixed(1)}: ${text.textContent}`);
})"""
"""Words of figures that are smaller."""

WIDTHS = (390, 768, 1200, 1920)


def overflow(page: Any) -> dict[int, int]:
    """Pixels by which the page is wider than the window, at each width, where it is."""
    results = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if beyond > 0:
            results[width] = beyond
    return results


def inner_overflow(page: Any, *, width: int = 390) -> list[str]:
    """Elements that scroll sideways inside the page, on a phone by default."""
    page.set_viewport_size({"width": width, "height": 900})
    result: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((node) => !node.closest("svg") && node.scrollWidth > node.clientWidth + 1
                            && node.clientWidth > 0 && getComputedStyle(node).overflowX !== "visible")
          .map((node) => node.outerHTML.slice(0, 80))"""
    )
    return result
