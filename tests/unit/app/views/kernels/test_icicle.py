"""The layout of the icicle."""

from __future__ import annotations

import dataclasses

import pytest

from compile_hud.app.views.kernels.icicle import (
    KERNEL,
    MODULE,
    NO_MODULE,
    NO_OPERATOR,
    OPERATOR,
    SEVERAL,
    WHOLE,
    Rect,
    layout,
)
from compile_hud.app.views.kernels.tables import kernel_id
from compile_hud.db.records.kernels import MODULES, Kernel, ModuleTime
from tests.support.builders import make_kernel


def kernel(name: str, total_s: float, *, module: str = "", **values: object) -> Kernel:
    made = make_kernel(name, label=name, count=1.0, mean_s=total_s)
    return dataclasses.replace(made, module=module, **values)  # type: ignore[arg-type]


MODEL = [
    kernel("small", 1.0, module="encoder", operators=("add",)),
    kernel("large", 3.0, module="encoder", operators=("mm",), kind="gemm"),
    kernel("middle", 2.0, module="encoder", operators=("add",)),
    kernel("head", 4.0, module="head", operators=("mm",), kind="gemm"),
]


def spans(level: int, rects: tuple[Rect, ...]) -> list[tuple[str, float, float]]:
    return [(rect.name, rect.start_s, rect.end_s) for rect in rects if rect.level == level]


def test_a_level_stands_side_by_side_the_longest_first() -> None:
    rects = layout(MODEL)
    assert spans(WHOLE, rects) == [("an iteration", 0.0, 10.0)]
    assert spans(MODULE, rects) == [("encoder", 0.0, 6.0), ("head", 6.0, 10.0)]
    assert spans(OPERATOR, rects) == [("add", 0.0, 3.0), ("mm", 3.0, 6.0), ("mm", 6.0, 10.0)]
    assert spans(KERNEL, rects) == [
        ("middle", 0.0, 2.0),
        ("small", 2.0, 3.0),
        ("large", 3.0, 6.0),
        ("head", 6.0, 10.0),
    ]


def test_shares_of_each_level_add_up_to_all() -> None:
    rects = layout(MODEL)
    for level in (WHOLE, MODULE, OPERATOR, KERNEL):
        level_rects = [rect for rect in rects if rect.level == level]
        assert sum(rect.share for rect in level_rects) == pytest.approx(1.0)
        assert sum(rect.num_kernels for rect in level_rects) == len(MODEL)


def test_a_kind_is_reported_where_all_kernels_have_it() -> None:
    kinds = {(rect.level, rect.name): rect.kind for rect in layout(MODEL)}
    assert kinds[MODULE, "encoder"] == SEVERAL
    assert kinds[MODULE, "head"] == "gemm"
    assert kinds[KERNEL, "large"] == "gemm"


def test_kernels_alone_can_be_opened() -> None:
    ids = {rect.name: rect.kernel_id for rect in layout(MODEL)}
    assert ids["large"] == kernel_id(MODEL[1])
    assert ids["encoder"] == ""


def test_a_kernel_of_several_modules_stands_in_each_of_them() -> None:
    layers = [
        ModuleTime(path="inner.layer.1", count=1.0, total_s=3.0),
        ModuleTime(path="inner.layer.0", count=1.0, total_s=2.0),
    ]
    launch = {MODULES: [layer.to_json() for layer in layers]}
    product = kernel("mm", 5.0, module="inner.layer", launch=launch)
    rects = layout([product, kernel("head", 1.0, module="inner.head")])
    assert spans(MODULE, rects) == [
        ("layer.1", 0.0, 3.0),
        ("layer.0", 3.0, 5.0),
        ("head", 5.0, 6.0),
    ]
    (whole,) = [rect for rect in rects if rect.level == WHOLE]
    assert (whole.end_s, whole.num_kernels) == (6.0, 2)
    assert {rect.kernel_id for rect in rects if rect.name == "mm"} == {kernel_id(product)}


def test_what_the_list_of_modules_leaves_out_is_in_what_they_share() -> None:
    launch = {MODULES: [{"path": "layer.1", "count": 1.0, "total_s": 3.0}, {"path": 7}]}
    rects = layout([kernel("mm", 5.0, module="layer", launch=launch)])
    assert spans(MODULE, rects) == [("layer.1", 0.0, 3.0), ("layer", 3.0, 5.0)]


def test_an_unknown_value_is_called_unknown() -> None:
    rects = layout([kernel("a", 1.0, operators=())])
    assert [rect.name for rect in rects] == ["an iteration", NO_MODULE, NO_OPERATOR, "a"]


def test_kernels_without_time_have_no_width() -> None:
    assert layout([kernel("a", 0.0)]) == ()
    assert layout([]) == ()
