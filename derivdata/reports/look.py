"""How the page looks: light and dark, on paper, on a phone. Nothing in it is loaded from elsewhere."""

from __future__ import annotations

__all__ = ["STYLE"]

_LIGHT = (
    "color-scheme: light; --ink: #1c2430; --soft: #5c6675; --paper: #ffffff; --line: #d9dee5; "
    "--card: #f5f7f9; --accent: #0069a6; --warn: #7a4300; --warnbg: #fff4e0;"
)
_DARK = (
    "color-scheme: dark; --ink: #e6eaf0; --soft: #9aa5b4; --paper: #12161c; --line: #2c3440; "
    "--card: #1a2029; --accent: #6dc0f0; --warn: #ffc46b; --warnbg: #33270f;"
)

STYLE = f"""
:root {{ {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0 auto; padding: 1.2rem 1.4rem 3rem; max-width: 64rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
h1 {{ font-size: 1.75rem; line-height: 1.2; margin: .4rem 0 .3rem; }}
h2 {{ margin: 2.6rem 0 .6rem; padding-bottom: .2rem; border-bottom: 2px solid var(--line); }}
h3 {{ margin: 1.8rem 0 .3rem; font-size: 1.08rem; }}
p {{ margin: .5rem 0; max-width: 46rem; }}
a {{ color: var(--accent); }}
nav {{ margin: .8rem 0 0; font-size: .92rem; }} nav a {{ margin-right: .9rem; white-space: nowrap; }}
.soft {{ color: var(--soft); }} .lack {{ color: var(--soft); font-style: italic; }}
.warn {{ background: var(--warnbg); color: var(--warn); padding: .55rem .9rem; border-radius: 6px;
  max-width: none; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(11.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0; }}
.tile {{ background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .8rem; }}
.tile b {{ display: block; font-size: 1.3rem; line-height: 1.3; font-variant-numeric: tabular-nums; }}
.tile span {{ display: block; font-size: .82rem; color: var(--soft); }}
ul {{ margin: .3rem 0 .8rem; padding-left: 1.2rem; max-width: 50rem; }} li {{ margin: .25rem 0; }}
figure {{ margin: 1rem 0 .4rem; }}
figcaption {{ font-size: .9rem; color: var(--soft); max-width: 46rem; margin-top: .2rem; }}
figcaption b {{ font-weight: 600; color: var(--ink); }}
.scroll {{ overflow-x: auto; -webkit-overflow-scrolling: touch; }}
figure svg {{ display: block; width: 100%; height: auto; min-width: 35rem; max-width: 60rem; }}
table {{ border-collapse: collapse; font-size: .86rem; margin: .5rem 0; }}
th, td {{ padding: .25rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; font-variant-numeric: tabular-nums; }}
th {{ color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; max-width: 7rem; }}
td.text, th.text {{ text-align: left; }} td:first-child, th:first-child {{ padding-left: 0; }}
td.hash {{ font-family: ui-monospace, monospace; font-size: .8rem; }}
details {{ margin: .6rem 0; }} summary {{ cursor: pointer; color: var(--accent); }}
footer {{ margin-top: 3rem; border-top: 1px solid var(--line); }}
@media (max-width: 40rem) {{
  body {{ padding: .8rem .9rem 2rem; font-size: 15px; }} h1 {{ font-size: 1.4rem; }}
  .tiles {{ grid-template-columns: 1fr 1fr; }} .tile b {{ font-size: 1.1rem; }}
  th, td {{ padding: .25rem .5rem; }} }}
@media print {{
  @page {{ margin: 14mm; }}
  body {{ max-width: none; padding: 0; font-size: 10pt; }} nav {{ display: none; }}
  h2, h3 {{ break-after: avoid; }} figure, .tile, tr {{ break-inside: avoid; }}
  figure svg {{ min-width: 0; max-width: 17cm; }} .scroll {{ overflow: visible; }}
  table {{ font-size: 7.5pt; }} th, td {{ padding: .1rem .35rem; white-space: normal; }}
  details::details-content {{ display: block; content-visibility: visible; block-size: auto; }}
  .tiles {{ grid-template-columns: repeat(4, 1fr); }} .tile b {{ font-size: 1.05rem; }} }}
"""
