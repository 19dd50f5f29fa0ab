"""The house theme: one style sheet for the tables, one palette for the charts.

Colour shows a verdict. On the page of kernels it shows the kind of a kernel, in hues that no
verdict has. Signs and labels carry the same information. Vermilion and blue stay apart for every
common kind of colour blindness (Okabe and Ito).
"""

from __future__ import annotations

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

_BAR_STYLES = "\n".join(
    f".hud-waterfall .bar > .{style} {{ background: {VERDICT_COLOURS[verdict]}; }}"
    for verdict, style in VERDICT_STYLES.items()
)

_SIGN_STYLES = f"""
.sign-band {{ background: linear-gradient({NEUTRAL}, {NEUTRAL}) center / 100% 1.5px no-repeat,
  color-mix(in srgb, {NEUTRAL} 30%, transparent); }}
.sign-diamond {{ background: {NEUTRAL};
  clip-path: polygon(50% 0, 77% 50%, 50% 100%, 23% 50%); }}
.sign-dashed {{ background: repeating-linear-gradient({NEUTRAL} 0 4px, transparent 4px 6px)
  center / 1.5px 100% no-repeat; }}
.sign-up {{ background: {REGRESSION}; clip-path: polygon(50% 4%, 77% 96%, 23% 96%); }}
.sign-down {{ background: {IMPROVEMENT}; clip-path: polygon(50% 96%, 77% 4%, 23% 4%); }}
"""

# The style sheet is in the document itself (app/server/page_routes.py), so that nothing is drawn
# without it and then moves.
STYLE_SHEET = (
    """
<style>
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
table.hud tbody.group > tr:first-child { border-bottom: 0; }
table.hud tbody.group > tr:first-child > :is(.bad, .good) { border-radius: 4px; }
table.hud tbody.group > tr + tr > td { padding-top: 0; }
table.hud input.hud-pick { margin: 3px 2px 0 0; cursor: pointer; }
table.hud td.jump .text { overflow: visible; }
.stLayoutWrapper:has(> .st-key-decide-picked) { position: sticky; bottom: 0; z-index: 5; }
.st-key-decide-picked { padding: 8px 0 12px; background: var(--hud-paper);
  border-top: 1px solid var(--hud-line); }
.hud-chips { display: flex; flex-wrap: wrap; gap: 4px 6px; color: var(--hud-dim); }
.hud-chips span { border: 1px solid var(--hud-line); border-radius: 10px; padding: 0 8px;
  font-size: 12px; overflow-wrap: anywhere; }
.hud-failure { border-left: 3px solid var(--hud-bad); padding: 2px 12px; font-size: 14px; }
.hud-failure strong { color: var(--hud-bad); }
.hud-failure p { margin: 2px 0 0; overflow-wrap: anywhere; white-space: pre-wrap; }
.st-key-hud-toast { position: fixed; right: 24px; bottom: 24px; z-index: 1000; width: auto;
  padding: 6px 14px; background: var(--hud-paper); border: 1px solid var(--hud-line);
  border-radius: 8px; box-shadow: 0 4px 18px rgb(0 0 0 / 25%);
  animation: hud-fade 1s 24s forwards; }
.st-key-hud-toast:is(:hover, :focus-within) { animation: none; }
@keyframes hud-fade { to { opacity: 0; visibility: hidden; } }
.hud-legend kbd { border: 1px solid var(--hud-line); border-radius: 3px; padding: 0 4px;
  font: inherit; }
table.hud tbody.group details.hud { margin-top: 0; }
table.hud .number { text-align: right; }
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
  .hud-trend { width: 34px; margin-right: 4px; }
  table.hud th { white-space: normal; }
  table.hud th, table.hud td { padding: 4px 6px; }
  table.hud td.wraps .text { white-space: normal; min-width: 6.5em; }
  table.hud td.wraps .note { white-space: normal; }
  table.hud td.revision :is(.text, .note) { white-space: normal; overflow-wrap: anywhere; }
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
.hud-waterfall { display: grid; grid-template-columns: max-content minmax(8rem, 60rem);
  gap: 0 12px; align-items: center; font-size: 13px; font-variant-numeric: tabular-nums; }
.hud-waterfall .name { max-width: 26em; text-align: right; overflow-wrap: anywhere; }
.hud-waterfall .name a { color: var(--hud-link); text-decoration: none; }
.hud-waterfall .name a:hover { text-decoration: underline; }
.hud-waterfall .bar { position: relative; height: 22px; background: linear-gradient(
  var(--hud-dim), var(--hud-dim)) no-repeat var(--zero) 0 / 1px 100%; }
.hud-waterfall .bar > div { position: absolute; top: 4px; bottom: 4px; min-width: 2px;
  background: color-mix(in srgb, currentColor 45%, transparent); }
.hud-waterfall .bar > span { position: absolute; padding-left: 6px; line-height: 22px; }
.hud-waterfall > :nth-last-child(-n+2) { font-weight: 600; }
.hud-beside { display: flex; flex-wrap: wrap; gap: 10px 48px; }
.hud-beside > :first-child { flex: 1 1 34rem; max-width: 60rem; }
.hud-abreast { display: flex; flex-wrap: wrap; gap: 14px 36px; }
.hud-abreast .name { font-size: 13px; font-weight: 600; padding-bottom: 2px; }
.hud-legend { font-size: 11.5px; color: var(--hud-dim); }
.hud-legend span { margin-left: 10px; white-space: nowrap; }
.hud-signs { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 12px;
  color: var(--hud-dim); }
.hud-sign { display: inline-flex; align-items: center; gap: 6px; }
.hud-sign i { display: inline-block; width: 22px; height: 12px; }
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
.stElementContainer[class*="st-key-share"] { min-height: 29px; }
/* These draw nothing. */
.stElementContainer:is(.st-key-keys, .st-key-go, .st-key-picked) > [data-testid="stSkeleton"],
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
.hud-h1 { font-size: 1.4rem; font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; }
.hud-h2 { font-size: 1.15rem; font-weight: 600; line-height: 1.3; padding-top: .5rem;
  overflow-wrap: anywhere; }
.hud-h3 { font-size: 1rem; font-weight: 600; padding-top: .3rem; }
"""
    + _KIND_STYLES
    + "\n"
    + _BAR_STYLES
    + _SIGN_STYLES
    + """
</style>
"""
)


def known_kind(kind: str) -> str:
    """Return `kind` if it has a colour, else `other`."""
    return kind if kind in KIND_COLOURS else "other"
