"""docker-compose.yml as a document: no engine is needed to see what it promises."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from compile_hud.runner.cli.main import main as hud
from compile_hud.runner.config.load import load_config
from compile_hud.runner.scheduling.scheduler import scheduling
from tests.support.sources import ROOT, python_files, text_of

COMPOSE: dict[str, Any] = yaml.safe_load(text_of("docker-compose.yml"))
SERVICES: dict[str, Any] = COMPOSE["services"]
RUNNERS = ("runner-cpu", "runner-gpu")
OURS = ("dashboard", *RUNNERS)
# Where .ci/run unpacks it when there is none.
UNPACKED = ROOT / "build" / "compose" / "usr" / "libexec" / "docker" / "cli-plugins"
COMMANDS = (("docker", "compose"), (str(UNPACKED / "docker-compose"),))
Read = Callable[..., subprocess.CompletedProcess[str]]


def dockerfile(service: str) -> str:
    """Return the text of a service's Dockerfile."""
    return text_of(SERVICES[service]["build"]["dockerfile"])


@pytest.fixture(scope="module")
def read() -> Read:
    """Return what lets Docker Compose itself read a file; skip where there is no Compose."""
    command = next(filter(_works, COMMANDS), None)
    if command is None:
        pytest.skip("no Docker Compose, and .ci/run could not get it")

    def read(
        *arguments: str, path: Path = ROOT / "docker-compose.yml", env: Mapping[str, str] = {}
    ) -> subprocess.CompletedProcess[str]:
        options = ("--project-directory", str(ROOT), "--file", str(path), *arguments)
        return subprocess.run(
            [*command, *options, "config", "--format", "json"],
            env={"PATH": os.environ["PATH"], **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return read


def _works(command: Sequence[str]) -> bool:
    try:
        return subprocess.run([*command, "version"], capture_output=True).returncode == 0
    except OSError:
        return False


def test_profiles_add_a_runner_of_a_kind_and_a_database() -> None:
    assert {name: row.get("profiles") for name, row in SERVICES.items()} == {
        "dashboard": None,
        "postgres": ["cluster"],
        "runner-cpu": ["cpu"],
        "runner-gpu": ["gpu"],
    }


@pytest.mark.parametrize("service", list(SERVICES))
def test_images_carry_a_version(service: str) -> None:
    assert re.search(r":\d+\.\d+[\w.-]*$", SERVICES[service]["image"])


@pytest.mark.parametrize("service", OURS)
def test_base_images_carry_a_version(service: str) -> None:
    bases = re.findall(r"^FROM (\S+)", dockerfile(service), re.MULTILINE)
    assert bases
    assert all(re.search(r":\d+\.\d+\.\d+-[\w.-]+$", base) for base in bases)


@pytest.mark.parametrize("service", OURS)
def test_nothing_of_ours_runs_as_root(service: str) -> None:
    users = re.findall(r"^USER (\S+)$", dockerfile(service), re.MULTILINE)
    assert users[-1] == "hud"
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", OURS)
def test_dashboard_and_runner_share_the_store(service: str) -> None:
    assert "hud-data:/data" in SERVICES[service]["volumes"]
    assert "HUD_STATE_DIR=/data" in dockerfile(service)
    assert "hud-data" in COMPOSE["volumes"]


@pytest.mark.parametrize("service", OURS)
def test_a_database_that_is_there_is_waited_for(service: str) -> None:
    wait = SERVICES[service]["depends_on"]["postgres"]
    assert wait == {"condition": "service_healthy", "required": False}
    assert "HUD_DATABASE_URL" in SERVICES[service]["environment"]


@pytest.mark.parametrize("service", OURS)
def test_what_a_dockerfile_copies_reaches_the_builder(service: str) -> None:
    sources = [
        source
        for line in re.findall(r"^COPY (.+)$", dockerfile(service), re.MULTILINE)
        for source in line.split()[:-1]
    ]
    allowed = {line[1:] for line in text_of(".dockerignore").splitlines() if line.startswith("!")}
    assert set(sources) <= allowed
    assert all((ROOT / source).exists() for source in sources)


def test_one_service_reserves_a_gpu() -> None:
    devices = SERVICES["runner-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]
    assert not [
        name
        for name in ("dashboard", "runner-cpu")
        if "reservations" in SERVICES[name]["deploy"]["resources"]
    ]


def test_the_runners_differ_in_device_and_image_only() -> None:
    cpu, gpu = (SERVICES[name] for name in RUNNERS)
    assert {key for key in cpu if cpu[key] != gpu[key]} == {"build", "deploy", "image", "profiles"}
    assert cpu["deploy"]["resources"]["limits"] == gpu["deploy"]["resources"]["limits"]


@pytest.mark.parametrize("service", RUNNERS)
def test_runner_keeps_its_name_when_its_container_changes(service: str) -> None:
    assert SERVICES[service]["hostname"] == "${HUD_MACHINE:-compile-hud}"


@pytest.mark.parametrize("service", RUNNERS)
def test_runner_image_can_compile(service: str) -> None:
    text = dockerfile(service)
    assert "g++ " in text
    # The images of Python have its headers.
    assert "python3-dev" in text or "FROM python:" in text
    assert SERVICES[service]["build"]["args"]["TORCH"] == (
        "${HUD_TORCH:-" + re.findall(r"^ARG TORCH=(.+)$", text, re.MULTILINE)[0] + "}"
    )


def test_ports_are_bound_to_the_loopback_address() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    local = ("127.0.0.1:", "${HUD_POSTGRES_ADDRESS:-127.0.0.1}:")
    assert all(port.startswith(local) for port in ports)


def test_health_of_the_dashboard_is_queried_at_healthz() -> None:
    command = " ".join(SERVICES["dashboard"]["healthcheck"]["test"])
    assert "http://127.0.0.1:8501/healthz" in command


def test_database_is_healthy_when_it_answers_and_keeps_its_data() -> None:
    postgres = SERVICES["postgres"]
    assert "pg_isready" in " ".join(postgres["healthcheck"]["test"])
    assert postgres["volumes"] == ["postgres-data:/var/lib/postgresql/data"]


def test_secrets_are_files_that_are_empty_by_default() -> None:
    for name, secret in COMPOSE["secrets"].items():
        assert secret == {"file": f"${{HUD_{name.upper()}_FILE:-./docker/no-secret}}"}
    assert (ROOT / "docker" / "no-secret").read_bytes() == b""


@pytest.mark.parametrize("service", list(SERVICES))
def test_no_secret_is_in_the_environment(service: str) -> None:
    for name, value in SERVICES[service]["environment"].items():
        if re.search("PASSWORD|TOKEN|SECRET", name):
            assert name.endswith("_FILE")
            assert value.removeprefix("/run/secrets/") in SERVICES[service]["secrets"]


@pytest.mark.parametrize("service", list(SERVICES))
def test_nothing_is_written_but_to_volumes_and_memory(service: str) -> None:
    described = SERVICES[service]
    assert described["read_only"] is True
    assert described["cap_drop"] == ["ALL"]
    assert any(mount.startswith("/tmp:") for mount in described["tmpfs"])


@pytest.mark.parametrize("service", list(SERVICES))
def test_every_service_has_a_health_check_limits_and_a_bounded_log(service: str) -> None:
    described = SERVICES[service]
    assert {"test", "interval", "timeout", "retries"} <= set(described["healthcheck"])
    assert {"memory", "pids"} <= set(described["deploy"]["resources"]["limits"])
    assert described["logging"]["options"]["max-size"]


def test_health_of_the_runner_is_whether_its_scheduler_holds_its_lock(tmp_path: Path) -> None:
    """The very command, on the very lock that the code takes."""
    kind, command = SERVICES["runner-gpu"]["healthcheck"]["test"]
    lock = tmp_path / "scheduler.lock"
    assert kind == "CMD-SHELL"
    command_line = ["sh", "-c", command.replace("/data/scheduler.lock", str(lock))]
    assert "/data/scheduler.lock" in command
    with scheduling({}, state_dir=tmp_path, wake=threading.Event()):
        assert lock.exists()
        assert subprocess.run(command_line, check=False).returncode == 0
    assert subprocess.run(command_line, check=False).returncode == 1


@pytest.mark.parametrize("service", OURS)
def test_variables_of_a_service_are_read_by_the_code(service: str) -> None:
    sources = "".join(text_of(name) for name in python_files("runner", "app", "db"))
    ours = [name for name in SERVICES[service]["environment"] if name.startswith("HUD_")]
    assert ours
    assert [name for name in ours if f'"{name}"' not in sources] == []


@pytest.mark.parametrize("service", OURS)
def test_an_image_starts_a_command_that_there_is(service: str) -> None:
    (command,) = re.findall(r"^CMD (\[.*\])$", dockerfile(service), re.MULTILINE)
    program, name = yaml.safe_load(command)
    assert program == "hud"
    assert name in hud.commands


def test_every_key_is_in_the_compose_specification() -> None:
    """The keys that we use, as the Compose Specification has them."""
    names = {
        "build", "cap_drop", "depends_on", "deploy", "environment", "healthcheck", "hostname",
        "image", "init", "logging", "ports", "profiles", "read_only", "restart", "secrets",
        "security_opt", "shm_size", "stop_grace_period", "tmpfs", "user", "volumes",
    }  # fmt: skip
    assert set().union(*SERVICES.values()) <= names
    places = {"name", "services", "volumes", "secrets"}
    assert {key for key in COMPOSE if not key.startswith("x-")} == places


def test_settings_inside_the_containers_are_valid() -> None:
    config = load_config(ROOT / "docker" / "hud.toml", env={"HUD_STATE_DIR": "/data"})
    assert (config.host, config.port) == ("0.0.0.0", 8501)
    assert config.state_dir == Path("/data")
    assert config.schedules["nightly"].suite == "nightly"


def test_variables_are_documented() -> None:
    variables = set(re.findall(r"\$\{(\w+)", text_of("docker-compose.yml")))
    described = set(re.findall(r"^\| `(\w+)`", text_of("docs/how-to/deployment.md"), re.MULTILINE))
    # Compose itself reads this one.
    assert variables | {"COMPOSE_PROFILES"} == described


def test_compose_reads_every_service_and_warns_of_nothing(read: Read) -> None:
    done = read("--profile", "cluster", "--profile", "cpu", "--profile", "gpu")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["name"] == "compile-hud"
    assert set(document["services"]) == set(SERVICES)
    for name, service in document["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert service["deploy"]["resources"]["limits"]["pids"] > 0, name
        assert {port["host_ip"] for port in service.get("ports", ())} <= {"127.0.0.1"}, name
    runner = document["services"]["runner-gpu"]
    assert runner["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    ]
    assert runner["depends_on"]["postgres"]["required"] is False
    for name, secret in document["secrets"].items():
        assert secret["file"] == str(ROOT / "docker" / "no-secret"), name


@pytest.mark.parametrize(
    ("profile", "services"),
    [
        ("", {"dashboard"}),
        ("cpu", {"dashboard", "runner-cpu"}),
        ("gpu", {"dashboard", "runner-gpu"}),
    ],
)
def test_compose_starts_the_runner_of_the_profile(
    read: Read, profile: str, services: set[str]
) -> None:
    document = json.loads(read(env={"COMPOSE_PROFILES": profile}).stdout)
    assert set(document["services"]) == services


def test_compose_puts_the_variables_in_their_places(read: Read, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("a password", encoding="ascii")
    env = {
        "COMPOSE_PROFILES": "cluster,cpu,gpu",
        "HUD_DATABASE_PASSWORD_FILE": str(secret),
        "HUD_DATABASE_URL": "postgresql+psycopg://hud@postgres/hud",
        "HUD_LOG_FORMAT": "json",
        "HUD_MACHINE": "gpu-1",
        "HUD_METRICS_TOKEN_FILE": str(tmp_path / "token"),
        "HUD_API_TOKEN_FILE": str(tmp_path / "api-token"),
        "HUD_PORT": "9000",
        "HUD_POSTGRES_ADDRESS": "192.0.2.1",
        "HUD_RUNNER_MEMORY": "2g",
        "HUD_TORCH": "torch==2.12.0",
    }
    variables = set(re.findall(r"\$\{(\w+)", text_of("docker-compose.yml")))
    assert variables == set(env) - {"COMPOSE_PROFILES"}
    document = json.loads(read(env=env).stdout)
    services = document["services"]
    for name in OURS:
        assert services[name]["environment"]["HUD_DATABASE_URL"] == env["HUD_DATABASE_URL"]
        assert services[name]["environment"]["HUD_LOG_FORMAT"] == "json"
    for name in RUNNERS:
        assert services[name]["hostname"] == "gpu-1"
        assert services[name]["deploy"]["resources"]["limits"]["memory"] == str(2 << 30)
        assert services[name]["build"]["args"]["TORCH"] == "torch==2.12.0"
    assert [port["published"] for port in services["dashboard"]["ports"]] == ["9000"]
    assert [port["host_ip"] for port in services["postgres"]["ports"]] == ["192.0.2.1"]
    assert document["secrets"]["database_password"]["file"] == str(secret)
    assert document["secrets"]["metrics_token"]["file"] == str(tmp_path / "token")
    assert document["secrets"]["api_token"]["file"] == str(tmp_path / "api-token")


def test_compose_refuses_what_it_does_not_know(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "docker-compose.yml"
    path.write_text(
        text_of("docker-compose.yml").replace("healthcheck:", "helthcheck:", 1), encoding="utf-8"
    )
    done = read(path=path)
    assert done.returncode != 0
    assert "helthcheck" in done.stderr
