"""One archive with all that is known about an alert, and the numbers that its verdict follows from.

A reader needs no access to the store: `hud alerts verify` computes the verdict again, and
`hud compare` and `hud ingest` read its runs.
"""

from __future__ import annotations

import difflib
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.queries.alerts import load_alerts, load_series_settings
from compile_hud.db.queries.kernels import load_profiled
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.series import load_histories, load_imported_metrics
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.codec import JsonRecord, decode, encode
from compile_hud.db.records.json_fields import check_schema_version, get_list, get_text, get_value
from compile_hud.db.records.results import REFERENCE_FAMILY, RunDocument
from compile_hud.db.records.summaries import Point, Series, SeriesHeader
from compile_hud.db.records.triage import SeriesSettings
from compile_hud.db.store import Store
from compile_hud.runner.alerting.payload import alert_json
from compile_hud.runner.analysis.judging.judge import NEEDED_METRICS
from compile_hud.runner.analysis.judging.machine_state import CLOCKS
from compile_hud.runner.analysis.judging.series_rules import SeriesRules, series_rules
from compile_hud.runner.analysis.kernels.diff import diff_kernels, kernel_bounds, kernel_side
from compile_hud.runner.errors import DocumentNotWritten
from compile_hud.runner.workspace import Workspace

# 1: first version.
CASE_FILE_VERSION = 1
ALERT, JUDGED = "alert.json", "judged.json"
# The runs of an alert, by their side.
BOUNDS = {"before": "last_good", "after": "first_bad"}
SIDES = tuple(BOUNDS)
# These parts of an alert follow from the series of its case.
COMPUTED = (
    *("baseline", "candidate", "change_pct", "interval_pct", "verdict", "kind", "metric", "unit"),
    *("model", "phase", "shape", "dtype", "mode", "variant", "device", "machine", "toolchain"),
    *("significant", "relevant"),
)
# A case file has some megabytes; a larger one is no case file.
_MAX_BYTES = 512 << 20
_README = """\
# Alert {id}

{title}

| file | content |
|---|---|
| `alert.json` | the alert with its cause, kernels, findings and both environments |
| `judged.json` | the points of all series of the case that the detector read, and its settings |
| `before.json`, `after.json` | the last good and the first bad run: samples, kernels, environment |
| `kernels.json`, `kernels.diff` | the changed kernels, and the difference of the generated code |
| `code/before/`, `code/after/` | the generated code |
| `script.py` | the graphs of both runs for torch alone, if it was asked for |

`hud alerts verify FILE` computes the verdict again from `judged.json`, and the medians from the
samples. `hud compare before.json after.json` compares both runs.
{script}
Revisions: {before} to {after}
{commits}{search}"""
_SCRIPT = """
`python script.py` needs torch alone. It runs the graphs of the last good and the first bad run in
turn, eager and compiled. It prints the change with its interval, and that of the alert.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedNumbers(JsonRecord):
    """The input of the detector for one case: its series, the references, and the rules."""

    series: tuple[Series, ...]
    references: tuple[Series, ...]
    settings: tuple[SeriesSettings, ...]
    expected: Mapping[str, tuple[str, ...]]

    @property
    def rules(self) -> SeriesRules:
        """Return the rules of the series."""
        expected = {key: frozenset(runs) for key, runs in self.expected.items()}
        return SeriesRules(settings=self.settings, expected=expected)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a JSON object."""
        return {
            "schema_version": CASE_FILE_VERSION,
            "series": [_series_json(item) for item in self.series],
            "references": [_series_json(item) for item in self.references],
            "settings": [item.to_json() for item in self.settings],
            "expected": {key: list(runs) for key, runs in self.expected.items()},
        }

    @classmethod
    def from_json(cls, document: Any) -> JudgedNumbers:
        """Return the numbers that `document` describes; raise RecordError for invalid ones."""
        check_schema_version(document)
        series, references = (
            tuple(_series(item) for item in get_list(document, name))
            for name in ("series", "references")
        )
        return decode(cls, document, series=series, references=references)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseScript:
    """The text of a script, and notes on the side that it lacks."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """The parts of an archive that are read again; a side is None if its run was pruned."""

    alert: Mapping[str, Any]
    judged: JudgedNumbers
    runs: Mapping[str, RunDocument]


def write_case_file(
    alert: Alert, *, path: Path, workspace: Workspace, script: CaseScript | None = None
) -> None:
    """Write the archive of `alert` to the new file `path`.

    Raises DocumentNotWritten, and the errors of the store.
    """
    if path.exists():
        raise DocumentNotWritten(
            f"{path} is there already and is not written over. Name another file", path=path
        )
    texts = dict(_texts(alert, workspace=workspace, script=script))
    draft = path.with_name(f".{path.name}.draft")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in texts.items():
                archive.writestr(name, text.encode("utf-8", "surrogatepass"))
        draft.replace(path)
    except OSError as error:
        raise DocumentNotWritten(
            f"cannot write {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error
    finally:
        draft.unlink(missing_ok=True)


def read_case_file(path: Path) -> CaseFile:
    """Return the archive at `path`; raise RecordError."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > _MAX_BYTES:
                raise RecordError(f"unpacked it has more than {_MAX_BYTES} bytes")
            names = set(archive.namelist())
            missing = {ALERT, JUDGED} - names
            if missing:
                raise RecordError(f"it has no {', '.join(sorted(missing))}")
            documents = {
                name: json.loads(archive.read(name))
                for name in (ALERT, JUDGED, *(f"{side}.json" for side in SIDES))
                if name in names
            }
        return CaseFile(
            alert=_checked_alert(documents[ALERT]),
            judged=JudgedNumbers.from_json(documents[JUDGED]),
            runs={
                side: RunDocument.from_json(documents[f"{side}.json"])
                for side in SIDES
                if f"{side}.json" in documents
            },
        )
    except (OSError, zipfile.BadZipFile, ValueError, RecursionError) as error:
        raise RecordError(
            f"{path} is no case file: {error}. `hud alerts export` writes one", path=path
        ) from error


def _checked_alert(document: Any) -> Mapping[str, Any]:
    """Return an alert of `alert_json`; raise RecordError if a field is missing."""
    for name in ("id", *COMPUTED, *BOUNDS.values()):
        get_value(document, name)
    for name in BOUNDS.values():
        if document[name] is not None:
            get_text(document[name], "run_id")
    alert: Mapping[str, Any] = document
    return alert


def judged_numbers(alert: Alert, *, store: Store) -> JudgedNumbers:
    """Return the input of the detector for the case of `alert`.

    Once a person expects the alert, its level is a new baseline; the detector had none there.
    """
    others = [item for item in load_alerts(store) if item.id != alert.id]
    rules = series_rules(others, settings=load_series_settings(store))
    metrics = (*NEEDED_METRICS, *load_imported_metrics(store))
    series = load_histories(store, metrics=metrics, case_keys=[alert.case.key])
    return JudgedNumbers(
        series=tuple(series),
        references=tuple(load_histories(store, metrics=CLOCKS, family=REFERENCE_FAMILY)),
        settings=tuple(rules.settings),
        expected={key: tuple(sorted(runs)) for key, runs in rules.expected.items()},
    )


def _texts(
    alert: Alert, *, workspace: Workspace, script: CaseScript | None
) -> Iterator[tuple[str, str]]:
    store = workspace.store()
    runs = _runs(alert, store=store)
    yield "README.md", _readme(alert, runs, script=script)
    dashboard = workspace.config.dashboard
    yield ALERT, _dumped(alert_json(alert, store=store, dashboard=dashboard))
    yield JUDGED, _dumped(judged_numbers(alert, store=store).to_json())
    for side, document in runs.items():
        yield f"{side}.json", _dumped(document.to_json())
    yield from _kernels(alert, store=store)
    if script is not None:
        yield "script.py", script.text


def _runs(alert: Alert, *, store: Store) -> dict[str, RunDocument]:
    runs = {}
    for side, bound in zip(SIDES, (alert.last_good, alert.first_bad), strict=True):
        if bound is None:
            continue
        try:
            runs[side] = load_document(
                store, bound.run_id, has_kernels=True, case_key=alert.case.key
            )
        except NotFoundError:
            # Pruning removed the run, and the alert remains.
            continue
    return runs


def _kernels(alert: Alert, *, store: Store) -> Iterator[tuple[str, str]]:
    names = kernel_bounds(alert)
    results = load_profiled(store, names)
    sides = [results.get(name) for name in names]
    code: dict[str, list[str]] = {}
    for side, result in zip(SIDES, sides, strict=False):
        for source in () if result is None else result.sources:
            ending = "py" if source.language == "triton" else source.language
            yield f"code/{side}/{source.hash[:16]}.{ending}", source.text
            code.setdefault(side, []).extend(source.text.splitlines())
    before, after = (*sides, None, None)[:2]
    if before is None or after is None:
        return
    try:
        diff = diff_kernels(kernel_side(before), kernel_side(after))
    except RecordError:
        # A damaged result has no diff; the runs have what is left of it.
        return
    yield "kernels.json", _dumped(diff.to_json())
    old, new = (code.get(side, []) for side in SIDES)
    lines = difflib.unified_diff(old, new, "before", "after", lineterm="")
    yield "kernels.diff", "\n".join(lines) + "\n"


def _readme(alert: Alert, runs: Mapping[str, RunDocument], *, script: CaseScript | None) -> str:
    revisions = {
        side: bound.revision
        for side, bound in zip(SIDES, (alert.last_good, alert.first_bad), strict=True)
        if bound is not None
    }
    commits = [runs[side].run.environment.get("torch_git") for side in SIDES if side in runs]
    link = ""
    if len(commits) == 2 and all(commits) and commits[0] != commits[1]:
        link = f"https://github.com/pytorch/pytorch/compare/{commits[0]}...{commits[1]}\n"
    return _README.format(
        id=alert.id,
        title=f"{alert.case.key}: {alert.metric}, {alert.verdict} ({alert.kind})",
        before=revisions.get("before", "unknown"),
        after=revisions.get("after", "unknown"),
        commits=link,
        script="" if script is None else _script_text(script),
        search=f"Search: {alert.bisection['text']}\n" if alert.bisection else "",
    )


def _script_text(script: CaseScript) -> str:
    notes = "".join(f"\nNote: {note}.\n" for note in script.notes)
    return f"{_SCRIPT}{notes}"


def _dumped(document: Any) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _series_json(series: Series) -> dict[str, Any]:
    return {
        "header": encode(series.header),
        "points": [_point_json(point) for point in series.points],
    }


def _point_json(point: Point) -> dict[str, Any]:
    # Points that are read for a page have more fields.
    return {item: value for item, value in encode(point).items() if item in Point.__slots__}


def _series(document: Any) -> Series:
    return Series(
        header=decode(SeriesHeader, document.get("header")),
        points=tuple(decode(Point, item) for item in get_list(document, "points")),
    )
