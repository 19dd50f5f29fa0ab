"""The systemd unit: keys that systemd knows, commands and variables that the code has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compile_hud.runner.cli.main import main as hud
from tests.support.sources import ROOT, text_of

UNIT = "docs/compile-hud.service"
TEXT = text_of(UNIT)
# Of systemd.unit(5), systemd.service(5), systemd.exec(5) and systemd.kill(5): what the unit uses.
KEYS = {
    "Unit": {
        "After",
        "Description",
        "Documentation",
        "StartLimitBurst",
        "StartLimitIntervalSec",
        "Wants",
    },
    "Service": {
        "CacheDirectory",
        "Environment",
        "EnvironmentFile",
        "ExecStart",
        "Group",
        "KillMode",
        "NoNewPrivileges",
        "OOMPolicy",
        "ProtectControlGroups",
        "ProtectHome",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "ProtectSystem",
        "Restart",
        "RestartSec",
        "RestrictSUIDSGID",
        "StateDirectory",
        "TimeoutStopSec",
        "Type",
        "User",
        "WorkingDirectory",
    },
    "Install": {"WantedBy"},
}


def settings() -> list[tuple[str, str, str]]:
    """Return section, key and value of each line that is one."""
    pairs, section = [], ""
    for line in TEXT.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            pairs.append((section, key, value))
    return pairs


def values(key: str) -> list[str]:
    return [value for _, name, value in settings() if name == key]


def test_the_unit_has_no_key_that_systemd_does_not_know() -> None:
    assert {section for section, _, _ in settings()} == set(KEYS)
    assert not [(section, key) for section, key, _ in settings() if key not in KEYS[section]]
    once = [key for _, key, _ in settings() if key != "Environment"]
    assert len(once) == len(set(once))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "compile-hud.service"
    # The program and the user are where it is installed, not here.
    text = re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", TEXT, flags=re.MULTILINE)
    unit.write_text(re.sub(r"^(User|Group)=.*$", r"\1=root", text, flags=re.MULTILINE))
    answer = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True
    )
    about_us = [line for line in answer.stderr.splitlines() if "compile-hud" in line]
    assert (answer.returncode, about_us) == (0, [])


def test_the_unit_starts_a_command_of_hud_where_the_document_installs_it() -> None:
    (command,) = values("ExecStart")
    program, name = command.split()
    assert name in hud.commands  # type: ignore[attr-defined]
    assert program == f"{values('WorkingDirectory')[0]}/.venv/bin/hud"
    assert values("WorkingDirectory")[0] in text_of("docs/how-to/deployment.md")


def test_the_unit_sets_variables_that_the_code_reads() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "runner").rglob("*.py"))
    variables = dict(value.split("=", 1) for value in values("Environment"))
    # Python's own.
    byte_code = variables.pop("PYTHONPYCACHEPREFIX")
    assert byte_code == f"/var/cache/{values('CacheDirectory')[0]}"
    assert not [name for name in variables if f'"{name}"' not in sources]
    assert variables["HUD_STATE_DIR"] == f"/var/lib/{values('StateDirectory')[0]}"


def test_the_unit_does_not_hide_what_a_measurement_needs() -> None:
    assert "PrivateTmp=yes" not in TEXT
    assert "PrivateDevices=yes" not in TEXT
    assert "MemoryDenyWriteExecute=yes" not in TEXT
    assert "LockPersonality=yes" not in TEXT
    assert values("OOMPolicy") == ["continue"]


def test_the_service_is_given_the_time_to_keep_what_it_measured() -> None:
    compose = text_of("docker-compose.yml")
    assert values("TimeoutStopSec") == ["60"]
    assert "stop_grace_period: 60s" in compose


def test_the_command_line_of_the_document_has_what_the_service_has(tmp_path: Path) -> None:
    text = text_of("docs/how-to/deployment.md")
    _, _, script = text.partition("cat > /usr/local/sbin/hud <<'END'\n")
    script, _, _ = script.partition("END\n")
    secrets = tmp_path / "secrets.env"
    secrets.write_text("HUD_DATABASE_URL='postgresql+psycopg://hud@db/hud?sslmode=require'\n")
    (files,) = values("EnvironmentFile")
    (folder,) = values("WorkingDirectory")
    moved = script.replace(files.lstrip("-"), str(secrets)).replace(
        f"cd {folder}", f"cd {tmp_path}"
    )
    assert moved.count(str(tmp_path)) == 2
    runuser = tmp_path / "runuser"
    runuser.write_text('#!/bin/sh\nenv\necho "as $*"\n')
    runuser.chmod(0o755)
    output = subprocess.run(
        ["/bin/sh", "-c", moved, "hud", "show", "a b"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {*values("Environment"), *secrets.read_text().replace("'", "").split()} <= set(output)
    (user,) = values("User")
    assert output[-1] == f"as --user {user} -- {folder}/.venv/bin/hud show a b"


def test_the_unit_names_its_document() -> None:
    (address,) = values("Documentation")
    (folder,) = values("WorkingDirectory")
    name = address.removeprefix(f"file://{folder}/")
    assert "(../compile-hud.service)" in text_of(name)


def test_the_document_installs_the_unit() -> None:
    assert "(../compile-hud.service)" in text_of("docs/how-to/deployment.md")
