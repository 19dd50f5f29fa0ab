"""The systemd unit of one user: its text, its file, and the calls of systemctl.

The keys are those of systemd.service(5); systemd.syntax(7) says how values are quoted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compile_hud.runner.errors import ServiceError
from compile_hud.runner.protocol.files import whole_file
from compile_hud.runner.system.machine import Machine

UNIT_NAME = "compile-hud.service"

_UNIT = """\
# Written by `hud service install`, which replaces it; `hud service remove` removes it.

[Unit]
Description=Compile HUD: measures PyTorch models under torch.compile, and shows it
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
{environment}\
# Secrets that hud.toml names as env:NAME.
EnvironmentFile=-{secrets}
Restart=on-failure
RestartSec=30
# The runner ends its workers itself, and stores what was measured.
KillMode=mixed
TimeoutStopSec=60
# A case that takes too much memory is a result, and no reason to stop everything else.
OOMPolicy=continue
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserService:
    """A `hud` command that systemd keeps running in `folder`, for one user."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    settings_home: Path

    @property
    def path(self) -> Path:
        """Path of the unit file."""
        return self.settings_home / "systemd" / "user" / UNIT_NAME

    @property
    def secrets(self) -> Path:
        """Path of an optional file with a line NAME=VALUE for each secret."""
        return self.settings_home / "compile-hud" / "secrets.env"

    def text(self) -> str:
        """Return the unit; raise ServiceError for a value that no unit can have."""
        variables = "".join(
            f"Environment={_quoted(f'{name}={value}')}\n"
            for name, value in self.environment.items()
        )
        return _UNIT.format(
            folder=_escaped(str(self.folder)),
            command=" ".join(_quoted(word).replace("$", "$$") for word in self.command),
            environment=variables,
            secrets=_escaped(str(self.secrets)),
        )

    def write(self) -> None:
        """Write the unit file as a whole or not at all."""
        text = self.text()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as stream:
            stream.write(text.encode("utf-8", errors="surrogateescape"))

    def start(self, machine: Machine) -> None:
        """Let systemd start the service now and with the user's session."""
        try:
            _systemctl(machine, "daemon-reload")
            _systemctl(machine, "enable", UNIT_NAME)
            # An older unit may be running.
            _systemctl(machine, "restart", UNIT_NAME)
        except ServiceError:
            # Else it would start with some later session.
            self.path.unlink(missing_ok=True)
            raise

    def remove(self, machine: Machine) -> bool:
        """Stop the service and remove its file; return False where there is none."""
        if not self.path.exists():
            return False
        try:
            _systemctl(machine, "disable", "--now", UNIT_NAME)
        finally:
            self.path.unlink()
        _systemctl(machine, "daemon-reload")
        return True


def settings_home(env: Mapping[str, str]) -> Path:
    """Return the folder of the user's settings, as the XDG base directories define it."""
    named = env.get("XDG_CONFIG_HOME", "")
    return Path(named) if os.path.isabs(named) else Path.home() / ".config"


def has_lingering(machine: Machine, *, user: str) -> bool:
    """Return whether the user's services run while the user is not logged in."""
    answer = machine.ask("loginctl", "show-user", user, "--property=Linger", "--value")
    return answer.text == "yes"


def _systemctl(machine: Machine, *arguments: str) -> None:
    answer = machine.ask("systemctl", "--user", *arguments)
    if answer.problem:
        raise ServiceError(
            f"systemd did not take `systemctl --user {' '.join(arguments)}`: {answer.problem}."
            " Run it in a login session of this user on a machine with systemd; elsewhere run"
            " `hud up` under another supervisor",
            command=" ".join(arguments),
        )


def _escaped(value: str) -> str:
    if any(character in value for character in "\n\r\0"):
        raise ServiceError(
            f"{value!r} has a line break, which a unit of systemd cannot have. Rename the folder or"
            " the file",
            value=value,
        )
    return value.replace("%", "%%")


def _quoted(value: str) -> str:
    escaped = _escaped(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
