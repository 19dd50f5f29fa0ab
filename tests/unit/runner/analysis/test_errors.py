from __future__ import annotations

import pytest

from compile_hud.runner.analysis.errors import (
    AlertStateError,
    AnalysisError,
    ChangedMeanwhile,
    NoKernelScript,
    NotComparableError,
    ReasonMissing,
)


@pytest.mark.parametrize(
    "kind", [NotComparableError, AlertStateError, ChangedMeanwhile, ReasonMissing, NoKernelScript]
)
def test_each_error_is_caught_by_its_base_and_as_a_bad_value(kind: type[AnalysisError]) -> None:
    for base in (AnalysisError, ValueError):
        with pytest.raises(base) as caught:
            raise kind("why", key=1)
        assert isinstance(caught.value, AnalysisError)
        assert caught.value.parameters == {"key": 1}
