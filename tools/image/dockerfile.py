"""Reads a Dockerfile and .dockerignore: as much of them as this project uses, and no more."""

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
    """Something that is not understood here, or that cannot be; one line."""


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    """In capitals."""
    text: str
    """The rest, with continued lines joined."""

    @property
    def words(self) -> list[str]:
        """The JSON form's, or the text's as a shell would split it."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)

    def command(self) -> list[str]:
        """What runs: in the JSON form as it stands, else by the shell."""
        return self.words if self.text.startswith("[") else ["/bin/sh", "-c", self.text]

    def pairs(self, known: Mapping[str, str]) -> dict[str, str]:
        """NAME=value ..., with what is known put in."""
        return {
            name: Template(value).safe_substitute(known)
            for name, _, value in (word.partition("=") for word in self.words)
        }


def instructions(text: str) -> Iterator[Instruction]:
    """In order. Comments are left out, also those between continued lines."""
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
    """What the image's settings have become; the files are elsewhere."""

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
        """Of an instruction that changes no file. Raises DockerfileError for one that is not known."""
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
    """Which files of the project an image's build does not get to see."""

    rules: Sequence[tuple[re.Pattern[str], bool]]
    """Patterns, each with whether it leaves out what it matches; the last that matches counts."""

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Ignored:
        meant = (line.strip() for line in lines)
        return cls([_rule(line) for line in meant if line and not line.startswith("#")])

    def __contains__(self, path: str) -> bool:
        """Of a path from the project's folder on. A rule for a folder holds for what is in it."""
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
