"""What broke, in one word, from the words of those who noticed it."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from tileharvest.commands.failures import status_of
from tileharvest.politeness.reasons import FORBIDDEN
from tileharvest.tiles.images import identify
from tileharvest.tiles.verdict import Answer, with_attempts


@pytest.mark.parametrize("status", [403, 500, 299, 599])
def test_a_status_is_told_as_its_number(status: int) -> None:
    assert status_of(with_attempts(Answer(status).phrase, 5)) == status


@pytest.mark.parametrize("body", [b"", b"<html>", b"version https://git-lfs", b"BM"])
def test_what_is_no_image_is_told_so(body: bytes) -> None:
    with pytest.raises(ValueError, match="the answer ") as raised:
        identify(body)
    assert status_of(with_attempts(str(raised.value), 1)) == "no image"


def test_a_host_without_an_address_is_told_from_one_that_does_not_answer() -> None:
    """By what aiohttp says when it asks in vain."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        refused = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        assert [asyncio.run(said(url)) for url in (refused, "http://map.invalid/")] == [
            "no connection",
            "no address",
        ]


async def said(url: str) -> int | str:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError) as raised:
            await session.get(url)
    return status_of(with_attempts(str(raised.value), 5))


def test_what_robots_txt_forbids_is_told_so() -> None:
    assert status_of(with_attempts(FORBIDDEN, 1)) == "forbidden"


def test_what_nobody_has_foreseen_has_a_word_too() -> None:
    assert status_of("something else") == "other"
