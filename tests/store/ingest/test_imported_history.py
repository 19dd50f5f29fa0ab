"""The rows that imports write, on every kind of store."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from compile_hud.db.errors import MixedStoreError
from compile_hud.db.ingest.imported_history import Imported, imported_contents, put_imported
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.series import find_series
from compile_hud.db.records.results import RunDocument
from compile_hud.db.rows.batches import IDS_PER_READ
from compile_hud.db.store import Store
from compile_hud.runner.interop.importers.case_evidence import CaseEvidence, result_of
from compile_hud.runner.interop.importers.importer import merge_results
from compile_hud.runner.interop.importers.vocabulary import find_metric
from tests.support.builders import START, make_case, make_document, make_run


def night(number: int, *models: str, metric: str = "speedup", value: float = 1.5) -> RunDocument:
    """Return a run in which somebody else measured one metric of each model."""
    at = START + timedelta(days=number)
    cases = [make_case(model) for model in models]
    run = make_run(f"import-{number}", plan=cases, started_at=at, finished_at=at)
    evidence = CaseEvidence()
    evidence.add_launches(find_metric(metric), [(value,)])
    results = [result_of(evidence, case=case, run_id=run.id, at=at) for case in cases]
    return make_document(run, results=results)


def put(store: Store, *documents: RunDocument) -> Imported:
    return sum(put_imported(store, documents, at=START, merge=merge_results), start=Imported())


def test_each_result_is_in_once_however_often_it_comes(store: Store) -> None:
    assert put(store, night(0, "bert", "vit"), night(1, "bert")) == Imported(num_new=3)
    version = store.store_version()
    assert put(store, night(0, "bert", "vit"), night(1, "bert")) == Imported(num_known=3)
    assert {header.num_points for header in find_series(store)} == {1, 2}
    assert store.store_version() >= version


def test_a_known_run_grows_by_what_is_new(store: Store) -> None:
    put(store, night(0, "bert"))
    done = put(store, night(0, "bert", "vit", metric="mfu", value=0.4))
    assert done == Imported(num_new=1, num_changed=1)
    document = load_document(store, "import-0")
    assert [case.model for case in document.run.plan] == ["bert", "vit"]
    bert, vit = document.results
    assert {item.metric for item in bert.measurements} == {"speedup", "mfu"}
    assert {item.metric for item in vit.measurements} == {"mfu"}
    assert {header.num_points for header in find_series(store)} == {1}
    # In the other order it is the same content.
    assert put(store, night(0, "bert", "vit", metric="mfu", value=0.4)) == Imported(num_known=2)
    assert load_document(store, "import-0") == document


def test_a_part_that_comes_late_has_the_time_of_its_run(store: Store) -> None:
    put(store, night(0, "bert"))
    late = night(0, "vit")
    hour = timedelta(hours=1)
    moved = [dataclasses.replace(item, started_at=START + hour) for item in late.results]
    put(store, dataclasses.replace(late, results=tuple(moved)))
    assert {item.started_at for item in load_document(store, "import-0").results} == {START}


def test_content_is_known_once_it_is_marked(store: Store) -> None:
    assert imported_contents(store, prefix="import-") == set()
    for contents in (["import-a-1", "import-b-2"], ["import-a-1", "import-a-1", "import-a-3"]):
        put_imported(store, [night(0, "bert")], at=START, merge=merge_results, contents=contents)
    assert imported_contents(store, prefix="import-a-") == {"import-a-1", "import-a-3"}
    assert imported_contents(store, prefix="import-b") == {"import-b-2"}


def test_each_run_has_its_own_numbers(store: Store) -> None:
    put(store, night(0, "bert"), night(2, "bert"))
    nights = [night(2, "bert", "vit"), night(1, "bert", "vit", "unet"), night(0, "bert")]
    assert put_imported(store, nights, at=START, merge=merge_results) == (
        Imported(num_new=1, num_known=1),
        Imported(num_new=3),
        Imported(num_known=1),
    )


def test_a_history_of_more_runs_than_a_statement_has_parameters(store: Store) -> None:
    nights = [night(number, "bert") for number in range(IDS_PER_READ + 7)]
    assert put(store, *nights[::2]) == Imported(num_new=len(nights[::2]))
    done = put(store, *nights)
    assert done == Imported(num_new=len(nights[1::2]), num_known=len(nights[::2]))
    (header,) = find_series(store)
    assert header.num_points == len(nights)


def test_a_store_of_synthetic_runs_takes_no_import(store: Store) -> None:
    store.save_run(make_run("demo", is_synthetic=True))
    with pytest.raises(MixedStoreError):
        put(store, night(0, "bert"))
