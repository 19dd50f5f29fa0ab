"""The documents are short sentences under frequent headings, and the check of them counts right."""

from __future__ import annotations

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


def test_the_ceiling_of_all_words_is_near_their_number() -> None:
    total = sum(row.num_words for row in PROSE.documents())
    assert total <= PROSE.MAX_TOTAL <= total + 2_000
