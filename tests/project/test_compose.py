"""docker-compose.yml as a document: no engine is needed to see what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.config import load_config
from tests.project.sources import ROOT, text_of

COMPOSE: dict[str, Any] = yaml.safe_load(text_of("docker-compose.yml"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("dashboard", "runner")


def dockerfile(service: str) -> str:
    """Return the text of a service's Dockerfile."""
    return text_of(SERVICES[service]["build"]["dockerfile"])


def test_there_are_a_dashboard_a_runner_and_a_database_on_demand() -> None:
    assert set(SERVICES) == {*OURS, "postgres"}
    assert SERVICES["postgres"]["profiles"] == ["postgres"]
    assert not any("profiles" in SERVICES[name] for name in OURS)


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


def test_runner_reserves_one_gpu_and_the_dashboard_none() -> None:
    devices = SERVICES["runner"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]
    assert "deploy" not in SERVICES["dashboard"]


def test_runner_keeps_its_name_when_its_container_changes() -> None:
    assert SERVICES["runner"]["hostname"] == "${HUD_MACHINE:-compile-hud}"


def test_runner_image_can_compile() -> None:
    assert "g++ " in dockerfile("runner")
    assert "python3-dev" in dockerfile("runner")


def test_ports_are_bound_to_the_loopback_address() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_health_of_the_dashboard_is_asked_at_healthz() -> None:
    command = " ".join(SERVICES["dashboard"]["healthcheck"]["test"])
    assert "http://127.0.0.1:8501/healthz" in command


def test_database_is_healthy_when_it_answers_and_keeps_its_data() -> None:
    postgres = SERVICES["postgres"]
    assert "pg_isready" in " ".join(postgres["healthcheck"]["test"])
    assert postgres["volumes"] == ["postgres-data:/var/lib/postgresql/data"]


def test_no_password_is_written_down() -> None:
    assert SERVICES["postgres"]["environment"]["POSTGRES_PASSWORD"] == "${HUD_POSTGRES_PASSWORD:-}"


def test_settings_inside_the_containers_are_valid() -> None:
    config = load_config(ROOT / "docker" / "hud.toml", env={"HUD_STATE_DIR": "/data"})
    assert (config.host, config.port) == ("0.0.0.0", 8501)
    assert config.state_dir == Path("/data")
    assert config.schedules["nightly"].suite == "nightly"


def test_variables_are_documented() -> None:
    variables = set(re.findall(r"\$\{(\w+)", text_of("docker-compose.yml")))
    described = set(re.findall(r"^\| `(\w+)`", text_of("docs/deployment.md"), re.MULTILINE))
    assert variables == described
