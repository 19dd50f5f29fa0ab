from __future__ import annotations

import shlex
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.analysis.repro import compare_command, glob_escape, repro_command
from compile_hud.runner.cli.compare.command import compare
from tests.support.builders import make_case


def test_repro_is_a_command_to_paste(words: SnapshotAssertion) -> None:
    assert repro_command(make_case("bert", mode="reduce-overhead", device="cuda")) == (words)


def test_toolchain_is_named_unless_it_is_the_default_one() -> None:
    case = make_case()
    assert repro_command(case, toolchain="my torch").endswith("--device cpu --toolchain 'my torch'")
    assert repro_command(case, toolchain="current") == repro_command(case)


def test_variant_not_mode_is_what_runs_again() -> None:
    assert "--mode fullgraph " in repro_command(make_case(mode="default", variant="fullgraph"))


def test_hostile_name_stays_one_word(words: SnapshotAssertion) -> None:
    command = repro_command(make_case("x; rm -rf '$HOME' `id`\n&"))
    assert shlex.split(command)[3] == words
    assert len(shlex.split(command)) == 14


def test_name_with_a_leading_dash_stays_a_value() -> None:
    assert "--model=--no-store --mode" in repro_command(make_case("--no-store"))


@pytest.mark.nightly
@given(st.text(max_size=8), st.text(max_size=8))
def test_escaped_name_matches_itself_alone(name: str, other: str) -> None:
    assert fnmatchcase(name, glob_escape(name))
    assert fnmatchcase(other, glob_escape(name)) is (other == name)


def test_what_others_measured_has_no_command() -> None:
    command = repro_command(make_case("bert"), toolchain="imported:pytorch/pytorch@main")
    assert command.startswith("# bert/inference/tiny/fp32/default/cpu was measured elsewhere")
    assert repro_command(make_case(), toolchain="imported").startswith("hud run")


def test_a_point_of_a_backfill_names_its_command() -> None:
    command = repro_command(make_case("bert"), toolchain="backfill:0a1b2c")
    assert command.startswith("#")
    assert "`hud backfill`" in command


@pytest.mark.parametrize("run", ["night-1", "-dash", "with space"])
def test_a_comparison_reads_its_options_and_its_runs(run: str) -> None:
    arguments = shlex.split(compare_command(run, "after", (("settle", "30"),)))[2:]
    params = compare.make_context("compare", arguments).params
    assert (params["baseline"], params["candidate"]) == (run, "after")
    assert params["settle_minutes"] == 30
