"""The key of a case and its parts."""

from __future__ import annotations

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import Case
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
