"""The pruned walk: where the tiles below one need not be asked. Pure.

The law that it rests on: whenever something below a tile changes, the tile changes too, and is not older
than what lies below it. Overviewer draws every tile above a changed one anew and gives it the time of its
newest child (`_render_compositetile` in its tileset.py); Mapcrafter writes parents after their children. So
on a host that keeps these times an unchanged parent proves that nothing below it has changed.

The law gets broken: some hosts re-date every file with each upload, others keep a parent whose bytes happen
to be the same, and Overviewer's `--check-tiles` removes tiles without touching those above (`_nuke_path`). So
it is proved from what the history knows, checked by asking some of what was spared, and never relied on for
long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from hashlib import blake2b
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from tileharvest.tiles.grid import Tile

ONE_UPLOAD: Final = 600.0
"""Seconds. An upload that gives every file the present time spreads them over its own duration, minutes for
maps of some thousand tiles; renders that are kept apart are hours apart, in the nearest case known one hour.
A longer upload in another order than children first shows as broken pairs anyway."""

_NOTHING_SAID: Final = Validator()
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """What is remembered of a tile's last answer."""

    etag: str | None
    """As the server wrote it."""
    last_modified: str | None
    """As the server wrote it."""
    is_trusted: bool
    """Whether the harvest that saw it has finished everything below without a failure."""

    def is_of(self, seen: Validator) -> bool:
        """Whether this and an answer seen now are of the same state.

        Dates are compared as they are written: one that is put back is another state. Without a date never:
        an ETag may be made from the bytes, and they can be the same although something below has changed.
        But a 304 need not repeat the date (RFC 9110, section 15.4.5): none is missed where the ETag holds it.
        """
        if self.last_modified is None or Validator(self.etag).entity != seen.entity:
            return False
        return seen.last_modified == self.last_modified or (
            seen.last_modified is None and _holds_date(self.etag, self.last_modified)
        )


def may_skip(mark: Mark | None, seen: Validator) -> bool:
    """Whether what lies below a tile need not be asked, where its own outcome is `ign`."""
    return mark is not None and mark.is_trusted and mark.is_of(seen)


def remembers(mark: Mark | None, seen: Validator, *, is_on_walk: bool = True) -> Validator | None:
    """What is to be recorded of a tile after an answer, None if nothing.

    Also where only trust is missing: a harvest trusts what it has seen itself. Of a tile that is missing hand
    in an empty validator, which makes it forget what was remembered.

    `is_on_walk`: whether the tile was asked for the first time in this harvest, and on the way down. Asked
    again after a lost lease, or where the walk did not reach it, it may be younger than what was found below
    it; audited, nothing below it was asked. Such an answer would vouch for changes that nobody has seen: so
    the older one is kept, which the next harvest will not find again.
    """
    if may_skip(mark, seen):
        return None
    if seen == _NOTHING_SAID:
        return None if mark is None or Validator(mark.etag, mark.last_modified) == seen else seen
    if mark is not None and mark.is_of(seen):
        seen = Validator(seen.etag, mark.last_modified)
    return seen if is_on_walk else None


def doubts(mark: Mark | None, seen: Validator) -> bool:
    """Whether an answer of which nothing is to be recorded is of another state than what is remembered: were
    that state put back, it would vouch for what was found below in the meantime."""
    return mark is not None and seen != _NOTHING_SAID and not mark.is_of(seen)


@dataclass(frozen=True, slots=True)
class Proof:
    """What the times of a layer's tiles say about the law."""

    pairs: int
    """Tiles that are known together with the tile above them."""
    broken: int
    """Those of the pairs in which the tile is newer than the one above."""
    undated: int
    """Tiles without a time that can be read."""
    span: float
    """Seconds between the oldest and the newest tile."""

    @property
    def holds(self) -> bool:
        return self.pairs > 0 and not self.broken and not self.undated and self.span >= ONE_UPLOAD

    @property
    def in_words(self) -> str:
        """Why it holds or does not, in one line."""
        if self.undated:
            return f"the site does not say when {_tiles(self.undated)} changed"
        if self.broken:
            return f"of {_tiles(self.pairs)} below another one {self.broken} changed after that one"
        if not self.pairs:
            return "no tile is known together with the one above it"
        if self.span < ONE_UPLOAD:
            return f"all tiles changed within {_duration(self.span)}, as in one upload"
        return f"none of {_tiles(self.pairs)} changed after the one above it, in {_duration(self.span)}"


def prove(times: Mapping[Tile, str | None]) -> Proof:
    """Of the tiles that are there, with their Last-Modified. To be asked after a complete full walk."""
    read = _Dates()
    seconds = {tile: read[text] for tile, text in times.items()}
    dated = [time for time in seconds.values() if time is not None]
    pairs = [
        (above, time)
        for tile, time in seconds.items()
        if time is not None and (above := seconds.get(tile.parent())) is not None
    ]
    return Proof(
        pairs=len(pairs),
        broken=sum(above < time for above, time in pairs),
        undated=len(seconds) - len(dated),
        span=max(dated) - min(dated) if dated else 0.0,
    )


class Wish(StrEnum):
    """`walk` in maps.toml."""

    AUTO = "auto"
    FULL = "full"
    PRUNED = "pruned"


class Decision(NamedTuple):
    """How a layer is walked, and why: one line for the log."""

    is_pruned: bool
    reason: str


def decide(
    wish: Wish,
    proof: Proof | None,
    withdrawn: str | None,
    last_full: date | None,
    today: date,
    full_every: int,
) -> Decision:
    """How a harvest walks a layer.

    `withdrawn` says why the last proof is not valid any more, None where it is. `last_full` is the day of the
    map's last finished harvest that was full from its beginning; None also where the last finished one kept
    other zooms or zones, as it vouches only for what it kept. `full_every` is the days from one full harvest
    to the next.
    """
    if wish is Wish.FULL:
        return Decision(False, "walk = full is set")
    if last_full is None:
        return Decision(False, "no full harvest is finished so far")
    if not 0 <= (today - last_full).days < full_every:
        return Decision(False, f"the last full walk was on {last_full}")
    if withdrawn is not None:
        return Decision(False, f"not to be relied on: {withdrawn}")
    if wish is Wish.PRUNED:
        return Decision(True, "walk = pruned is set")
    if proof is None:
        return Decision(False, "nothing is proved so far")
    return Decision(proof.holds, proof.in_words)


def audited(skipped: Sequence[Tile], share: float, least: int, seed: str) -> list[Tile]:
    """Which of the skipped tiles are asked all the same, in the order of `skipped`.

    Hand in the tiles that are known, and the empty places that a full walk would ask: no known tile shows
    that one was added where nothing above it was touched.

    The share of them, rounded up, but at least so many; all where there are fewer. Each tile is as likely as
    any other, and the same ones are drawn for the same seed, whoever asks and in whatever order they come: a
    harvest that is continued, perhaps by another worker, audits what it did before.
    """
    wanted = max(least, ceil(share * len(skipped)))
    if wanted >= len(skipped):
        return list(skipped)
    drawn = frozenset(sorted(skipped, key=lambda tile: _lot(tile, seed))[:wanted])
    return [tile for tile in skipped if tile in drawn]


def breaks_law(outcome: Outcome, *, is_known: bool = True) -> bool:
    """Whether what was found for an audited tile shows that the law does not hold: anything that is new.

    Where no tile was known (`is_known`) it is news that one is there, also at a zoom that is not kept.
    """
    expected = Outcome.IGNORED if is_known else Outcome.NOTHING
    return outcome not in {expected, Outcome.FAILED}


class _Dates(dict["str | None", "float | None"]):
    """HTTP dates in seconds, each read once: a layer's tiles share few dates, and reading one takes 10 us."""

    def __missing__(self, text: str | None) -> float | None:
        self[text] = _seconds(text)
        return self[text]


def _seconds(text: str | None) -> float | None:
    """None for what is no date."""
    try:
        return None if text is None else parsedate_to_datetime(text).replace(tzinfo=UTC).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _holds_date(etag: str | None, date: str) -> bool:
    """In seconds as nginx writes it, or in microseconds as Apache does: then equal ETags have equal dates."""
    seconds = _seconds(date)
    numbers = [int(digits, 16) for digits in _HEXADECIMAL.findall(etag or "")]
    return any(seconds in (number, number // 1_000_000) for number in numbers)


def _lot(tile: Tile, seed: str) -> bytes:
    return blake2b(f"{seed} {tile}".encode(), digest_size=16).digest()


def _tiles(count: int) -> str:
    return f"{count:,} tile{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
