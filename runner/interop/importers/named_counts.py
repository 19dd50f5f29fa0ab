"""Rows, values and fields of a file that an import skips, merges or does not read, by reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.records.json_fields import kind_of
from compile_hud.db.shared.text import printable, shortened

# A few names suffice to find a mistake in a file: one mistake usually causes all skips of a kind.
MAX_NAMED = 5
# A line of a terminal has room for one name of this length; cases of a file may have longer ones.
MAX_NAME_LENGTH = 80


@dataclass(slots=True)
class NamedCounts:
    """The number of entries, and at most `max_named` different names of them, by reason."""

    num_by_reason: Counter[str] = field(default_factory=Counter)
    first_by_reason: dict[str, list[str]] = field(default_factory=dict)
    max_named: int = MAX_NAMED

    def texts(self, *, prefix: str = "") -> list[str]:
        """Return for each reason the number of entries, the reason, and the first names."""
        texts = []
        for why, count in self.num_by_reason.items():
            first = self.first_by_reason[why]
            more = "; ..." if count > len(first) else ""
            texts.append(f"{count}: {prefix}{why} ({'; '.join(first)}{more})")
        return texts

    def add(self, why: str, *, name: str) -> None:
        """Count an entry."""
        self.num_by_reason[why] += 1
        names = self.first_by_reason.setdefault(why, [])
        if len(names) < self.max_named:
            shown = shortened(printable(name, allowed=""), limit=MAX_NAME_LENGTH)
            if shown not in names:
                names.append(shown)


def merged_counts(counts: Sequence[NamedCounts]) -> NamedCounts:
    """Return the sums of the counts of several files, with the first names of all."""
    merged = NamedCounts(max_named=max((item.max_named for item in counts), default=MAX_NAMED))
    for item in counts:
        merged.num_by_reason.update(item.num_by_reason)
        for why, names in item.first_by_reason.items():
            known = merged.first_by_reason.setdefault(why, [])
            known += [name for name in names if name not in known][: merged.max_named - len(known)]
    return merged


def unread_field(name: str) -> str:
    """Return the reason to count a field of a record that the reader does not know."""
    return f"the field {shortened(printable(name, allowed=''), limit=MAX_NAME_LENGTH)}"


def value_name(location: str, value: Any) -> str:
    """Return the name of a value of a JSON file: its location and the value."""
    # Writing a nested value may exceed Python's recursion limit, even if reading it did not.
    value_text = kind_of(value) if isinstance(value, dict | list) else json.dumps(value)
    return f"{location} {value_text}"


def location_name(line: int, names: Sequence[str]) -> str:
    """Return a location in a file with the known names: `line 3, bert speedup`."""
    present = " ".join(name for name in names if name)
    return f"line {line}, {present}" if present else f"line {line}"
