"""Addresses with secrets from elsewhere, and what of them may be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy.settings import Settings

from tileharvest.errors import ConfigurationError
from tileharvest.maps.description import MapDescription
from tileharvest.notices.delivery import Target, notice_occasions, parse_target, parse_targets

if TYPE_CHECKING:
    from pathlib import Path

passwords = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(passwords)
@example("a:b@c/d?e#f%20g é")
def test_a_password_may_hold_any_sign(password: str) -> None:
    target = parse_target("mailto://me:${PASSWORD}@mail.example.net:25/x?to=y", {"PASSWORD": password})
    parts = urlsplit(target.url)
    assert unquote(parts.password or "") == password
    assert (parts.hostname, parts.port, parts.path, parts.query) == ("mail.example.net", 25, "/x", "to=y")


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("12:ab\n")
    assert parse_target(f"tgram://${{file:{file}}}/1", {}).url == "tgram://12%3Aab/1"


def test_a_secret_that_is_all_is_taken_for_an_address() -> None:
    address = "json://me:pass%20word@example.net/?a=b"
    assert parse_target(" ${WHERE} ", {"WHERE": address}).url == address


def test_of_an_address_only_the_scheme_is_seen() -> None:
    for target in (Target("tgram://123:token/chat"), Target("secret")):
        assert not {"123", "token", "secret"} & set(f"{target} {target!r}".replace("/", " ").split())
    assert str(Target("TGram://123:token/chat")) == "tgram://..."


def test_what_is_missing_is_named_and_the_other_addresses_are_kept(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    texts = [
        "json://${NAME}",
        "json://${EMPTY}",
        f"json://${{file:{empty}}}",
        "json://${file:/nowhere}",
        "a://b",
    ]
    targets, missing = parse_targets(texts, {"EMPTY": ""})
    assert targets == [Target("a://b")]
    assert missing == [
        "the environment variable NAME is not set",
        "the environment variable EMPTY is not set",
        f"the file {empty} is empty",
        "the file /nowhere cannot be read (No such file or directory)",
    ]


def test_an_occasion_for_messages_that_is_none_is_refused() -> None:
    settings = Settings({"NOTIFY_ON": "change,full moon"})
    with pytest.raises(ConfigurationError, match="NOTIFY_ON 'full moon' is none of: "):
        notice_occasions(settings, MapDescription(name="m", url="http://map.example.net/"))
