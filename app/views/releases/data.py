"""Read the releases of a store, cached as in app/data/store.py."""

from __future__ import annotations

from compile_hud.app.data.cache import cached_read, read_cache
from compile_hud.app.data.runs import load_newest_runs, results_stamp
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.views.releases.records import ReleasePage
from compile_hud.db.queries.results import load_document
from compile_hud.db.store import Store
from compile_hud.runner.analysis.release.markdown import release_markdown, report_command
from compile_hud.runner.analysis.release.report import release_report
from compile_hud.runner.analysis.release.runs import ReleaseRuns, find_releases
from compile_hud.runner.analysis.release.sign_off import release_standard


@cached_read
def load_releases(at: StoreVersion) -> tuple[ReleaseRuns, ...]:
    """Return the releases among the newest runs, the newest first."""
    return tuple(find_releases([item.run for item in load_newest_runs.read_at(at)]))


@cached_read
def load_release(at: StoreVersion, baseline: str, candidate: str) -> ReleasePage:
    """Return the report of two runs of a release.

    It is made again only when one of them has another result, and not with each change elsewhere.
    """
    summaries = {item.run.id: item for item in load_newest_runs.read_at(at)}
    run_ids = (baseline, candidate)
    stamps = tuple(results_stamp(summaries.get(run_id)) for run_id in run_ids)
    key = (at.url, "release", run_ids, stamps)
    return read_cache().get_or_load(key, 0, lambda: _page(at.store, run_ids))


def _page(store: Store, run_ids: tuple[str, str]) -> ReleasePage:
    before, after = (load_document(store, run_id, has_kernels=True) for run_id in run_ids)
    report = release_report(before, after, standard=release_standard(after.run))
    return ReleasePage(
        report=report, markdown=release_markdown(report), command=report_command(report)
    )
