"""A cache of composed pictures, in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Picture:
    """A composed picture."""

    body: bytes
    """A PNG file."""
    whole: bool
    """False where an image that belongs in it could not be read."""


class PictureMemory:
    """The pictures used last, by their keys. May be used by several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._room = most_bytes
        self._pictures: OrderedDict[str, Picture] = OrderedDict()
        self._making: dict[str, Future[Picture]] = {}
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Picture]) -> Picture:
        """Returns the picture of that key. Makes it if it is not there; others who want it meanwhile wait.

        `make` may ask for other pictures, as long as no circle comes of it. What it raises is raised to all
        who wait. A picture that is not whole is not kept, because its images may be restored.
        """
        with self._lock:
            kept = self._pictures.get(key)
            if kept is not None:
                self._pictures.move_to_end(key)
                return kept
            making = self._making.get(key)
            mine = Future[Picture]()
            if making is None:
                self._making[key] = mine
        return self._made(key, make, mine) if making is None else making.result()

    def _made(self, key: str, make: Callable[[], Picture], promised: Future[Picture]) -> Picture:
        try:
            picture = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            promised.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            if picture.whole:
                self._keep(key, picture)
        promised.set_result(picture)
        return picture

    def _keep(self, key: str, picture: Picture) -> None:
        self._pictures[key] = picture
        self._room -= len(picture.body)
        # The newest one stays, whatever its size: who made it may need it at once.
        while self._room < 0 and len(self._pictures) > 1:
            _, oldest = self._pictures.popitem(last=False)
            self._room += len(oldest.body)
