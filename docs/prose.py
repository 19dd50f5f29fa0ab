"""Measure the prose of the documents: `python docs/prose.py` prints a table, `--check` the faults.

`--compare REV` prints the figures of the documents of another git revision, then those of now.
Prose is the text of paragraphs and lists. Tables, code, headings and generated parts are not.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = ("README.md", "docs/**/*.md")
# Decision records are never edited, so their sentences stay.
EXCLUDED = ("docs/adr/",)
MAX_MEAN = 17.0
MAX_SENTENCE = 35
MAX_WITHOUT_HEADING = 150
# More is not read: a page of a new command makes another one shorter.
MAX_TOTAL = 25_000
BANNED = frozenset({"whoever", "nobody", "somebody", "shall", "beside", "told"})
_GENERATED = re.compile(r"<!-- generated: [a-z-]+ -->.*?<!-- end generated -->", re.DOTALL)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")
_WORD = re.compile(r"[^\W_]")


@dataclasses.dataclass(frozen=True, slots=True)
class Prose:
    """The prose of one document: sentences, and numbers of words between two headings."""

    name: str
    sentences: tuple[str, ...]
    sections: tuple[int, ...]
    num_empty_blocks: int = 0

    @property
    def num_words(self) -> int:
        return sum(map(words_of, self.sentences))

    @property
    def mean(self) -> float:
        """Mean number of words of a sentence."""
        return self.num_words / len(self.sentences) if self.sentences else 0.0


def words_of(sentence: str) -> int:
    """Return the number of words; signs do not count."""
    return sum(bool(_WORD.search(word)) for word in sentence.split())


def prose_of(name: str, text: str) -> Prose:
    """Return the prose of a Markdown text. Code within a sentence counts as one word."""
    sentences: list[str] = []
    sections = [0]
    tokens = MarkdownIt("commonmark").enable("table").parse(_GENERATED.sub("", text))
    in_table = in_heading = False
    for token in tokens:
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.type in ("heading_open", "heading_close"):
            in_heading = token.type == "heading_open"
            if in_heading:
                sections.append(0)
        elif token.type == "inline" and not in_table and not in_heading:
            plain = "".join(map(_plain, token.children or ()))
            parts = [part for part in _END.split(plain) if words_of(part)]
            sentences += parts
            sections[-1] += sum(map(words_of, parts))
    blocks = [token.content for token in tokens if token.type == "fence"]
    num_empty = sum(not block.strip() for block in blocks)
    return Prose(name, tuple(sentences), tuple(sections), num_empty)


def _plain(token: Token) -> str:
    if token.type in ("softbreak", "hardbreak"):
        return " "
    if token.type == "code_inline":
        return "`x`"
    return token.content if token.type == "text" else ""


def documents() -> Iterator[Prose]:
    """Yield the prose of each document that has any."""
    for pattern in PATTERNS:
        for path in sorted(ROOT.glob(pattern)):
            name = str(path.relative_to(ROOT))
            if not name.startswith(EXCLUDED):
                yield prose_of(name, path.read_text(encoding="utf-8"))


def documents_at(revision: str) -> Iterator[Prose]:
    """Yield the prose of each document of a git revision; raise CalledProcessError."""
    names = _git("ls-tree", "-r", "--name-only", "-z", revision, "README.md", "docs").split("\0")
    for name in filter(None, names):
        if name.endswith(".md") and not name.startswith(EXCLUDED):
            yield prose_of(name, _git("show", f"{revision}:{name}"))


def _git(*arguments: str) -> str:
    command = ("git", "-C", str(ROOT), *arguments)
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def banned_words(sentences: Iterable[str]) -> int:
    """Return the number of banned words in `sentences`."""
    words = (word for text in sentences for word in re.findall(r"[A-Za-z]+", text.lower()))
    return sum(word in BANNED for word in words)


def comparison(revision: str) -> str:
    """Return the figures of the documents of `revision` and of now, most banned words first."""
    lines = [f"{'document':42} {'words':>6} {'mean':>5} {'longest':>7} {'banned':>6}"]
    for title, rows in ((revision, [*documents_at(revision)]), ("now", [*documents()])):
        lines.append(f"{title}:")
        ordered = sorted(rows, key=lambda row: (-banned_words(row.sentences), -row.num_words))
        for name, sentences in (
            *((row.name, row.sentences) for row in ordered),
            ("all", tuple(text for row in rows for text in row.sentences)),
        ):
            counts = [*map(words_of, sentences)] or [0]
            lines.append(
                f"{name:42} {sum(counts):6} {statistics.mean(counts):5.1f} {max(counts):7}"
                f" {banned_words(sentences):6}"
            )
    return "\n".join(lines) + "\n"


def faults(prose: Prose) -> Iterator[str]:
    """Yield the broken rules of a document, each with its sentence."""
    if prose.mean > MAX_MEAN:
        yield f"{prose.name}: {prose.mean:.1f} words a sentence, at most {MAX_MEAN:g}"
    for sentence in prose.sentences:
        if (number := words_of(sentence)) > MAX_SENTENCE:
            yield f"{prose.name}: {number} words, at most {MAX_SENTENCE}: {sentence[:100]}"
        if banned := BANNED & {word.lower() for word in re.findall(r"[A-Za-z]+", sentence)}:
            yield f"{prose.name}: {', '.join(sorted(banned))}: {sentence[:100]}"
    if prose.num_empty_blocks:
        yield f"{prose.name}: empty blocks of code: {prose.num_empty_blocks}"
    for number in prose.sections:
        if number > MAX_WITHOUT_HEADING:
            yield f"{prose.name}: {number} words without a heading, at most {MAX_WITHOUT_HEADING}"


def figures(rows: Sequence[Prose]) -> str:
    """Return a table of the documents, the longest first, and their sum."""
    lines = [f"{'document':42} {'words':>6} {'mean':>5} {'longest':>7} {'faults':>6}"]
    for row in sorted(rows, key=lambda row: -row.num_words):
        longest = max(map(words_of, row.sentences), default=0)
        number = len([*faults(row)])
        lines.append(f"{row.name:42} {row.num_words:6} {row.mean:5.1f} {longest:7} {number:6}")
    sentences = [sentence for row in rows for sentence in row.sentences]
    mean = statistics.mean(map(words_of, sentences))
    lines.append(f"{'all':42} {sum(row.num_words for row in rows):6} {mean:5.1f}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Print the figures, with --check the faults, with --compare both; return the exit status."""
    if "--compare" in arguments:
        *_, revision = arguments
        try:
            sys.stdout.write(comparison(revision))
        except subprocess.CalledProcessError as error:
            sys.stderr.write(error.stderr)
            return 2
        return 0
    rows = [*documents()]
    if "--check" not in arguments:
        sys.stdout.write(figures(rows))
        return 0
    wrong = [fault for row in rows for fault in faults(row)]
    total = sum(row.num_words for row in rows)
    if total > MAX_TOTAL:
        wrong.append(f"all documents: {total} words, at most {MAX_TOTAL}")
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
