"""The rights of people on the dashboard."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.shared.access_rules import (
    UNCHECKED,
    UNVERIFIED,
    AccessRules,
    Person,
    Role,
    is_loopback,
    person_of,
    refusal,
    role_of,
)

NOW = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)
RULES = AccessRules(
    issuer="https://login.example.org",
    client_id="hud",
    viewers=("*@example.org", "everyone"),
    triagers=("perf",),
    admins=("Ada@example.org",),
    anonymous=None,
    session_s=3600.0,
)


def user_claims(**changed: Any) -> dict[str, Any]:
    """Return what the provider says of eve, signed in ten minutes ago."""
    return {
        "iss": "https://login.example.org",
        "aud": "hud",
        "sub": "4711",
        "iat": int((NOW - timedelta(minutes=10)).timestamp()),
        "nonce": "n1",
        "email": "eve@example.org",
        "email_verified": True,
    } | changed


def person(**changed: Any) -> Person:
    return person_of(user_claims(**changed), rules=RULES, at=NOW)


def test_each_role_includes_those_before_it() -> None:
    assert [[one.includes(other) for other in Role] for one in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@pytest.mark.parametrize(
    ("changed", "role"),
    [
        ({}, Role.VIEWER),
        ({"email": "eve@elsewhere.org"}, None),
        ({"email": "eve@elsewhere.org", "groups": ["everyone", "x"]}, Role.VIEWER),
        ({"groups": ["perf"]}, Role.TRIAGER),
        ({"groups": "perf"}, Role.TRIAGER),
        ({"groups": ["performance"]}, Role.VIEWER),
        ({"groups": {"perf": 1}}, Role.VIEWER),
        ({"email": "ADA@example.org"}, Role.ADMIN),
        ({"email": "eve@elsewhere.org", "groups": ["ada@example.org"]}, None),
        ({"email": "ada@example.org.evil.net"}, None),
    ],
)
def test_highest_role_of_the_lists_is_given(changed: dict[str, Any], role: Role | None) -> None:
    assert role_of(user_claims(**changed), rules=RULES) is role


@pytest.mark.parametrize("verified", [False, None, "false", "true"])
def test_an_unverified_address_gives_no_role(verified: Any) -> None:
    user = person(email="ada@example.org", email_verified=verified, name="Ada")
    assert (user.role, user.name) == (None, f"Ada{UNVERIFIED}")


def test_address_counts_unverified_where_the_provider_is_trusted_with_it() -> None:
    rules = AccessRules(
        issuer=RULES.issuer, client_id="hud", admins=("eve@example.org",), trusts_email=True
    )
    unsaid = {key: value for key, value in user_claims().items() if key != "email_verified"}
    assert person_of(unsaid, rules=rules, at=NOW).role is Role.ADMIN


def test_everybody_who_signs_in_may_look_by_default() -> None:
    rules = AccessRules(issuer=RULES.issuer, client_id="hud")
    assert role_of({"sub": "1"}, rules=rules) is Role.VIEWER


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://evil.example.org"},
        {"iss": None},
        {"aud": "wiki"},
        {"aud": ["wiki", "mail"]},
        {"sub": ""},
        {"iat": "yesterday"},
        {"iat": NOW.timestamp() - 3600},
        {"iat": NOW.timestamp() + 121},
    ],
    ids=[
        "other-issuer",
        "no-issuer",
        "other-audience",
        "other-audiences",
        "no-subject",
        "no-time",
        "expired",
        "issued-in-future",
    ],
)
def test_an_invalid_sign_in_has_no_role(changed: dict[str, Any], words: SnapshotAssertion) -> None:
    user = person(**changed, groups=["perf"])
    assert user.problem == words
    assert (user.is_signed_in, user.role, user.may(Role.VIEWER)) == (False, None, False)


def test_audience_may_be_one_of_several() -> None:
    assert person(aud=["mail", "hud"]).is_signed_in


def test_who_signed_out_is_signed_out_everywhere_until_the_next_sign_in(
    words: SnapshotAssertion,
) -> None:
    ended = {person().session}
    gone = person_of(user_claims(), rules=RULES, at=NOW, ended=ended)
    assert gone.role is None
    assert gone.problem == words
    assert person_of(user_claims(nonce="n2"), rules=RULES, at=NOW, ended=ended).is_signed_in


def test_claims_mean_nothing_where_there_is_no_sign_in() -> None:
    assert person_of(user_claims(), rules=AccessRules(), at=NOW) == Person(role=Role.VIEWER)


def test_name_that_was_typed_is_marked_and_no_other_is(words: SnapshotAssertion) -> None:
    assert Person().signed_as(" eve@example.org ") == words
    assert person().signed_as("ada") == "eve@example.org"


def test_a_name_of_the_profile_is_marked_unless_the_provider_verified_an_address() -> None:
    unverified = {"email": "ada@example.org", "email_verified": False}
    assert person(**unverified, name="judge").name == f"judge{UNVERIFIED}"
    assert person(**unverified, name="ada@example.org").name == f"ada@example.org{UNVERIFIED}"
    assert person(**unverified, name="a\nb\u202e").name == f"a b?{UNVERIFIED}"
    assert person(**unverified).name == "4711"
    assert person(name="judge").name == "eve@example.org"


@pytest.mark.parametrize("mark", [UNCHECKED, UNVERIFIED])
def test_a_long_name_does_not_push_its_mark_out_of_a_message(mark: str) -> None:
    long_name = "ada@example.org " + "x" * 500
    names = {
        UNCHECKED: Person().signed_as(long_name),
        UNVERIFIED: person(email="", name=long_name).name,
    }
    assert names[mark].endswith(mark)
    assert len(names[mark]) <= 60


def test_rules_survive_json() -> None:
    assert AccessRules.from_json(json.loads(json.dumps(RULES.to_json()))) == RULES


@pytest.mark.parametrize("value", [7, [1], {"a": "b"}, [["x"]]])
def test_invalid_lists_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="list of texts"):
        RULES.with_lists({"admins": value})


def test_lists_that_are_gone_are_the_default_ones() -> None:
    changed = RULES.with_lists({"triagers": "perf-team"})
    assert (changed.viewers, changed.triagers, changed.admins) == (("*",), ("perf-team",), ())


def test_rules_without_users_give_no_role() -> None:
    rules = RULES.for_nobody()
    assert person_of(user_claims(groups=["perf"]), rules=rules, at=NOW).role is None
    assert person_of({}, rules=rules, at=NOW).role is None


@pytest.mark.parametrize(
    ("host", "is_so"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.7", False),
        ("localhost.example.org", False),
    ],
)
def test_loopback_differs_from_what_others_reach(host: str, is_so: bool) -> None:
    assert is_loopback(host) is is_so
    assert bool(refusal(host, rules=AccessRules(), is_open=False)) is not is_so


def test_wider_needs_sign_in_or_to_be_meant() -> None:
    assert refusal("0.0.0.0", rules=RULES, is_open=False) == ""
    assert refusal("0.0.0.0", rules=AccessRules(), is_open=True) == ""
    assert "--without-sign-in" in refusal("", rules=AccessRules(), is_open=False)
