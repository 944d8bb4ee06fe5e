"""The flat walk: that over a layer of one zoom, such as a canvas, most of whose places are empty. Pure.

No tile above shows where a layer of one zoom is empty, so its first harvest asks for all of its places. Later
ones ask for every block in which there is a tile, and each day for a share of the other blocks: within
`full_every` days each of them has its turn.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date

    from tileharvest.tiles.block import Block

_BESIDE: Final = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]


class EarlierBlock(NamedTuple):
    """What earlier harvests have found in a block."""

    day: date | None
    """The day of the last harvest that has asked in the block. None if it is not known, or is under way."""
    asked: int
    """The tiles that were ever asked, without those that have failed since."""
    present: int
    """The tiles that exist by their latest versions."""
    days: int
    """The number of days on which a tile of the block was new, changed or gone."""


class FlatStart(NamedTuple):
    """The blocks that a flat walk asks for, in their order."""

    blocks: list[tuple[Block, bool]]
    """Each with whether it comes after all others: what has changed before does not, the most often changed
    first. Then comes what never changed, what was never asked, and empty blocks, first those beside a
    tile."""
    is_all: bool
    """Whether no block is left out."""


def flat_start(
    blocks: Iterable[Block], earlier: Mapping[tuple[int, int], EarlierBlock], today: date, every: int
) -> FlatStart:
    """Returns the blocks to ask for of a layer of one zoom.

    `earlier` are the blocks by column and row in which a harvest has asked. `every` is `full_every`: an empty
    block is asked again after so many days at the latest.
    """
    ranked: list[tuple[int, Block]] = []
    is_all = True
    for block in blocks:
        place = block.column, block.row
        before = earlier.get(place)
        if before is None or before.asked & block.mask != block.mask:
            ranked.append((1, block))
        elif before.present:
            ranked.append((-before.days if before.days > 1 else 0, block))
        elif before.day is None or has_turn(place, before.day, today, every):
            beside = (earlier.get((place[0] + x, place[1] + y)) for x, y in _BESIDE)
            ranked.append((2 if any(one is not None and one.present for one in beside) else 3, block))
        else:
            is_all = False
    ranked.sort(key=itemgetter(0))
    return FlatStart([(block, rank >= 0) for rank, block in ranked], is_all)


def has_turn(place: tuple[int, int], last: date, today: date, every: int) -> bool:
    """Returns whether an empty block, given by column and row, is asked again today.

    Each block has its turn on one of `every` days, and neighbours on different ones. A turn that fell on a
    day without a harvest is made up for by the next harvest.
    """
    turn = (place[0] + 3 * place[1]) % every
    return (last.toordinal() - turn) // every < (today.toordinal() - turn) // every
