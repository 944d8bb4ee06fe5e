"""The walks of a harvest over the layers of its map: how each is walked, what is asked, and what is
audited."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from tileharvest.errors import ConfigurationError
from tileharvest.history.change_indexes import stored_indexes
from tileharvest.history.schema import GIT_WALK, PUSHED_WALK
from tileharvest.history.site_files import MISSING, site_files_of
from tileharvest.history.trust import last_full, proofs
from tileharvest.renderers.xyz import is_plain
from tileharvest.tiles.block import blocks_of, joined
from tileharvest.tiles.grid import Tile
from tileharvest.walk.change_index import audited_share
from tileharvest.walk.decision import Decision, Decisions, decide
from tileharvest.walk.ends import CANVAS, NEIGHBOURS, TileCountGuard, most_tiles
from tileharvest.walk.flat import FlatStart, flat_start
from tileharvest.walk.walk import IN_FULL, Asked, Walk

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.history.site_files import SiteFile
    from tileharvest.maps.description import MapDescription
    from tileharvest.tiles.block import Block
    from tileharvest.tiles.layers import Layer
    from tileharvest.tiles.outcomes import Outcome
    from tileharvest.walk.change_index import ChangeIndex
    from tileharvest.walk.walk import Audit

_logger = logging.getLogger(__name__)

MOST_TOPS: Final = 10_000
"""The most known tiles of an endless layer's coarsest zoom with which a walk begins. A world of 400,000 by
400,000 blocks has that many tiles of 4,096 blocks. Other known tiles are asked at the end."""

TILE_MARK: Final = "#tile="
"""Follows the address of a map's page in the address of a tile that a person has pushed by its name:
`#tile=LAYER/TILE`. The layer may be missing if there is only one."""

_AUDITED = Asked(late=True, audited=True)
_PUSHED = Decision(
    is_pruned=False, reason="what was pushed after the segment's harvest is asked, and no more"
)
_TOLD = Decision(is_pruned=False, reason="git names the bytes of every tile")


class LayerWalk(NamedTuple):
    """A layer of the site with the walk over it."""

    layer: Layer
    walk: Walk


class Walks:
    """The walks of one harvest. Methods that take queries raise HistoryError."""

    def __init__(
        self,
        record: HarvestRecord,
        description: MapDescription,
        layers: Mapping[str, LayerWalk],
        decisions: Decisions,
        flat: Mapping[str, FlatStart],
        tops: Sequence[Block],
    ) -> None:
        self._record = record
        self._description = description
        self._layers = layers
        self._flat = flat
        """What is asked of layers of one zoom of which something is known."""
        self._tops = tops
        """The known tiles from which walks go on sideways."""
        self.decisions = decisions
        """How each layer is walked, and why. When trust is withdrawn, nothing is skipped any more."""
        self._repaired: set[str] = set()
        """The layers in which trust was withdrawn, so that this process asks for all of their tiles."""

    @classmethod
    def begin(
        cls,
        record: HarvestRecord,
        description: MapDescription,
        layers: Mapping[str, LayerWalk],
        tops: Sequence[Block],
        doubt: str | None,
        indexes: Mapping[str, ChangeIndex],
        *,
        anew: bool = False,
    ) -> Walks:
        """Decides how each layer is walked, and notes that in the history. Call it in a transaction.

        `tops` are the known tiles of endless layers at their coarsest zooms. `doubt` is the renderer's reason
        against a pruned walk, if it has one. `indexes` are the site's change indexes, by layer. `anew` says
        that everything is asked, whatever is known.
        """
        depths = {name: part.walk.pyramid.depth for name, part in layers.items()}
        flat: dict[str, FlatStart] = {}
        way = PUSHED_WALK if record.is_pushed else GIT_WALK if description.git is not None else None
        if way is not None:
            decided = Decisions(dict.fromkeys(depths, _PUSHED if record.is_pushed else _TOLD))
        else:
            if description.walk != "full" and not anew:
                for name, (_, walk) in layers.items():
                    is_flat = depths[name] == 1 and walk.pyramid.has_area
                    if is_flat and (earlier := record.earlier(name, walk.kept())):
                        blocks = walk.start_blocks(name)
                        flat[name] = flat_start(blocks, earlier, record.day, description.full_every)
            # If no block is left out, it is a full harvest.
            shared = [] if all(one.is_all for one in flat.values()) else flat
            decided = next_walks(record.history, description, depths, record.day, doubt, shared)
            relied_on = {
                name: one.change_index
                for name, one in decided.layers.items()
                if one.change_index is not None and name in indexes
            }
            decided = decided.with_grounds(record.read_indexes(indexes, relied_on), relied_on)
        # A harvest through git remembers nothing for the walk, so the next one that asks the site asks for
        # all.
        kept = None if way == GIT_WALK else kept_in_words(description)
        record.note_walk(way or decided.kind, decided.reason, kept)
        return cls(record, description, layers, decided, flat, tops)

    def first(self) -> Iterator[tuple[Block, bool]]:
        """Yields the blocks at which the walks start, each with whether it is asked after all others. These
        are blocks of a layer of one zoom that never changed, or are empty.

        For a layer without an edge, its known tiles of the coarsest zoom are among them, so that the walk
        also covers land that lies apart. Some of these may be in two blocks."""
        if self._record.is_pushed:
            return
        for name, (_, walk) in self._layers.items():
            flat, ground = self._flat.get(name), self.decisions.layers[name].ground
            if flat is not None:
                yield from flat.blocks
            elif ground is not None:
                yield from ((block, False) for block in walk.start_on(name, ground))
            else:
                known = (block for block in self._tops if block.layer == name)
                yield from ((block, False) for block in chain(walk.start_blocks(name), known))

    def within_ground(self, block: Block, asked: Asked) -> Block | None:
        """Returns those of the tiles below or beside other ones that are asked for, or None if there are
        none. `asked` says how the others were asked."""
        ground = self.decisions.layers[block.layer].ground
        if ground is None or asked.in_full:
            return block
        return block.only(ground.mask_of(block))

    def audit(self) -> list[tuple[Block, Asked]]:
        """Returns the blocks that must be asked before the harvest may end, and how. Takes queries.

        There are none if skipping was right, or if all that was skipped wrongly has been asked. Call it when
        all results are recorded. A layer's audit is judged when all of its audited tiles have an answer.
        Otherwise the result would depend on the order of answers.
        """
        distrusted = dict(self._record.distrusted())
        wanted: list[tuple[Block, Asked]] = []
        for name in self._layers:
            breach = (distrusted[name], False) if name in distrusted else None
            if breach is None:
                audits = self.to_audit(name)
                tiles = [tile for audit in audits for tile in audit.tiles]
                found = self._record.outcomes(name, tiles) if tiles else {}
                missing = [tile for tile in tiles if tile not in found]
                wanted += [(block, _AUDITED) for block in blocks_of(name, missing)]
                breach = None if missing else self._breach(name, audits, found)
            if breach is not None:
                wanted += [(block, IN_FULL) for block in self.distrust(name, *breach)]
        return wanted

    def to_audit(self, layer: str) -> list[Audit]:
        """Returns the audits of the skipped tiles of a layer. They are the same whenever this is called. It
        takes a quarter of a second for 20,000 tiles.

        Tiles that were skipped because of their times, and those skipped because of a change index, have an
        audit each.
        """
        decision, share = self.decisions.layers[layer], self._description.audit
        ground, index = decision.ground, decision.change_index
        if not (decision.is_pruned or ground is not None) or share == 0:
            return []
        walk, record = self._layers[layer].walk, self._record
        skipped, tops = record.skipped(layer, walk.kept()), record.tops(layer)
        # Each harvest has another seed, which is the same for all of its processes.
        seed = record.identity
        if ground is None:
            return [walk.audit(skipped, tops, share, seed)]
        # A tile that an audit of the index has found unchanged is a top, too, but outside of the ground.
        less = audited_share(share, 0 if index is None else index.confirmed)
        inside, tops = (
            [part for block in blocks if (part := block.only(ground.mask_of(block)))]
            for blocks in (skipped, tops)
        )
        outside = [part for block in skipped if (part := block.only(~ground.mask_of(block)))]
        audits = (
            walk.audit(inside, tops, share, seed),
            walk.audit(outside, (), less, seed, is_of_index=True),
        )
        return [audit for audit in audits if audit.tiles]

    def _breach(
        self, layer: str, audits: Iterable[Audit], found: Mapping[Tile, Outcome]
    ) -> tuple[str, bool] | None:
        """Returns the reason why skipping was wrong, and whether a change index is to blame. Returns None if
        it was not wrong. Logs the result."""
        for audit in audits:
            if wrong := audit.broken({tile: found[tile] for tile in audit.tiles}):
                how = "and its change index did not tell" if audit.is_of_index else "below one that had not"
                reason = f"tile {wrong[0]} had changed {how}, found on {self._record.day}"
                _logger.warning(
                    "layer %s: %s; all of it is asked now, and nothing of it is skipped until a full harvest"
                    " shows that its %s can be relied on",
                    layer,
                    reason,
                    "index" if audit.is_of_index else "times",
                )
                return reason, audit.is_of_index
        for audit in audits:
            _logger.info(
                "layer %s: %d of the skipped tiles were asked, seed %s: none had changed",
                layer,
                len(audit.tiles),
                self._record.identity,
            )
        return None

    def distrust(self, layer: str, reason: str, is_untold: bool = False) -> list[Block]:
        """Withdraws the trust on which the walk over the layer rests, so that nothing is skipped any more.
        Returns the blocks from which to walk down again, or none once that is done. Takes queries.

        `is_untold` says that the layer's change index had missed a change. If the walk has kept to an
        index's ground, each process walks down once more from where walks start.
        """
        layers = self.decisions.layers
        layers[layer] = layers[layer]._replace(is_pruned=False, ground=None)
        is_first = layer not in self._repaired
        self._repaired.add(layer)
        record, walk = self._record, self._layers[layer].walk
        tops = record.distrust(layer, reason, is_untold=is_untold)
        ground = record.noted_ground(layer)
        if ground is None:
            return tops
        left = (*walk.start_blocks(layer), *walk.start_on(layer, ground)) if is_first else ()
        return joined((*left, *tops, *record.unasked({layer: walk.sideways}, MOST_TOPS)))


def walk_over(description: MapDescription, layer: Layer) -> Walk:
    """Returns the walk over a layer of the map.

    Raises ConfigurationError if the map's zooms or zones do not fit the site.
    """
    try:
        return Walk(layer.pyramid, description.zooms, description.zones)
    except ValueError as error:
        raise ConfigurationError(
            f"map '{description.name}', layer '{layer.name}': {error}; change its zooms or zones"
        ) from None


def next_walks(
    history: History,
    description: MapDescription,
    depths: Mapping[str, int],
    today: date,
    doubt: str | None = None,
    shared: Container[str] | None = None,
) -> Decisions:
    """Returns how a harvest that begins on that day, in the map's time zone, walks each layer.

    `depths` are by layer. Commands give the depths of the last harvest, because only a harvest asks the site.
    `doubt` is the renderer's reason against a pruned walk, if it has one. `shared` are the layers of one zoom
    of which empty blocks are left out; None if only the last harvest tells. Raises HistoryError.
    """
    name, wish, every = description.name, description.walk, description.full_every
    known, day = proofs(history, name), last_full(history, name, kept_in_words(description))
    indexes = stored_indexes(history, name) if description.change_index else {}
    if shared is None:
        # The last harvest has asked everything, and the next one knows what is empty. Layers of one zoom by
        # other renderers have no edge, or four tiles.
        is_known = wish != "full" and day is not None and description.git is None and is_plain(description)
        shared = [one for one in depths if is_known and depths[one] == 1]
    decisions = {}
    for one in depths:
        proof, index, is_share = known.get(one), indexes.get(one), one in shared
        decisions[one] = decide(wish, proof, day, today, every, doubt, index, is_share=is_share)
    return Decisions(decisions)


def kept_in_words(description: MapDescription) -> str:
    """Returns a text that says which tiles a map keeps. It is equal for equal tiles.

    An unchanged tile says nothing of tiles below it that were not asked because they were not kept.
    """
    zones = [(zone.center, zone.width, zone.height, zone.zoom) for zone in description.zones]
    return repr((description.layers, description.zooms, zones))


def located(layers: Mapping[str, LayerWalk], pushed: str) -> tuple[str, Tile]:
    """Returns layer and tile of what a person has pushed, as `TILE_MARK` says or by the address of a tile.
    Raises LookupError, with a line for the log, if the layers have no such tile."""
    _, mark, named = pushed.rpartition(TILE_MARK)
    if not mark:
        found = ((name, part.layer.addresses.tile_of(pushed)) for name, part in layers.items())
        at = next(((name, tile) for name, tile in found if tile is not None), None)
        if at is None:
            raise LookupError(f"{pushed} is not a tile of the map; it was not asked for")
        return at
    name, _, written = named.rpartition("/")
    name, tile = unquote(name) or (next(iter(layers)) if len(layers) == 1 else ""), Tile.parse(written)
    if name not in layers:
        raise LookupError(f"layer '{name}' is not harvested; it has: {', '.join(layers)}")
    try:
        layers[name].layer.addresses.url_of(tile)
    except ValueError as error:
        raise LookupError(f"a request was dropped: {error}") from None
    return name, tile


def known_site_files(
    history: History, description: MapDescription, today: date
) -> tuple[dict[str, SiteFile], bool]:
    """Returns the site's files that the history knows, by address, and whether a harvest that begins on that
    day relies on all change indexes of the map. It may turn out otherwise when the site was asked. Files that
    were missing are returned as `MISSING`, and only if indexes are relied on. Otherwise they are left out, so
    that they are looked for again. Raises HistoryError."""
    layers = dict.fromkeys(stored_indexes(history, description.name), 0)
    decided = next_walks(history, description, layers, today, shared=()).layers.values()
    is_relied_on = bool(decided) and all(decision.change_index is not None for decision in decided)
    files = site_files_of(history, description.name, today)
    return {url: file for url, file in files.items() if is_relied_on or file != MISSING}, is_relied_on


def guards_of(
    record: HarvestRecord, description: MapDescription, layers: Mapping[str, LayerWalk], *, anew: bool
) -> dict[str, TileCountGuard]:
    """Returns the bounds of each layer. With `anew` what this harvest has found before does not count."""
    wish, last = description.max_tiles, record.last_complete()
    found = record.found() if record.continued and not anew else {}
    guards = {}
    for name, part in layers.items():
        pyramid = part.layer.pyramid
        described = sum(map(len, part.walk.kept())) if pyramid.has_area else 0
        most = most_tiles(last.get(name, 0), wish, described)
        has_edge = pyramid.has_area or pyramid.there is not None
        alike = CANVAS if description.is_canvas else None if has_edge else NEIGHBOURS
        guards[name] = TileCountGuard(most, found.get(name, 0), alike if wish is None else None)
    return guards
