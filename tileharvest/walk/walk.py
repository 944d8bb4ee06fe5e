"""The walk over one layer: which tiles are asked, and what follows from each answer.

A harvest goes down the pyramid from its top. A renderer draws a parent for every tile it has, so nothing lies
below a tile that is missing. Holes, which make up most of a real map's square, are therefore never visited.
If nobody says how far a layer reaches, the walk also goes sideways along its top, from tile to tile.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from heapq import nsmallest
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from tileharvest.tiles.block import bits_of, blocks_in, blocks_of, joined, mask_of, mask_within
from tileharvest.tiles.grid import TileRange
from tileharvest.tiles.outcomes import MISSING, THERE, Outcome, tiles_with
from tileharvest.tiles.verdict import OK, Answer
from tileharvest.tiles.versions import Validator
from tileharvest.walk.proof import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileharvest.tiles.block import Block
    from tileharvest.tiles.grid import Tile, Zone
    from tileharvest.tiles.pyramid import Pyramid
    from tileharvest.walk.change_index import ChangedGround

LEVELS_ABOVE: Final = 3
"""How many levels above the coarsest kept zoom the walk starts, if there are zones and only deep zooms are
kept. One question there decides about 4^3 = 64 tiles. A start at the top would spend questions on levels at
which tiles are known to exist."""

LEAST_AUDITED: Final = 20
"""The least number of tiles that an audit asks in each layer. If 20 tiles are all unchanged, it is 95 % sure
that fewer than 14 % of the skipped tiles have changed (1 - 0.05^(1/20))."""

LEAST_KNOWN: Final = 3
"""The least number of known tiles that an audit asks in each layer, also that of a change index. If an index
misses a whole render, the share of audited tiles that show it is the share of tiles that the render has
changed. An index that forgets a single tile now and then is found late."""


Mark: TypeAlias = tuple[str | None, str | None]
"""The ETag and the Last-Modified of a tile's last answer, as the server wrote them."""
_ABSENT: Final = Validator()
"""The validator of a tile that is not there, and of a server that sends none."""
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+")


class Asked(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """How a tile is asked for."""

    late: bool = False
    """Whether tiles below this one may have been asked before it. That is so if the walk did not reach the
    tile, if it is audited, and if it is asked again. Its answer may then be younger than what was found below
    it."""
    in_full: bool = False
    """Whether everything below the tile is asked although its layer's walk is pruned, because trust was
    withdrawn."""
    audited: bool = False
    """Whether the tile was skipped and is asked for the audit. If it is unchanged, the tiles below it stay
    skipped, and they are asked later if the audit breaks the proof."""

    @property
    def below(self) -> Asked:
        """How the tiles below this one are asked for."""
        return IN_FULL if self.in_full else ON_WALK


ON_WALK: Final = Asked()
"""For a tile that is asked for the first time in a harvest, on the way down."""
LATE: Final = Asked(late=True)
IN_FULL: Final = Asked(in_full=True)


class Audit(NamedTuple):
    """The tiles of a layer that are asked to see whether skipping was right."""

    tiles: Sequence[Tile] = ()
    known: frozenset[Tile] = frozenset()
    """The tiles among them that the history knows. The others are expected not to exist."""
    is_of_index: bool = False
    """Whether the tiles were skipped because a change index did not name them."""

    def broken(self, found: Mapping[Tile, Outcome]) -> list[Tile]:
        """Returns the audited tiles whose outcome shows that it was wrong to skip them.

        A known tile must be unchanged. At a place where no tile was known there must still be none, also at a
        zoom that is not kept. A failed request shows nothing. A change index lists changed images, so a file
        that was written again with the same bytes (`nMod`) does not make it wrong.
        """
        right = {Outcome.FAILED, Outcome.NOT_MODIFIED} if self.is_of_index else {Outcome.FAILED}
        return [
            tile
            for tile, outcome in found.items()
            if outcome not in right
            and outcome is not (Outcome.IGNORED if tile in self.known else Outcome.NOTHING)
        ]


class Walk:
    """The walk over one layer."""

    def __init__(
        self, pyramid: Pyramid, zooms: tuple[int, int] | None = None, zones: tuple[Zone, ...] = ()
    ) -> None:
        """`zooms` are the coarsest and the deepest zoom to keep; None keeps all zooms of the layer. Without
        `zones` the whole layer is kept. Raises ValueError if no tile that is kept could ever be asked for."""
        coarsest, deepest = zooms or (pyramid.first, 0)
        coarsest = max(pyramid.first, coarsest)
        if coarsest > deepest:
            raise ValueError(
                f"a layer of depth {pyramid.depth} has the zooms {pyramid.first} to 0,"
                f" none of those that are kept"
            )
        self.pyramid = pyramid
        self.zones = zones
        self.coarsest = coarsest
        """The first zoom that is kept."""
        self.deepest = deepest
        """The last zoom that is asked for."""
        self.kept_zooms = range(coarsest, deepest + 1)
        """The zooms that are kept. Tiles of other zooms on the way are only asked whether they exist."""
        self.top = max(pyramid.first, coarsest - LEVELS_ABOVE) if zones else pyramid.first
        """The zoom at which the walk starts.

        Without zones that is the first level, even if only deep zooms are kept. A map of depth 17 would have
        more squares three levels above its deepest zoom than the whole map has tiles.
        """
        self._zooms_above = range(self.top, deepest)
        """The zooms below which the walk goes on."""
        self.goes_sideways = pyramid.is_endless and not zones
        """Whether the walk goes sideways along its top. Zones say themselves how far it goes."""
        self._ranges = {zoom: self._ranges_at(zoom) for zoom in range(self.top, deepest + 1)}
        if not self._ranges[self.top]:
            raise ValueError(f"no zone lies within a layer of depth {pyramid.depth}")

    @property
    def sideways(self) -> tuple[TileRange, ...]:
        """The tiles along which the walk goes sideways: all of its top, or none."""
        return self._ranges[self.top] if self.goes_sideways else ()

    @property
    def start_size(self) -> int:
        """The number of tiles with which a walk over an area or over zones begins."""
        return sum(map(len, self._ranges[self.top]))

    def start_blocks(self, layer: str) -> Iterator[Block]:
        """Yields the blocks to ask for first, each once, although zones may overlap. `layer` is the layer's
        name. There may be tens of thousands, so no list of their tiles is made."""
        pyramid, ranges = self.pyramid, self._ranges[self.top]
        if self.goes_sideways:
            yield from blocks_of(layer, pyramid.seeds)
        elif pyramid.there is not None and not self.zones:
            # The list of the site is the only edge, so the range is far too large to go through.
            yield from blocks_of(layer, (tile for tile in pyramid.there.at(self.top) if tile in ranges[0]))
        else:
            yield from filter(None, map(self.within, blocks_in(layer, ranges)))

    def start(self) -> Iterator[Tile]:
        """Yields the tiles of `start_blocks`."""
        return (tile for block in self.start_blocks("") for _, tile in block.tiles())

    def start_on(self, layer: str, ground: ChangedGround) -> list[Block]:
        """Returns the blocks to ask for first if the walk keeps to a ground. For an endless layer these have
        all tiles of the ground at the top, because no tile around them may lead the walk to them."""
        ranges = self._ranges[self.top]
        return blocks_of(layer, (tile for tile in ground.tiles() if any(tile in one for one in ranges)))

    def blocks_below(self, block: Block) -> list[Block]:
        """Returns the blocks below these tiles to ask for next. There are none above the walk's start, such
        as below a tile that a person has pushed, and below its deepest zoom."""
        below = block.below(self.pyramid.factor) if block.zoom in self._zooms_above else ()
        return [one for child in below if (one := self.within(child)) is not None]

    def below(self, tile: Tile) -> list[Tile]:
        """Returns the tiles of `blocks_below`, below a single tile."""
        (block,) = blocks_of("", [tile])
        return [one for below in self.blocks_below(block) for _, one in below.tiles()]

    def within(self, block: Block) -> Block | None:
        """Returns the block with those of its tiles that the walk may ask for, or None if there are none."""
        there, ranges = self.pyramid.there, self._ranges.get(block.zoom, ())
        kept = block.only(mask_within(ranges, block.column, block.row))
        if kept is None or there is None:
            return kept
        return kept.only(there.mask_of(kept))

    def steps(
        self,
        block: Block,
        outcomes: Mapping[Outcome, int],
        answers: Mapping[int, Answer | Exception],
        marks: Mapping[int, Mark],
        trusted: int,
        asked: Asked,
        *,
        is_pruned: bool,
    ) -> tuple[dict[int, Validator], int, int]:
        """Returns what the answers about a block's tiles mean for the walk: what to remember of them, the
        unchanged tiles below which nothing is asked, and those that are not to be trusted any more.

        `outcomes` has the judged tiles by outcome. `marks` are what the history remembers of tiles, and
        `trusted` says of which of them the harvest that saw the answer has asked everything below without a
        failure. Of a missing tile an empty validator is remembered, which makes the history forget it.

        A tile without an ETag vouches for the tiles below it only if its size was compared with the known
        one. The date alone is not enough: a tile has the time of its newest child, so it looks unchanged when
        another tile below it was removed.

        An answer that equals a mark without trust is recorded, too, because a harvest trusts what it has seen
        itself.

        A late answer (`Asked.late`) would vouch for changes below it that nobody has seen, unless nothing
        lies below. The older mark is therefore kept. If the late answer is of another state, the mark is
        doubted. Otherwise the old state, should the site ever put it back, would vouch for what was found
        below in the meantime.
        """
        there, missing = tiles_with(THERE, outcomes), tiles_with(MISSING, outcomes)
        same = same_states(marks, answers) & there
        proved = same & trusted
        unchanged = outcomes.get(Outcome.IGNORED, 0)
        skips, doubts, seen = 0, 0, dict[int, Validator]()
        if block.zoom in self._zooms_above:
            if asked.audited:
                skips = unchanged
            elif is_pruned:
                skips = _compared(unchanged & proved, answers, is_kept=block.zoom in self.kept_zooms)
        for bit in bits_of(there & ~proved & ~skips):
            answer, mark = answers[bit], marks.get(bit)
            assert isinstance(answer, Answer)
            said, is_same = answer.validator, same >> bit & 1
            if said == _ABSENT:
                if mark is not None:
                    seen[bit] = said
            elif asked.late and block.zoom < self.deepest:
                doubts |= (mark is not None and not is_same) << bit
            elif mark is not None and is_same:
                # The answer may have left out the date.
                seen[bit] = Validator(said.etag, mark[1])
            else:
                seen[bit] = said
        for bit in bits_of(missing & mask_of(marks)) if missing else ():
            seen[bit] = _ABSENT
        return seen, skips, doubts

    def audit(
        self,
        known: Sequence[Block],
        tops: Sequence[Block],
        share: float,
        seed: str,
        *,
        is_of_index: bool = False,
    ) -> Audit:
        """Returns the audit of this share of the skipped tiles. The same seed gives the same audit.

        `known` are the skipped tiles that are known. `tops` are the unchanged tiles below which they were
        skipped; there are none for a change index. A tile that was added below an unchanged one is in neither
        list. So the audit draws from all places right below these tiles, as far as their zooms are kept.
        Tiles above the coarsest kept zoom are in no list, but they exist, so the places below them count as
        well.

        Most of these places may be empty. So at least `LEAST_KNOWN` of the drawn tiles are known ones.
        """
        above = [block for block in (*tops, *known) if block.zoom in self._zooms_above]
        if self.coarsest > self.top:
            factor = self.pyramid.factor
            for block in known:
                if block.zoom == self.coarsest:
                    above += blocks_of(block.layer, (tile.parent(factor) for _, tile in block.tiles()))
        below = chain.from_iterable(map(self.blocks_below, joined(above)))
        places = joined((*known, *(block for block in below if block.zoom in self.kept_zooms)))
        least = 0 if is_of_index else LEAST_AUDITED
        chosen = {*drawn(places, share, least, seed), *drawn(known, 0, LEAST_KNOWN, seed)}
        skipped = frozenset(tile for block in known for _, tile in block.tiles())
        return Audit(sorted(chosen), skipped & chosen, is_of_index)

    def kept(self) -> tuple[TileRange, ...]:
        """Returns all tiles that are kept, as ranges. Ranges of several zones may overlap."""
        return tuple(r for zoom in self.kept_zooms for r in self._ranges[zoom])

    def kept_below(self, tile: Tile) -> list[TileRange]:
        """Returns all kept tiles within the tile's square, the tile itself included, as ranges."""
        square, factor = TileRange.of(tile), self.pyramid.factor
        parts = (r.intersection(square.at_zoom(r.zoom, factor)) for r in self.kept() if r.zoom >= tile.zoom)
        return [part for part in parts if part is not None]

    def _ranges_at(self, zoom: int) -> tuple[TileRange, ...]:
        whole = self.pyramid.range_at(zoom)
        if not self.zones:
            return (whole,)
        factor = self.pyramid.factor
        parts = (zone.tiles().at_zoom(zoom, factor).intersection(whole) for zone in self.zones)
        return tuple(part for part in parts if part is not None)


def drawn(blocks: Sequence[Block], share: float, least: int, seed: str) -> list[Tile]:
    """Returns the share of the blocks' tiles, rounded up, but at least `least`, and all if there are fewer.

    No two blocks have a tile in common. Together they may have as many tiles as a map, so no list of these is
    made. Each is as likely as any other. The same seed draws the same tiles, whoever draws and in whatever
    order they come. So a harvest that another worker continues audits the same tiles.
    """
    wanted = max(least, ceil(share * sum(map(len, blocks))))

    def lot(tile: Tile) -> bytes:
        return blake2b(f"{seed} {tile}".encode(), digest_size=16).digest()

    return nsmallest(wanted, (tile for block in blocks for _, tile in block.tiles()), key=lot)


def _compared(unchanged: int, answers: Mapping[int, Answer | Exception], *, is_kept: bool) -> int:
    """Returns those of the unchanged tiles whose ETag or size was compared with the known one."""
    compared = 0
    for bit in bits_of(unchanged):
        answer = answers[bit]
        assert isinstance(answer, Answer)
        if answer.validator.etag is not None or (is_kept and answer.status == OK):
            compared |= 1 << bit
    return compared


def same_states(marks: Mapping[int, Mark], answers: Mapping[int, Answer | Exception]) -> int:
    """Returns the tiles whose answer is of the same state as their mark, as a mask.

    ETag and date must both be the same. Dates are compared as they are written, so that an older date is
    another state, too. A mark without a date is never of the same state: an ETag may be made from the bytes,
    and these can be the same although something below the tile has changed. The answer may lack the date,
    because a 304 need not repeat it (RFC 9110, section 15.4.5). Then the ETag must hold the date.
    """
    same = 0
    for bit, (etag, date) in marks.items():
        answer = answers.get(bit)
        if date is None or answer is None or isinstance(answer, Exception):
            continue
        seen = answer.validator
        if etag != seen.etag and Validator(etag).entity != seen.entity:
            continue
        if seen.last_modified == date or (seen.last_modified is None and _holds_date(etag, date)):
            same |= 1 << bit
    return same


def _holds_date(etag: str | None, date: str) -> bool:
    """Returns whether the ETag holds the date: in seconds, as nginx writes it, or in microseconds, as Apache
    does.

    If so, equal ETags mean equal dates.
    """
    seconds = seconds_of(date)
    numbers = [int(digits, 16) for digits in _HEXADECIMAL.findall(etag or "")]
    return any(seconds in (number, number // 1_000_000) for number in numbers)
