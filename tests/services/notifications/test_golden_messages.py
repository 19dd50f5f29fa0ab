"""Messages to receivers are those in tests/fixtures/messages.

`python -m tests.support.records.golden_messages` writes them anew.
"""

from __future__ import annotations

import json

import pytest

from tests.support.records.golden_messages import FOLDER, rendered
from tests.support.servers.slack_limits import problems

RENDERED = rendered()


@pytest.mark.parametrize("name", RENDERED)
def test_each_message_equals_the_reviewed_one(name: str) -> None:
    assert RENDERED[name] == (FOLDER / name).read_text(encoding="utf-8")


def test_every_golden_message_is_sent() -> None:
    assert {path.name for path in FOLDER.iterdir()} == RENDERED.keys()


@pytest.mark.parametrize("name", [name for name in RENDERED if name.endswith(".slack.json")])
def test_slack_takes_each_message(name: str) -> None:
    assert problems(json.loads(RENDERED[name])) == []
