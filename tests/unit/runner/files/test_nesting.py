from __future__ import annotations

from typing import Any

import pytest

from compile_hud.runner.files.nesting import MAX_DEPTH, is_nested_too_deeply


def nested(depth: int, *, is_list: bool) -> Any:
    """Return a document of `depth` levels."""
    document: Any = [] if is_list else {}
    for _ in range(depth - 1):
        document = [7, document] if is_list else {"a": 7, "b": document}
    return document


@pytest.mark.parametrize("is_list", [True, False])
def test_a_document_may_have_as_many_levels_as_allowed(is_list: bool) -> None:
    assert not is_nested_too_deeply(nested(MAX_DEPTH, is_list=is_list))
    assert is_nested_too_deeply(nested(MAX_DEPTH + 1, is_list=is_list))
    assert is_nested_too_deeply(nested(50_000, is_list=is_list))


@pytest.mark.parametrize("document", [None, 3, "[[[", [], {}, [[], [1], {"a": []}]])
def test_flat_documents_are_no_problem(document: Any) -> None:
    assert not is_nested_too_deeply(document)
