from __future__ import annotations

import errno
import os
import platform
import struct

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.measure.resources import cpu_counters as perf_events
from compile_hud.runner.measure.resources.cpu_counters import (
    HARDWARE,
    SOFTWARE,
    LinuxPerf,
    attribute_bytes,
    open_group,
    refusal_reason,
    unavailable_reason,
)
from tests.support.fakes import FakeKernel


@pytest.fixture(autouse=True)
def _paranoid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_events, "read_paranoid", lambda: "3")


def fields(attributes: bytes) -> tuple[int, ...]:
    return struct.unpack_from("=IIQQQQQ", attributes)


def test_the_attributes_are_those_of_the_kernel_header() -> None:
    instructions = HARDWARE[1]
    packed = attribute_bytes(instructions, is_leader=True)
    assert len(packed) == 128
    # type, size, config, period, sample type, times and group, disabled | no kernel | no hypervisor
    assert fields(packed) == (0, 128, 1, 0, 0, 11, 0b1100001)
    assert packed[48:] == bytes(80)


def test_an_inherited_event_has_times_and_no_group() -> None:
    instructions = HARDWARE[1]
    packed = attribute_bytes(instructions, is_leader=True, is_inherited=True)
    assert fields(packed) == (0, 128, 1, 0, 0, 3, 0b1100011)


def test_a_follower_starts_with_its_leader_and_may_count_in_the_kernel() -> None:
    switches = next(event for event in SOFTWARE if event.name == "context_switches")
    assert fields(attribute_bytes(switches, is_leader=False)) == (1, 128, 3, 0, 0, 11, 0)


def test_a_group_is_opened_enabled_read_and_given_back() -> None:
    kernel = FakeKernel(readings=[(900, 300, (7, 8))])
    group = open_group(HARDWARE[:2], kernel=kernel)
    assert kernel.leaders == [-1, 3]
    assert kernel.enabled == [3]
    reading = group.read()
    assert (reading.values, reading.enabled_ns, reading.running_ns) == ((7, 8), 900, 300)
    group.close()
    assert kernel.closed == [3, 4]


def test_a_group_that_cannot_be_whole_gives_back_what_it_has() -> None:
    kernel = FakeKernel(refused={HARDWARE[1].config: errno.ENOENT})
    with pytest.raises(OSError, match="No such file"):
        open_group(HARDWARE[:2], kernel=kernel)
    assert kernel.closed == [3]


@pytest.mark.parametrize(
    "number",
    [
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.EOPNOTSUPP,
        errno.ENODEV,
        errno.ENOSYS,
        errno.EMFILE,
    ],
    ids=errno.errorcode.__getitem__,
)
def test_a_refusal_says_why_and_what_to_do(number: int, words: SnapshotAssertion) -> None:
    error = refusal_reason(OSError(number, os.strerror(number)), paranoid="3")
    assert error.replace(platform.machine(), "<machine>") == words


def test_what_can_be_counted_has_no_reason() -> None:
    kernel = FakeKernel()
    assert unavailable_reason(HARDWARE[0], kernel=kernel) == ""
    assert kernel.closed == [3]


def test_a_machine_of_another_kind_has_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert unavailable_reason(HARDWARE[0], kernel=LinuxPerf()).endswith("riscv64")


def test_another_system_has_no_counters(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert unavailable_reason(HARDWARE[0], kernel=LinuxPerf()) == words
