"""The stored releases, and the report of one, as JSON objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.results import Run
from compile_hud.db.store import Store
from compile_hud.runner.analysis.release.markdown import repro_line
from compile_hud.runner.analysis.release.mean_changes import MeanChange
from compile_hud.runner.analysis.release.report import (
    DocumentPair,
    NamedCluster,
    ReleaseReport,
    release_report,
)
from compile_hud.runner.analysis.release.runs import MachinePair, ReleaseRuns, find_releases
from compile_hud.runner.documents.comparison import row_json
from compile_hud.runner.errors import NoSuchDocument

_NUM_RUNS_SEARCHED = 1000


def newest_release(store: Store, names: tuple[str, str]) -> ReleaseRuns | None:
    """Return the newest release of the toolchains `names`, None without one."""
    return next(
        (item for item in _releases(store) if (item.rules.baseline, item.rules.candidate) == names),
        None,
    )


def load_release(store: Store, names: tuple[str, str]) -> list[DocumentPair]:
    """Return the runs of the newest release of the toolchains `names`, with their kernels.

    Raises NoSuchDocument without one.
    """
    runs = newest_release(store, names)
    if runs is None:
        known = {(item.rules.baseline, item.rules.candidate) for item in _releases(store)}
        listed = ", ".join(f"{before} -> {after}" for before, after in sorted(known)) or "none"
        raise NoSuchDocument(
            f"no release from {names[0]} to {names[1]} in the store {store.name}; it has: {listed}."
            " `hud release` without --report measures it"
        )
    return load_pairs(store, runs)


def load_pairs(store: Store, runs: ReleaseRuns) -> list[DocumentPair]:
    """Return the runs of a release with their results and kernels."""
    return [
        DocumentPair(
            baseline=load_document(store, pair.baseline.id, has_kernels=True),
            candidate=load_document(store, pair.candidate.id, has_kernels=True),
        )
        for pair in runs.pairs
    ]


def list_releases(store: Store) -> list[dict[str, Any]]:
    """Return the releases among the newest runs as JSON objects, the newest first."""
    return [
        {
            "baseline": _side_json(item.baseline),
            "candidate": _side_json(item.candidate),
            "started_at": time_to_json(item.candidate.started_at),
            "machines": _machines_json(item.pairs),
            "state": str(item.state),
            "fail_above": item.rules.fail_above,
            "max_launches": item.rules.max_launches,
        }
        for item in _releases(store)
    ]


def stored_release(store: Store, names: tuple[str, str]) -> dict[str, Any]:
    """Return the report of the newest release of the toolchains `names` as a JSON object."""
    return release_json(release_report(load_release(store, names)))


def release_json(report: ReleaseReport) -> dict[str, Any]:
    """Return the report as a JSON object."""
    total = report.sign_off
    return {
        "schema_version": 1,
        "sign_off": {
            "text": total.text,
            "advice": str(total.advice),
            "num_cases": total.num_cases,
            "num_regressions": total.num_regressions,
            "num_improvements": total.num_improvements,
            "num_undecided": total.num_undecided,
            "num_failing": total.num_failing,
            "num_unmeasured": total.num_unmeasured,
            "could_have_seen_pct": None
            if total.could_have_seen is None
            else 100 * total.could_have_seen,
        },
        "baseline": _side_json(report.baseline),
        "candidate": _side_json(report.candidate),
        "machines": _machines_json(report.pairs),
        "commits_url": report.commits_url or None,
        "environment": [
            {"name": name, "baseline": before, "candidate": after}
            for name, (before, after) in report.environment.items()
        ],
        "means": [_mean_json(mean) for mean in report.means],
        "clusters": [_cluster_json(named, report=report) for named in report.clusters],
        "undecided": [item.key for item in report.undecided],
        "failing": [item.key for item in report.failing],
        "improvements": [item.key for item in report.improvements],
        "rows": [
            row_json(row, fail_above=report.standard.fail_above)
            for item in report.judged
            for row in item.rows
        ],
    }


def _mean_json(mean: MeanChange) -> dict[str, Any]:
    return {
        "variant": mean.variant,
        "phase": str(mean.phase),
        "metric": mean.metric,
        "num_cases": mean.num_cases,
        "num_worse": mean.num_worse,
        "num_better": mean.num_better,
        "change_pct": 100 * (mean.change.ratio - 1),
        "interval_pct": [100 * (end - 1) for end in mean.change.interval()],
    }


def _cluster_json(named: NamedCluster, *, report: ReleaseReport) -> dict[str, Any]:
    return {
        "text": named.text,
        "conditions": [
            {"name": factor.name, "value": factor.value} for factor in named.cluster.conditions
        ],
        "cases": [item.key for item in named.items],
        "representative": named.representative.key,
        "cause": named.cause or None,
        "repro": repro_line(report, named.representative),
    }


def _releases(store: Store) -> list[ReleaseRuns]:
    return find_releases([item.run for item in load_runs(store, limit=_NUM_RUNS_SEARCHED)])


def _side_json(run: Run) -> dict[str, str]:
    return {
        "run_id": run.id,
        "toolchain": run.toolchain,
        "revision": run.revision,
        "machine": run.machine,
    }


def _machines_json(pairs: Sequence[MachinePair]) -> list[dict[str, str]]:
    return [
        {
            "machine": pair.machine,
            "baseline_run": pair.baseline.id,
            "candidate_run": pair.candidate.id,
        }
        for pair in pairs
    ]
