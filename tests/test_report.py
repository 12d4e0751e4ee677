"""The report: one self-contained file, on the sample and on an incomplete source."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata import funding
from derivdata.cli import main
from derivdata.errors import DataNotice
from derivdata.reports import page as formatting
from derivdata.sources import service
from tests.plot import made
from tests.support.rows import rows

VOID = {"meta", "path", "use", "br", "img", "image", "stop"}
OPTIONS = ["--symbols", "BTC", "--window", "30d", "--fee-bps", "2", "kalshi=1"]
TITLES = (
    "Summary",
    "Funding",
    "Carry",
    "Open interest",
    "Options",
    "Liquidations",
    "Data quality and coverage",
    "Where the data comes from",
)


class Page(HTMLParser):
    """Words and tables of a page, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data

    def table(self, *columns: str) -> pd.DataFrame:
        """The first table with these columns."""
        rows = next(t for t in self.tables if set(columns) <= set(t[0]))
        return pd.DataFrame(rows[1:], columns=rows[0])

    def said(self) -> str:
        return " ".join(self.words)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DERIVDATA_CACHE_DIR", str(folder / "cache"))
        assert main(["report", "sample", *OPTIONS, "--out", str(folder / "r.html")]) == 0
        dd.disconnect()
    return (folder / "r.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(written: str) -> Page:
    return Page(written)


def reported(folder: Path, symbol: str, **options: Any) -> str:
    return dd.report(symbol, out=folder / "r.html", **options).read_text(encoding="utf-8")


def test_report_page_is_self_contained(written: str, page: Page) -> None:
    assert page.open == []
    ids = re.findall(r'\bid="([^"]*)"', written)
    assert len(ids) == len(set(ids)), "figures share ids"
    targets = re.findall(r'(?:src|href)="([^"]*)"', written)
    assert all(t.startswith(("#", "data:image/png;base64,")) for t in targets)
    assert {t[1:] for t in targets if t.startswith("#")} <= set(ids)
    assert not re.search(r"@import|url\(http", written)
    assert len(written) < 2_500_000
    figures = re.findall(r"<figure>.*?</figure>", written, flags=re.S)
    assert len(figures) == 13
    for figure in figures[4:]:
        assert "How to read it." in figure
        assert "source: sample · as of 2026-06-30 12:00 UTC · synthetic data" in figure
    for figure in figures:
        assert 'role="img" aria-label="' in figure
        assert not re.search(r"(fill|stroke): ?#(000000|ffffff)", figure)


def test_every_section_is_present_linked_and_summarised(written: str, page: Page) -> None:
    assert re.findall("<h2>(.*?)</h2>", written) == list(TITLES)
    links = re.findall('<a href="#([^"]*)">', written)
    anchors = [re.sub(r"\W+", "-", title.lower()) for title in TITLES]
    assert links == [*anchors, "carry", "open-interest", "options", "data-quality-and-coverage"]
    assert "2026-05-31 12:00 to 2026-06-30 12:00 UTC" in page.said()
    banner = '<p class="banner" role="note">Synthetic data, generated for demonstration'
    assert written.index(banner) < written.index("<h1>")
    summary = written[written.index('<section id="summary">') : written.index('<section id="funding">')]
    answers = re.findall(
        r'<article class="answer"><h3><a[^>]*>(.*?)</a></h3><p>(.*?)</p>(.*?)</article>', summary, re.S
    )
    assert [question for question, *_ in answers] == [
        "Which spreads survive costs?",
        "Which venues gained open interest?",
        "How does volatility change?",
        "What is wrong with the data?",
    ]
    for _, words, figure in answers:
        assert 20 < len(words) < 220
        assert figure.count("<svg") == 1
    assert "source: sample · as of 2026-06-30 12:00 UTC · synthetic data" in summary
    assert re.findall("<h3>([^<]*)</h3>", summary) == [
        "Wide spreads and levels",
        "Pairs that earn more than their costs, selected in the same window",
        "Changes",
    ]
    numbers = page.table("number", "BTC", "window")
    about = ("funding", "open interest", "price", "change", "30-day ATM", "30-day strip index", "realised")
    assert all(name.startswith(words) for name, words in zip(numbers["number"], about, strict=True))
    assert numbers["window"].ne("").all()
    assert "not intended for P&amp;L" not in written, "the API's word, on the API's data alone"
    carry = written[written.index("<h2>Carry</h2>") :]
    assert "Cost of one trade: kalshi 1; 2 bps on every other venue (as given)" in carry
    assert "These pairs were selected as the widest in this same window (in sample)" in carry


def test_repeated_numbers_have_the_same_name_and_value(written: str, page: Page) -> None:
    """The first screen, key numbers, table and figures have the same 30-day ATM, index and break-even."""
    text = unescape(re.sub(r"<[^>]+>", "\n", written))
    numbers = page.table("number", "BTC", "window").set_index("number")["BTC"]
    atm, index = (
        float(numbers[f"30-day {name}, deribit"].removesuffix(" %"))
        for name in ("ATM volatility", "strip index")
    )
    venues = page.table("venue", "30-day ATM [%]", "30-day strip index [%]").set_index("venue")
    assert float(venues.loc["deribit", "30-day ATM [%]"]) == pytest.approx(atm, abs=0.051)
    assert float(venues.loc["deribit", "30-day strip index [%]"]) == pytest.approx(index, abs=0.051)
    assert f"BTC: 30-day ATM {atm:.1f} %" in text
    assert f"latest: BTC {atm:.1f} − " in text, "also in the figure"
    joined = " ".join(text.split())
    in_title = re.findall(
        r"BTC on deribit: 30-day strip index (?:rose|fell) [\d.]+ points to (\d+\.\d) %", joined
    )
    assert in_title == [f"{index:.1f}"]
    pairs = page.table("long", "short", "costs paid after")
    [(long, short, days)] = re.findall(
        r"Long BTC (\S+), short (\S+): the forecast pays the costs of \S+ bps \w+ ([\d.]+ days)", joined
    )
    row = pairs[(pairs["long"] == long) & (pairs["short"] == short)].iloc[0]
    assert row["costs paid after"].endswith(days)


def test_pairs_are_net_of_the_four_trades_over_the_year(page: Page) -> None:
    # 7 days are 52.142857 times in 365: 8 bps of cost are 4.171 % a year.
    pairs = page.table("long", "short", "gross APR [%]", "costs [bps]", "net APR [%]")
    for row in pairs.to_dict("records"):
        cost = 2 * sum(1.0 if row[leg] == "kalshi" else 2.0 for leg in ("long", "short"))
        assert float(row["costs [bps]"]) == cost
        left = float(row["gross APR [%]"]) - cost / 1e4 * 365 / 7 * 100
        assert float(row["net APR [%]"]) == pytest.approx(left, abs=0.11)


def test_report_states_one_hash_of_all_responses(tmp_path: Path) -> None:
    dd.connect("sample")
    text = reported(tmp_path, "ETH", window="2d", sections=["funding"])
    hashes = [
        request["sha256"]
        for frame in (dd.funding.history("ETH", "2d"), dd.funding.snapshot(), dd.oi.history("ETH", "2d"))
        for request in dd.provenance(frame)["requests"]
    ]
    whole = hashlib.sha256("\n".join(sorted(hashes)).encode()).hexdigest()
    assert whole in text


@pytest.mark.filterwarnings("ignore:.*deribit. no rows in the window .1 of 3 requested venues")
def test_report_uses_only_the_chosen_venues_and_expiries(tmp_path: Path) -> None:
    dd.connect("sample")
    held = ["binance", "okx", "deribit"]
    days, parts = ["2026-07-31", "2026-09-25"], ["funding", "options"]
    page = Page(reported(tmp_path, "BTC", window="2d", venues=held, expiries=days, sections=parts))
    assert set(page.table("venue", "mean [bps/8h]")["venue"]) == {"binance", "okx"}
    assert list(page.table("expiry", "ATM [%]")["expiry"]) == ["2026-07-31 08:00", "2026-09-25 08:00"]
    assert set(page.table("venue", "30-day ATM [%]")["venue"]) == {"deribit", "binance", "okx"}
    assert "Venues: binance, okx, deribit." in page.said()


def test_a_short_window_is_forecast_from_the_year_before(tmp_path: Path) -> None:
    dd.connect("sample")
    two = {"window": "2d", "sections": ["carry"], "venues": ["binance", "hyperliquid"]}
    text = reported(tmp_path, "BTC", **two)
    assert re.search(r"fitted\s+to 3\d\d days of rates", text)
    assert "under ten past decisions" not in text
    assert not Page(text).table("net APR [%]", "mean spread [bps/8h]")["net APR [%]"].eq("").any()
    assert "no sums over 8 hours" in reported(tmp_path, "BTC", **(two | {"window": "1h"}))


def test_missing_tables_are_reported_and_not_fatal(tmp_path: Path) -> None:
    times = ["2024-03-01T00:00:00Z", "2024-03-01T08:00:00Z"]
    venues, kind = ["okx", "okx", "zo", "zo"], {"resolution": "raw", "kind": "sampled"}
    rates = {"exchange": venues, "timestamp": times * 2, "y": [1.0, 2.0, 3.0, 5.0], **kind}
    frame = rows("funding_history", symbol="BTC", **rates)
    oi = {"timestamp": times, "open_interest_usd": [1e6, 2e6], "resolution": "raw"}
    held = rows("oi_history", symbol="ETH", exchange="okx", **oi)
    archive = dd.open_archive(tmp_path / "mine")
    archive.append("funding_history", frame)
    archive.append("oi_history", held)
    out = tmp_path / "r.html"
    arguments = ["--symbols", "BTC", "ETH", "--window", "1d", "--out", str(out)]
    assert main(["report", str(tmp_path / "mine"), *arguments]) == 0
    text = unescape(out.read_text(encoding="utf-8"))
    pair = Page(text).table("long", "short", "mean spread [bps/8h]").iloc[0]
    assert (pair["long"], pair["short"], pair["mean spread [bps/8h]"]) == ("okx", "zo", "2.500")
    assert "ynthetic" not in text[text.index("<body>") :]
    for lack in (
        "No options on BTC",
        "No liquidations",
        "No open interest of BTC",
        "+100.0 % in USD, an unknown share of it due to the price",
        "no funding rates of ETH",
    ):
        assert lack in text
    assert "Liquidations: " not in text


def test_payments_replace_rates_that_were_not_sampled(tmp_path: Path) -> None:
    """A venue pays 1 bps every 8 hours, another 3/8 every hour: 3 bps over 8 hours, a millisecond late."""
    days = pd.date_range("2024-03-01", periods=61 * 24, freq="h", tz="UTC")
    slow = days[days.hour % 8 == 0]
    paid = [("calm", t, 1.0, 8.0) for t in slow] + [("busy", t, 3.0, 1.0) for t in days]
    venues, stamps, rates, hours = zip(*paid, strict=True)
    late = pd.DatetimeIndex(stamps) + pd.Timedelta(1, "ms")
    columns = {"exchange": venues, "timestamp": late, "y": rates, "interval_hours": hours}
    frame = rows("funding_settlements", symbol="BTC", kind="settled", **columns)
    dd.open_archive(tmp_path / "paid").append("funding_settlements", frame)
    dd.connect(str(tmp_path / "paid"))
    page = Page(reported(tmp_path, "BTC", window="60d", sections=["funding", "carry"]))
    assert "These are payments, summed over every 8 hours" in page.said()
    means = page.table("venue", "mean [bps/8h]").set_index("venue")["mean [bps/8h]"]
    assert means.to_dict() == {"busy": "3.000", "calm": "1.000"}
    pair = page.table("long", "short", "mean spread [bps/8h]").iloc[0]
    assert (pair["long"], pair["short"], pair["mean spread [bps/8h]"]) == ("calm", "busy", "2.000")
    gross, net = float(pair["gross APR [%]"]), float(pair["net APR [%]"])
    spread_apr = 2.0 * 1095 / 100  # 2 bps every 8 hours, 1,095 times a year
    # Factors of the forecast of a constant spread, see `test_constant_spread_is_forecast_unchanged`.
    penalty = 5.05 / 5.1
    decisions = 132 / 21  # 132 known outcomes, each of 21 periods
    shrinkage = decisions / (decisions + 2.0)
    assert gross == pytest.approx(spread_apr * penalty * shrinkage, abs=0.1)
    costs_apr = 20.0 * 365 / 7 / 100  # 20 bps a week
    assert gross - net == pytest.approx(costs_apr, abs=0.11)


def test_earlier_payments_without_sums_do_not_affect_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of the year is not a payment, so the year has no sums: the year is missing, not the window."""
    stamps = pd.date_range("2024-03-01", periods=180, freq="8h", tz="UTC").repeat(2)
    columns = {"exchange": ["calm", "busy"] * 180, "timestamp": stamps, "y": [1.0, 2.0] * 180}
    columns["interval_hours"] = 8.0
    frame = rows("funding_settlements", symbol="BTC", kind="settled", **columns)
    dd.open_archive(tmp_path / "paid").append("funding_settlements", frame)
    dd.connect(str(tmp_path / "paid"))
    settlements = dd.funding.settlements

    def over_a_year(symbols: object, start: pd.Timestamp, end: pd.Timestamp, **options: object) -> object:
        table = settlements(symbols, start, end, **options)
        mixed = table.assign(kind=["sampled"] + ["settled"] * (len(table) - 1))
        return mixed if end - start > pd.Timedelta(100, "D") else table

    monkeypatch.setattr(dd.funding, "settlements", over_a_year)
    said_there = Page(reported(tmp_path, "BTC", window="30d", sections=["funding", "carry"])).said()
    assert "payments behind the funding rates of the last year have no sums over 8 hours" in said_there
    assert "behind the funding rates have" not in said_there


def options_archive(folder: Path, chain: pd.DataFrame) -> str:
    """An archive of one chain on deribit, a venue that the document lists."""
    dd.open_archive(folder).append("options_snapshot", chain.assign(exchange="deribit"))
    return str(folder)


def test_expiry_without_open_interest_shows_the_other_figures(tmp_path: Path) -> None:
    whole = made.chain()
    one = whole[whole["expiry"] == whole["expiry"].min()].assign(open_interest=float("nan"))
    dd.connect(options_archive(tmp_path / "one", dd.tables.TABLES["options_snapshot"].conform(one)))
    page = Page(reported(tmp_path, "BTC", window="1d", sections=["options", "quality"]))
    row = page.table("expiry", "ATM [%]", "remarks").iloc[0]
    assert (row["days"], row["ATM [%]"], row["remarks"]) == ("7.00", "50.00", "forward is spot")
    for lack in (
        "A surface needs two expiries; deribit has one.",
        "Only one venue has options on BTC: venues cannot be compared.",
        "Open interest of options on BTC at deribit is unknown.",
        "The source has no table over time, so nothing can be checked.",
    ):
        assert lack in page.said()
    quality = page.table("venue", "used", "without open interest").iloc[0]
    assert (quality["options"], quality["used"], quality["without open interest"]) == ("26", "13", "26")


def test_unusable_chains_are_reported(tmp_path: Path) -> None:
    # 18 % to 30 %: the archive refuses volatilities above 30, that is 3,000 %, and cannot tell these
    percent = made.chain().assign(iv=lambda t: 40 * t["iv"])
    assert percent["iv"].between(15, 30).all()
    dd.connect(options_archive(tmp_path / "percent", percent))
    text = reported(tmp_path, "BTC", window="1d", sections=["options"])
    assert "The options on BTC, deribit, cannot be used: /options/snapshot: volatility in percent" in text
    dd.connect(options_archive(tmp_path / "other", made.chain()))
    text = reported(tmp_path, "BTC", window="1d", sections=["options"], expiries=["2026-01-13"])
    assert "No options on BTC, deribit, expire on the selected days." in text
    assert "There are no results to summarise" in text


def test_source_has_its_proper_name_and_a_visible_attribution_link(tmp_path: Path) -> None:
    dd.connect("sample", attribution_url="https://data.example.org/about")
    options = {"window": "1d", "venues": ["okx"], "sections": ["funding", "oi"]}
    text = reported(tmp_path, "BTC", **options, source_text="Example & Co., CC BY 4.0")
    link = '<a href="https://data.example.org/about">https://data.example.org/about</a>'
    assert f"Funding rate data provided by {link}" in text
    [figure, *_] = re.findall(r"<figure>.*?</figure>", text, flags=re.S)
    assert link in figure
    assert "Source: Example &amp; Co., CC BY 4.0. Window: " in text
    assert text.count("source: Example &amp; Co., CC BY 4.0 · synthetic") == text.count("<figure>") > 1
    assert "source: sample" not in text


def test_report_repeats_the_warning_of_the_api(tmp_path: Path) -> None:
    """Data that is not synthetic and requires attribution comes from the API."""
    dd.connect(rates_archive(tmp_path / "rates", "BTC"), attribution_url="https://data.example.org")
    text = reported(tmp_path, "BTC", window="1d", sections=["carry"])
    assert "The API&#x27;s own warning: the data is informational and not intended for P&amp;L" in text


def test_full_page_of_liquidations_is_not_taken_as_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derivdata.reports.data.EVENTS", 40)
    dd.connect("sample")
    with pytest.warns(DataNotice, match="the result has limit=40 rows"):
        text = reported(tmp_path, "BTC", window="2d", sections=["liquidations", "quality"])
    assert "The response is full at 40 orders: others may be missing." in text
    assert "40 orders since 2026-06-28 12:00 UTC; the response is full, so that orders may be missing" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"symbols": []}, "symbols must be at least one symbol"),
        ({"window": "2026-01-01"}, "window must be a lookback such as '30d', got '2026-01-01'"),
        ({"sections": ["fundings"]}, "must be among funding, carry, .*got 'fundings'"),
        ({"fee_bps": -1}, "fee_bps for others must be from 0 to 1000 bps of one trade, got -1.0"),
        ({"fee_bps": {"okx": float("nan")}}, "fee_bps for okx must be .*got nan"),
        ({"expiries": ["soon"]}, "expiries must be a time such as '2026-01-31T08:00', got 'soon'"),
        ({"out": Path("missing/r.html")}, r"the folder '.*missing' for r\.html does not exist"),
    ],
)
def test_invalid_report_arguments_raise(options: dict[str, object], message: str, tmp_path: Path) -> None:
    dd.connect("sample")
    out = tmp_path / "r.html"
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        dd.report(**({"symbols": "BTC", "out": out} | options))  # type: ignore[arg-type]
    assert not out.exists()


def test_invalid_report_raises_before_a_file_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["report", "sample", "--fee-bps", "cheap"])
    assert "--fee-bps must be numbers [bps] or VENUE=BPS" in capsys.readouterr().err
    out = tmp_path / "r.html"
    assert main(["report", "--out", str(out)]) == 1
    assert "not connected" in capsys.readouterr().err
    assert not out.exists()


def test_numbers_are_formatted_for_readers() -> None:
    amounts = (36_412_000.0, 1.81e11, -950.0, float("nan"), 999_700.0, -999.9)
    assert [*map(formatting.usd, amounts)] == [
        "36.4 M USD",
        "181 B USD",
        "-950 USD",
        "unknown",
        "1 M USD",
        "-1 k USD",
    ]
    assert formatting.rate(0.854) == "+0.85 bps/8h"
    assert formatting.pct(-0.0604, signed=True) == "-6.0 %"
    assert [formatting.count(n, "order") for n in (1, 2864)] == ["1 order", "2,864 orders"]
    assert [*map(formatting.listing, (["a"], ["a", "b", "c"]))] == ["a", "a, b and c"]


def rates_archive(folder: Path, symbol: str, venues: tuple[str, str] = ("okx", "zo")) -> str:
    """Two venues, two days of hourly rates of one symbol."""
    times = pd.date_range("2024-03-01", periods=48, freq="h", tz="UTC")
    columns = {"exchange": np.repeat(venues, 48), "y": np.repeat([1.0, 3.0], 48), "kind": "sampled"}
    frame = rows("funding_history", symbol=symbol, timestamp=times.append(times), resolution="1h", **columns)
    dd.open_archive(folder).append("funding_history", frame)
    return str(folder)


def test_unknown_symbol_raises_and_preserves_the_existing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.html"
    out.write_text("before")
    source = rates_archive(tmp_path / "rates", "BTC")
    assert main(["report", source, "--symbols", "BTC", "NOPE", "--window", "1d", "--out", str(out)]) == 1
    assert "NOPE" in capsys.readouterr().err
    assert out.read_text() == "before"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["r.html", "rates"], "no other file remains"


def test_symbol_with_mathtext_characters_is_drawn(tmp_path: Path) -> None:
    dd.connect(rates_archive(tmp_path / "rates", "A$X_{$B"))
    text = reported(tmp_path, "A$X_{$B", window="1d", sections=["funding"])
    assert text.count("A$X_{$B funding: longs ") == 1, "in the title of the figure"
    rates = dd.funding.history("A$X_{$B", "1d")
    dd.plot.funding_history(rates).get_figure(root=True).savefig(tmp_path / "alone.png")


def test_the_page_allows_its_own_script_and_holds_no_control_characters(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = re.search('<meta http-equiv="Content-Security-Policy" content="([^"]*)">', written)
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    [script] = re.findall("<script>(.*?)</script>", written, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert re.findall("script-src ([^;]*);", policy[1]) == [f"'sha256-{digest}'"]
    assert "http" not in script
    assert written.index(policy[0]) < written.index("<style>")
    dd.connect(rates_archive(tmp_path / "rates", "BTC"))
    notice = "red \x1b[31mtext \x07 backwards \u202egnp.exe"
    fetched = funding.history

    def noticed(*arguments: object, **options: object) -> pd.DataFrame:
        frame = fetched(*arguments, **options)  # type: ignore[arg-type]
        frame.attrs["provenance"]["notices"] = [notice]
        return frame

    monkeypatch.setattr(funding, "history", noticed)
    text = reported(tmp_path, "BTC", window="1d", sections=["funding"])
    assert "Notice of the source: red \\x1b[31mtext \\x07 backwards \\u202egnp.exe" in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_free_key_gets_a_report_of_current_rates(tmp_path: Path) -> None:
    """Free reads no history, but BTC and ETH of the snapshot."""
    local = service.start("sample", keys={"dk_free": "free"})
    try:
        dd.connect(local.url, api_key="dk_free")
        now = dd.funding.snapshot().query("symbol == 'BTC'").sort_values("rate_bps_8h", ascending=False)
        page = Page(reported(tmp_path, "BTC", window="2d", sections=["funding"]))
    finally:
        local.close()
    shown = page.table("venue", "rate [bps/8h]", "as APR [%]", "interval [h]")
    assert list(shown["venue"]) == list(now["exchange"].astype(str))
    assert list(shown["rate [bps/8h]"]) == [f"{rate:.3f}" for rate in now["rate_bps_8h"]]
    top = now.iloc[0]
    assert float(shown["as APR [%]"][0]) == pytest.approx(top["rate_bps_8h"] * 3 * 365 / 100, abs=0.06)
    assert f"median of {len(now)} venues" in page.said()
    assert "No funding rates: " in page.said()
