"""The code of both sides of a row of a kernel diff, and how it differs. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.diffpage import DiffRow
from db.kernels import Kernel, KernelSource
from db.text import printable

# difflib needs seconds for more lines.
MAX_DIFF_LINES = 3000
_LANGUAGES = {"triton": "python", "cpp": "cpp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code of one side, "" where none is known; `language` is for highlighting."""

    text: str
    language: str | None

    @property
    def num_lines(self) -> int:
        """Return how many lines there are."""
        return len(self.text.splitlines())


def code_of(row: DiffRow, sources: Mapping[str, KernelSource]) -> tuple[Code, Code]:
    """Return the code of the baseline and of the candidate, each kernel's once."""
    return _code(row.baseline, sources), _code(row.candidate, sources)


def unified_diff(before: Code, after: Code) -> str:
    """Return how the code differs, "" where it does not; raise ValueError when it is too long."""
    if max(before.num_lines, after.num_lines) > MAX_DIFF_LINES:
        raise ValueError(f"code of more than {MAX_DIFF_LINES} lines is not compared here")
    lines = difflib.unified_diff(
        before.text.splitlines(), after.text.splitlines(), "baseline", "candidate", lineterm=""
    )
    return "\n".join(lines)


def _code(kernels: Sequence[Kernel], sources: Mapping[str, KernelSource]) -> Code:
    hashes = dict.fromkeys(kernel.source_hash for kernel in kernels)
    found = [sources[name] for name in hashes if name in sources]
    languages = {source.language for source in found}
    language = _LANGUAGES.get(languages.pop()) if len(languages) == 1 else None
    text = "\n\n".join(printable(source.text, kept="\n\t") for source in found)
    return Code(text=text, language=language)
