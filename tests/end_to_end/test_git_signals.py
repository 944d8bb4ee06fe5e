"""A host of a repository that answers nothing, and a person who ends what waits for it."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Final

import pytest

from tests.end_to_end.git_maps import URL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.project import Project

PATIENCE: Final = 240.0
"""Seconds in which what was told to end has ended. It needs less than one."""


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A host that takes connections, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as host:
        host.settimeout(PATIENCE)
        yield host


@pytest.mark.parametrize(
    ("word", "number", "said"),
    [
        ("harvest", signal.SIGTERM, "map 'small' was stopped; run it again to continue where it stopped"),
        ("import", signal.SIGTERM, "stopped: the days that were imported are kept; run it again to go on"),
        ("import", signal.SIGINT, "stopped: the days that were imported are kept; run it again to go on"),
    ],
)
def test_a_signal_ends_a_fetch_at_once_and_its_git_with_it(
    word: str, number: signal.Signals, said: str, silent: socket.socket, project: Project
) -> None:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}/map.git"
    project.add_map("small", URL, git=url)
    harvest = ("harvest", "small", "-a", "day=2024-05-01")
    with project.running(*(harvest if word == "harvest" else ("import", "git", url, "small"))) as process:
        connection, _ = silent.accept()
        with connection:
            connection.settimeout(PATIENCE)
            process.send_signal(number)
            _, told = process.communicate(PATIENCE)
            # What git asks, and then the end of git.
            while connection.recv(65_536):
                pass
    assert process.returncode == 1
    assert told.splitlines()[-1] == said
    assert "Traceback" not in told
