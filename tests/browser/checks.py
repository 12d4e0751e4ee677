"""What holds of every page, asked of the browser itself: widths, names of controls, contrast."""

from __future__ import annotations

from typing import Any

import pytest

CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.offsetParent) continue;
    if (node.closest("svg, script, style")) continue;
    const [one, other] = [parse(getComputedStyle(node).color), ground(node)].map(light).sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${walker.currentNode.textContent.trim().slice(0, 40)}`);
  }
  return found;
}"""
"""Texts whose contrast is below 4.5, the ratio of WCAG 2.1, level AA (1.4.3)."""

UNNAMED = """() => [...document.querySelectorAll("a, button, summary, input, svg[role=img], img, th")]
  .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.getAttribute("alt")))
  .map((node) => node.outerHTML.slice(0, 80))"""
"""Controls, pictures and columns that a screen reader could not name."""


def violations(page: Any, *, allowed: tuple[str, ...] = ()) -> list[str]:
    """What axe-core finds: rules of WCAG 2.1, levels A and AA, and the elements that break them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
    levels = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
    found = axe.Axe().run(page, options=levels).response["violations"]
    return [
        f"{rule['id']}: {node['html'][:90]}"
        for rule in found
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
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if beyond > 0:
            found[width] = beyond
    return found


def inner_overflow(page: Any, *, width: int = 390) -> list[str]:
    """What scrolls sideways inside the page, on a phone unless told."""
    page.set_viewport_size({"width": width, "height": 900})
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter((node) => !node.closest("svg") && node.scrollWidth > node.clientWidth + 1
                            && node.clientWidth > 0 && getComputedStyle(node).overflowX !== "visible")
          .map((node) => node.outerHTML.slice(0, 80))"""
    )
    return found
