"""TileHarvest as its users have it: without a checkout and without `scrapy.cfg`."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
"""The Python that runs the tests, and has the dependencies."""
SUPPORTED: Final = tuple(
    last for one in PROJECT["classifiers"] if (last := one.rpartition(" :: ")[2]).startswith("3.")
)


class Installed(NamedTuple):
    python: Path

    @property
    def environment(self) -> dict[str, str]:
        """A user's shell, without the variables that lead to the checkout or to other data."""
        foreign = ("PYTHON", "SCRAPY_", "TILEHARVEST_", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return kept | {"PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}

    def run(self, folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a program in that folder. With `check` it must end with 0."""
        done = subprocess.run(
            [self.python.with_name(words[0]), *words[1:]],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )
        assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    @contextmanager
    def running(self, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Runs a program until the block ends, and then kills it."""
        with subprocess.Popen(
            [self.python.with_name(words[0]), *words[1:]],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        ) as process:
            try:
                yield process
            finally:
                process.kill()
