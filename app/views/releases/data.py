"""Read the releases of a store, cached as in app/data/store.py."""

from __future__ import annotations

from compile_hud.app.data.cache import cached_read, read_cache
from compile_hud.app.data.runs import load_newest_runs, results_stamp
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.views.releases.records import ReleasePage
from compile_hud.db.queries.results import load_document
from compile_hud.db.store import Store
from compile_hud.runner.analysis.release.markdown import release_markdown, report_command
from compile_hud.runner.analysis.release.report import DocumentPair, release_report
from compile_hud.runner.analysis.release.runs import ReleaseRuns, find_releases

# The baseline and the candidate of each machine.
RunIds = tuple[tuple[str, str], ...]


@cached_read
def load_releases(at: StoreVersion) -> tuple[ReleaseRuns, ...]:
    """Return the releases among the newest runs, the newest first."""
    return tuple(find_releases([item.run for item in load_newest_runs.read_at(at)]))


@cached_read
def load_release(at: StoreVersion, run_ids: RunIds) -> ReleasePage:
    """Return the report of a release, by the runs of each machine.

    It is made again only when one of them has another result, and not with each change elsewhere.
    """
    summaries = {item.run.id: item for item in load_newest_runs.read_at(at)}
    stamps = tuple(results_stamp(summaries.get(run_id)) for pair in run_ids for run_id in pair)
    key = (at.url, "release", run_ids, stamps)
    return read_cache().get_or_load(key, 0, lambda: _page(at.store, run_ids))


def _page(store: Store, run_ids: RunIds) -> ReleasePage:
    report = release_report(
        [
            DocumentPair(
                baseline=load_document(store, baseline, has_kernels=True),
                candidate=load_document(store, candidate, has_kernels=True),
            )
            for baseline, candidate in run_ids
        ]
    )
    return ReleasePage(
        report=report, markdown=release_markdown(report), command=report_command(report)
    )
