"""The publications cover the zoo, and say why a configuration differs."""

from __future__ import annotations

import pytest

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.publications import PUBLICATIONS, PublishedModel

rows = pytest.mark.parametrize("row", PUBLICATIONS.values(), ids=PUBLICATIONS.keys())


def test_every_model_but_kernels_has_a_publication_in_the_order_of_the_catalog() -> None:
    expected = [name for name, spec in CATALOG.items() if spec.family != "kernel"]
    assert list(PUBLICATIONS) == expected


@rows
def test_another_number_of_parameters_has_a_reason(row: PublishedModel) -> None:
    assert row.num_parameters == row.published_parameters or row.difference


@rows
def test_multiply_adds_are_near_the_published_ones_or_have_a_reason(row: PublishedModel) -> None:
    if row.published_gmacs is None:
        assert row.gmacs_source == ""
        return
    assert row.gmacs_source
    assert row.gmacs is not None
    assert abs(row.gmacs / row.published_gmacs - 1) < 0.01 or row.difference
