"""The generated code of kernels, and the difference of two versions. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.shared.text import printable

# difflib needs seconds for more lines.
MAX_DIFF_LINES = 3000
_SCREEN_LINES = 40
_LANGUAGES = {"triton": "python", "cpp": "cpp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HighlightedCode:
    """The code of one or several kernels, "" for none; `language` is for highlighting."""

    text: str
    language: str | None

    @property
    def num_lines(self) -> int:
        """Return the number of lines."""
        return len(self.text.splitlines())

    @property
    def is_long(self) -> bool:
        """Return whether the code takes more than a screen."""
        return self.num_lines > _SCREEN_LINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script that runs a single kernel; `text` is "" if there is none, `reason` says why."""

    text: str = ""
    reason: str = ""


def code_of(kernels: Sequence[Kernel], sources: Mapping[str, KernelSource]) -> HighlightedCode:
    """Return the code of `kernels`, without repeats."""
    hashes = dict.fromkeys(kernel.source_hash for kernel in kernels)
    known = [sources[name] for name in hashes if name in sources]
    languages = {source.language for source in known}
    language = _LANGUAGES.get(languages.pop()) if len(languages) == 1 else None
    text = "\n\n".join(printable(source.text, allowed="\n\t") for source in known)
    return HighlightedCode(text=text, language=language)


def unified_diff(before: HighlightedCode, after: HighlightedCode) -> str:
    """Return the unified diff of the code, "" for equal code; raise ValueError if too long."""
    if max(before.num_lines, after.num_lines) > MAX_DIFF_LINES:
        raise ValueError(f"code of more than {MAX_DIFF_LINES} lines is not compared here")
    lines = difflib.unified_diff(
        before.text.splitlines(), after.text.splitlines(), "baseline", "candidate", lineterm=""
    )
    return "\n".join(lines)
