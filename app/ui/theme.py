"""The house theme: one style sheet for the tables, one palette for the charts.

Colour shows a verdict. On the page of kernels it shows the kind of a kernel, in hues that no
verdict has. Signs and labels carry the same information. Vermilion and blue stay apart for every
common kind of colour blindness (Okabe and Ito).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from compile_hud.app.ui.templates.environment import render
from compile_hud.db.records.results import Verdict

# Of middling lightness, so that one chart is readable on a light and on a dark page.
REGRESSION = "#d55e00"
IMPROVEMENT = "#2f86d0"
NEUTRAL = "#7d8590"
VERDICT_COLOURS = {
    Verdict.REGRESSION: REGRESSION,
    Verdict.IMPROVEMENT: IMPROVEMENT,
    Verdict.UNCHANGED: NEUTRAL,
    Verdict.INCONCLUSIVE: NEUTRAL,
    Verdict.IDENTICAL: NEUTRAL,
}

# The class of a cell by its verdict; other verdicts have none.
VERDICT_STYLES = {Verdict.REGRESSION: "bad", Verdict.IMPROVEMENT: "good"}

# A sign next to the word of each verdict, so that colour is never the only difference.
VERDICT_SIGNS = {
    Verdict.REGRESSION: "\u25b2",
    Verdict.IMPROVEMENT: "\u25bc",
    Verdict.UNCHANGED: "=",
    Verdict.INCONCLUSIVE: "?",
    Verdict.IDENTICAL: "=",
}
# Dark enough for white letters on them, on a light and on a dark page.
CHIP_COLOURS = {
    Verdict.REGRESSION: "#a84300",
    Verdict.IMPROVEMENT: "#0b5cad",
    Verdict.UNCHANGED: "#5c6570",
    Verdict.INCONCLUSIVE: "#5c6570",
    Verdict.IDENTICAL: "#5c6570",
}

# Light enough for dark letters on them, and dark enough to stand out from a white page. Kernels
# that compute are green to violet, kernels that move data are sand, idle time is grey.
KIND_COLOURS = {
    "gemm": "#4fb39a",
    "convolution": "#8cc87c",
    "attention": "#4fa3b5",
    "fused": "#b39ae0",
    "elementwise": "#d9a3cc",
    "reduction": "#bfae52",
    "copy": "#dcc58a",
    "communication": "#c49a80",
    "dispatch": "#a3acb6",
    "other": "#b8bec6",
    "python": "#8f99a5",
    "idle": "#d3d8dd",
}
# The colour of a rectangle with kernels of several kinds.
MIXED_KINDS = "#c9ced4"
# Readable on any of the colours above, on a light and on a dark page.
KIND_INK = "#14171b"
_KIND_STYLES = "\n".join(
    f".k-{kind} {{ background: {colour}; color: {KIND_INK}; }}"
    for kind, colour in KIND_COLOURS.items()
)

_GREY_BARS = f".hud-waterfall .bar > div {{ background: {NEUTRAL}; }}\n"
_BAR_STYLES = _GREY_BARS + "\n".join(
    f".hud-waterfall .bar > .{style} {{ background: {VERDICT_COLOURS[verdict]}; }}"
    for verdict, style in VERDICT_STYLES.items()
)

# The shape of a kernel's point in the roofline, in the words of Vega.
KIND_SHAPES = {
    "gemm": "circle",
    "convolution": "square",
    "attention": "diamond",
    "fused": "triangle-up",
    "elementwise": "triangle-down",
    "reduction": "cross",
    "copy": "triangle-left",
    "communication": "triangle-right",
    "dispatch": "stroke",
    "other": "arrow",
}
# Paths in a box of 22 x 12 pixels, at its middle.
_SHAPE_PATHS = {
    "circle": "M7 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M7.5 2.5h7v7h-7z",
    "diamond": "M11 1l5 5l-5 5l-5-5z",
    "triangle-up": "M11 1.5l4.6 9h-9.2z",
    "triangle-down": "M11 10.5l-4.6-9h9.2z",
    "triangle-left": "M6.5 6l9-4.6v9.2z",
    "triangle-right": "M15.5 6l-9 4.6v-9.2z",
    "cross": "M9.2 1h3.6v3.2h3.2v3.6h-3.2v3.2h-3.6v-3.2h-3.2v-3.6h3.2z",
    "stroke": "M6 5.4h10v1.2h-10z",
    "arrow": "M11 1l4 4.5h-2.6v5.5h-2.8v-5.5h-2.6z",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A part of a sign: a path that is filled, or a stroke of `width`.

    A turned one stands on its corner.
    """

    path: str
    fill: str = "none"
    stroke: str = ""
    width: float = 1.5
    dash: str = ""
    opacity: float = 1
    is_turned: bool = False


def _shape(name: str, colour: str) -> Shape:
    return Shape(path=_SHAPE_PATHS[name], fill=colour)


def _stroke(path: str, *, colour: str = NEUTRAL, width: float = 1.5, dash: str = "") -> Shape:
    return Shape(path=path, stroke=colour, width=width, dash=dash)


def _shade(opacity: float, *, colour: str = NEUTRAL) -> Shape:
    return Shape(path="M0 0h22v12h-22z", fill=colour, opacity=opacity)


def _dot(x: float, y: float, radius: float) -> Shape:
    turn = f"a{radius:g} {radius:g} 0 1 0"
    width = 2 * radius
    return Shape(path=f"M{x - radius:g} {y}{turn} {width:g} 0{turn}-{width:g} 0z", fill=NEUTRAL)


_MIDDLE_LINE, _UPRIGHT = "M0 6h22", "M11 0v12"
_RING = _SHAPE_PATHS["circle"]
_POINT = _dot(11, 6, 3.2)


def _verdict_signs(name: str, colour: str) -> dict[str, tuple[Shape, ...]]:
    """Return the signs that have the colour of a verdict, by name."""
    return {
        f"span-{name}": (_shade(0.2, colour=colour), _stroke("M21 0v12", colour=colour)),
        f"line-{name}": (_stroke(_UPRIGHT, colour=colour),),
        f"slope-{name}": (_stroke("M1 11L21 1", colour=colour, width=2.5),),
        f"bar-{name}": (Shape(path="M1 1.5h20v9h-20z", fill=colour),),
    }


# Each sign of a legend is drawn as its chart draws it: with the same colour, shape, and dash.
SIGNS = {
    "point": (_POINT,),
    "point-bar": (_stroke(_UPRIGHT), _POINT),
    "point-line": (_stroke(_MIDDLE_LINE), _POINT),
    "point-sizes": (_dot(4, 8, 2.2), _dot(15, 6, 5.5)),
    "samples": (_dot(5, 8, 1.7), _dot(11, 3, 1.7), _dot(17, 7, 1.7)),
    "hollow": (_stroke(_RING),),
    "hollow-line": (_stroke(_MIDDLE_LINE, dash="3 2"), _stroke(_RING)),
    "noise": (_shade(0.25), _stroke(_MIDDLE_LINE, dash="4 3")),
    "band": (_shade(0.3), _stroke(_MIDDLE_LINE)),
    "dashed": (_stroke(_UPRIGHT, dash="4 2"),),
    "level": (_stroke(_MIDDLE_LINE, dash="4 3"),),
    "line": (_stroke(_MIDDLE_LINE),),
    "roof": (_stroke("M1 11L10 3h12"),),
    "tick": (_stroke("M11 6v6", width=1),),
    "cross": (replace(_shape("cross", NEUTRAL), is_turned=True),),
    "cross-open": (replace(_stroke(_SHAPE_PATHS["cross"], width=1), is_turned=True),),
    "diamond": (_shape("diamond", NEUTRAL),),
    "diamond-open": (_stroke(_SHAPE_PATHS["diamond"]),),
    "square": (_shape("square", NEUTRAL),),
    "up": (_shape("triangle-up", REGRESSION),),
    "down": (_shape("triangle-down", IMPROVEMENT),),
    "up-grey": (_shape("triangle-up", NEUTRAL),),
    **_verdict_signs("bad", REGRESSION),
    **_verdict_signs("good", IMPROVEMENT),
    **_verdict_signs("grey", NEUTRAL),
    **{f"kind-{kind}": (_shape(shape, KIND_COLOURS[kind]),) for kind, shape in KIND_SHAPES.items()},
}


def _sign_style(name: str, shapes: Sequence[Shape]) -> str:
    drawn = quote(render("bars.html", "sign", shapes=shapes))
    return f'.sign-{name} {{ background-image: url("data:image/svg+xml,{drawn}"); }}'


# The shades of the matrix in percent: links and small notes stand on them.
_MATRIX_STYLES = "\n".join(
    f":is(table.hud.full, .shades) .heat{number} {{ background: color-mix(in srgb, currentColor"
    f" {share_pct}%, transparent); }}"
    for number, share_pct in enumerate((4, 8, 12, 15, 18), start=1)
)
# A verdict stands above a shade.
_MATRIX_STYLES += """
table.hud.full td.cell-bad { background-color: var(--hud-bad-fill); }
table.hud.full td.cell-good { background-color: var(--hud-good-fill); }
"""

# On paper there is nothing to press, and every page is light. Streamlit draws the text of charts
# and its tables in the colours of the screen, so these are set anew; app/server/page_routes.py
# marks a dark screen, whose tables are pictures and can only be inverted.
_PRINT_STYLES = """
@media print {
  @page { margin: 12mm; }
  body, .stApp { background: #ffffff !important; color: #14171b !important; }
  .stApp, .stApp :is([data-testid="stAppViewContainer"], .stMain) {
    position: static !important; overflow: visible !important; height: auto !important; }
  .stMain { color-scheme: light !important; color: #14171b !important;
    print-color-adjust: exact; }
  .stMainBlockContainer { padding: 0 !important; max-width: none !important; }
  .stApp :is([data-testid="stHeader"], [data-testid="stToolbar"], [data-testid="stTopNav"],
    [data-testid="stElementToolbar"], .stButton, .hud-button, .stDownloadButton, .stPopover,
    .stFileUploader, .stTextInput, .stTextArea, .stNumberInput, .stDateInput, .stCheckbox,
    .stPageLink, .stButtonGroup, .stBidiComponent, [data-testid^="stBidiComponent"], .hud-tabs,
    [class*="st-key-hud-toast"], .st-key-decide-picked),
  .hud-legend:has(.hud-keys), .stSelectbox svg { display: none !important; }
  .stSelectbox * { color: inherit !important; background: none !important;
    border-color: transparent !important; }
  .stSelectbox [data-baseweb="select"] * { padding-left: 0 !important; }
  .stCode, .stCode *, pre { color: #14171b !important; background: #f4f5f7 !important; }
  .hud-scroll { overflow: visible; }
  thead { display: table-header-group; }
  tr, .stVegaLiteChart, .hud-tile, .hud-stack, .hud-waterfall { break-inside: avoid; }
  .hud-h1, .hud-h2, .hud-h3, .hud-signs { break-after: avoid; }
  .stVegaLiteChart { height: auto !important; }
  svg.marks { max-width: 100%; height: auto; background: #ffffff !important; }
  svg.marks :is(.role-axis-label, .role-axis-title, .role-title-text, .role-legend-label) text {
    fill: #14171b !important; }
  svg.marks .role-axis-grid line { stroke: #d3d8dd !important; }
  :root[data-scheme="dark"] .stDataFrame {
    filter: invert(1) hue-rotate(180deg) brightness(1.1); }
}
"""

_STYLES = """
:root {
  --hud-line: color-mix(in srgb, currentColor 14%, transparent);
  --hud-dim: color-mix(in srgb, currentColor 68%, transparent);
  --hud-paper: light-dark(#ffffff, #14171b);
  --hud-link: light-dark(#0b5cad, #8cc2ff);
  --hud-bad: light-dark(#a84300, #ff9a57);
  --hud-good: light-dark(#0b5cad, #8cc2ff);
  --hud-bad-fill: light-dark(#fdeee3, #3a2415);
  --hud-good-fill: light-dark(#e6f1fb, #15293d);
}
.stMainBlockContainer { padding: 4.2rem 1.6rem 2rem; max-width: 1760px; }
.hud-scroll { overflow-x: auto; }
table.hud { border-collapse: collapse; font-size: 13px; line-height: 1.35; width: auto;
  max-width: none; font-variant-numeric: tabular-nums; }
table.hud tr { border-bottom: 1px solid var(--hud-line); }
table.hud thead tr { border-bottom-color: color-mix(in srgb, currentColor 35%, transparent); }
table.hud th { text-align: left; font-weight: 600; color: var(--hud-dim); white-space: nowrap;
  padding: 4px 10px; vertical-align: bottom; border: 0; }
table.hud td { padding: 4px 10px; vertical-align: top; border: 0; }
table.hud tr > :first-child:not(.bad, .good) { padding-left: 0; }
table.hud td .text, table.hud td .note { white-space: nowrap; max-width: 34em; overflow: hidden;
  text-overflow: ellipsis; }
table.hud td.prose .text, table.hud td.prose .note { white-space: normal; max-width: 60em;
  overflow-wrap: anywhere; }
table.hud td.prose .text { min-width: 7.5em; }
table.hud td.symbol .text { white-space: normal; max-width: 34em; min-width: 7.5em;
  overflow-wrap: break-word; }
table.hud td.revision .text { white-space: normal; max-width: 22em; overflow-wrap: break-word; }
.stLayoutWrapper:has(> .st-key-decide-picked) { position: sticky; bottom: 0; z-index: 5; }
.st-key-decide-picked { padding: 8px 0 12px; background: var(--hud-paper);
  border-top: 1px solid var(--hud-line); }
.hud-chips { display: flex; flex-wrap: wrap; gap: 4px 6px; color: var(--hud-dim); }
.hud-chips span { border: 1px solid var(--hud-line); border-radius: 10px; padding: 0 8px;
  font-size: 12px; overflow-wrap: anywhere; }
.hud-chips.strong { color: inherit; font-weight: 600; }
.hud-chips.strong span { border-color: currentColor; }
[class*="st-key-receiver-"] .hud-h3 { margin-bottom: 0; padding-top: 0; }
a.hud-button { display: inline-block; padding: 6px 12px; border: 1px solid var(--hud-line);
  border-radius: 8px; color: inherit !important; text-decoration: none !important;
  font-size: 14px; }
a.hud-button:hover { border-color: currentColor; }
.hud-failure { border-left: 3px solid var(--hud-bad); padding: 2px 12px; font-size: 14px; }
.hud-failure strong { color: var(--hud-bad); }
.hud-failure p { margin: 2px 0 0; overflow-wrap: anywhere; white-space: pre-wrap; }
[class*="st-key-hud-toast"] { position: fixed; right: 24px; bottom: 24px; z-index: 1000;
  width: auto;
  padding: 6px 14px; background: var(--hud-paper); border: 1px solid var(--hud-line);
  border-radius: 8px; box-shadow: 0 4px 18px rgb(0 0 0 / 25%);
  animation: hud-fade-0 1s 24s forwards; }
.st-key-hud-toast-1 { animation-name: hud-fade-1; }
[class*="st-key-hud-toast"]:is(:hover, :focus-within) { animation: none; }
@keyframes hud-fade-0 { to { opacity: 0; visibility: hidden; } }
@keyframes hud-fade-1 { to { opacity: 0; visibility: hidden; } }
.hud-legend kbd { border: 1px solid var(--hud-line); border-radius: 3px; padding: 0 4px;
  font: inherit; }
table.hud .number { text-align: right; }
table.hud th.number { white-space: normal; }
table.hud tbody tr:hover { background: color-mix(in srgb, currentColor 4%, transparent); }
table.hud a, dl.hud-facts a, .hud-notice a, .hud-empty a {
  color: var(--hud-link); text-decoration: none; }
table.hud td.number .text a { color: inherit; }
table.hud a:hover, dl.hud-facts a:hover, .hud-notice a:hover,
.hud-empty a:hover { text-decoration: underline; }
table.hud .note.other { font-style: italic; text-decoration: underline dotted; }
table.hud td.quiet > .text { color: var(--hud-dim); }
table.hud td.strong .text { font-weight: 600; }
table.hud td.bad, table.hud td.cell-bad { background: var(--hud-bad-fill); }
table.hud td.good, table.hud td.cell-good { background: var(--hud-good-fill); }
.heat1 { background: color-mix(in srgb, currentColor 6%, transparent); }
.heat2 { background: color-mix(in srgb, currentColor 11%, transparent); }
.heat3 { background: color-mix(in srgb, currentColor 17%, transparent); }
.heat4 { background: color-mix(in srgb, currentColor 24%, transparent); }
.heat5 { background: color-mix(in srgb, currentColor 32%, transparent); }
table.hud .stale, .hud-sign .stale { background-image: repeating-linear-gradient(135deg,
  color-mix(in srgb, currentColor 12%, transparent) 0 1px, transparent 1px 6px); }
.hud-sign.shades > span { display: inline-flex; border: 1px solid var(--hud-line); }
.hud-sign.shades i { width: 16px; }
.hud-switches + .hud-chips { margin-top: 6px; }
.hud-switches { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 6px;
  font-size: 13px; }
.hud-switches > span { color: var(--hud-dim); margin: 0 2px 0 10px; }
.hud-switches > span:first-child { margin-left: 0; }
.hud-switches a, .hud-switches b { padding: 2px 9px; border: 1px solid var(--hud-line);
  border-radius: 12px; }
.hud-switches a { color: inherit; text-decoration: none; }
.hud-switches a:hover { border-color: currentColor; }
.hud-switches b { font-weight: 600; border-color: currentColor; }
table.hud th a { color: inherit; }
table.hud th[aria-sort]::after { content: ""; display: inline-block; margin-left: 5px;
  border: 4px solid transparent; }
table.hud th[aria-sort="descending"]::after { border-top-color: currentColor; }
table.hud th[aria-sort="ascending"]::after { border-bottom-color: currentColor;
  margin-bottom: 4px; }
table.hud tr.section th { padding-top: 14px; color: inherit; }
table.hud.full { width: 100%; }
table.hud.full td.number { white-space: normal; }
table.hud.full td.number > .text { display: inline-block; }
table.hud.full td.number > .note { display: inline; margin-left: 8px; }
/* The notes begin on a line of their own. */
table.hud.full td.number > .text + .note::before { content: "\\a"; white-space: pre; }
table.hud.full :is(td, th):first-child { position: sticky; left: 0; z-index: 1;
  background: var(--hud-paper); }
table.hud.full .hud-trend { width: 84px; }
table.hud.lines td > div { display: inline; }
table.hud.lines td > .note { margin-left: 6px; }
table.hud.lines td { white-space: nowrap; }
.hud-trend { display: inline-block; vertical-align: -1px; height: 14px; width: 60px;
  margin-right: 8px; background: color-mix(in srgb, currentColor 30%, transparent); }
table.hud td.trend { white-space: nowrap; }
table.hud td .hud-trend + .text { display: inline-block; min-width: 3.2em; }
@media (max-width: 900px) {
  table.hud.lines td { white-space: normal; }
  table.hud.lines td > .note { display: block; margin-left: 0; }
  .hud-waterfall .name { max-width: 14em; }
  .hud-trend, table.hud.full .hud-trend { width: 34px; margin-right: 4px; }
  table.hud th { white-space: normal; }
  table.hud th, table.hud td { padding: 4px 6px; }
  table.hud td.wraps .text { white-space: normal; min-width: 6.5em; }
  table.hud td.wraps .note { white-space: normal; }
  table.hud td.revision :is(.text, .note) { white-space: normal; overflow-wrap: anywhere;
    min-width: 9em; }
  table.hud .spare, table.hud td.brief .note { display: none; }
  table.hud td.brief .text { display: -webkit-box; -webkit-box-orient: vertical;
    -webkit-line-clamp: 3; max-width: 12em; }
  table.hud td.clip :is(.text, .note) { display: -webkit-box; -webkit-box-orient: vertical;
    -webkit-line-clamp: 5; min-width: 13em; }
}
.note { font-size: 11.5px; color: var(--hud-dim); }
.bad > .text, .note.bad { color: var(--hud-bad); font-weight: 600; }
.good > .text, .note.good { color: var(--hud-good); font-weight: 600; }
table.hud .note.bad a, table.hud .note.good a, table.hud td.bad a, table.hud td.good a {
  color: inherit; }
dl.hud-facts { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 0; padding: 0;
  font-size: 13px;
  font-variant-numeric: tabular-nums; }
dl.hud-facts dt { color: var(--hud-dim); font-size: 11.5px; font-weight: 400; }
dl.hud-facts dd { margin: 0; overflow-wrap: anywhere; max-width: 42em; }
.hud-status { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 12px 48px; }
.hud-status .lead { display: flex; gap: 12px; flex: 1 1 22rem; }
.hud-status .state-bad { background: var(--hud-bad); clip-path: polygon(50% 4%, 96% 92%, 4% 92%); }
.hud-status .state-none { background: var(--hud-dim); clip-path: polygon(10% 48%, 40% 74%, 85% 15%,
  95% 23%, 41% 92%, 2% 58%); }
.hud-status .state-part { border-radius: 50%; box-shadow: inset 0 0 0 2px var(--hud-dim);
  background: conic-gradient(var(--hud-dim) 30%, transparent 30%); }
.hud-status .lead > i { flex: none; width: 26px; height: 26px; margin-top: 4px; }
.hud-status .hud-h1 { margin: 0; font-size: 1.6rem; }
.hud-status .hud-h1 a { color: inherit; text-decoration: none; }
.hud-status .hud-h1 a:hover { text-decoration: underline; }
.hud-status .lead.bad .hud-h1 { color: var(--hud-bad); }
.hud-status .lead .note { font-size: 13px; }
.hud-status dl.hud-facts { gap: 6px 36px; }
.hud-status dd { max-width: 20em; }
.hud-steps { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr));
  gap: 12px; counter-reset: step; }
.hud-steps > div { counter-increment: step; padding: 10px 14px 12px; font-size: 14px;
  border: 1px solid var(--hud-line); border-radius: 6px; }
.hud-steps .name { font-weight: 600; }
.hud-steps .name::before { content: counter(step) ". "; color: var(--hud-dim); }
.hud-steps .note { font-size: 12.5px; margin: 2px 0 8px; }
.hud-steps .done { opacity: .75; }
.hud-cards { display: grid; gap: 12px; font-variant-numeric: tabular-nums;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
* + .hud-cards { margin-top: 8px; }
.hud-cards + .hud-h3 { margin-top: 12px; }
.hud-card { border: 1px solid var(--hud-line); border-radius: 6px; padding: 10px 14px 12px;
  display: flex; flex-direction: column; gap: 6px; min-width: 0; font-size: 13px; }
.hud-card .top { display: flex; justify-content: space-between; align-items: baseline; gap: 8px; }
.hud-card .name a { color: inherit; font-weight: 600; text-decoration: none; }
.hud-card .name a:hover { text-decoration: underline; }
.hud-card .main { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; }
.hud-card .value { font-size: 26px; font-weight: 600; line-height: 1.2; }
.hud-card .value.quiet { font-size: 20px; font-weight: 400; color: var(--hud-dim); }
.hud-card .delta { margin-left: auto; white-space: nowrap; }
.hud-card .pass { display: grid; gap: 3px; }
.hud-card .pass a { color: var(--hud-link); text-decoration: underline; }
.hud-card .hud-bar.part { background: repeating-linear-gradient(135deg,
  color-mix(in srgb, currentColor 34%, transparent) 0 2px, transparent 2px 5px); }
.hud-card dl { display: grid; grid-template-columns: repeat(3, auto); gap: 0 10px; margin: 0;
  padding: 0;
  justify-content: space-between; }
.hud-card dt { font-size: 11.5px; font-weight: 400; color: var(--hud-dim); }
.hud-card dd { margin: 0; white-space: nowrap; }
.hud-card.off { background: color-mix(in srgb, currentColor 4%, transparent); }
.hud-spark { display: grid; grid-template-columns: 1fr auto; grid-template-rows: 15px 1fr 15px 15px;
  column-gap: 6px; height: 84px; font-size: 11px; line-height: 15px; color: var(--hud-dim); }
.hud-spark .plot { grid-row: 1 / 4; grid-column: 1; position: relative;
  border-bottom: 1px solid var(--hud-line); }
.hud-spark .line { position: absolute; inset: 0; background: currentColor;
  mask-size: 100% 100%; -webkit-mask-size: 100% 100%; }
.hud-spark .plot > i { position: absolute; width: 5px; height: 5px; margin: -2.5px;
  border-radius: 50%; background: light-dark(#1b1f24, #e3e7ec); }
.hud-spark .most { grid-row: 1; grid-column: 2; text-align: right; }
.hud-spark .least { grid-row: 3; grid-column: 2; text-align: right; }
.hud-spark .first { grid-row: 4; grid-column: 1; }
.hud-spark .last { grid-row: 4; grid-column: 1; justify-self: end; }
.hud-spark.none { display: flex; align-items: center; }
.hud-head { display: flex; align-items: baseline; justify-content: space-between; gap: 12px; }
.hud-head a, .hud-event a { color: var(--hud-link); text-decoration: none; font-size: 13px; }
.hud-head a:hover, .hud-event a:hover { text-decoration: underline; }
.hud-event { font-size: 13px; line-height: 1.45; padding: 8px 0; min-width: 0; }
.hud-event > div:first-child { overflow-wrap: anywhere; }
.hud-event > div:first-child a { font-weight: 600; font-size: 14px; color: inherit; }
.hud-event .severity { display: inline-block; min-width: 44px; margin-right: 8px; padding: 0 6px;
  border: 1px solid var(--hud-line); border-radius: 4px; font-size: 11.5px; text-align: center; }
.hud-event .severity.severe { font-weight: 600; border-color: currentColor; }
.hud-event .severity.minor { color: var(--hud-dim); border-style: dashed; }
.hud-event .facts { color: var(--hud-dim); overflow-wrap: anywhere; }
.hud-event .facts a { text-decoration: underline dotted; }
.hud-event .dot { display: inline-block; width: 3px; height: 3px; margin: 0 7px 3px;
  border-radius: 50%; background: currentColor; }
.hud-event .note { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 1;
  overflow: hidden; }
.st-key-choice-trend [data-testid="stButtonGroup"] > div { flex-wrap: wrap; }
.hud-signs.modes { display: none; }
.hud-sign .dash { height: 2px; }
@media (max-width: 700px) { .hud-signs.modes { display: flex; } }
.hud-head .hud-h2 { margin-bottom: 0; }
.hud-news { display: grid; gap: 10px 24px; margin-top: 8px; font-size: 13px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 240px), 1fr)); }
.hud-news .name { font-weight: 600; }
.hud-news ul { list-style: none; margin: 2px 0 0; padding: 0; }
.hud-news li { margin: 0; padding: 1px 0; font-size: 13px; overflow-wrap: anywhere; }
.hud-news a { color: var(--hud-link); text-decoration: none; }
.hud-news a:hover { text-decoration: underline; }
/* The button stays next to its event. */
.st-key-attention .stHorizontalBlock { flex-wrap: nowrap; }
.st-key-attention .stElementContainer:has(.hud-event) { flex: 1 1 0; min-width: 0; }
.st-key-attention .stElementContainer:has(button) { flex: none; width: auto; }
.st-key-attention > * + * { border-top: 1px solid var(--hud-line); }
.st-key-attention button { min-height: 30px; padding: 2px 10px; }
.st-key-attention button p { font-size: 13px; }
@media (max-width: 1150px) {
  .st-key-overview-middle [data-testid="stHorizontalBlock"]:has(> [data-testid="stColumn"]) {
    flex-direction: column; }
  .st-key-overview-middle [data-testid="stColumn"] { width: 100%; }
}
/* Lines, bars and shades are backgrounds, which a printer leaves out by default. */
@media print { .stApp { print-color-adjust: exact; } }
.hud-tiles { display: flex; flex-wrap: wrap; gap: 8px; }
.hud-tile { border: 1px solid var(--hud-line); border-radius: 4px; padding: 8px 12px;
  min-width: 150px; font-variant-numeric: tabular-nums; }
.hud-tile .name { font-size: 12px; color: var(--hud-dim); }
.hud-tile .value { font-size: 20px; font-weight: 600; line-height: 1.3; }
.hud-tile .value.quiet { font-weight: 400; color: var(--hud-dim); }
.hud-notice { border: 1px solid var(--hud-line); border-left: 3px solid var(--hud-dim);
  border-radius: 4px; padding: 6px 12px; font-size: 13px; overflow-wrap: anywhere; }
.hud-notice.synthetic { border-left-width: 12px; border-left-style: double; font-weight: 600; }
.hud-bar { height: 6px; border-radius: 3px; background: var(--hud-line); overflow: hidden; }
.hud-bar > div { height: 100%; background: color-mix(in srgb, currentColor 60%, transparent); }
.hud-stack { display: grid; grid-template-columns: max-content minmax(8rem, 46rem) max-content;
  gap: 4px 12px; align-items: center; font-size: 13px; font-variant-numeric: tabular-nums; }
.hud-stack .name { color: var(--hud-dim); }
.hud-stack .bar { display: flex; height: 22px; }
.hud-stack .bar > div { box-sizing: border-box; overflow: hidden; text-align: center;
  font-size: 11.5px; line-height: 22px; border-right: 1px solid var(--hud-paper); }
/* The label of the longest bar needs room at its right. */
.hud-waterfall { display: grid; grid-template-columns: max-content minmax(5rem, 60rem);
  padding-right: 4.5em;
  gap: 0 12px; align-items: center; font-size: 13px; font-variant-numeric: tabular-nums; }
.hud-waterfall .name { max-width: 26em; text-align: right; overflow-wrap: anywhere; }
.hud-waterfall .name a { color: var(--hud-link); text-decoration: none; }
.hud-waterfall .name a:hover { text-decoration: underline; }
.hud-waterfall .bar { position: relative; height: 22px; background: linear-gradient(
  var(--hud-dim), var(--hud-dim)) no-repeat var(--zero) 0 / 1px 100%; }
.hud-waterfall .bar > div { position: absolute; top: 4px; bottom: 4px; min-width: 2px; }
.hud-waterfall .bar > span { position: absolute; padding-left: 6px; line-height: 22px; }
.hud-waterfall > :nth-last-child(-n+2) { font-weight: 600; }
.hud-beside { display: flex; flex-wrap: wrap; gap: 10px 48px; }
.hud-beside > * { min-width: 0; max-width: 100%; }
.hud-beside > :first-child { flex: 1 1 34rem; max-width: min(100%, 60rem); }
.hud-abreast { display: flex; flex-wrap: wrap; gap: 14px 36px; }
.hud-abreast .name { font-size: 13px; font-weight: 600; padding-bottom: 2px; }
.hud-legend { font-size: 11.5px; color: var(--hud-dim); }
.hud-legend span { display: inline-block; margin-left: 10px; white-space: nowrap; }
ul.hud-signs { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 12px;
  color: var(--hud-dim); margin: 0; padding: 0; list-style: none; }
.hud-signs li { margin: 0; padding: 0; font-size: 12px; }
.hud-sign { display: inline-flex; align-items: center; gap: 6px; }
.hud-sign i { display: inline-block; width: 22px; height: 12px; flex: none;
  background-repeat: no-repeat; background-position: center; background-size: 22px 12px;
  print-color-adjust: exact; }
.hud-sign i.cell { border-radius: 3px; }
.hud-sign i.cell-bad { background: var(--hud-bad-fill); }
.hud-sign i.cell-good { background: var(--hud-good-fill); }
.hud-legend i { color: light-dark(#1b1f24, #e3e7ec); display: inline-block; width: 10px;
  height: 10px; margin-right: 4px; }
.p0 { background: color-mix(in srgb, currentColor 42%, var(--hud-paper)); }
.p1 { background: color-mix(in srgb, currentColor 14%, var(--hud-paper)); }
.p2 { background: color-mix(in srgb, currentColor 30%, var(--hud-paper)); }
.p3 { background: repeating-linear-gradient(45deg,
  color-mix(in srgb, currentColor 30%, var(--hud-paper)) 0 3px,
  color-mix(in srgb, currentColor 12%, var(--hud-paper)) 3px 7px); }
.p4 { background: color-mix(in srgb, currentColor 22%, var(--hud-paper)); }
.p5 { background: color-mix(in srgb, currentColor 7%, var(--hud-paper)); }
/* Streamlit's own greys and code colours are too pale to read for many. */
.hud-caption { font-size: .875rem; line-height: 1.5; color: var(--hud-dim);
  overflow-wrap: anywhere; }
.stApp .stCode .token { color: inherit; }
.stApp .stCode .token:is(.comment, .prolog, .unchanged) { color: var(--hud-dim); }
.stApp .stCode .token:is(.keyword, .builtin, .boolean, .macro) { color: var(--hud-link); }
.stApp .stCode .token:is(.string, .char, .url, .inserted) { color: light-dark(#0c5a44, #7ed5b0); }
.stApp .stCode .token:is(.number, .constant, .decorator, .parameter) {
  color: light-dark(#6f33b8, #c9a3f9); }
.stApp [data-testid^="stBaseButton-primary"] { color: light-dark(#ffffff, #14171b); }
.stApp .stCode .token.deleted { color: light-dark(#9e303b, #f2919a); }
details.hud { font-size: 13px; margin-top: 6px; }
pre.hud-command { font-size: 13px; margin: 0; padding: 8px 12px; border-radius: 4px;
  white-space: pre-wrap; overflow-wrap: anywhere; user-select: all;
  background: color-mix(in srgb, currentColor 5%, transparent); }
.hud-empty pre.hud-command { margin-bottom: .5rem; }
/* A line ends between words, not within `--`. */
pre.hud-command span { display: inline-block; max-width: 100%; }
pre.hud-log { font-size: 12px; line-height: 1.4; max-height: 320px; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; }
details.hud > summary { cursor: pointer; color: var(--hud-dim); padding: 2px 0; }
.hud-empty { max-width: 46em; padding: .5rem 0 0; font-size: 14px;
  overflow-wrap: anywhere; }
.hud-empty h2 { font-size: 1.3rem; margin: 0; padding: 0 0 .3rem; }
.hud-empty p { margin: 0 0 .6rem; }
.hud-empty code { font-size: 13px; display: inline-block; max-width: 100%; }
.hud-empty code { font-family: monospace; }
/* Nobody knows how high HTML is before its part is loaded: what is below it waits with it. */
.stElementContainer:not([class*="st-key-"]):has(> [data-testid="stSkeleton"]),
.stElementContainer:not([class*="st-key-"]):has(> [data-testid="stSkeleton"]) ~ * {
  visibility: hidden; }
/* As high before it is loaded as then: what is below it must not jump. */
.stElementContainer[class*="st-key-choice-"] { min-height: 60px; }
.stElementContainer.st-key-choice-trend { min-height: 32px; }
.stElementContainer[class*="st-key-share"] { min-height: 29px; }
/* These draw nothing. */
.stElementContainer:is(.st-key-keys, .st-key-go, .st-key-here, .st-key-visit)
  > [data-testid="stSkeleton"],
.stElementContainer[class*="st-key-share"] > [data-testid="stSkeleton"] { display: none; }
.hud-path { font-size: 13px; margin-bottom: -.8rem; }
.hud-path ol { display: flex; flex-wrap: wrap; list-style: none; margin: 0; padding: 0; }
.hud-path li { margin: 0; padding: 0; font-size: 13px; color: var(--hud-dim);
  overflow-wrap: anywhere; }
.hud-path li + li::before { content: "/"; padding: 0 8px; }
.hud-path a { color: var(--hud-link); text-decoration: none; }
.hud-path a:hover { text-decoration: underline; }
.hud-tabs ul { display: flex; flex-wrap: wrap; gap: 4px; list-style: none; margin: 0; padding: 0;
  border-bottom: 1px solid var(--hud-line); }
.hud-tabs li { margin: 0; padding: 4px 10px; font-size: 13px; }
.hud-tabs li[aria-current] { font-weight: 600; border-bottom: 2px solid currentColor; }
.hud-tabs a { color: var(--hud-link); text-decoration: none; }
.hud-tabs a:hover { text-decoration: underline; }
.hud-foot { border-top: 1px solid var(--hud-line); padding-top: 6px; }
.hud-h1, .hud-h2, .hud-h3 { margin-bottom: -.6rem; }
.hud-h3:has(+ .hud-cards) { margin-bottom: 0; }
.hud-h3:has(+ .hud-signs) { margin-bottom: .3rem; }
.hud-h1 { font-size: 1.4rem; font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; }
.hud-h2 { font-size: 1.15rem; font-weight: 600; line-height: 1.3; padding-top: .5rem;
  overflow-wrap: anywhere; }
.hud-h3 { font-size: 1rem; font-weight: 600; padding-top: .3rem; }
"""


@functools.cache
def style_sheet() -> str:
    """Return the style sheet of all pages.

    It is in the document itself (app/server/page_routes.py), so that nothing is drawn without it
    and then moves.
    """
    signs = "\n".join(_sign_style(name, shapes) for name, shapes in SIGNS.items())
    return f"{_STYLES}{_KIND_STYLES}\n{_BAR_STYLES}{signs}{_MATRIX_STYLES}{_PRINT_STYLES}\n"


def known_kind(kind: str) -> str:
    """Return `kind` if it has a colour, else `other`."""
    return kind if kind in KIND_COLOURS else "other"
