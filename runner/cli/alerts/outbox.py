"""hud alerts outbox, resend, send and test: notifications on their way."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Sequence

import click

from compile_hud.db.alerts.outbox import load_outbox, resend
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.notifications import (
    WAITING,
    AlertChangeKind,
    Notification,
    NotificationState,
    Severity,
)
from compile_hud.db.shared.text import counted
from compile_hud.runner.alerting.notifier import send_waiting
from compile_hud.runner.cli.alerts.text import SHOWN_ID_LENGTH
from compile_hud.runner.cli.output import json_option, print_json, say_when_missing, with_workspace
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.notifications.delivery_policy import ResponseKind
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.receivers.factory import make_receiver
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.workspace import Workspace

_ALL = "all"
_NO_RECEIVERS = "no receivers configured in hud.toml: notifications are off"
# The length of a shown id, which begins with `msg_`.
_SHOWN_LENGTH = len("msg_") + SHOWN_ID_LENGTH


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([_ALL, *map(str, NotificationState)]),
    default=(*map(str, WAITING), str(NotificationState.DEAD)),
    show_default=True,
    help="Notifications in this state; may be repeated.",
)
@json_option
@with_workspace
def outbox(workspace: Workspace, *, states: tuple[str, ...], as_json: bool) -> None:
    """List pending and failed notifications, oldest first."""
    requested = None if _ALL in states else [NotificationState(state) for state in states]
    store = workspace.store()
    notifications = load_outbox(store, states=requested)
    is_missing = say_when_missing(store)
    if as_json:
        print_json([item.to_json() for item in notifications])
    elif notifications:
        _print(notifications)
    elif not is_missing:
        click.echo("nothing is pending; --state all includes sent ones", err=True)


@click.command("resend")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@json_option
@with_workspace
def resend_dead(workspace: Workspace, *, ids: tuple[str, ...], as_json: bool) -> None:
    """Resend dead letters, all or by id; a prefix of an id is enough."""
    store = workspace.store()
    dead = load_outbox(store, states=[NotificationState.DEAD])
    ids_to_send = {item.id for item in dead if not ids or item.id.startswith(ids)}
    for id in ids:
        if not any(item.id.startswith(id) for item in dead):
            raise NotFoundError(f"no dead letter {id!r}. `hud alerts outbox` shows them", id=id)
    num_resent = resend(store, ids_to_send, at=workspace.dependencies.now())
    notify = new_progress(workspace)
    report = send_waiting(workspace, notify=notify, limit_s=math.inf)
    if as_json:
        print_json({"resent": num_resent, "sent": report.num_sent})
    else:
        revived = counted(num_resent, "dead letter")
        click.echo(f"{revived} revived, {counted(report.num_sent, 'notification')} sent")


@click.command("send")
@json_option
@with_workspace
def send_now(workspace: Workspace, *, as_json: bool) -> None:
    """Send the notifications that are due."""
    if not workspace.config.receivers:
        click.echo(_NO_RECEIVERS, err=True)
    notify = new_progress(workspace)
    report = send_waiting(workspace, notify=notify, limit_s=math.inf)
    if as_json:
        print_json({"sent": report.num_sent, "failed": report.num_failed})
    else:
        click.echo(f"{counted(report.num_sent, 'notification')} sent")


@click.command("test")
@click.argument("names", metavar="[RECEIVER]...", nargs=-1)
@json_option
@with_workspace
def test_receivers(workspace: Workspace, *, names: tuple[str, ...], as_json: bool) -> None:
    """Send a test message to these receivers or to all; exit with 1 if one fails."""
    receivers = workspace.config.receivers
    if not receivers:
        click.echo(_NO_RECEIVERS, err=True)
    answers = {}
    for name in find_names(names or ("*",) * bool(receivers), known=receivers, kind="receiver"):
        receiver = make_receiver(receivers[name], env=workspace.dependencies.env)
        answers[name] = receiver.send(_test_message(name, workspace=workspace))
    if as_json:
        print_json(
            [
                {"receiver": name, "answer": str(answer.kind), "text": answer.text}
                for name, answer in answers.items()
            ]
        )
    else:
        for name, answer in answers.items():
            click.echo(f"{name}: {answer.kind}{f', {answer.text}' if answer.text else ''}")
    sys.exit(int(any(answer.kind is not ResponseKind.SENT for answer in answers.values())))


def _test_message(name: str, *, workspace: Workspace) -> Message:
    at = workspace.dependencies.now()
    id = f"msg_{uuid.uuid4().hex}"
    notification = Notification(
        id=id,
        receiver=name,
        subject="test",
        kind=AlertChangeKind.TEST,
        severity=Severity.MINOR,
        title=f"the receiver {name} gets notifications of Compile HUD",
        alert_ids=(),
        created_at=at,
        due_at=at,
    )
    return Message(id=id, at=at, items=(Item(notification=notification, alerts=(), num_alerts=0),))


def _print(notifications: Sequence[Notification]) -> None:
    names = ("id", "receiver", "news", "severity", "state", "attempts", "due (UTC)", "what", "why")
    rows = [
        (
            item.id[:_SHOWN_LENGTH],
            item.receiver,
            str(item.kind),
            str(item.severity),
            str(item.state),
            str(item.num_attempts),
            f"{item.due_at:%Y-%m-%d %H:%M}",
            item.title,
            item.last_error,
        )
        for item in notifications
    ]
    print_table([Column(name=name) for name in names], rows=rows)
