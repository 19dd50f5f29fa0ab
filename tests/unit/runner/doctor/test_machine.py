"""The findings of doctor on a machine, from its files and programs."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.doctor.check import Check, CheckState
from compile_hud.runner.doctor.machine import COSTS, machine_checks
from compile_hud.runner.system.machine import ProgramOutput
from tests.support.fakes import FakeMachine

OK, WARN = CheckState.OK, CheckState.WARN
CPU = "/sys/devices/system/cpu"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
GPU = "0, GPU-a, NVIDIA H100 80GB HBM3, 570.124.06, Enabled, Disabled, 700.00, 700.00, 1980"
SETARCH = {"setarch": ProgramOutput()}
# As a virtual machine with two CPUs and no GPU says of itself.
VIRTUAL = {
    THP: "always [madvise] never",
    "/proc/sys/kernel/randomize_va_space": "2",
    f"{CPU}/smt/control": "notsupported",
}
# A server as it comes.
SERVER = {
    THP: "[always] madvise never",
    "/proc/sys/kernel/randomize_va_space": "2",
    f"{CPU}/smt/control": "on",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave",
    f"{CPU}/cpu2/cpufreq/scaling_governor": "powersave",
}


def look(machine: FakeMachine) -> dict[str, Check]:
    return {check.name: check for check in machine_checks(machine, env={})}


def on_gpu(line: str, *, users: str = "") -> dict[str, Check]:
    replies = {
        "--query-gpu": ProgramOutput(text=line),
        "--query-compute-apps": ProgramOutput(text=users),
    }
    return look(FakeMachine(replies=replies))


def test_where_nothing_can_be_adjusted_there_is_nothing_to_warn_of(
    words: SnapshotAssertion,
) -> None:
    checks = look(FakeMachine(VIRTUAL, replies=SETARCH))
    assert {check.state for check in checks.values()} == {OK}
    assert {name: check.text for name, check in checks.items()} == words


def test_a_server_as_it_comes_is_warned_of_with_what_would_change_it(
    words: SnapshotAssertion,
) -> None:
    checks = look(FakeMachine(SERVER, replies=SETARCH))
    warned = {name: check for name, check in checks.items() if check.state is WARN}
    assert list(warned) == ["governor", "turbo", "smt", "thp"]
    assert warned["governor"].text == words
    assert {name: check.commands for name, check in warned.items()} == {
        "governor": (
            f"echo performance | sudo tee {CPU}/cpu1/cpufreq/scaling_governor"
            f" {CPU}/cpu2/cpufreq/scaling_governor",
        ),
        "turbo": (f"echo 1 | sudo tee {CPU}/intel_pstate/no_turbo",),
        "smt": (f"echo off | sudo tee {CPU}/smt/control",),
        "thp": (f"echo madvise | sudo tee {THP}",),
    }
    assert {name for name, check in warned.items() if "pyperf system tune" in check.hint} == {
        "governor",
        "turbo",
    }


@pytest.mark.parametrize(
    ("files", "state", "line"),
    [
        ({f"{CPU}/intel_pstate/no_turbo": "1"}, OK, None),
        ({f"{CPU}/cpufreq/boost": "0"}, OK, None),
        ({f"{CPU}/cpufreq/boost": "1"}, WARN, f"echo 0 | sudo tee {CPU}/cpufreq/boost"),
    ],
)
def test_turbo_is_where_the_driver_of_the_cpu_has_it(
    files: dict[str, str], state: CheckState, line: str | None
) -> None:
    check = look(FakeMachine(files))["turbo"]
    assert check.state is state
    assert check.commands == ((line,) if line else ())


def test_a_gpu_in_order_is_fine(words: SnapshotAssertion) -> None:
    checks = on_gpu(GPU)
    assert checks["gpu"].text == "NVIDIA H100 80GB HBM3, driver 570.124.06"
    names = ("persistence", "clocks", "power", "mig", "gpu-users")
    assert {checks[name].state for name in names} == {OK}
    assert checks["power"].text == words
    assert checks["clocks"].text.startswith("up to 1980 MHz; ")


def test_what_is_unusual_of_a_gpu_is_warned_of(words: SnapshotAssertion) -> None:
    line = "0, GPU-a, H100, 570, Disabled, Enabled, 500.00, 700.00, 1980"
    checks = on_gpu(line, users="GPU-a, 4242, /usr/bin/python3")
    assert checks["power"].text == "limit 500 W, by default 700 W"
    assert checks["mig"].text == "split into instances"
    assert checks["gpu-users"].text == "used by python3 (PID 4242)"
    assert {name: check.commands for name, check in checks.items() if check.commands} == words


def test_what_a_gpu_does_not_tell_is_not_warned_of() -> None:
    checks = on_gpu("0, GPU-a, GeForce, 470, [N/A], [N/A], [N/A], [N/A], [N/A]")
    assert {check.state for check in checks.values()} - {OK} == {WARN}
    assert [name for name, check in checks.items() if check.state is WARN] == ["aslr"]
    assert (checks["power"].text, checks["clocks"].text) == ("unknown", "unknown")


def test_one_of_several_gpus_is_measured() -> None:
    checks = on_gpu(f"{GPU}\n{GPU.replace('0, GPU-a', '1, GPU-b')}")
    assert checks["gpu"].text.endswith(", the first of 2")


def test_a_driver_without_a_gpu_says_why(words: SnapshotAssertion) -> None:
    machine = FakeMachine(
        {"/proc/driver/nvidia/version": "NVRM version: 570"},
        replies={
            "nvidia-smi": ProgramOutput(problem="nvidia-smi ended with code 18: version mismatch")
        },
    )
    check = look(machine)["gpu"]
    assert check.state is WARN
    assert check.text == words


def test_random_addresses_are_warned_of_where_workers_have_them_too(
    words: SnapshotAssertion,
) -> None:
    refused = ProgramOutput(problem="setarch: failed to set personality: Operation not permitted")
    check = look(FakeMachine(VIRTUAL, replies={"setarch": refused}))["aslr"]
    assert (check.state, check.commands) == (WARN, ())
    assert "Operation not permitted" in check.text
    off = {**VIRTUAL, "/proc/sys/kernel/randomize_va_space": "0"}
    assert look(FakeMachine(off))["aslr"].text == words


@pytest.mark.parametrize(("output", "state"), [("yes", OK), ("no", WARN), ("", OK)])
def test_an_unsynchronised_clock_is_a_warning(output: str, state: CheckState) -> None:
    check = look(FakeMachine(replies={"timedatectl": ProgramOutput(text=output)}))["time"]
    assert check.state is state
    assert check.commands == (("sudo timedatectl set-ntp true",) if state is WARN else ())


def test_each_warning_says_what_it_costs_and_each_figure_has_a_source() -> None:
    warned = look(FakeMachine(SERVER)) | on_gpu(
        "0, GPU-a, H100, 570, Disabled, Enabled, 500.00, 700.00, 1980", users="GPU-a, 7, x"
    )
    assert {check.name for check in warned.values() if check.state is WARN} <= set(COSTS)
    assert all(check.cost and check.hint for check in warned.values() if check.state is WARN)
    units = (" %", " ms", " s ")
    figures = [text for text in COSTS.values() if any(unit in text for unit in units)]
    assert len(figures) == 5
    assert all("(" in text for text in figures)
