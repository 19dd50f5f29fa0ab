"""Limit how deeply a JSON document is nested.

Python reads a document of a depth at which it can neither copy nor write it any more.
"""

from __future__ import annotations

from typing import Any, Final

# No file of ours or of the tools that we import has more than a dozen levels.
MAX_DEPTH: Final = 100


def is_nested_too_deeply(document: Any) -> bool:
    """Return whether `document` has more than MAX_DEPTH lists and objects inside of each other."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, dict | list)
        ]
    return bool(level)
