"""hud alerts outbox, resend, send, digest and test: notifications on their way."""

from __future__ import annotations

import math
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from compile_hud.db.alerts.outbox import load_outbox, resend
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.notifications import (
    WAITING,
    Notification,
    NotificationState,
    make_receiver_test,
)
from compile_hud.db.shared.text import counted
from compile_hud.runner.alerting.notifier import send_waiting, weekly_items
from compile_hud.runner.cli.alerts.text import SHOWN_ID_LENGTH
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import check_exists, json_option, print_json, with_workspace
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.message_text import render_message
from compile_hud.runner.notifications.receivers.factory import make_receiver
from compile_hud.runner.notifications.weekly_digest import weekly_notification
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.workspace import Workspace

_ALL = "all"
_NO_RECEIVERS = "no receivers configured in hud.toml: notifications are off"
# The length of a shown id, which begins with `msg_`.
_SHOWN_LENGTH = len("msg_") + SHOWN_ID_LENGTH


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud alerts outbox",
        "hud alerts outbox --state dead",
    ),
)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=NearestChoice([_ALL, *map(str, NotificationState)]),
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
    check_exists(store)
    if as_json:
        print_json([item.to_json() for item in notifications])
    elif notifications:
        _print(notifications)
    else:
        echo("nothing is pending; --state all includes sent ones", err=True)


@click.command(
    "resend",
    cls=ExampleCommand,
    examples=(
        "hud alerts resend",
        "hud alerts resend 7c21",
    ),
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@json_option
@with_workspace
def resend_dead(workspace: Workspace, *, ids: tuple[str, ...], as_json: bool) -> None:
    """Resend dead letters, all or by id.

    A prefix of an id is enough.
    """
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
        echo(f"{revived} revived, {counted(report.num_sent, 'notification')} sent")


@click.command(
    "send",
    cls=ExampleCommand,
    examples=("hud alerts send",),
)
@json_option
@with_workspace
def send_now(workspace: Workspace, *, as_json: bool) -> None:
    """Send the notifications that are due."""
    if not workspace.config.receivers:
        echo(_NO_RECEIVERS, err=True)
    notify = new_progress(workspace)
    report = send_waiting(workspace, notify=notify, limit_s=math.inf)
    if as_json:
        print_json({"sent": report.num_sent, "failed": report.num_failed})
    else:
        echo(f"{counted(report.num_sent, 'notification')} sent")


@click.command(
    "test",
    cls=ExampleCommand,
    exit_codes={
        1: "A receiver failed.",
    },
    examples=(
        "hud alerts test",
        "hud alerts test 'slack*'",
    ),
)
@click.argument("names", metavar="[RECEIVER]...", nargs=-1)
@json_option
@with_workspace
def test_receivers(workspace: Workspace, *, names: tuple[str, ...], as_json: bool) -> None:
    """Send a test message to these receivers or to all."""
    receivers = workspace.config.receivers
    if not receivers:
        echo(_NO_RECEIVERS, err=True)
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
            echo(f"{name}: {answer.kind}{f', {answer.text}' if answer.text else ''}")
    sys.exit(int(any(answer.kind is not ResponseKind.SENT for answer in answers.values())))


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "A receiver failed.",
    },
    examples=(
        "hud alerts digest --dry-run",
        "hud alerts digest team",
    ),
)
@click.argument("names", metavar="[RECEIVER]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Print the digests and send nothing.")
@json_option
@with_workspace
def digest(workspace: Workspace, *, names: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Send the digest of the last seven days now."""
    receivers = workspace.config.receivers
    if not receivers:
        echo(_NO_RECEIVERS, err=True)
    chosen = find_names(names or ("*",) * bool(receivers), known=receivers, kind="receiver")
    at = workspace.dependencies.now()
    # Without a receiver a dry run shows all alerts.
    items = weekly_items(
        [
            replace(weekly_notification(name, due=at, at=at), id=f"msg_{uuid.uuid4().hex}")
            for name in (chosen or ([""] if dry_run else []))
        ],
        workspace=workspace,
    )
    answers = {} if dry_run else _send_digests(items, workspace=workspace)
    if as_json:
        print_json([_digest_json(item, answers) for item in items])
    else:
        for item in items:
            _print_digest(item, answers)
    failed = [item for item in answers.values() if item.kind is not ResponseKind.SENT]
    sys.exit(int(bool(failed)))


def _send_digests(items: Sequence[Item], *, workspace: Workspace) -> dict[str, Response]:
    answers = {}
    for item in items:
        if item.weekly is not None and not item.weekly.is_empty:
            note = item.notification
            receiver = make_receiver(
                workspace.config.receivers[note.receiver], env=workspace.dependencies.env
            )
            message = Message(id=note.id, at=note.created_at, items=(item,))
            answers[note.receiver] = receiver.send(message)
    return answers


def _digest_json(item: Item, answers: Mapping[str, Response]) -> dict[str, Any]:
    assert item.weekly is not None
    name = item.notification.receiver
    answer = answers.get(name)
    return {
        "receiver": name,
        "is_empty": item.weekly.is_empty,
        "weekly": item.weekly.to_json(),
        "answer": None if answer is None else str(answer.kind),
        "text": "" if answer is None else answer.text,
    }


def _print_digest(item: Item, answers: Mapping[str, Response]) -> None:
    assert item.weekly is not None
    name = item.notification.receiver
    prefix = f"{name}: " if name else ""
    if item.weekly.is_empty:
        echo(f"{prefix}no digest: nothing is open, and nothing was fixed in seven days")
    elif answer := answers.get(name):
        echo(f"{prefix}{answer.kind}{f', {answer.text}' if answer.text else ''}")
    else:
        section = render_message(Message(id="", at=item.weekly.until, items=(item,))).sections[0]
        echo(f"{prefix}{section.title}")
        for line in section.lines:
            echo(f"  {line}")


def _test_message(name: str, *, workspace: Workspace) -> Message:
    note = make_receiver_test(name, at=workspace.dependencies.now())
    return Message(
        id=note.id,
        at=note.created_at,
        items=(Item(notification=note, alerts=(), num_alerts=0),),
    )


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
