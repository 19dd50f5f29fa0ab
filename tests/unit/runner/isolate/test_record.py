"""The stored state of an isolation, and the commands that continue it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.comparison.bisection import Reading
from compile_hud.runner.isolate.continuation import anew_command, resume_command, stopped_text
from compile_hud.runner.isolate.fingerprints import EnvironmentFingerprint, PackageFingerprint
from compile_hud.runner.isolate.record import (
    IsolateLimits,
    MeasuredEnds,
    MixtureAnswer,
    StoredIsolation,
)
from compile_hud.runner.isolate.shares import Position
from compile_hud.runner.protocol.messages import MeasureSettings
from tests.support.builders import START, make_case

HALF = Position(share=0.5, low=0.4, high=0.6)
LIMITS = IsolateLimits(floor=0.05, max_toolchains=12, max_launches=40, step_s=600.0)


def ends(ratio: float, *, spread: float = 1.02) -> MeasuredEnds:
    """Return ends whose interval reaches `spread` times as far on both sides."""
    packages = {"part": PackageFingerprint(version="1.0", digest="0123")}
    environment = EnvironmentFingerprint(
        python="3.12.3", packages=packages, variables={"HUD_SLOW": "4567"}
    )
    reading = Reading(
        metric="latency_cpu_s",
        unit="s",
        baseline=0.010,
        candidate=0.010 * ratio,
        ratio=ratio,
        low=ratio / spread,
        high=ratio * spread,
        baseline_outcome=Outcome.OK,
        candidate_outcome=Outcome.OK,
        num_pairs=4,
    )
    return MeasuredEnds(
        before=environment, after=environment, reading=reading, loaded=("part", "torch/nn")
    )


KNOWN = StoredIsolation(
    id="b1",
    started_at=START,
    baseline="old",
    candidate="new",
    case=make_case(),
    settings=MeasureSettings(),
    metric=None,
    limits=LIMITS,
    ends=ends(1.3),
    answers=(
        MixtureAnswer(differences=("package:part",), position=HALF),
        MixtureAnswer(
            differences=("package:part", "variable:HUD_SLOW"), position=None, reason="no"
        ),
        MixtureAnswer(differences=("package:part",), position=HALF),
    ),
)


@pytest.mark.parametrize(
    "known", [KNOWN, replace(KNOWN, ends=None, answers=()), replace(KNOWN, has_ended=True)]
)
def test_it_comes_back_as_it_was(known: StoredIsolation) -> None:
    assert StoredIsolation.from_json(json.loads(json.dumps(known.to_json()))) == known


@pytest.mark.parametrize("name", ["baseline", "case", "settings", "limits", "schema_version"])
def test_a_document_without_a_field_is_refused(name: str) -> None:
    document = {key: value for key, value in KNOWN.to_json().items() if key != name}
    with pytest.raises(RecordError, match=name):
        StoredIsolation.from_json(document)


def test_a_mixture_that_was_measured_twice_counts_once() -> None:
    assert KNOWN.num_mixtures == 2


def test_other_limits_open_it_again_with_its_measurements() -> None:
    limits = replace(LIMITS, max_toolchains=24)
    opened = replace(KNOWN, has_ended=True).with_limits(limits)
    assert opened == replace(KNOWN, limits=limits)
    assert not opened.is_complete


def test_ends_that_were_not_clear_are_measured_again() -> None:
    unclear = replace(KNOWN, ends=ends(1.06, spread=1.05), answers=())
    assert unclear.with_limits(LIMITS).ends is None
    clear = replace(unclear, ends=ends(1.0, spread=1.01))
    assert clear.with_limits(LIMITS).ends == clear.ends


def test_commands_have_what_differs_from_the_defaults() -> None:
    assert resume_command(KNOWN) == "hud isolate --resume b1"
    assert "--metric" not in anew_command(KNOWN)
    assert "--floor" not in anew_command(KNOWN)
    known = replace(KNOWN, metric="peak_bytes", limits=replace(LIMITS, floor=0.01))
    assert anew_command(known).endswith(" --metric peak_bytes --floor 1% -- old new")


def test_the_text_of_a_stop_counts_the_stored_mixtures(snapshot: SnapshotAssertion) -> None:
    before_mixtures = replace(KNOWN, answers=())
    before_ends = replace(before_mixtures, ends=None)
    assert [stopped_text(item) for item in (KNOWN, before_mixtures, before_ends)] == snapshot
