"""User text made safe for terminals, spreadsheets and logs, and numbers with their sign.

Secrets are masked in the ways in which they usually get into a log: a setting or a variable
printed with its value, a URL with a password, a header, a token of a well-known form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

# With one of these a cell begins that a spreadsheet takes for a formula; see
# https://owasp.org/www-community/attacks/CSV_Injection.
_FORMULA_STARTS: Final = ("=", "+", "-", "@")

_HASH: Final = re.compile("[0-9a-f]{40}")
# PostgreSQL keeps no NUL character; what is half of one is no UTF-8, which both databases want.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
# Long enough to find a value by, in the file that has it.
_QUOTED: Final = 80
# As behind the version in the revision of a run that was measured here.
_SHORT_HASH: Final = 10
# What moved, by the kind of an alert, where it was no level at once.
KIND_WORDS: Final = {"drift": "drift", "variance": "noise"}
MASK: Final = "***"
# Only at the end of a name: models have `num_tokens` and `token_ids`.
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


def printable(text: str, *, allowed: str = "\n") -> str:
    """Return `text` with `?` for each sign that cannot be printed, except those in `allowed`."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in allowed else "?" for sign in text)


def is_storable(text: str) -> bool:
    """Return whether both databases can keep `text` as it is."""
    return _UNSTORABLE.search(text) is None


def quoted(value: object) -> str:
    """Return `value` for an error message: in quotes where it is text, a long one shortened."""
    return shortened(repr(value), limit=_QUOTED)


def spreadsheet_text(text: str) -> str:
    """Return `text` as a cell that no spreadsheet executes: with an apostrophe before a formula."""
    # Tabs and other signs that are not printed are no longer there.
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA_STARTS) else shown


def one_line(text: str) -> str:
    """Return `text` as one line that can be printed, with single spaces between its words."""
    return printable(" ".join(text.split()))


def first_line(text: str) -> str:
    """Return the first line of `text` that is not empty."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def significant(value: float, *, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits, never in exponents between 1e-4 and 1e7."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    # Rounded first: 9.997 is 10.0.
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -4 or exponent >= 7:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def signed(value: float, *, decimals: int = 1) -> str:
    """Return `value` with its sign, `+21.3`; what rounds to zero has none, `0.0`."""
    shown = f"{value:+.{decimals}f}"
    return shown if float(shown) else shown[1:]


def signed_us(time_s: float) -> str:
    """Return a difference in microseconds with its sign and without the unit, `+12.3`."""
    # Adding 0.0 makes a plus of the minus that rounding leaves before a zero.
    return f"{round(1e6 * time_s, 1) + 0.0:+,.1f}"


def signed_percent(share: float, *, decimals: int = 1) -> str:
    """Return a relative change in percent with its sign, `+21.3 %` of 0.213."""
    return f"{signed(100 * share, decimals=decimals)} %"


def shortened(text: str, *, limit: int) -> str:
    """Return `text` cut to `limit` characters, the cut shown as `...`."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def short_revision(revision: str) -> str:
    """Return the first ten digits of a whole commit hash, any other revision as it is."""
    return revision[:_SHORT_HASH] if _HASH.fullmatch(revision) else revision


def with_kind(metric: str, *, kind: str) -> str:
    """Return a metric with what of it an alert of `kind` is about: `latency_s (drift)`.

    A step is about the metric itself.
    """
    return f"{metric} ({KIND_WORDS[kind]})" if kind in KIND_WORDS else metric


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: `1 job`, `3 jobs`, `no launches`."""
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}{ending}"


def runtime_text(details: Mapping[str, Any]) -> str:
    """Return which other runtime executed a case and with what, by the details of its result.

    `onnxruntime 1.32.0: providers CPUExecutionProvider, num_threads 1`; empty where torch did.
    """
    runtime = details.get("runtime")
    if not isinstance(runtime, Mapping) or not runtime:
        return ""
    others = {name: value for name, value in runtime.items() if name not in ("name", "version")}
    descriptions = [f"{name} {_listed(value)}" for name, value in others.items()]
    head = f"{runtime.get('name', '')} {runtime.get('version', '')}".strip()
    return ": ".join(part for part in (head, ", ".join(descriptions)) if part)


def _listed(value: Any) -> str:
    return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def masked(text: str) -> str:
    """Return `text` with `***` instead of likely secrets."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text
