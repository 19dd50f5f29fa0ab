"""Make receivers from hud.toml; their secrets are read on use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import Message, Receiver
from compile_hud.runner.notifications.http_client import (
    CONNECT_S,
    HttpRules,
    TargetRefused,
    check_url,
)
from compile_hud.runner.notifications.http_response import Poster
from compile_hud.runner.notifications.receivers.apprise import Apprise, is_installed
from compile_hud.runner.notifications.receivers.chat import Chat, Render, slack, teams
from compile_hud.runner.notifications.receivers.discord import Discord
from compile_hud.runner.notifications.receivers.github import PUBLISHED, GitHub
from compile_hud.runner.notifications.receivers.github_api import GITHUB_URL, GitHubApi
from compile_hud.runner.notifications.receivers.mail import Mail
from compile_hud.runner.notifications.receivers.secrets import NotReady, resolve_secret
from compile_hud.runner.notifications.receivers.settings import (
    ReceiverKind,
    ReceiverSettings,
    schemes_of,
)
from compile_hud.runner.notifications.receivers.slack import SlackBot
from compile_hud.runner.notifications.receivers.smtp import MailServer
from compile_hud.runner.notifications.receivers.webhook import BadSecret, Webhook, key_of

_RENDERS: Mapping[ReceiverKind, Render] = {
    ReceiverKind.SLACK: slack,
    ReceiverKind.TEAMS: teams,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadyReceiver:
    """A receiver with invalid settings: its notifications wait until they are corrected."""

    reason: str

    def send(self, message: Message) -> Response:
        """Return a failure with the reason."""
        del message
        return Response(kind=ResponseKind.FAILED, text=self.reason, is_down=True)


def make_receiver(settings: ReceiverSettings, *, env: Mapping[str, str]) -> Receiver:
    """Return the receiver of `settings`; invalid settings yield one that reports the reason."""
    try:
        return _ready(settings, _Secrets(settings=settings, env=env))
    except (NotReady, BadSecret, TargetRefused) as error:
        return UnreadyReceiver(reason=f"[receivers.{settings.name}]: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secrets:
    """The values of settings; a reference to a secret is resolved."""

    settings: ReceiverSettings
    env: Mapping[str, str] = field(repr=False)

    def get(self, key: str) -> str:
        """Return the value of a setting, "" if it is not set; raise NotReady."""
        value = getattr(self.settings, key)
        return (
            ""
            if value is None
            else resolve_secret(key, value, base=self.settings.base, env=self.env)
        )


def _ready(settings: ReceiverSettings, secrets: _Secrets) -> Receiver:
    url = secrets.get("url") or GITHUB_URL
    if settings.kind is ReceiverKind.APPRISE:
        if not is_installed():
            raise NotReady('Apprise is not installed; `pip install "compile-hud[apprise]"`')
        return Apprise(url=url, timeout_s=settings.timeout_s)
    check_url(url, schemes=schemes_of(settings.kind))
    rules = HttpRules(
        allow_private=settings.allow_private,
        total_s=settings.timeout_s,
        connect_s=min(CONNECT_S, settings.timeout_s),
    )
    if settings.kind is ReceiverKind.EMAIL:
        server = MailServer(
            url=url, user=secrets.get("user"), password=secrets.get("password"), rules=rules
        )
        return Mail(server=server, sender=settings.sender or "", to=settings.to or ())
    if settings.kind is ReceiverKind.GITHUB:
        repository = settings.repository or ""
        api = GitHubApi(url=url, repository=repository, token=secrets.get("token"), rules=rules)
        return GitHub(api=api, published=settings.publish or PUBLISHED)
    poster = Poster(url=url, rules=rules)
    if settings.kind is ReceiverKind.WEBHOOK:
        secret = secrets.get("secret")
        return Webhook(poster=poster, key=key_of(secret) if secret else None)
    if settings.kind is ReceiverKind.DISCORD:
        return Discord(url=url, rules=rules)
    if settings.channel:
        return SlackBot(url=url, channel=settings.channel, token=secrets.get("token"), rules=rules)
    return Chat(poster=poster, render=_RENDERS[settings.kind])
