"""docs/explanation/torch-releases.md: two builds of torch on a CPU, drawn from their runs.

`python -m benchmarks.release_page --store URL BASELINE CANDIDATE` takes the newest release of two
toolchains from a store. Without arguments it draws the page again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.gpu.ledger import append, read_ledger
from compile_hud.db.records.results import Run, RunDocument
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.release.markdown import release_markdown
from compile_hud.runner.analysis.release.report import DocumentPair, release_report
from compile_hud.runner.analysis.release.runs import rules_of
from compile_hud.runner.documents.pairs.releases import load_release

FOLDER = Path(__file__).with_name("releases")
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "torch-releases.md"
_INTRODUCTION = """\
# A release of torch on a CPU

[`hud release`](../how-to/release.md) measured two builds of torch in turn. This page is its report;
`python -m benchmarks.release_page` draws it from the stored runs."""
_FACTS = (
    ("CPU", "cpu_model"),
    ("vector instructions", "cpu_capability"),
    ("Python", "python_version"),
    ("threads", "num_threads"),
)


def page_text(baseline: RunDocument, candidate: RunDocument) -> str:
    """Return the page of a release from the runs of both sides."""
    report = release_report([DocumentPair(baseline=baseline, candidate=candidate)])
    # The title of the page is its first heading, and the answer the second one.
    answer = release_markdown(report).removeprefix("#")
    return "\n\n".join([_INTRODUCTION, _facts(candidate.run), answer])


def read_pair(folder: Path = FOLDER) -> tuple[RunDocument, RunDocument]:
    """Return the stored runs of both sides, the baseline first."""
    documents = {document.run.toolchain: document for document in read_ledger(folder)}
    rules = rules_of(next(iter(documents.values())).run)
    assert rules is not None
    return documents[rules.baseline], documents[rules.candidate]


def main() -> int:
    """Store the runs of a release if there are any to take, and draw the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="URL of the store")
    parser.add_argument("toolchains", nargs="*", help="BASELINE CANDIDATE")
    options = parser.parse_args()
    if options.store:
        if len(options.toolchains) != 2:
            parser.error("--store needs BASELINE and CANDIDATE")
        (pair,) = load_release(Store(options.store), tuple(options.toolchains))
        for path in FOLDER.glob("*.json.gz"):
            path.unlink()
        for document in (pair.baseline, pair.candidate):
            sys.stderr.write(f"{append(document, folder=FOLDER)}\n")
    PAGE.write_text(page_text(*read_pair()), encoding="utf-8")
    return 0


def _facts(run: Run) -> str:
    rows = [
        ("measured", f"{run.started_at:%Y-%m-%d}, suite of {counted(len(run.plan), 'case')}"),
        *((label, str(run.environment[name])) for label, name in _FACTS),
    ]
    return "\n".join(["|  |  |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)])


if __name__ == "__main__":
    sys.exit(main())
