"""Tables that the build adds to pages are complete, and agree with the API document."""

from __future__ import annotations

import csv
import importlib
import re
from pathlib import Path

import pytest

import derivdata as dd
from derivdata.sources.venues.registry import VENUES
from derivdata.tables import endpoints
from derivdata.tables.definitions import OPEN_TABLES
from tests.docs.test_pages import DOCS, PAGES


@pytest.mark.parametrize(
    ("page", "tables"),
    [
        ("endpoints", ["endpoints", "conformance"]),
        ("tables", ["tables"]),
        ("venues", ["venues"]),
        ("development/evidence", ["evidence"]),
        ("methods/does-carry-pay", ["carry"]),
    ],
)
def test_pages_include_their_generated_tables(page: str, tables: list[str]) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert re.findall(r"^```\{include\} (?:\.\./)?generated/(\w+)\.md$", text, flags=re.M) == tables


def test_every_table_of_a_page_is_a_file_with_rows_of_one_length() -> None:
    included = []
    for page in PAGES:
        for name in re.findall(
            r"^```\{csv-table\}\n:file: (.+)$", page.read_text(encoding="utf-8"), flags=re.M
        ):
            path = page.parent / name
            with path.open(encoding="utf-8", newline="") as file:
                rows = list(csv.reader(file))
            assert len(rows) > 1, path
            assert len({len(row) for row in rows}) == 1, path
            included.append(path)
    stored = {*DOCS.glob("*.csv"), *DOCS.glob("methods/*.csv"), *DOCS.glob("development/*.csv")}
    assert {path.resolve() for path in included} == stored - {
        DOCS / "api_conformance.csv",
        DOCS / "figure_captions.csv",
    }


def test_every_endpoint_has_a_section_with_its_parameters() -> None:
    page = importlib.import_module("generate").endpoints()
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


def test_local_service_matches_the_conformance_file() -> None:
    conformance = importlib.import_module("api_conformance")
    with importlib.import_module("generate").CONFORMANCE.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert tuple(head) == conformance.COLUMNS
    assert [tuple(row) for row in rows] == conformance.rows(), "run python docs/generate.py"


def test_carry_page_states_the_result_of_its_recording() -> None:
    verdict = importlib.import_module("carry_page").verdict()
    assert verdict in (DOCS / "methods" / "does-carry-pay.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("fee", [2.0, 5.0])
def test_cards_of_the_carry_page_rerun(fee: float) -> None:
    carry = importlib.import_module("carry_page")
    again = dd.rerun(carry.card_of(fee), carry.RECORDING)
    assert again["equal"].all(), again[~again["equal"]]
    earned = again.set_index("figure").loc["realised_net_bps.count", "recorded"]
    assert earned > 100


def test_every_table_has_a_section_with_every_column() -> None:
    page = importlib.import_module("generate").tables_page()
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


def test_every_venue_has_its_tables_requests_and_facts() -> None:
    page = importlib.import_module("generate").venue_sections()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", page, flags=re.M | re.S))
    assert list(sections) == list(VENUES)
    for name, frame in dd.venues.endpoints().groupby("exchange", sort=False):
        paths = re.findall(r"^\| \w+ \| (?:GET|POST|WS) \| `(.+?)` \|", sections[name], flags=re.M)
        assert paths == frame["path_or_channel"].tolist()
    for name, frame in dd.venues.facts().groupby("exchange", sort=False):
        facts = re.findall(r"^\| [^|]* \| `(\w+)` \|", sections[name], flags=re.M)
        assert facts == frame["fact"].tolist()
    assert "| GTC | `interval_hours` | 8 | h |" in sections["binance"]


def test_evidence_lists_bodies_and_missing_bodies() -> None:
    page = importlib.import_module("evidence_page").evidence()
    section = page.split("## variational\n")[1].split("\n## ")[0]
    assert "| `/metadata/stats` | 2 retyped, 1 documented | 2026-09-13 |" in section
    below = page.split("## Endpoints with too few bodies")[1].split("## Searches")[0]
    assert "| grvt | `/full/v1/funding` | 2 of 3 | `" in below


def test_every_endpoint_with_too_few_bodies_has_its_searches() -> None:
    page = importlib.import_module("evidence_page")
    known = {(venue, endpoint.path) for venue in VENUES for endpoint in VENUES[venue].endpoints}
    searches = page.searches_of()
    assert searches.keys() <= known
    assert {(venue, path) for venue, path, _, _ in page.below_target()} <= searches.keys()
