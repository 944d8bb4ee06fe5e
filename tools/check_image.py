#!/usr/bin/env python3
"""Checks Dockerfile and compose.yaml where no container engine runs; `make image-check` prepares and runs it.

    check_image.py [--base FOLDER]

1. A clean Debian is made by debootstrap, and the Dockerfile's very commands run in it by chroot.
2. The image's commands run in it as its user, each as process 1 of a PID namespace, on a read-only root:
   viewer, harvest, scrapyd, two workers on Redis and PostgreSQL, and for each the healthcheck and SIGTERM.

This differs from an engine: Python is Debian's, of the same version, instead of python:slim's in /usr/local;
there are no layers, cgroups or capabilities; no init runs before process 1; all containers share a loopback.

It needs root, and Debian's debootstrap, redis-server, postgresql and git. It leaves nothing behind: mounts,
network and processes belong to namespaces that end with this program, even when it is killed. Folders are
removed, unless it is killed by SIGKILL; then they remain as /tmp/tileharvest-*.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

PROJECT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from tools.image.build import Build, Image, say  # noqa: E402
from tools.image.checks import ALL  # noqa: E402
from tools.image.dockerfile import DockerfileError  # noqa: E402
from tools.image.namespaces import own_mounts, own_network  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", type=Path, help="a Debian that an earlier run made, instead of a new one")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0:
        sys.stderr.write("check_image.py: chroot and mount are root's: run it with sudo\n")
        return 2
    signal.signal(signal.SIGTERM, _undo)
    began = time.monotonic()
    try:
        with workplace() as folder:
            own_mounts()
            say("building")
            image = Build(PROJECT, folder, options.base).build()
            own_network()
            run_checks(image, folder)
    except (AssertionError, DockerfileError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"check_image.py: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    say(f"the image is fine ({time.monotonic() - began:.0f} s)")
    return 0


def _undo(*_: object) -> None:
    """Ends the program and undoes what was begun, as Ctrl-C does. A second signal does not wait for that."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(128 + signal.SIGTERM)


@contextmanager
def workplace() -> Iterator[Path]:
    """Makes a folder that the image's user may pass through, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="tileharvest-image-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def run_checks(image: Image, folder: Path) -> None:
    say("running")
    with ExitStack() as stack:
        for check in ALL:
            began = time.monotonic()
            found = check(image, folder, stack)
            say(f"  {time.monotonic() - began:5.1f} s  {(check.__doc__ or '').partition(chr(10))[0]} {found}")


if __name__ == "__main__":
    sys.exit(main())
