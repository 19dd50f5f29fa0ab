"""The documents are short sentences under frequent headings, and the check of them counts right."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.sources import module_of

PROSE = module_of("docs/prose.py")


def test_sentences_of_paragraphs_and_lists_are_counted() -> None:
    text = (
        "# A title of five words\n\nOne two `three four` five. Six\nseven!\n\n- Eight *nine*\n\n"
        "```\nno words of a program\n```\n\n| no | words |\n|---|---|\n| of a | table |\n\n"
        "<!-- generated: x -->\nNo words.\n<!-- end generated -->\n\n## Next\n\nTen - eleven.\n"
    )
    prose = PROSE.prose_of("a.md", text)
    assert [PROSE.words_of(sentence) for sentence in prose.sentences] == [4, 2, 2, 2]
    assert prose.sections == (0, 8, 2)
    assert prose.num_words == 10


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("word " * 36 + ".", "36 words, at most 35"),
        ("One is told.", "told"),
        ("One two.\n\n```\n\n```\n", "empty blocks of code: 1"),
        (f"{'word ' * 18}. {'word ' * 18}.", "18.0 words a sentence"),
        ("Five words are in it. " * 31, "155 words without a heading"),
    ],
)
def test_a_fault_is_named_with_its_document(text: str, fault: str) -> None:
    faults = [*PROSE.faults(PROSE.prose_of("a.md", text))]
    assert any(line.startswith("a.md: ") and fault in line for line in faults)


def test_no_document_breaks_a_rule() -> None:
    assert PROSE.main(["--check"]) == 0


def test_documents_of_another_revision_are_compared_with_those_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PROSE, "ROOT", tmp_path)
    old, record = tmp_path / "docs" / "old.md", tmp_path / "docs" / "adr" / "1.md"
    record.parent.mkdir(parents=True)
    record.write_text("One is told.")
    old.write_text("One two three is told. Six seven.")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.org")
    for command in ("init -q", "add .", "commit -qm one"):
        subprocess.run(["git", "-C", str(tmp_path), *command.split()], check=True)
    old.unlink()
    (tmp_path / "README.md").write_text("One two.")
    assert PROSE.main(["--compare", "HEAD"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["document", "words", "mean", "longest", "banned"],
        ["HEAD:"],
        ["docs/old.md", "7", "3.5", "5", "1"],
        ["all", "7", "3.5", "5", "1"],
        ["now:"],
        ["README.md", "2", "2.0", "2", "0"],
        ["all", "2", "2.0", "2", "0"],
    ]
    assert PROSE.main(["--compare", "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_the_ceiling_of_all_words_is_near_their_number() -> None:
    total = sum(row.num_words for row in PROSE.documents())
    assert total <= PROSE.MAX_TOTAL <= total + 2_000
