"""Drawings of the guides: one function each, written as SVG to docs/images for readers of the sources.

In the site they are part of the page (`inlined`) and use its colours; elsewhere they follow the reader's
system. They are at most 460 wide, so that text is legible on a phone.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

__all__ = ["DRAWINGS", "fault_counts", "inlined", "write"]

HERE = Path(__file__).parent
IMAGES = HERE / "images"
WIDTH = 460
_RULES = HERE / "_static" / "diagrams.css"
_CONDITION = re.compile(
    r"([\d,]+) (?:calls|calls at \d+ %): ([\d,]+) right, ([\d,]+) typed errors, (\d+) wrong, (\d+) untyped"
)


class _Canvas:
    """SVG elements, in the order in which they are drawn."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def lines(self, x: float, y: float, rows: Sequence[str], kind: str = "", anchor: str = "start") -> None:
        for place, row in enumerate(rows):
            self.text(x, y + 16 * place, row, kind, anchor)

    def box(self, x: float, y: float, width: float, height: float, kind: str = "plain") -> None:
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>'
        )

    def labelled(
        self, x: float, y: float, width: float, rows: Sequence[str], kind: str = "plain", words: str = ""
    ) -> float:
        """Draw a box around centred lines, and return where it ends."""
        height = 16 * len(rows) + 12
        self.box(x, y, width, height, kind)
        self.lines(x + width / 2, y + 18, rows, words, "middle")
        return y + height

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "stroke") -> None:
        self._parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{kind}"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw a line with a head; it is horizontal or vertical."""
        self.line(x1, y1, x2, y2)
        dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
        back, side = (x2 - 7 * dx, y2 - 7 * dy), (4 * dy, 4 * dx)
        corners = [(x2, y2), (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1])]
        points = " ".join(f"{x:g},{y:g}" for x, y in corners)
        self._parts.append(f'<polygon points="{points}" class="head"/>')

    def dot(self, x: float, y: float, kind: str = "mark", radius: float = 3) -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{kind}"/>')

    def svg(self, height: float, title: str) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="diagram" viewBox="0 0 {WIDTH} {height:g}" '
            f'width="{WIDTH}" height="{height:g}" role="img" aria-label="{escape(title)}">'
        )
        style = f"<style>\n{_RULES.read_text(encoding='utf-8')}</style>"
        return "\n".join([head, style, *self._parts, "</svg>\n"])


def cached_until() -> str:
    """Which windows are cached for good, against the server's clock."""
    c = _Canvas()
    hour, now, bottom = 270.0, 380.0, 196
    c.text(hour, 16, "1 hour before", "small", "middle")
    c.text(now, 16, "now", "strong", "middle")
    for x in (hour, now):
        c.line(x, 24, x, bottom, "dashed")
    rows = [
        (40, 40.0, 210.0, "mark", "permanent", "ended over an hour ago"),
        (78, 90.0, 330.0, "pale", "60 s", "ended less than an hour ago"),
        (116, 150.0, 380.0, "pale", "60 s", 'no end given: "30d"'),
        (154, 374.0, 386.0, "pale", "60 s", "snapshot, rates now"),
    ]
    for y, start, end, kind, kept, words in rows:
        c.box(start, y, end - start, 14, kind)
        c.text(398, y + 12, kept, "strong")
        c.text(min(start, 200) if y < 150 else 366, y + 29, words, "small", "start" if y < 150 else "end")
    c.arrow(20, bottom, 440, bottom)
    c.text(20, bottom + 18, "time of the rows, by the server's clock", "small")
    c.text(440, bottom + 18, "cached", "small", "end")
    return c.svg(
        bottom + 26,
        "Windows that ended an hour before the server's clock are cached permanently, others for 60 seconds",
    )


def request_path() -> str:
    """Where a request goes: cache, turn, network, checks."""
    c = _Canvas()
    left, width, middle = 10.0, 260.0, 140.0
    steps = [
        (["dd.funding.history(…)"], "mark", "inverse"),
        ["one request for each part of the window"],
        ["in the cache, and still valid?"],
        ["wait for a turn at the rate limit"],
        ["send, with the key; up to 5 attempts"],
        ["complete JSON? store it in the cache"],
        ["does it match the request?"],
        (["table, with its provenance"], "mark", "inverse"),
    ]
    y, ends = 6.0, []
    for place, step in enumerate(steps):
        rows, kind, words = step if isinstance(step, tuple) else (step, "plain", "")
        if place:
            c.arrow(middle, y, middle, y + 22)
            y += 22
        ends.append((y, y := c.labelled(left, y, width, rows, kind, words)))
    centre = [(top + bottom) / 2 for top, bottom in ends]
    c.line(left + width, centre[2], 300, centre[2])
    c.text(286, centre[2] - 6, "yes", "small", "middle")
    c.line(300, centre[2], 300, centre[6])
    c.arrow(300, centre[6], left + width, centre[6])
    c.text(middle + 8, ends[2][1] + 15, "no", "small")
    for place, rows in (
        (2, ["a cached response", "is returned without", "a network"]),
        (4, ["failed or no response:", "one FetchError,", "not cached"]),
        (6, ["a contradiction:", "SchemaError, and the", "response is removed"]),
    ):
        c.lines(310, centre[place] - 10, rows, "small")
    return c.svg(
        y + 6, "A request reads the cache, or it waits for its turn, and its response is stored and checked"
    )


def funding_time() -> str:
    """Sampled and settled rates, a position and a bucket, on one time axis."""
    c = _Canvas()
    at = lambda hour: 30 + 400 * hour / 24  # noqa: E731
    bottom = 262
    for hour in (0, 8, 16, 24):
        c.line(at(hour), 8, at(hour), bottom, "dashed")
        c.text(at(hour), bottom + 16, f"{hour % 24:02d}:00", "small", "middle")
    c.line(at(0), bottom, at(24), bottom)
    for hour in range(25):
        c.dot(at(hour), 18)
    c.text(at(0) + 6, 42, "sampled: the running rate at each time; integrate it", "small")
    for end in (8, 16, 24):
        c.line(at(end - 8) + 5, 66, at(end), 66, "bar")
        c.dot(at(end), 66, "mark", 5)
    c.text(at(0) + 6, 90, "settled: paid at the row's time, for the 8 hours before; add up", "small")
    c.line(at(8), 116, at(24), 116, "bar")
    c.dot(at(8), 116, "ring", 5)
    c.dot(at(24), 116, "mark", 5)
    c.lines(
        at(0) + 6,
        140,
        [
            "a position from 08:00 to 24:00 earns the payments in (08:00, 24:00]:",
            "those of 16:00 and 24:00, not that of 08:00",
        ],
        "small",
    )
    c.dot(at(8), 182, "mark", 5)
    c.line(at(8), 182, at(12), 182, "bar")
    c.dot(at(12), 182, "ring", 5)
    c.text(at(0) + 6, 206, "a bucket of 4 hours: its time is its start; its end is excluded", "small")
    c.dot(at(0), 230, "mark", 5)
    c.line(at(0), 230, at(24), 230, "bar")
    c.dot(at(24), 230, "ring", 5)
    c.text(at(0) + 6, 252, "a window start, end: [start, end)", "small")
    return c.svg(
        bottom + 26,
        "Times of sampled rates, settlements, a position, a bucket and a window on one axis of a day",
    )


def archive_layout() -> str:
    """Table, partition, file, row groups, series."""
    c = _Canvas()
    rows = [
        ("archive.json", "the manifest: all current files with digests,", "ledger of requests, corrections"),
        ("funding_history/", "one folder for each table", ""),
        ("2026-06/", "one for each month; a large open month", "has one for each day: 2026-06-30/"),
        ("….parquet", "one file for each append, never edited;", "one file for a closed month"),
        (
            "row groups",
            "sorted by symbol, venue, time; each states",
            "its ranges, so that reads skip the others",
        ),
        ("blocks", "256 KiB each, checked against the manifest", "before they are read"),
    ]
    y = 8.0
    for place, (name, first, second) in enumerate(rows):
        x = 10 + 18 * max(place - 1, 0)
        if place > 1:
            c.line(x - 10, y - 12, x - 10, y + 14)
            c.line(x - 10, y + 14, x, y + 14)
        c.box(x, y, 122, 28, "mark" if place == 0 else "plain")
        c.text(x + 61, y + 19, name, "inverse mono" if place == 0 else "mono", "middle")
        c.lines(x + 132, y + 11 if second else y + 19, [first, second] if second else [first], "small")
        y += 46
    return c.svg(
        y - 8, "An archive: the manifest, and for each table and month Parquet files with sorted row groups"
    )


def lazy_panel() -> str:
    """From the manifest through chunks to workers."""
    c = _Canvas()
    words = "archive.panel(…, chunks=24): planned from the manifest, no data read"
    c.labelled(10, 6, 440, [words], "mark", "inverse")
    c.text(10, 62, "files, by month", "small")
    c.text(195, 62, "chunks of the panel", "small")
    c.text(355, 62, "workers", "small")
    for row, symbol in enumerate(("BTC", "ETH", "SOL")):
        y = 74 + 54 * row
        c.box(10, y, 90, 40)
        c.text(55, y + 17, f"2026-0{row + 4}", "mono", "middle")
        for group in range(6):
            c.box(17 + 13 * group, y + 25, 10, 8, "pale")
        c.text(188, y + 24, symbol, "small", "end")
        for column in range(4):
            c.box(195 + 29 * column, y, 25, 40, "mark" if (row, column) == (1, 2) else "pale")
        c.labelled(355, y + 6, 95, [f"process {row + 1}"])
    c.arrow(108, 148, 152, 148)
    c.arrow(316, 148, 350, 148)
    c.lines(
        108,
        246,
        ["time is horizontal: each chunk reads its own", "row groups and four of their columns"],
        "small",
    )
    c.line(402, 216, 402, 296)
    c.arrow(402, 296, 302, 296)
    c.labelled(60, 282, 240, ["the result: numbers or an array"], "mark", "inverse")
    return c.svg(
        318, "An archive's files are read chunk by chunk by several processes, which together give one result"
    )


def commands() -> str:
    """Return the diagram of commands with their inputs and outputs."""
    c = _Canvas()
    c.labelled(10, 6, 125, ["venues, a URL,", "the sample"])
    c.labelled(325, 6, 125, ["table: .parquet,", ".csv, terminal"])
    c.labelled(10, 110, 125, ["CSV, JSON, Parquet", "of your own"])
    c.labelled(192, 118, 80, ["archive"], "mark", "inverse")
    c.labelled(325, 118, 125, ["HTTP API"])
    c.labelled(10, 222, 125, ["bundle .ddz"])
    c.labelled(192, 222, 80, ["report"], "mark", "inverse")
    c.labelled(10, 306, 125, ["folder of tables"])
    c.arrow(135, 28, 323, 28)
    c.text(229, 21, "fetch --to", "mono", "middle")
    c.line(72, 50, 72, 84)
    c.line(72, 84, 232, 84)
    c.arrow(232, 84, 232, 116)
    c.text(78, 76, "fetch, collect, backfill", "mono")
    c.arrow(135, 132, 190, 132)
    c.text(162, 125, "import", "mono", "middle")
    c.arrow(272, 132, 323, 132)
    c.text(297, 125, "serve", "mono", "middle")
    c.arrow(232, 146, 232, 220)
    c.text(226, 186, "report", "mono", "end")
    c.lines(
        240,
        170,
        ["info, status: contents of an archive", "notebook check: problems", "in a notebook"],
        "small",
    )
    c.arrow(192, 230, 137, 230)
    c.arrow(135, 242, 190, 242)
    c.lines(282, 234, ["report --bundle writes both;", "report FILE.ddz replays it"], "small")
    c.arrow(72, 250, 72, 304)
    c.text(80, 280, "export", "mono")
    c.lines(150, 316, ["bundle info, bundle verify: contents", "and integrity of a recording"], "small")
    return c.svg(342, "Commands between sources, archives, tables, the HTTP API, reports and bundles")


def fault_counts(table: str) -> list[tuple[str, int, int, int]]:
    """Return (guarantee, right, typed errors, wrong or untyped) of each row whose last column counts them."""
    found = []
    for cells in csv.reader(io.StringIO(table)):
        count = _CONDITION.search(cells[-1])
        if count:
            right, typed, wrong, untyped = (int(text.replace(",", "")) for text in count.groups()[1:])
            found.append((cells[0], right, typed, wrong + untyped))
    return found


def faults() -> str:
    """The outcomes of the calls of the last soak, from the table of the page."""
    c = _Canvas()
    rows = fault_counts((HERE / "methods" / "reliability.csv").read_text(encoding="utf-8"))
    if not rows:
        raise ValueError("reliability.csv has no row that counts right answers and typed errors")
    x, width, y = 130.0, 320.0, 30.0
    c.box(x, 4, 10, 10, "mark")
    c.text(x + 15, 14, "right table", "small")
    c.box(x + 95, 4, 10, 10, "pale")
    c.text(x + 110, 14, "one typed error", "small")
    c.text(x + 225, 14, "anything else: " + f"{sum(row[3] for row in rows)}", "small")
    for name, right, typed, other in rows:
        total = right + typed + other
        c.text(x - 8, y + 16, name, "", "end")
        c.box(x, y, width * right / total, 22, "mark")
        c.box(x + width * right / total, y, width * typed / total, 22, "pale")
        c.text(x + 6, y + 16, f"{right:,} of {total:,}", "inverse")
        y += 34
    return c.svg(y, "Calls under injected faults return correct tables or typed errors")


DRAWINGS: dict[str, Callable[[], str]] = {
    drawing.__name__: drawing
    for drawing in (cached_until, request_path, funding_time, archive_layout, lazy_panel, commands, faults)
}
"""By the name of the file in docs/images."""


def write() -> None:
    """Write every drawing to docs/images, if it has changed."""
    for name, drawing in DRAWINGS.items():
        path, text = IMAGES / f"{name}.svg", drawing()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def inlined(name: str) -> str:
    """Return a drawing as a part of a page: the page's style sheet has its rules and colours."""
    text = re.sub(r"<style>.*?</style>\n", "", DRAWINGS[name](), flags=re.S)
    return f'<div class="diagram">\n{text}</div>\n'


if __name__ == "__main__":
    write()
