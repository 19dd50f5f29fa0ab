"""The studies: their cases exist, and their quotations have a source."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import METRICS
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.planning import study_runs
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.planning.study_runs import find_study, study_suite

PLACES = [(study, device) for study in STUDIES.values() for device in study.cases]


@pytest.mark.parametrize(
    ("study", "device"), PLACES, ids=[f"{study.name}-{device}" for study, device in PLACES]
)
def test_every_study_can_be_planned_on_every_device(study: object, device: str) -> None:
    suite = study_suite(study, device=device)  # type: ignore[arg-type]
    plan = make_plan(suite.selection, catalog=CATALOG, device=device)
    assert {item.case.device for item in plan} == {device}
    assert "eager" in {item.case.variant for item in plan}
    assert {item.case.variant for item in plan} - {"eager"}


def test_every_study_is_there_for_a_cpu_and_for_a_gpu() -> None:
    assert {tuple(study.cases) for study in STUDIES.values()} == {("cpu", "cuda")}


def test_bert_is_requested_at_every_batch_and_length_that_was_published() -> None:
    assert STUDIES["bert-grid"].cases["cuda"].shapes == (
        *("full-b1-l16", "full-b1-l128", "full-b1-l512"),
        *("full-b8-l16", "full-b8-l128", "full-b8-l512"),
        *("full-b32-l16", "full-b32-l128", "full-b32-l512"),
    )


@pytest.mark.parametrize("name", STUDIES)
def test_numbers_and_published_figures_are_distinguished_by_unit_and_source(name: str) -> None:
    study = STUDIES[name]
    assert study.published
    for figure in study.published:
        assert figure.source
        assert figure.device
        low, high = figure.low, figure.high
        assert (low, high) != (None, None)
        assert low is None or high is None or 0 < low <= high
    for table in study.tables:
        assert set(table.metrics) <= set(METRICS)


@pytest.mark.parametrize("name", STUDIES)
def test_every_published_figure_has_a_case_of_the_study(name: str) -> None:
    study = STUDIES[name]
    plan = make_plan(study_suite(study, device="cuda").selection, catalog=CATALOG, device="cuda")
    cases = [item.case for item in plan]
    for figure in study.published:
        if figure.unlike:
            continue
        like = [
            case
            for case in cases
            if (not figure.models or case.model in figure.models)
            and (not figure.families or case.family in figure.families)
            and (not figure.phases or case.phase in figure.phases)
            and (not figure.dtypes or case.dtype in figure.dtypes)
        ]
        assert like, figure.what


def test_an_unknown_study_names_the_near_ones(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        find_study("family")
    assert (caught.value.parameters["kind"], caught.value.parameters["near"]) == (
        "study",
        "families",
    )
    # What there is changes with the catalog.
    assert str(caught.value).partition(" There is ")[0] == words


def test_a_variant_that_this_version_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    # To delete it and put it back would change the order for the tests that follow.
    fewer = {name: way for name, way in VARIANTS.items() if name != "channels-last"}
    monkeypatch.setattr(study_runs, "VARIANTS", fewer)
    suite = study_suite(STUDIES["training"], device="cpu")
    assert suite.selection.modes == ("eager", "default")
    assert suite.name == "study-training"


def test_a_study_can_be_narrowed_to_some_models_and_variants() -> None:
    suite = study_suite(
        STUDIES["families"], device="cpu", models=["bert", "r*"], variants=["default"]
    )
    assert suite.selection.models == ("bert", "resnet")
    assert suite.selection.modes == ("default",)


def test_a_model_outside_the_study_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        study_suite(STUDIES["families"], device="cpu", models=["moe"])
    # What there is changes with the catalog.
    assert str(caught.value).partition(" There is ")[0] == words
