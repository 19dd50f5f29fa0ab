"""Tables as CSV files that a spreadsheet opens without executing anything. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from compile_hud.db.shared.text import spreadsheet_text

CsvValue = str | float | int | bool | None


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[CsvValue]]) -> str:
    """Return a CSV file with a header; numbers are whole, None is empty.

    An apostrophe precedes a text that a spreadsheet would execute.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: CsvValue) -> str:
    if value is None:
        return ""
    return spreadsheet_text(value) if isinstance(value, str) else str(value)
