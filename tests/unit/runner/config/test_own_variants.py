"""Variants of hud.toml: what they change, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.spec import NO_BACKEND, CompileSettings, Variant
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.config.own_variants import VariantSection, own_variant
from compile_hud.runner.config.section import SectionError
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.planning.plan import make_plan, plan_case
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.protocol.messages import Workload

EVERYTHING = """
[variants.mine]
base = "max-autotune"
mode = "reduce-overhead"
backend = "inductor"
dynamic = true
fullgraph = true
options = { epilogue_fusion = false }
inductor = { max_fusion_size = 32, "triton.cudagraphs" = true }
env = { PYTORCH_ALLOC_CONF = "expandable_segments:True" }
mark_dynamic = { input_ids = [0, 1] }
sdpa = "math"
nested_compile_region = true
phases = ["inference"]
summary = "Ours."
"""


def variants_of(content: str) -> dict[str, Variant]:
    variants = parse_config(content, path=Path("hud.toml"), env={}).variants
    return {name: item for name, item in variants.items() if name not in VARIANTS}


def test_a_variant_has_all_that_its_section_says() -> None:
    mine = variants_of(EVERYTHING)["mine"]
    assert (mine.name, mine.mode, mine.backend) == ("mine", "reduce-overhead", "inductor")
    assert (mine.dynamic, mine.fullgraph, mine.summary) == (True, True, "Ours.")
    assert mine.phases == ("inference",)
    assert mine.transform.has_nested_regions
    assert mine.compile.flat == {
        "options.epilogue_fusion": False,
        "inductor.max_fusion_size": 32,
        "inductor.triton.cudagraphs": True,
        "env.PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "mark_dynamic.input_ids": [0, 1],
        "sdpa": "math",
    }
    assert CompileSettings.from_flat(mine.compile.flat) == mine.compile


def test_what_is_not_named_is_that_of_the_base() -> None:
    content = """
[variants.layout]
base = "channels-last"
[variants.both]
base = "layout"
inductor = { freezing = true }
"""
    layout, both = variants_of(content).values()
    base = VARIANTS["channels-last"]
    assert (layout.mode, layout.backend, layout.transform) == (
        base.mode,
        base.backend,
        base.transform,
    )
    assert both.transform == base.transform
    assert both.compile.inductor == {"freezing": True}


def test_settings_of_the_base_stay_unless_they_are_named() -> None:
    content = '[variants.mine]\nbase = "freezing"\ninductor = { max_fusion_size = 8 }'
    assert variants_of(content)["mine"].compile.inductor == {
        "freezing": True,
        "max_fusion_size": 8,
    }


def test_a_variant_of_eager_is_compared_with_eager() -> None:
    content = '[variants.arena]\nbase = "eager"\nenv = { MALLOC_ARENA_MAX = "1" }'
    arena = variants_of(content)["arena"]
    assert (arena.mode, arena.backend) == ("eager", NO_BACKEND)


def test_a_backend_on_top_of_eager_compiles() -> None:
    content = '[variants.mine]\nbase = "eager"\nbackend = "inductor"'
    mine = variants_of(content)["mine"]
    assert (mine.mode, mine.backend) == ("default", "inductor")


def test_an_invalid_variant_names_the_setting_at_fault() -> None:
    section = VariantSection(base="nothing")
    with pytest.raises(SectionError) as caught:
        own_variant("mine", section, known=VARIANTS, source_name="hud.toml")
    assert caught.value.key == "base"


def test_plans_have_own_variants_after_the_built_in_ones_and_the_worker_gets_them() -> None:
    variants = parse_config(EVERYTHING, path=None, env={}).variants
    selection = Selection(models=("bert",), modes=("mine", "eager"))
    plan = make_plan(selection, catalog=CATALOG, device="cuda", variants=variants)
    assert [planned.case.variant for planned in plan] == ["eager", "mine"]
    mine = plan[1]
    assert mine.case.mode == "reduce-overhead"
    assert plan_case(mine.case, catalog=CATALOG, variants=variants) == mine
    assert Workload.from_json(mine.workload.to_json()) == mine.workload
    assert mine.workload.compile == variants["mine"].compile


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        ('base = "dynamyc"', 2, ["dynamic"]),
        ('mode = "max-autotun"', 2, ["max-autotune"]),
        ('mode = "eager"', 2, ["reduce-overhead"]),
        ('base = "eager"\nfullgraph = true', 3, ["eager", "base"]),
        ('sdpa = "flashy"', 2, ["flash", "cudnn"]),
        ("inductor = { a = { b = 1 } }", 2, ["triton.cudagraphs"]),
        ("env = { A = 1 }", 2, ["PYTORCH_ALLOC_CONF"]),
        ('env = { TMPDIR = "/x" }', 2, ["TMPDIR"]),
        ('env = { "A=B" = "x" }', 2, ["texts"]),
        ("mark_dynamic = { x = 0 }", 2, ["dimensions"]),
        ("inductor = { max_fusion_size = nan }", 2, ["numbers"]),
        ('base = "eager"\nnested_compile_region = true', 3, ["eager", "base"]),
        ("mark_dynamic = { x = [true] }", 2, ["dimensions"]),
        ("induktor = { freezing = true }", 2, ["inductor"]),
        ('backend = "aot_eager"\nmode = "max-autotune"', 3, ["mode has", "fullgraph", "env"]),
        ('backend = "aot_eager"\noptions = { a = 1 }', 3, ["options has", "dynamic"]),
        ('base = "aot-inductor"\noptions = { a = 1 }\nfullgraph = true', 4, ["and", "inductor"]),
        ('base = "cuda-graph"\ndynamic = true', 3, ["dynamic", "sdpa"]),
        ('base = "onnxruntime"\n[variants.mine.inductor]\nfreezing = true', 3, ["inductor"]),
        ('base = "freezing"\nbackend = "aot_eager"', 3, ["inductor of freezing", "base"]),
        ('base = "max-autotune"\nbackend = "tensorrt"', 3, ["mode of max-autotune"]),
        ("[variants.mine.inductor]\na = { b = 1 }", 2, ["triton.cudagraphs"]),
        ('base = "mine"', 2, ["its own base"]),
        ('base = "second"\n[variants.second]\nbase = "eager"', 2, ["define it above"]),
    ],
)
def test_what_is_wrong_is_refused_with_file_and_line(
    lines: str, line: int, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        variants_of(f"[variants.mine]\n{lines}")
    text = str(caught.value)
    assert text.startswith(f"hud.toml line {line}: ")
    assert all(word in text for word in words), text


def test_what_a_backend_reads_is_accepted() -> None:
    content = """
[variants.graph]
base = "cuda-graph"
sdpa = "math"
[variants.ours]
backend = "their.module:function"
options = { level = 3 }
inductor = { freezing = true }
[variants.package]
base = "aot-inductor"
inductor = { freezing = true }
env = { MALLOC_ARENA_MAX = "1" }
phases = ["inference"]
"""
    assert list(variants_of(content)) == ["graph", "ours", "package"]


@pytest.mark.parametrize("name", ["default", '"a/b"', '"*"'])
def test_a_name_that_is_taken_or_no_part_of_a_key_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"hud\.toml line 1: "):
        variants_of(f"[variants.{name}]\ndynamic = true")
