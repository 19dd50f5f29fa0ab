"""The commands that continue a comparison of two stored runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_hud.db.queries.kernels import load_results_with_kernels
from compile_hud.db.records.results import RunDocument, Verdict
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.repro import compare_command
from compile_hud.runner.cli.help.next_steps import hud
from compile_hud.runner.config.load import Config

# Minutes of further launches, as the documentation suggests.
_SETTLE_MINUTES = "5"


def next_commands(
    before: RunDocument,
    after: RunDocument,
    *,
    rows: Sequence[CaseComparison],
    store: Store,
    config: Config,
) -> Iterator[str]:
    """Yield the commands that explain the first regression and decide open comparisons."""
    keys = [row.case.key for row in rows if row.comparison.verdict is Verdict.REGRESSION]
    if keys:
        sides = (before, after)
        has_kernels = all(_has_kernels(document, keys[0], store=store) for document in sides)
        if has_kernels:
            yield hud("kernels", "diff", *(f"{item.run.id}:{keys[0]}" for item in sides))
        else:
            yield hud("show", after.run.id, keys[0])
    is_undecided = any(row.comparison.verdict is Verdict.INCONCLUSIVE for row in rows)
    if is_undecided and _can_launch(before, after, config=config):
        yield compare_command(before.run.id, after.run.id, (("settle", _SETTLE_MINUTES),))


def _has_kernels(document: RunDocument, key: str, *, store: Store) -> bool:
    known = load_results_with_kernels(store, document.run.id)
    return any(result.id in known for result in document.results if result.case.key == key)


def _can_launch(*documents: RunDocument, config: Config) -> bool:
    """Return whether both sides can be launched on this machine."""
    return all(
        document.run.machine == config.machine and document.run.toolchain in config.toolchains
        for document in documents
    )
