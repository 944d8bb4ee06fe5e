"""A call to the system fails in a harvest: the harvest says so in one line and records nothing false, and
the next run completes it.

`make test` tries a few calls that a seed draws. With `--all` each of the first 500 calls of each kind fails
once with each error, which takes hours. `-k` chooses: `pytest --all tests/faults -k "ENOSPC and rename"`.
"""

import errno
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from tests.crash.soundness import State, assert_sound, state
from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, SECOND_DAY, drawn, publish, visit
from tests.end_to_end.project import Project
from tests.faults.faults import ERRORS, KILL, KINDS, NONE, SHORT, Fault, Run, cut_power, flushed, run
from tests.servers.misbehaving import misbehaving

pytestmark = pytest.mark.timeout(1800)
"""Seconds. With `--all` a test makes dozens of harvests, and the machine may be busy."""

SEED: Final = 21
MOST: Final = 500
"""The most calls of a kind that fail in turn. No harvest here makes as many."""
AT_ONCE: Final = 10
"""How many calls fail in turn in one test with `--all`."""
LASTING: Final = (errno.ENOSPC, errno.EDQUOT)
"""The errors that stay until somebody makes room."""


@dataclass
class Day:
    """A harvest of the small site, which can be repeated from the same beginning."""

    name: str
    folder: Path
    url: str
    before: Path | None
    """The data folder before the harvest. None: there is none."""

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.undisturbed = self.project("undisturbed")
        """The project after the undisturbed harvest."""
        whole = self.run(self.undisturbed, NONE)
        assert (whole.status, whole.said) == (0, "")
        assert_sound(self.undisturbed)
        self.calls = whole.calls
        """How many calls of each kind the undisturbed harvest makes."""

    @property
    def end(self) -> State:
        """What the undisturbed harvest leaves."""
        return state(self.undisturbed)

    def project(self, name: str = "disturbed") -> Project:
        """Returns a new project as it is before the harvest, in place of the one of the last call."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        project = Project(folder)
        project.add_map("small", f"{self.url}/")
        if self.before is None:
            project.data.mkdir()
        else:
            project.adopt(self.before)
        return project

    def run(self, project: Project, fault: Fault, disk: Path | None = None) -> Run:
        arguments = ("harvest", "small", "-a", f"day={self.name}", "--json", "-s", "RETRY_PAUSE=0.02")
        return run(self.folder, project, fault, *arguments, disk=disk)


class Some(NamedTuple):
    """Calls of one kind in one harvest, which fail in turn with one error."""

    kind: str
    error: int
    day: int
    lasting: bool
    numbers: range | None
    """The numbers of the calls. None: one number, which the seed draws."""

    def __str__(self) -> str:
        name = errno.errorcode[self.error] if self.error else "power cut"
        which = "" if self.numbers is None else f" {self.numbers.start} to {self.numbers.stop - 1}"
        return f"{name}{' lasts' if self.lasting else ''}: {self.kind}{which} of day {self.day + 1}"

    def faults(self, calls: dict[str, int]) -> Iterator[Fault]:
        most = calls[self.kind]
        numbers = self.numbers
        if numbers is None:
            # The last tenth is left out: a run makes a few writes more or fewer than another.
            number = Random(f"{SEED} {self}").randint(1, 1 + most * 9 // 10)
            numbers = range(number, number + 1)
        for number in numbers:
            if number <= most:
                yield Fault(self.kind, number, self.error, self.lasting)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "some" not in metafunc.fixturenames:
        return
    is_cut = metafunc.function is test_a_power_cut_loses_no_version
    cases = [
        (kind, error, lasting)
        for error in ((KILL,) if is_cut else ERRORS)
        for kind in KINDS
        for lasting in ((False, True) if error in LASTING else (False,))
    ]
    if metafunc.config.getoption("--all"):
        parts = [range(start, start + AT_ONCE) for start in range(1, MOST, AT_ONCE)]
        some = [
            Some(kind, error, day, lasting, part)
            for kind, error, lasting in cases
            for day in (0, 1)
            for part in parts
        ]
    else:
        drawn = Random(SEED)
        some = [Some(kind, error, drawn.randrange(2), lasting, None) for kind, error, lasting in cases]
        some = [one for one in some if not one.lasting or one.kind == "write"]
    metafunc.parametrize("some", some, ids=str)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Day]]:
    """A map's first harvest, and a second one with new, changed, unchanged and vanished tiles."""
    if shutil.which("gcc") is None:
        pytest.skip("the library that lets calls fail needs gcc")
    folder = tmp_path_factory.mktemp("days")
    files = publish(folder / "site")
    later = publish(folder / "site of the second day")
    for path in PATHS[4:14]:
        later.write(path, drawn(f"{path} changed"))
    later.remove("33", "32")
    with misbehaving(files.folder) as first, misbehaving(later.folder) as second:
        day = Day(FIRST_DAY, folder / "first", first.url, None)
        yield day, Day(SECOND_DAY, folder / "second", second.url, day.undisturbed.data)


def test_a_call_that_fails_is_one_line_and_the_next_run_completes(some: Some, days: Sequence[Day]) -> None:
    day = days[some.day]
    for fault in some.faults(day.calls):
        project = day.project()
        assert_told(day.run(project, fault), fault)
        assert_sound(as_found(project))
        assert_completes(day, project, fault)


def test_a_power_cut_loses_no_version(some: Some, days: Sequence[Day], tmp_path: Path) -> None:
    day = days[some.day]
    for fault in some.faults(day.calls):
        project = day.project()
        disk = tmp_path / "disk"
        flushed(project.data, disk)
        if day.run(project, fault, disk).met(fault):
            cut_power(project.data, disk)
        assert_sound(as_found(project))
        assert_completes(day, project, fault, is_cut=True)
        shutil.rmtree(disk)


def test_what_is_written_in_parts_is_whole(days: Sequence[Day]) -> None:
    """A write may take a part of the bytes only and return how many. Here each write takes half."""
    day, project = days[1], days[1].project()
    ended = day.run(project, Fault("write", 1, SHORT, lasting=True))
    assert (ended.status, ended.said) == (0, "")
    assert_sound(project)
    assert state(project) == day.end


def assert_told(ended: Run, fault: Fault) -> None:
    """Asserts that there is one line that says what was kept, or none if the harvest is complete."""
    lines, what = ended.said.splitlines(), (str(fault), ended)
    if ended.status == 0:
        assert not lines, what
        return
    assert (ended.status, len(lines)) == (1, 1), what
    assert ended.met(fault), what
    assert lines[0].startswith("ERROR: "), what
    assert "nothing" in lines[0] or "no request" in lines[0], what


def assert_completes(day: Day, project: Project, fault: Fault, *, is_cut: bool = False) -> None:
    """Asserts that the next run leaves what an undisturbed harvest leaves.

    The queue is flushed less often than the history, so a power cut after the end of a harvest may bring back
    requests that were done. The next run takes them for pushed ones: it makes one more harvest, which asks
    for no tile that the history has.
    """
    again = visit(project, day.name)
    assert (again.status, again.said) == (0, ""), str(fault)
    assert_sound(project)
    found = state(project)
    if is_cut:
        pushed = project.query(
            "SELECT day, reason FROM harvests WHERE walk = 'pushed'"
            " AND id NOT IN (SELECT harvest FROM harvest_counts)"
        )
        assert pushed in ([], found.ends[-1:]), str(fault)
        found = found._replace(ends=found.ends[: len(found.ends) - len(pushed)])
    assert found == day.end, str(fault)


def as_found(project: Project) -> Project:
    """Returns a copy of the project whose database was opened once, so that SQLite has made up for the crash.
    The project itself stays as the crash left it."""
    copy = Project(project.folder.with_name("found"))
    shutil.rmtree(copy.folder, ignore_errors=True)
    shutil.copytree(project.folder, copy.folder)
    if copy.database.exists():
        with closing(sqlite3.connect(copy.database)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return copy
