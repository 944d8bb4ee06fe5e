"""The README's demo, done to the letter: what its commands show is what the page says."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from tests.end_to_end.forking import ROOT

PAGE: Final = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS: Final = re.findall(r"^    \$ (.+)$", PAGE, re.MULTILINE)
"""What a person types in one terminal, after `make demo`."""


def run_demo(folder: Path) -> tuple[str, str, list[dict[str, Any]]]:
    """In a folder with the project's scrapy.cfg, so that the checkout's own data is left alone.

    Returns what the demo and the terminal have shown, and the viewer's maps.
    """
    shutil.copy(ROOT / "scrapy.cfg", folder)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    write_program(programs / "activate", f"PATH={programs}:$PATH; export PYTHONPATH={ROOT}")
    write_program(programs / "tileharvest", f'#!/bin/sh\nexec {sys.executable} -m tileharvest "$@"')
    demo = subprocess.run(
        [sys.executable, "-m", "tileharvest.demo", "--data", "data/demo"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    *before, serve = COMMANDS
    assert serve == "tileharvest serve"
    script = "\n".join(["set -e", *before, "exec tileharvest serve --port 0"])
    with subprocess.Popen(["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, text=True) as terminal:
        assert terminal.stdout is not None
        lines = []
        for line in terminal.stdout:
            lines.append(line)
            if line.startswith("the viewer is at "):
                break
        try:
            with urlopen(f"{lines[-1].split()[4]}api/v1/maps") as answer:
                return demo.stdout, "".join(lines), json.load(answer)["maps"]
        finally:
            terminal.terminate()


def write_program(file: Path, text: str) -> None:
    file.write_text(f"{text}\n", encoding="utf-8")
    file.chmod(0o755)


def numbers(text: str) -> list[list[str]]:
    """What the table of harvests says of each day but its date: walk and tiles."""
    rows = re.findall(r"^ *[\d-]{10} +(full|pruned) +((?:[\d,]+ +){6})", text, re.MULTILINE)
    return [[walk, *found.split()] for walk, found in rows]


def test_the_demo_is_as_the_page_says(tmp_path: Path) -> None:
    demo, terminal, maps = run_demo(tmp_path)
    ends = re.findall(r"^    demo, [\d-]+(: done; .*)$", PAGE, re.MULTILINE)
    assert ends
    assert all(line in demo for line in ends)
    assert len(numbers(PAGE)) == 3
    assert numbers(terminal) == numbers(PAGE)
    images = re.findall(r"world-day +(-1_-2_2) +([0-9a-f]{40}\.png)", PAGE)
    assert len(images) == 3
    assert re.findall(r"world-day +(-1_-2_2) +([0-9a-f]{40}\.png)", terminal) == images
    assert [(one["name"], one["days"]) for one in maps] == [("demo", 3)]
