"""Pages made from the library are current, complete, and say what the API document says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import derivdata as dd
from derivdata.tables import endpoints
from derivdata.tables.definitions import OPEN_TABLES
from tests.docs.test_pages import DOCS


def test_endpoints_have_their_sections_and_read_as_the_api_document_has_them() -> None:
    page = importlib.import_module("generate").endpoints()
    assert (DOCS / "endpoints.md").read_text(encoding="utf-8") == page, "run python docs/generate.py"
    headings = re.findall(r"^### `GET (.+)`$", page, flags=re.M)
    assert sorted(headings) == sorted(e.path for e in endpoints.ENDPOINTS)
    # Section 4.3: Dev and above, two requests a second, `symbol` required, eleven steps and raw.
    section = page.split("### `GET /funding/historical`")[1].split("###")[0]
    for words in (
        "Tier Dev",
        "2 requests a second",
        "| `symbol` | text | required | Base symbol. |",
        "`raw`, `1m`, `3m`, `5m`, `15m`, `30m`, `1h`, `2h`, `4h`, `8h`, `12h`, `1d`.",
        "dd.funding.history",
        "[funding_history](tables.md#table-funding-history)",
    ):
        assert words in section
    assert "| `min_value` | number | default 10,000,000 |" in page, "section 4.5"


def test_the_page_on_carry_is_what_its_recording_gives() -> None:
    page = importlib.import_module("carry_page").page()
    assert (DOCS / "methods" / "does-carry-pay.md").read_text(encoding="utf-8") == page, "run generate.py"


@pytest.mark.parametrize("fee", [2.0, 5.0])
def test_the_cards_of_the_page_on_carry_are_run_again(fee: float) -> None:
    carry = importlib.import_module("carry_page")
    again = dd.rerun(carry.card_of(fee), carry.RECORDING)
    assert again["equal"].all(), again[~again["equal"]]
    earned = again.set_index("figure").loc["realised_net_bps.count", "recorded"]
    assert earned > 100


def test_every_table_has_a_section_with_every_column() -> None:
    page = importlib.import_module("generate").tables_page()
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == page, "run python docs/generate.py"
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |^## |\Z)", page, flags=re.M | re.S))
    assert set(sections) == set(dd.tables.TABLES) | set(OPEN_TABLES)
    for name, table in dd.tables.TABLES.items():
        if name not in OPEN_TABLES:
            rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", sections[name], flags=re.M)
            assert rows == [(n, c.unit) for n, c in table.columns.items()]


def test_the_reference_has_every_public_function(tmp_path: Path) -> None:
    importlib.import_module("reference_pages").write(tmp_path)
    text = "\n".join(page.read_text(encoding="utf-8") for page in tmp_path.glob("*.md"))
    entries = set(re.findall(r"^\.\. auto(?:function|class):: derivdata\.([\w.]+)", text, flags=re.M))
    families = {f"{f}.{n}" for f in dd._FAMILIES for n in getattr(dd, f).__all__}
    functions = {n for n in dd.__all__ if callable(getattr(dd, n))}
    functions |= {f"analysis.{n}" for n in dd.analysis.__all__ if callable(getattr(dd.analysis, n))}
    analysis = {
        f"analysis.{m}.{n}"
        for m in dd.analysis.__all__
        for n in getattr(getattr(dd.analysis, m), "__all__", ())
        if callable(getattr(getattr(dd.analysis, m), n))
    }
    assert families | functions | analysis <= entries
    assert ".. rubric:: References" in text
    assert re.findall(r"^\w+\n-{4,}$", text, flags=re.M) == [], "sections of the same name on several pages"


def test_the_page_of_evidence_is_current_and_names_what_is_missing() -> None:
    page = importlib.import_module("evidence_page").evidence()
    assert (DOCS / "development" / "evidence.md").read_text(encoding="utf-8") == page, (
        "run python docs/generate.py"
    )
    section = page.split("## variational\n")[1].split("\n## ")[0]
    assert "| `/metadata/stats` | 1 retyped, 1 documented | 2026-09-12 |" in section
    below = page.split("## Below the target")[1].split("## Searches")[0]
    assert "| variational | 3 | `/metadata/stats` 2 |" in below
