"""The links in messages, if hud.toml has the public address of the dashboard."""

from __future__ import annotations

import os
import secrets
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from compile_hud.db.alerts.action_links import (
    ACTION_STATES,
    ACTIONS_PATH,
    MIN_SECRET_LENGTH,
    PICTURES_PATH,
    Action,
    ActionLink,
    action_token,
    picture_token,
)
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.notifications import Notification
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import counted
from compile_hud.runner.config.load import Config
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.notifications.receivers.secrets import NotReady, resolve_secret

SECRET_NAME = "link_secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Linker:
    """Makes addresses below `url` that stay valid for `days`; `key` signs them and is not shown."""

    url: str
    days: int
    key: bytes = field(repr=False)
    now: Callable[[], datetime]

    def actions(
        self, notification: Notification, *, states: Collection[AlertState], number: int
    ) -> dict[str, str]:
        """Return the address of each triage action for alerts in these states.

        `number` is that of the newest state change that the message shows.
        """
        ongoing = {state for state in states if state in ONGOING}
        return {
            str(action): f"{self.url}/{ACTIONS_PATH}/{self._action(notification, action, number)}"
            for action, state in ACTION_STATES.items()
            if ongoing - {state}
        }

    def picture(self, alert_id: str) -> str:
        """Return the address of the picture of an alert's trend."""
        token = picture_token(alert_id, key=self.key, until=self._until())
        return f"{self.url}/{PICTURES_PATH}/{token}.png"

    def _action(self, notification: Notification, action: Action, number: int) -> str:
        link = ActionLink(notification_id=notification.id, action=action, number=number)
        return action_token(link, key=self.key, until=self._until())

    def _until(self) -> datetime:
        return self.now() + timedelta(days=self.days)


def make_linker(
    config: Config, *, env: Mapping[str, str], now: Callable[[], datetime]
) -> Linker | None:
    """Return the linker, None without `[server] url`; raise ConfigError without a secret."""
    if not config.public_url:
        return None
    key = link_secret(config, env=env).encode("utf-8")
    return Linker(url=config.public_url, days=config.link_days, key=key, now=now)


def link_secret(config: Config, *, env: Mapping[str, str]) -> str:
    """Return the secret that signs links; create it in the state directory if none is configured.

    Raises ConfigError if the configured secret is missing or too short, or cannot be created.
    """
    base = Path() if config.path is None else config.path.parent
    try:
        if config.link_secret is not None:
            secret = resolve_secret(SECRET_NAME, config.link_secret, base=base, env=env)
        else:
            secret = _own_secret(config.state_dir / SECRET_NAME)
    except NotReady as error:
        raise ConfigError(f"[server]: {error}", section="server", reason=str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"[server]: cannot make or read {config.state_dir / SECRET_NAME}: {error};"
            f" `{SECRET_NAME}` can name another place",
            section="server",
            key=SECRET_NAME,
            problem="not-readable",
        ) from error
    if len(secret) < MIN_SECRET_LENGTH:
        raise ConfigError(
            f"[server]: {SECRET_NAME} has {counted(len(secret), 'character')}, takes"
            f" {MIN_SECRET_LENGTH} or"
            " more, such as `openssl rand -hex 32` makes",
            section="server",
            key=SECRET_NAME,
            num_characters=len(secret),
        )
    return secret


def _own_secret(path: Path) -> str:
    """Return the content of the file at `path`, which is private and never partly written."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(f"{secrets.token_hex(32)}\n")
                file.flush()
                os.fsync(file.fileno())
            # If several processes start at the same time, the first one to link wins.
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink()
    return path.read_text(encoding="ascii").strip()
