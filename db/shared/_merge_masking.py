"""What looks like a secret in text that programs printed, masked.

Nobody can know every secret of every program. These are the ways in which secrets usually get into
a log: a setting or a variable printed with its value, a URL with a password, a header, a token of
a well-known form.
"""

from __future__ import annotations

import re
from typing import Final

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


def masked(text: str) -> str:
    """Return `text` with `***` in place of what looks like a secret."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text
