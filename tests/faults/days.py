"""Two small harvests for the tests of faults, with the data before each and the result undisturbed."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.crash.soundness import State, assert_sound, state
from tests.end_to_end.project import Project
from tests.faults.faults import NONE, Fault, Run, run


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
