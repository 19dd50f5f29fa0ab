"""What replies ask for, and what becomes of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from db.records import Alert, AlertState
from db.replies import Bound, Ruling
from runner.alerts.reply_words import (
    TAKEN,
    Command,
    Verb,
    WrongCommand,
    first_words,
    is_command,
    parse,
    rule_of,
)
from tests.builders import START, make_alert, make_case

DAY = datetime(2026, 12, 31, tzinfo=timezone.utc)
HOSTILE = "noise \u202e<!channel> @here **x** `\x1b[2J` [a](http://x) " + "y" * 10_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ack", {"verb": Verb.ACK}),
        ("Ack: looking into it", {"verb": Verb.ACK, "reason": "looking into it"}),
        ("expected new driver", {"verb": Verb.EXPECTED, "reason": "new driver"}),
        ("NOISE all busy host", {"verb": Verb.NOISE, "is_all": True, "reason": "busy host"}),
        ("noise #2 busy host", {"verb": Verb.NOISE, "number": 2, "reason": "busy host"}),
        ("reopen", {"verb": Verb.REOPEN}),
        ("owner @ann", {"verb": Verb.OWNER, "owner": "ann"}),
        ("owner none", {"verb": Verb.OWNER}),
        ("mute 2026-12-31 moving", {"verb": Verb.MUTE, "until": DAY, "reason": "moving"}),
        ("mute #3 none", {"verb": Verb.MUTE, "number": 3}),
    ],
)
def test_what_a_command_stands_for(text: str, wanted: Mapping[str, object]) -> None:
    assert is_command(text)
    assert parse(text, now=START) == Command(text=text, **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("noise", "say why"),
        ("expected", "say why"),
        ("owner", "takes a name"),
        ("owner of this?", "takes a name of one word"),
        ("owner <@U1>", "no mention"),
        (f"owner {'x' * 101}", "takes a name"),
        ("mute", "takes a day to come, such as 2027-01-31, or none"),
        ("mute tomorrow", "takes a day to come"),
        ("mute 2025-01-01", "takes a day to come"),
        ("mute 2026-02-31", "takes a day to come"),
    ],
)
def test_a_wrong_command_is_told_what_is_taken(text: str, problem: str) -> None:
    with pytest.raises(WrongCommand, match=problem) as caught:
        parse(text, now=START)
    assert str(caught.value).endswith(f"{TAKEN}.")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text", ["", "thanks", "acknowledge", "> ack", "the noise is back", "ack!"]
)
def test_talk_is_no_command(text: str) -> None:
    assert not is_command(first_words(text))


def test_the_first_line_counts_alone_cleaned_and_cut() -> None:
    assert first_words("\n \r\n  ack   seen \nnoise really") == "ack seen"
    found = first_words(HOSTILE)
    assert found.startswith("noise ?<!channel> @here **x** `?[2J` [a](http://x) yyy")
    assert len(found) == 600
    assert len(parse(found, now=START).reason) == 500


ALERTS = [make_alert(name, case=make_case(name)) for name in "abc"]
BOTH = (Bound(numbers={"a": 5}), Bound(numbers={"b": 5}))


def ruled(
    text: str,
    *states: AlertState,
    bound: Sequence[Bound] = (Bound(numbers={"a": 5, "b": 5}),),
    newest: Mapping[str, int] = {"a": 5, "b": 3},
) -> Ruling:
    """Return what becomes of a command about alerts in `states`."""
    alerts = [replace(a, state=s) for a, s in zip(ALERTS, states, strict=False)] or ALERTS
    ruling: Ruling = rule_of(parse(text, now=START), bound)(alerts, newest)
    return ruling


def changed(ruling: Ruling) -> dict[str, Alert]:
    return {item.alert.id: item.alert for item in ruling.revisions}


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("ack seen", AlertState.OPEN, AlertState.ACKNOWLEDGED),
        ("noise busy", AlertState.ACKNOWLEDGED, AlertState.NOISE),
        ("expected so", AlertState.OPEN, AlertState.EXPECTED),
        ("reopen oops", AlertState.NOISE, AlertState.OPEN),
    ],
)
def test_a_reply_decides_about_the_alerts_of_its_message_alone(
    text: str, before: AlertState, after: AlertState
) -> None:
    ruling = ruled(text, before, before, before)
    assert {id: alert.state for id, alert in changed(ruling).items()} == {"a": after, "b": after}
    assert {item.why for item in ruling.revisions} == {text.partition(" ")[2]}
    # The message says it.
    assert ruling.answer == ""


def test_what_no_message_shows_is_answered() -> None:
    ruling = ruled("owner ann")
    assert {alert.owner for alert in changed(ruling).values()} == {"ann"}
    assert ruling.answer == '"owner ann": 2 alerts of ann now.'
    ruling = ruled("mute 2026-12-31")
    assert {alert.muted_until for alert in changed(ruling).values()} == {DAY}
    assert ruling.answer == '"mute 2026-12-31": 2 alerts muted until 2026-12-31.'
    assert ruled("mute none").answer == '"mute none": 2 alerts not muted any more.'
    assert ruled("owner none").answer == '"owner none": 2 alerts of nobody now.'


def test_what_changed_after_it_was_shown_stays() -> None:
    ruling = ruled("noise busy", newest={"a": 6, "b": 5})
    assert list(changed(ruling)) == ["b"]
    assert ruling.answer == (
        '"noise busy": 1 alert changed after what you replied to, and stayed as it is: look again,'
        " and reply again."
    )
    assert ruled("owner ann", newest={"a": 6, "b": 6}).revisions == ()
    unknown = ruled("ack", bound=[Bound(numbers={"a": -1})], newest={})
    assert (unknown.revisions, "changed after" in unknown.answer) == ((), True)


def test_what_is_fixed_or_as_wanted_stays() -> None:
    ruling = ruled("ack", AlertState.FIXED, AlertState.ACKNOWLEDGED)
    assert ruling == Ruling(answer='"ack": there is nothing to change about these alerts.')
    assert ruled("reopen", AlertState.FIXED, AlertState.OPEN).revisions == ()


def test_of_several_notifications_one_must_be_named_or_all() -> None:
    with pytest.raises(WrongCommand, match=r'tells of 2 things: say which, as in "ack #2 ..."'):
        ruled("ack", bound=BOTH)
    with pytest.raises(WrongCommand, match="tells of 2"):
        ruled("ack #3", bound=BOTH)
    assert list(changed(ruled("ack #2", bound=BOTH))) == ["b"]
    assert list(changed(ruled("ack all", bound=BOTH))) == ["a", "b"]
