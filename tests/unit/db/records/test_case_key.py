"""The key of a case and its parts."""

from __future__ import annotations

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import MODES, Case
from compile_hud.models_zoo.catalog import variants as catalog
from tests.support.builders import make_case


def test_a_key_has_the_parts_of_its_case() -> None:
    case = make_case()
    key = Case.parse_key(case.key)
    assert [str(getattr(case, name)) for name in key.__dataclass_fields__] == case.key.split("/")
    assert (key.model, key.device) == (case.model, case.device)


def test_the_name_of_a_model_may_have_a_slash() -> None:
    assert Case.parse_key("timm/vit/inference/b1/fp32/eager/cpu").model == "timm/vit"


def test_a_key_without_six_parts_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        Case.parse_key("bert/cpu")
    assert caught.value.parameters == {"case": "bert/cpu", "num_parts": 6}


@pytest.mark.parametrize(
    ("variant", "mode"),
    [("eager", "max-autotune"), ("reduce-overhead", "default"), ("default", "eager")],
)
def test_a_variant_with_the_name_of_another_mode_is_refused(variant: str, mode: str) -> None:
    document = make_case(mode=mode, variant=variant).to_json()
    with pytest.raises(RecordError) as caught:
        Case.from_json(document)
    assert caught.value.parameters["variant"] == variant
    assert caught.value.parameters["mode"] == mode


@pytest.mark.parametrize(
    ("variant", "mode"),
    [("eager", "eager"), ("cuda-graph", "eager"), ("dynamic", "default"), ("default", "helion")],
)
def test_a_variant_of_its_own_may_have_any_mode(variant: str, mode: str) -> None:
    case = make_case(mode=mode, variant=variant)
    assert Case.from_json(case.to_json()) == case


def test_the_modes_are_those_of_the_catalog() -> None:
    assert MODES == catalog.MODES
