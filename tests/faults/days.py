"""Two small harvests for the tests of faults, with the data before each and the result undisturbed."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.crash.soundness import State, assert_sound, state
from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, SECOND_DAY, drawn, publish
from tests.end_to_end.project import Project
from tests.faults.faults import NONE
from tests.servers.misbehaving import misbehaving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.faults import Fault, Faulty, Run

_CHANGED: Final = PATHS[4:14]
_REMOVED: Final = ("33", "32")


@dataclass(frozen=True, slots=True)
class Day:
    """A harvest of the small site, which can be repeated from the same beginning."""

    name: str
    workplace: Path
    url: str
    before: Path | None
    """The data folder before the harvest. None: there is none."""
    undisturbed: Project
    """The project after the undisturbed harvest."""
    calls: dict[str, int]
    """How many calls of each kind the undisturbed harvest makes."""

    @property
    def end(self) -> State:
        """What the undisturbed harvest leaves."""
        return state(self.undisturbed)

    def project(self) -> Project:
        """Returns a new project as it is before the harvest. Removes the one of the last call."""
        return _project(self.workplace / "disturbed", self.url, self.before)

    def run(self, program: Faulty, project: Project, fault: Fault, disk: Path | None = None) -> Run:
        return program.run(project, fault, *_arguments(self.name), disk=disk)


def _arguments(day: str) -> tuple[str, ...]:
    return ("harvest", "small", "-a", f"day={day}", "--json", "-s", "RETRY_PAUSE=0.02")


def _project(folder: Path, url: str, before: Path | None) -> Project:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    project = Project(folder)
    project.add_map("small", f"{url}/")
    if before is None:
        project.data.mkdir()
    else:
        project.adopt(before)
    return project


@contextmanager
def first_day(program: Faulty, workplace: Path) -> Iterator[Day]:
    with misbehaving(publish(workplace / "site").folder) as site:
        yield _undisturbed(program, FIRST_DAY, workplace, site.url, None)


@contextmanager
def second_day(program: Faulty, workplace: Path, first: Day) -> Iterator[Day]:
    """A harvest after half of the tiles have changed and two have vanished."""
    files = publish(workplace / "site")
    for path in _CHANGED:
        files.write(path, drawn(f"{path} changed"))
    files.remove(*_REMOVED)
    with misbehaving(files.folder) as site:
        yield _undisturbed(program, SECOND_DAY, workplace, site.url, first.undisturbed.data)


def _undisturbed(program: Faulty, day: str, workplace: Path, url: str, before: Path | None) -> Day:
    project = _project(workplace / "undisturbed", url, before)
    run = program.run(project, NONE, *_arguments(day))
    assert (run.status, run.said) == (0, "")
    assert_sound(project)
    return Day(day, workplace, url, before, project, run.calls)
