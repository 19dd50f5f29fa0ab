"""User text made safe for terminals, spreadsheets and logs, and numbers with their sign.

Secrets are masked in the forms in which they usually get into a log: a setting or variable printed
with its value, a URL with a password, a header, a well-known token.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

# A spreadsheet takes a cell that begins with one of these for a formula; see
# https://owasp.org/www-community/attacks/CSV_Injection.
_FORMULA_STARTS: Final = ("=", "+", "-", "@")

_HASH: Final = re.compile("[0-9a-f]{40}")
# PostgreSQL stores no NUL character, and half of a surrogate pair is no UTF-8, which both databases
# need.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
# Long enough to find a value in the file that has it.
_QUOTED: Final = 80
# The revision of a measured run has the version and so many digits of the commit.
_SHORT_HASH: Final = 10
# The changed property of a metric, by the kinds of alerts that are about no step.
KIND_WORDS: Final = {"drift": "drift", "variance": "noise", "masked": "masked"}
# The mark of a case whose eager time differs from that of eager's own process.
LOAD_DIFFERED: Final = "load differed"
MASK: Final = "***"
# The words count only at the end of a name: models have `num_tokens` and `token_ids`.
_NAMES: Final = (
    r"(?:SECRET(?:_?KEY)?|TOKEN|PASSWORD|PASSWD|(?:API|ACCESS|PRIVATE)[_-]?KEY|CREDENTIALS?)"
)
# Shorter values are `<eos>`, `None`, numbers.
_VALUE: Final = r"""(?:"[^"\n]{6,}"|'[^'\n]{6,}'|[^\s"',;]{6,})"""
_PATTERNS: Final = (
    re.compile(rf"""({_NAMES}["']?[ \t]{{0,3}}[=:][ \t]{{0,3}}){_VALUE}""", re.IGNORECASE),
    re.compile(rf"(--[\w-]{{0,40}}{_NAMES}[ \t]){_VALUE}", re.IGNORECASE),
    re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"),
    re.compile(r"(\b(?:Bearer|Basic)[ \t])[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE),
    # GitHub, GitLab, Hugging Face, Slack, AWS.
    re.compile(
        r"(\b)(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_\w{16,}"
        r"|xox[abeprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16})"
    ),
)

# Longer names are cut in Markdown.
MAX_MARKDOWN_NAME = 160


def has_words(text: str, fields: Sequence[str]) -> bool:
    """Return whether every word of `text` occurs in one of `fields`."""
    known = " ".join(fields).casefold()
    return all(word in known for word in text.casefold().split())


def is_printable(text: str) -> bool:
    """Return whether `text` has no control characters; spaces of any width are none."""
    return text.isprintable() or all(
        sign.isprintable() or unicodedata.category(sign) == "Zs" for sign in text
    )


def printable(text: str, *, allowed: str = "\n") -> str:
    """Return `text` with `?` for each unprintable character, except those in `allowed`."""
    shown = text
    for sign in allowed:
        shown = shown.replace(sign, "")
    if is_printable(shown):
        return text
    return "".join(sign if is_printable(sign) or sign in allowed else "?" for sign in text)


def is_storable(text: str) -> bool:
    """Return whether both databases can store `text` unchanged."""
    return _UNSTORABLE.search(text) is None


def quoted(value: object) -> str:
    """Return `value` for an error message: text in quotes, a long one shortened."""
    return shortened(repr(value), limit=_QUOTED)


def spreadsheet_text(text: str) -> str:
    """Return `text` as a cell that no spreadsheet executes: with an apostrophe before a formula."""
    # Tabs and other unprintable characters were replaced above.
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA_STARTS) else shown


def one_line(text: str) -> str:
    """Return `text` as one printable line, with single spaces between its words."""
    return printable(" ".join(text.split()))


def first_line(text: str) -> str:
    """Return the first line of `text` that is not empty."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def significant(value: float, *, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits, never in exponents between 1e-4 and 1e7."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    # The value is rounded first: 9.997 is 10.0.
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -4 or exponent >= 7:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def plain(value: float) -> str:
    """Return a count or limit with six significant digits, whole numbers in full: `1000000`."""
    return f"{value:.0f}" if float(value).is_integer() else f"{value:g}"


def signed(value: float, *, decimals: int = 1) -> str:
    """Return `value` with its sign, `+21.3`; zero after rounding has none, `0.0`."""
    shown = f"{value:+.{decimals}f}"
    return shown if float(shown) else shown[1:]


def signed_us(time_s: float) -> str:
    """Return a difference in microseconds with its sign and without the unit, `+12.3`."""
    # Adding 0.0 turns the minus that rounding leaves before a zero into a plus.
    return f"{round(1e6 * time_s, 1) + 0.0:+,.1f}"


def signed_percent(share: float, *, decimals: int = 1) -> str:
    """Return a relative change in percent with its sign, `+21.3 %` of 0.213."""
    return f"{signed(100 * share, decimals=decimals)} %"


def percent_interval(interval_pct: tuple[float, float]) -> str:
    """Return the interval of a change, `[+19.8, +22.9] %`."""
    low, high = interval_pct
    return f"[{signed(low)}, {signed(high)}] %"


def ratio_interval(low: float | None, high: float | None) -> str:
    """Return the interval of a ratio as that of a change, `[+19.8, +22.9] %` of 1.198 and 1.229.

    Returns "" without one, and for equal ends: a count has no interval.
    """
    if low is None or high is None or low == high:
        return ""
    return percent_interval((100 * (low - 1), 100 * (high - 1)))


def markdown_code(text: str, *, limit: int = MAX_MARKDOWN_NAME) -> str:
    """Return `text` as code of one line in which nothing is markup, cut to `limit` characters."""
    signs = shortened(one_line(text), limit=limit)
    safe = "".join(sign if sign.isalnum() or sign == " " else f"&#{ord(sign)};" for sign in signs)
    return f"<code>{safe}</code>"


def shortened(text: str, *, limit: int) -> str:
    """Return `text` cut to `limit` characters; `...` marks the cut."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def short_revision(revision: str) -> str:
    """Return the first ten digits of a whole commit hash, any other revision unchanged."""
    return revision[:_SHORT_HASH] if _HASH.fullmatch(revision) else revision


def with_kind(metric: str, *, kind: str) -> str:
    """Return a metric with the property that an alert of `kind` is about: `latency_s (drift)`.

    A step is about the metric itself.
    """
    return f"{metric} ({KIND_WORDS[kind]})" if kind in KIND_WORDS else metric


def own_eager_text(shown: str) -> str:
    """Return the words for a case whose eager time differs from that of eager's own process."""
    return f"eager in its own process: {shown}; {LOAD_DIFFERED}"


def plural(number: int, noun: str) -> str:
    """Return `noun` as it stands after `number`: `job`, `jobs`, `launches`, `entries`."""
    if number == 1:
        return noun
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "ch", "sh", "x", "z")) else f"{noun}s"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 job`, `3 jobs`, `no launches`."""
    return f"{number or 'no'} {plural(number, noun)}"


def counted_of(number: int, num_all: int, noun: str) -> str:
    """Return a part of a number of things in words: `2 of 3 jobs`, `0 of 1 job`."""
    return f"{number} of {num_all} {plural(num_all, noun)}"


def none_of(number: int, noun: str, *, where: str = "", verb: str = "fit") -> str:
    """Return the begin of a sentence: `None of the 3 rows fits`, `The only row does not fit`."""
    scope = f" {where}" if where else ""
    if number == 1:
        return f"The only {noun}{scope} does not {verb}"
    return f"None of the {number:,} {plural(number, noun)}{scope} {verb}s"


def listed(texts: Sequence[str], *, limit: int) -> str:
    """Return the first `limit` of `texts`, and the number of the others: `a, b and 2 more`."""
    num_more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {num_more} more" if num_more > 0 else "")


def runtime_text(details: Mapping[str, Any]) -> str:
    """Return the other runtime that executed a case, by the details of its result, "" for torch.

    Example: `onnxruntime 1.32.0: providers CPUExecutionProvider, num_threads 1`.
    """
    runtime = details.get("runtime")
    if not isinstance(runtime, Mapping) or not runtime:
        return ""
    others = {name: value for name, value in runtime.items() if name not in ("name", "version")}
    descriptions = [f"{name} {_value_text(value)}" for name, value in others.items()]
    head = f"{runtime.get('name', '')} {runtime.get('version', '')}".strip()
    return ": ".join(part for part in (head, ", ".join(descriptions)) if part)


def _value_text(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def masked(text: str) -> str:
    """Return `text` with `***` instead of likely secrets."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text
