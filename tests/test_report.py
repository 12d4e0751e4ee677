"""The report: one file that holds all that it shows, on the sample and on a source that lacks things."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import derivdata as dd
from derivdata.cli import main

VOID = {"meta", "path", "use", "br", "img"}


class Page(HTMLParser):
    """Headings and words of a page, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
        assert (
            main(["report", "sample", "--symbols", "BTC", "--window", "3d", "--out", str(folder / "r.html")])
            == 0
        )
        dd.disconnect()
    return (folder / "r.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing(written: str) -> None:
    page = Page(written)
    assert page.open == []
    assert len(page.ids) == len(set(page.ids)), "figures share ids"
    assert not re.search(r'(src|href)="(?!#)', written.replace('xlink:href="#', ""))
    assert "@import" not in written
    assert "url(http" not in written
    assert len(written) < 5_000_000


def test_every_section_has_its_figure_and_its_table(written: str) -> None:
    words = " ".join(Page(written).words)
    for heading in ("Where the data comes from", "Funding", "Open interest", "Liquidations", "Options"):
        assert f"<h2>{heading}</h2>" in written
    assert written.count("<figure>") == 6
    assert written.count("<table>") >= 6
    assert "Synthetic data, made up for demonstration" in words
    assert "not for P&L or production trading" in words
    assert "2026-06-27 12:00 to 2026-06-30 12:00 UTC" in words


def test_the_widest_spread_is_the_difference_of_the_venues_means(written: str) -> None:
    dd.connect("sample")
    rates = dd.panel(dd.funding.history("BTC", "3d")).isel(symbol=0)
    row = re.search(
        r"<tr><td class=text>BTC</td><td class=text>(\w+)</td><td class=text>(\w+)</td><td>([\d.]+)</td>",
        written,
    )
    assert row is not None
    long, short, spread = row.groups()
    both = rates.sel(exchange=[long, short]).dropna("time")
    earned = both.sel(exchange=short) - both.sel(exchange=long)
    assert float(spread) == pytest.approx(float(earned.mean()), abs=6e-4)
    venues = rates.where(rates.notnull().sum("time") >= 36, drop=True).mean("time")
    assert float(spread) >= float(venues.max() - venues.min()) - 0.1, "no pair is much wider"


def test_the_same_data_gives_the_same_report(tmp_path: Path) -> None:
    dd.connect("sample")
    one, two = (dd.report("ETH", out=tmp_path / name, window="1d") for name in ("a.html", "b.html"))
    assert one.read_text(encoding="utf-8") == two.read_text(encoding="utf-8")


def test_what_a_source_lacks_is_said_and_not_fatal(tmp_path: Path) -> None:
    frame = dd.tables.FUNDING_HISTORY.build(
        {
            "symbol": ["BTC"] * 4,
            "exchange": ["okx", "okx", "zo", "zo"],
            "timestamp": ["2024-03-01T00:00:00Z", "2024-03-01T08:00:00Z"] * 2,
            "y": [1.0, 2.0, 3.0, 5.0],
            "resolution": ["raw"] * 4,
            "kind": ["sampled"] * 4,
        }
    )
    dd.open_archive(tmp_path / "mine").append("funding_history", frame)
    out = tmp_path / "r.html"
    assert (
        main(["report", str(tmp_path / "mine"), "--symbols", "BTC", "--window", "1d", "--out", str(out)]) == 0
    )
    text = out.read_text(encoding="utf-8")
    assert "long okx" in text or "<td class=text>okx</td><td class=text>zo</td>" in text
    assert "Synthetic" not in text
    assert text.count('class="lack"') >= 3
    assert "No options on BTC" in text


def test_nothing_is_written_when_the_source_cannot_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.html"
    assert main(["report", "--out", str(out)]) == 1
    assert "not connected" in capsys.readouterr().err
    assert not out.exists()
    with pytest.raises(ValueError, match="symbols must name at least one"):
        dd.report([], out=out)
