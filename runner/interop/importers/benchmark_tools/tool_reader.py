"""The common part of the readers of general tools, whose files are JSON documents."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from compile_hud.db.errors import RecordError
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.history import HistoryRow, MissingValuePolicy, RowOrigin
from compile_hud.runner.interop.importers.named_counts import (
    NamedCounts,
    location_name,
    unread_field,
    value_name,
)
from compile_hud.runner.interop.importers.vocabulary import (
    NO_NUMBER,
    UNKNOWN,
    as_number,
    clean_name,
)

# A case has at most so many samples of a metric: a tool may take a million in a second.
MAX_SAMPLES = 10_000
_THINNED = f"rounds beyond {MAX_SAMPLES:,} of a benchmark: so many are kept, evenly spread"


@dataclass(slots=True)
class ToolReader(ABC):
    """Read documents; `skipped` are benchmarks without a number, and values that are none."""

    # The fields of a document that are read, or that say nothing about a benchmark.
    FIELDS: ClassVar[frozenset[str]]

    missing_values: MissingValuePolicy
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=lambda: NamedCounts(max_named=1))

    def name_facts(self, name: str) -> tuple[str, ...]:
        """Return no facts: a document states them all, and `name` adds none."""
        del name
        return ()

    def rows(self, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each metric of a benchmark; raise ImportFailed naming the line."""
        for line, document in source.documents():
            try:
                for name in sorted(document.keys() - self.FIELDS):
                    self.unread.add(unread_field(name), name=location_name(line, ()))
                yield from self.document_rows(document, source=source)
            except RecordError as error:
                raise source.error(str(error), line) from error

    @abstractmethod
    def document_rows(self, document: Mapping[str, Any], *, source: Source) -> Iterator[HistoryRow]:
        """Yield the rows of one document; raise RecordError for another form."""

    def machine(self, runner: str) -> str:
        """Return the machine: a given name replaces that of the `runner`."""
        given = self.missing_values.machine
        return clean_name(given if given != UNKNOWN else runner or UNKNOWN)

    def origin(
        self,
        *,
        suite: str,
        branch: str = "",
        revision: str = "",
        runner: str = "",
        facts: Mapping[str, Any],
        about: Mapping[str, str],
    ) -> RowOrigin:
        """Return the origin of a document; empty texts are those that it does not have."""
        return RowOrigin(
            suite=clean_name(suite),
            branch=clean_name(branch),
            revision=clean_name(revision or self.missing_values.revision),
            machine=self.machine(runner),
            workflow="",
            facts=json.dumps(facts, sort_keys=True),
            about=json.dumps(about),
            is_runner=self.missing_values.machine == UNKNOWN and bool(runner),
        )

    def samples(self, values: Sequence[Any], *, name: str) -> tuple[float, ...]:
        """Return the numbers among `values` of the benchmark `name`; count the others."""
        numbers = []
        for value in values:
            number = as_number(value)
            if number is None:
                self.skipped.add(NO_NUMBER, name=value_name(name, value))
            else:
                numbers.append(number)
        return self.thinned(numbers, name=name)

    def thinned(self, numbers: Sequence[float], *, name: str) -> tuple[float, ...]:
        """Return at most MAX_SAMPLES of `numbers`, evenly spread; count a benchmark with more."""
        if len(numbers) <= MAX_SAMPLES:
            return tuple(numbers)
        self.unread.add(_THINNED, name=name)
        step = len(numbers) / MAX_SAMPLES
        return tuple(numbers[int(number * step)] for number in range(MAX_SAMPLES))


def text_of(value: Any) -> str:
    """Return a text without outer spaces, empty for any other value."""
    return value.strip() if isinstance(value, str) else ""
