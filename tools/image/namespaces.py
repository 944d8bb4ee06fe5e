"""Linux' namespaces: mounts, networks and processes in them end with the last process in them."""

# ruff: noqa: S603, S607 -- it runs what the Dockerfile says, with Debian's programs

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOUNTS: Final = 0x00020000
_NETWORK: Final = 0x40000000
"""CLONE_NEWNS and CLONE_NEWNET of <linux/sched.h>; Python has them from 3.12 on."""


def own_mounts() -> None:
    """Gives this process mounts of its own: nobody else sees what it mounts, and no mount outlives it."""
    _unshare(_MOUNTS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def own_network() -> None:
    """Gives this process and its children a network of their own: a loopback with all ports free."""
    _unshare(_NETWORK)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


@contextmanager
def mounted_kernel_folders(root: Path) -> Iterator[None]:
    """Mounts /proc and /dev, which every program expects, until the block ends."""
    places = [root / "proc", root / "dev"]
    subprocess.run(["mount", "-t", "proc", "proc", places[0]], check=True)
    subprocess.run(["mount", "--bind", "/dev", places[1]], check=True)
    try:
        yield
    finally:
        for place in places:
            subprocess.run(["umount", "--lazy", place], check=True)


def _unshare(what: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(what):
        number = ctypes.get_errno()
        raise OSError(number, f"no namespace of its own: {os.strerror(number)}")
