"""CSV files of NVIDIA's profilers, imported for the kernels of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from compile_hud.db.queries.kernel_counters import keep_counters
from compile_hud.db.records.results import CaseResult
from compile_hud.db.shared.text import counted, printable
from compile_hud.db.store import Store
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.interop.importers.nsight import CounterMean, match_names, read_counters

# More names than this do not help to spot a typing error.
_MAX_NAMES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReport:
    """The result of a file: the number of kernels with counters, and what of it was not used.

    `unknown` are its names without a kernel.
    """

    path: Path
    num_counters: int
    num_kernels: int
    num_all: int
    unknown: tuple[str, ...]
    unread_columns: tuple[str, ...]


def import_counters(
    files: Sequence[Path], *, result: CaseResult, store: Store
) -> list[CounterReport]:
    """Store the counters in `files` for the kernels of `result`, or raise ImportFailed."""
    # All files are read before the first one is stored, so a faulty file stores nothing.
    contents = [(path, read_counters(path)) for path in files]
    matches = [_matched(path, content.kernels, result=result) for path, content in contents]
    reports = []
    for (path, content), names in zip(contents, matches, strict=True):
        kernels = content.kernels
        counters = {
            name: {counter: asdict(reading) for counter, reading in kernels[there].items()}
            for name, there in names.items()
        }
        reports.append(
            CounterReport(
                path=path,
                num_counters=len({name for some in counters.values() for name in some}),
                num_kernels=keep_counters(store, result.id, counters),
                num_all=len(result.kernels),
                unknown=tuple(sorted(set(kernels) - set(names.values()))),
                unread_columns=content.unread_columns,
            )
        )
    return reports


def _matched(
    path: Path, kernels: Mapping[str, Mapping[str, CounterMean]], *, result: CaseResult
) -> dict[str, str]:
    """Return the kernels of `result` with their names in the file; raise ImportFailed for none."""
    known = [kernel.name for kernel in result.kernels]
    names = match_names(kernels, kernel_names=known)
    if not names:
        raise ImportFailed(
            f"{path}: none of its kernels ({names_text(list(kernels))}) is one of"
            f" {result.case.key} ({names_text(known)}). Give the file of this case",
            path=path,
            case=result.case.key,
        )
    return names


def print_report(report: CounterReport) -> None:
    """Print the result of a file; names without a kernel go to standard error."""
    echo(
        f"{report.path}: {counted(report.num_counters, 'counter')} for {report.num_kernels} of"
        f" {counted(report.num_all, 'kernel')}"
    )
    if report.unknown:
        echo(f"  no such kernel in this case: {names_text(report.unknown)}", err=True)
    if report.unread_columns:
        echo(f"  columns that were not read: {names_text(report.unread_columns)}", err=True)


def names_text(names: Sequence[str]) -> str:
    """Return the names of kernels, each once, the first ones where they are many."""
    each = list(dict.fromkeys(names))
    text = ", ".join(printable(name, allowed="") for name in each[:_MAX_NAMES])
    return text if len(each) <= _MAX_NAMES else f"{text} and {len(each) - _MAX_NAMES} more"
