"""Signed links: signed content is read back, and any other is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.alerts.action_links import (
    Action,
    ActionLink,
    LinkExpired,
    LinkRefused,
    action_token,
    is_page_proof,
    page_proof,
    picture_token,
    read_action,
    read_picture,
)
from tests.support.builders import START

KEY = b"0123456789abcdef0123456789abcdef"
UNTIL = START + timedelta(days=14)
LINK = ActionLink(notification_id="msg_1", action=Action.NOISE, number=7)
TOKEN = action_token(LINK, key=KEY, until=UNTIL)


def test_a_link_is_read_back_until_its_time_is_over() -> None:
    assert read_action(TOKEN, key=KEY, now=START) == LINK
    assert read_action(TOKEN, key=KEY, now=UNTIL - timedelta(seconds=1)) == LINK
    with pytest.raises(LinkExpired):
        read_action(TOKEN, key=KEY, now=UNTIL)


def test_a_picture_is_no_action_and_no_proof_of_a_page() -> None:
    picture = picture_token("a", key=KEY, until=UNTIL)
    assert read_picture(picture, key=KEY, now=START) == "a"
    with pytest.raises(LinkRefused):
        read_action(picture, key=KEY, now=START)
    with pytest.raises(LinkRefused):
        read_picture(TOKEN, key=KEY, now=START)
    proof = page_proof(TOKEN, key=KEY)
    assert is_page_proof(proof, TOKEN, key=KEY)
    assert not is_page_proof(proof, picture, key=KEY)
    assert not is_page_proof(TOKEN.partition(".")[2], TOKEN, key=KEY)


def test_another_key_opens_nothing() -> None:
    with pytest.raises(LinkRefused, match="not signed here"):
        read_action(TOKEN, key=KEY[::-1], now=START)


@given(st.integers(0, len(TOKEN) - 1), st.characters())
def test_a_token_with_any_sign_changed_is_refused(index: int, sign: str) -> None:
    changed = TOKEN[:index] + sign + TOKEN[index + 1 :]
    if changed != TOKEN:
        with pytest.raises(LinkRefused, match="not signed here"):
            read_action(changed, key=KEY, now=START)


@given(st.one_of(st.text(), st.text(alphabet="aZ09-_.=", max_size=2000)))
def test_whatever_comes_is_refused_and_nothing_else(token: str) -> None:
    with pytest.raises(LinkRefused, match="not signed here"):
        read_action(token, key=KEY, now=START)
