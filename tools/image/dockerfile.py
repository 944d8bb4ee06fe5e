"""The language of Dockerfile and .dockerignore: as much of it as this project uses, and no more."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class DockerfileError(Exception):
    """The Dockerfile has something wrong, or something that this check does not understand; one line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    """The instruction's name in capitals."""
    text: str
    """The rest of the instruction, with continued lines joined."""

    @property
    def words(self) -> list[str]:
        """The words of the JSON form, or of the text as a shell would split it."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)

    def command(self) -> list[str]:
        """Returns the command that runs: the JSON form as it stands, any other text through the shell."""
        return self.words if self.text.startswith("[") else ["/bin/sh", "-c", self.text]

    def pairs(self, known: Mapping[str, str]) -> dict[str, str]:
        """Returns the pairs of `NAME=value ...`, in which known variables are replaced by their values."""
        return {
            name: Template(value).safe_substitute(known)
            for name, _, value in (word.partition("=") for word in self.words)
        }


def instructions(text: str) -> Iterator[Instruction]:
    """Yields the instructions in order. Comments are left out, even those between continued lines."""
    pending = ""
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        name, _, rest = pending.partition(" ")
        yield Instruction(name.upper(), " ".join(rest.split()) if name.upper() != "RUN" else rest.strip())
        pending = ""


@dataclass(slots=True)
class Stage:
    """The settings of an image at the end of a stage. Its files are elsewhere."""

    name: str
    base: str
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    volumes: list[str] = field(default_factory=list)
    stop_signal: str = "SIGTERM"

    def take(self, instruction: Instruction) -> None:
        """Takes the setting of an instruction that changes no file.

        Raises DockerfileError for an unknown instruction.
        """
        name, words = instruction.name, instruction.words
        if name in ("ENV", "LABEL"):
            known = self.environment if name == "ENV" else self.labels
            known |= instruction.pairs(known)
        elif name == "USER":
            self.user = words[0]
        elif name == "VOLUME":
            self.volumes += words
        elif name == "STOPSIGNAL":
            self.stop_signal = words[0]
        elif name == "ENTRYPOINT":
            self.entrypoint = instruction.command()
        elif name == "CMD":
            self.command = instruction.command()
        elif name == "HEALTHCHECK":
            self.healthcheck = Instruction("CMD", instruction.text.partition("CMD ")[2]).command()
        elif name != "EXPOSE":
            raise DockerfileError(f"{name} {instruction.text}: not understood by this check")


@dataclass(frozen=True, slots=True)
class Ignored:
    """The files of the project that an image's build does not see."""

    rules: Sequence[tuple[re.Pattern[str], bool]]
    """Patterns, each with True if it leaves out what it matches. The last pattern that matches counts."""

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Ignored:
        meant = (line.strip() for line in lines)
        return cls([_rule(line) for line in meant if line and not line.startswith("#")])

    def __contains__(self, path: str) -> bool:
        """Tells whether a path, relative to the project's folder, is left out.

        A rule for a folder holds for all that is in it.
        """
        parts = path.split("/")
        lines = ["/".join(parts[: count + 1]) for count in range(len(parts))]
        is_out = False
        for pattern, leaves_out in self.rules:
            if any(pattern.fullmatch(line) for line in lines):
                is_out = leaves_out
        return is_out


def _rule(line: str) -> tuple[re.Pattern[str], bool]:
    escaped = re.escape(line.removeprefix("!").strip("/"))
    pattern = escaped.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
    return re.compile(pattern), not line.startswith("!")
