"""Counts and colours on the pages of kernels agree with their texts."""

from __future__ import annotations

import dataclasses
import re

from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.kernels.icicle import layout
from compile_hud.db.store import Store
from tests.app.conftest import OpenPage
from tests.app.kernels.test_kernel_diff import (
    CASE,
    CHANGES,
    EAGER,
    FUSED,
    GEMM,
    NEW_CODE,
    NIGHTS,
    night,
    result_of,
    save,
)
from tests.support.builders import make_kernel
from tests.support.pages.page_elements import (
    cells_of_rows,
    html_of,
    text_of,
    texts_of,
    texts_of_rows,
)

# Of a CPU's trace: what operators take outside of their kernels has rows as well.
OUTSIDE = make_kernel("aten::linear", label="aten::linear", kind="dispatch", mean_s=0.0001)


def test_every_page_counts_the_kernels_of_a_result_alike(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    run = night(0)
    save(
        store,
        (run, result_of(run, GEMM, FUSED, OUTSIDE)),
        (run, result_of(run, GEMM, OUTSIDE, case=EAGER)),
    )
    assert "kernels 2, 4 calls" in text_of(open_page("kernels", run=run.id, case=CASE.key))
    pair = {"baseline_case": EAGER.key, "candidate_case": CASE.key}
    page = open_page("kernel-diff", baseline_run=run.id, candidate_run=run.id, **pair)
    assert [row[-1] for row in texts_of_rows(page, "sides")] == ["1", "2"]
    assert texts_of(page, "tile") == words
    assert [rect.num_kernels for rect in layout([GEMM, FUSED, OUTSIDE])][0] == 2


def test_other_code_within_noise_has_no_colour(
    open_page: OpenPage, store: Store, words: SnapshotAssertion
) -> None:
    same_time = dataclasses.replace(FUSED, source_hash=NEW_CODE.hash, total_s=0.00199)
    before, after = night(0), night(1)
    save(
        store,
        (before, result_of(before, GEMM, FUSED)),
        (after, result_of(after, GEMM, same_time)),
    )
    page = open_page("kernel-diff", **NIGHTS)
    (row,) = [row for row in cells_of_rows(page, CHANGES) if row["class"] == "other code"]
    assert row["why"] == words
    assert row["beyond noise"] == ""
    html = html_of(page)
    assert not re.search(r'class="number (good|bad)"|<div class="(good|bad)" style', html)
    assert "other code, within noise" in html
