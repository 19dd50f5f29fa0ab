"""Tables as CSV files that a spreadsheet opens without executing anything. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from db.text import printable

# With one of these a cell begins that a spreadsheet takes for a formula; see
# https://owasp.org/www-community/attacks/CSV_Injection.
_FORMULA_STARTS = ("=", "+", "-", "@")

CsvValue = str | float | int | bool | None


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[CsvValue]]) -> str:
    """Return a CSV file with a header; numbers are whole, None is empty.

    A text that a spreadsheet would execute has an apostrophe before it.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: CsvValue) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    # Tabs and other signs that are not printed are no longer there.
    shown = printable(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA_STARTS) else shown
