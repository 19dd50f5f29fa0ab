"""The output of nvidia-smi, in the forms of its manual."""

from __future__ import annotations

from compile_hud.runner.system.gpus import list_gpus, list_users, measured_gpu, users_of
from compile_hud.runner.system.machine import ProgramOutput
from tests.support.fakes import FakeMachine

TWO = """\
0, GPU-aaaa, NVIDIA H100 80GB HBM3, 570.124.06, Enabled, Disabled, 700.00, 700.00, 1980
1, GPU-bbbb, NVIDIA H100 80GB HBM3, 570.124.06, Disabled, Enabled, 500.00, 700.00, 1980
"""
OLD = "0, GPU-cccc, Tesla K80, 470.57.02, Disabled, [N/A], [N/A], [Not Supported], 875"
USERS = """\
GPU-bbbb, 4242, /usr/bin/python3
GPU-aaaa, 77, [Insufficient Permissions]
"""


def machine(gpus: str = TWO, users: str = "") -> FakeMachine:
    return FakeMachine(
        replies={
            "--query-gpu": ProgramOutput(text=gpus),
            "--query-compute-apps": ProgramOutput(text=users),
        }
    )


def test_each_gpu_is_read() -> None:
    first, second = list_gpus(machine())
    assert (first.name, first.persistence_mode) == ("NVIDIA H100 80GB HBM3", "Enabled")
    assert (second.power_limit_w, second.default_power_limit_w) == (500.0, 700.0)
    assert (second.mig_mode, second.max_clock_sm_mhz) == ("Enabled", 1980.0)


def test_what_a_gpu_does_not_tell_is_unknown() -> None:
    (gpu,) = list_gpus(machine(OLD))
    assert (gpu.power_limit_w, gpu.default_power_limit_w, gpu.max_clock_sm_mhz) == (None, None, 875)


def test_without_a_driver_there_is_no_gpu_and_no_user() -> None:
    none = FakeMachine()
    assert list_gpus(none) == ()
    assert list_users(none) == ()
    assert users_of("cuda", machine=none, env={}) == ()


def test_users_are_those_of_the_gpu_that_is_measured() -> None:
    both = machine(users=USERS)
    assert users_of("cuda", machine=both, env={}) == ("[Insufficient Permissions] (PID 77)",)
    for name in ("1", "GPU-bbbb", "GPU-bb", "1,0"):
        env = {"CUDA_VISIBLE_DEVICES": name}
        assert users_of("cuda", machine=both, env=env) == ("python3 (PID 4242)",)
    assert users_of("cpu", machine=both, env={}) == ()


def test_command_line_with_commas_is_one_user() -> None:
    line = "GPU-aaaa, 5, /opt/browser/browser --type=gpu-process --enable=Vulkan,Canvas, /x\n"
    named = "GPU-aaaa, 6, VLLM::EngineCore\n"
    users = list_users(machine(users=line + named))
    assert [user.text for user in users] == ["browser (PID 5)", "VLLM::EngineCore (PID 6)"]


def test_an_unknown_name_means_the_first_gpu() -> None:
    gpu = measured_gpu(list_gpus(machine()), env={"CUDA_VISIBLE_DEVICES": "MIG-1"})
    assert gpu is not None
    assert gpu.uuid == "GPU-aaaa"
