"""A harvest while it runs. The spider, the diff middleware and the pipeline share it.

The spider probes the site and begins the harvest (`open`). Blocks are looked up before they are asked
(`look_up`). What was found in a block is kept, the bytes first and then the rows (`keep`). Then the tiles
that the walk did not reach, and some of those that it skipped, are asked for (`unasked`, `audit`). At last
the harvest ends (`finish`), or stops for now (`stop`).
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tileharvest.errors import AlreadyHarvestedError, BudgetError, MovedError, program
from tileharvest.harvest.walks import MOST_TOPS, LayerWalk, Walks, guards_of, known_site_files, walk_over
from tileharvest.history.blocks import FoundBlock
from tileharvest.history.costs import NO_COST, CostMeter, spent
from tileharvest.history.harvest_row import HarvestEndedError
from tileharvest.history.harvests import begin
from tileharvest.history.schema import FINISHED
from tileharvest.history.site_files import keep_site_files
from tileharvest.history.summaries import past_of, progress_of
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.renderers.port import Renderer
from tileharvest.renderers.registry import renderer_named
from tileharvest.store.port import mend
from tileharvest.tiles.block import bits_of
from tileharvest.tiles.images import size_of
from tileharvest.tiles.outcomes import THERE, Outcome, tiles_with
from tileharvest.tiles.verdict import judge_get, unless_blank
from tileharvest.tiles.versions import Validator
from tileharvest.walk.ends import SAMPLE, Missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date, datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from tileharvest.harvest.holdings import Holdings
    from tileharvest.history.blocks import KnownBlock
    from tileharvest.history.costs import Cost
    from tileharvest.history.database import History
    from tileharvest.history.harvests import HarvestRecord
    from tileharvest.history.site_files import SiteFile
    from tileharvest.history.summaries import HarvestSummary
    from tileharvest.maps.description import MapDescription
    from tileharvest.politeness.rules import Rules
    from tileharvest.queue.segments import Segment
    from tileharvest.renderers.site import Site
    from tileharvest.tiles.block import Block
    from tileharvest.tiles.layers import Size
    from tileharvest.tiles.verdict import Answer, Verdict
    from tileharvest.tiles.versions import Image, Version
    from tileharvest.walk.ends import TileCountGuard
    from tileharvest.walk.walk import Asked

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

_UNASKED_AT_ONCE: Final = 1000
"""The most tiles that one look for tiles which the walk did not reach returns. It bounds the memory, and is
far above the number of a usual day."""


class Harvest:
    """One harvest of one map, from its beginning to its end.

    To make the object touches nothing; `open` begins the harvest. It is used from one event loop and is not
    thread-safe. Calls that block run in threads. `clock` returns the moment in the map's time zone.
    """

    walks: Walks
    """How its layers are walked, once it is open."""
    _record: HarvestRecord

    def __init__(
        self,
        description: MapDescription,
        *,
        day: date,
        segment: Segment,
        again: bool = False,
        holdings: Holdings,
        clock: Callable[[], datetime],
    ) -> None:
        self.description = description
        self.day = day
        """The day of all versions of this harvest, in the map's time zone: that on which it was begun. Before
        `open` it is the day of this process, which may continue a harvest of an earlier day."""
        self.segment = segment
        """The slice of time in which the harvest asks for each tile once."""
        self._again = again
        self.cost_meter = CostMeter()
        self.tally: Counter[Outcome] = Counter()
        """The outcomes of this process, for its progress display. The exact counts are those of the
        history."""
        self.answers_head = True
        """Whether the site's server answers HEAD as it should."""
        self.layers: dict[str, LayerWalk] = {}
        self.holdings = holdings
        self._clock = clock
        self._known_before = 0
        """The number of known tiles of these zones when the harvest began. It shows whether the map has
        moved.

        `expected` is another number: the first process has noted it, perhaps with other zones."""
        self.expected = 0
        """The number of tiles that the history knew when the harvest began. It will find about as many. It is
        the same in each process of the harvest."""
        self._limits: tuple[Rules, Path] | None = None
        """The rules of the day, and a folder on the disk of which they may say how much stays free."""
        self.is_pruned = False
        """Whether any layer's walk is pruned, once it is open."""
        self.is_open = False
        """Whether the harvest has begun, so that results can be kept."""
        self.continued = False
        """Whether this process continues an unfinished harvest of the segment."""
        self.ended_here = True
        """Whether this process has ended the harvest, or its run. False if another process was first."""
        self.guards: dict[str, TileCountGuard] = {}
        """The bounds of each layer, which show whether it seems to have no end."""
        self._storing = asyncio.Lock()
        """Held while images are stored. A disk takes as long for two stores side by side."""
        self.is_pushed = False
        """Whether only pushed tiles are asked, because the segment's harvest was complete before. May be set
        before `open`."""

    async def expect_work(self) -> None:
        """Raises AlreadyHarvestedError if this segment's harvest is complete and shall not be repeated. Call
        it before anything is asked of the site. Raises HistoryError."""
        if self._again:
            return
        name, segment = self.description.name, self.segment.name
        if not await self._looked_up(lambda history: past_of(history, name, segment).is_complete, False):
            return
        end = self.segment.ends and self.segment.ends.astimezone(self.description.zone_info)
        following = f"the next segment begins {end:%Y-%m-%d %H:%M %Z}; " if end is not None else ""
        raise AlreadyHarvestedError(
            f"map '{name}' is already harvested for {segment}; {following}"
            f"{program()} harvest {name} --segment run asks again"
        )

    async def progress(self) -> HarvestSummary | None:
        """Returns how far the map's unfinished harvest is, of whatever segment and by all processes, or None
        if there is none. Reads all tiles of the map. Raises HistoryError."""
        return await self._looked_up(lambda history: progress_of(history, self.description.name), None)

    async def spent(self) -> Cost:
        """Returns the cost of the map today, by all processes. Raises HistoryError."""
        today = self._today()
        return await self._looked_up(lambda history: spent(history, self.description.name, today), NO_COST)

    def _today(self) -> date:
        """Returns the day by the clock. `day` may be an earlier one."""
        return self._clock().date()

    async def _looked_up(self, question: Callable[[History], _Answer], otherwise: _Answer) -> _Answer:
        """Returns the history's answer to a question, or `otherwise` if there is no history yet."""

        def look() -> _Answer:
            history = self.holdings.begun_history()
            return otherwise if history is None else question(history)

        return await asyncio.to_thread(look)

    def limit(self, rules: Rules, folder: Path) -> None:
        """Sets the rules of the day, and those of the disk on which the folder is."""
        self._limits = rules, folder

    def check_room(self, coming: int = 0) -> None:
        """Raises BudgetError if too little room is left on the disk, or would be after `coming` more bytes.
        This takes some microseconds."""
        if self._limits is None or (least := self._limits[0].min_free) is None:
            return
        folder = self._limits[1]
        place = next(one for one in (folder, *folder.parents) if one.exists())
        left = shutil.disk_usage(place).free
        if left - coming < least:
            raise BudgetError(
                f"only {bytes_in_words(left)} are free in {folder}, and min_free is {bytes_in_words(least)}:"
                " the harvest ends; what was found is kept; make room, then run it again to go on",
                f"min_free: {bytes_in_words(least)}",
                is_all_kept=not coming,
            )

    async def site_files(self) -> tuple[dict[str, SiteFile], bool]:
        """Returns the files of the site by address, as the last harvest has read them, and whether change
        indexes are relied on. There are none if the map has no change index. Raises HistoryError."""
        if not self.description.change_index:
            return {}, False
        return await self._looked_up(
            lambda history: known_site_files(history, self.description, self.day), ({}, False)
        )

    async def open(self, site: Site, files: Mapping[str, SiteFile] | None = None) -> None:
        """Begins the harvest, or continues the one of this segment that was killed or stopped.

        `files` are the site's files, which are kept for the next harvest. None leaves the kept ones as they
        are. Raises AlreadyHarvestedError if another worker has finished it meanwhile, HistoryError,
        StoreError, BudgetError for a layer without an end, and ConfigurationError if zooms or zones do not
        fit the site.
        """
        self.renderer: Renderer = renderer_named(site.renderer)
        self.answers_head = site.answers_head
        self._sizes: dict[str, Size | None] = {
            layer.name: layer.tile_size if layer.tells_size else None
            for layer in site.layers
            if self.description.is_canvas or not layer.tells_size
        }
        """The size of tiles whose images are looked at. None is that of the first image that this process
        finds."""
        self.layers = {
            layer.name: LayerWalk(layer, walk_over(self.description, layer)) for layer in site.layers
        }
        self._areas = {name: part.walk.kept() for name, part in self.layers.items()}
        await asyncio.to_thread(self._begin, site, files)
        for name, guard in self.guards.items():
            if (why := guard.add(0)) is not None:
                raise self._without_end(name, *why)
        self.cost_meter.start()
        self.is_open = True

    def _begin(self, site: Site, files: Mapping[str, SiteFile] | None) -> None:
        """Does what blocks, in a thread."""
        description = self.description
        history = self.holdings.open_history()

        def write(_: Connection) -> HarvestRecord:
            record = begin(
                history,
                description.name,
                self.segment.name,
                self.day,
                self._clock(),
                site.renderer,
                site.layers,
                again=self._again,
                pushed=self.is_pushed,
                today=self._today,
            )
            if files is not None:
                keep_site_files(history, description.name, record.day, files)
            return record

        self._record = record = history.write(write)
        self.day, self.continued, self.is_pushed = record.day, record.continued, record.is_pushed
        endless = {name: part.walk.sideways for name, part in self.layers.items()}

        def look(_: Connection) -> tuple[list[Block], bool]:
            self._known_before = record.known_before(self._areas)
            self.guards = guards_of(record, description, self.layers, anew=self._again)
            return record.unasked(endless, MOST_TOPS), record.is_first()

        def decide(_: Connection) -> None:
            self.expected = 0 if record.is_pushed else record.expect(self._known_before)
            doubt, indexes = self.renderer.doubt, site.indexes
            self.walks = Walks.begin(record, description, self.layers, tops, doubt, indexes, anew=self._again)

        # Not in one transaction: this reads all tiles of the map, and others wait to write.
        tops, is_first = history.read(look)
        history.write(decide)
        self.is_pruned = self.walks.decisions.is_pruned
        fetches_first = description.first == "get" and not self.is_pushed
        self.fetches_unknown = fetches_first and (is_first or not self._known_before)
        """Whether kept tiles of which nothing is known are asked by GET with no HEAD before.

        Until a harvest of the map is finished, most of these tiles exist. Later most of them are empty
        places."""

    def understood(self, answer: Answer) -> Answer:
        """Returns an answer about a tile as a plain file server would have given it."""
        return unless_blank(self.renderer.understood(answer), self.description.blank)

    def understood_all(self, answers: Mapping[int, Answer | Exception]) -> Mapping[int, Answer | Exception]:
        """Returns the answers about the tiles of a block in the same way. Those that may yet pass stay as
        they are."""
        if type(self.renderer).understood is Renderer.understood and not self.description.blank:
            return answers
        return {
            bit: one if isinstance(one, Exception) or one.may_pass else self.understood(one)
            for bit, one in answers.items()
        }

    def judged(self, answer: Answer, latest: Version | None, layer: str) -> Verdict:
        """Judges the answer to a GET for a tile of a layer, given its latest version."""
        described = self.layers[layer].layer
        size = described.tile_size if described.tells_size else None
        return judge_get(answer, latest, self.day, size, self.description.most_tile_bytes)

    async def look_up(self, block: Block) -> KnownBlock:
        """Returns what the history knows of a block, and what this harvest has found there already. Takes a
        query, in a thread. Raises HistoryError."""
        record = self._record
        return await asyncio.wrap_future(record.history.reader.submit(record.look_up, block))

    async def has_gone_below(self, block: Block) -> bool:
        """Returns whether anything below the tiles of a block may have been asked in this harvest. Also
        returns True if nobody knows. Takes a query for each zoom. Raises HistoryError.

        Looks into the whole squares below the tiles, because tiles between may have been asked and not kept.
        """
        walk = self.layers[block.layer].walk
        # Tiles at zooms that are not kept have no result.
        if block.zoom < walk.deepest and block.zoom + 1 not in walk.kept_zooms:
            return True
        below = [part for _, tile in block.tiles() for part in walk.kept_below(tile)]
        return await asyncio.to_thread(self._record.has_result, block.layer, below)

    async def mend(self, latest: Version, renewed: Validator | None, body: bytes, *, late: bool) -> None:
        """Puts the image of a tile that was fetched and has the bytes of its latest version into the store
        again, if it may be damaged there. `renewed` is the validator of the answer. Raises StoreError.

        Only images whose version has no validator are meant, because `tileharvest check-store --mend` has
        deleted the validators of missing and damaged ones. If the site never sends a validator, only tiles
        that are asked `late` are meant, such as pushed ones: to look at every tile would be to read the whole
        store.
        """
        nothing = Validator()
        if latest.image is None or latest.validator != nothing or not (late or renewed != nothing):
            return
        if await asyncio.to_thread(mend, self.holdings.store, latest.image, body):
            _log.info("image %s is whole again", latest.image.file_name)

    async def keep(self, block: Block, found: FoundBlock, bodies: Mapping[Image, bytes]) -> None:
        """Makes what was found in a block durable: the bytes, then the rows in one transaction. When it
        returns, it survives kills and power cuts.

        Raises StoreError, HistoryError, and BudgetError if too little room would be left on the disk or if a
        layer seems to have no end. Raises MovedError if more than half of the known tiles have vanished: then
        the map has moved, and none is recorded as gone.
        """
        if bodies:
            await self._put(bodies)
        record, cost = self._record, self.cost_meter.take()
        try:
            recording = partial(record.record_block, block=block, found=found, cost=cost)
            await asyncio.wrap_future(record.history.writer.submit(recording))
        except HarvestEndedError as error:
            if error.reason != FINISHED:
                raise
            # The lease was lost, and another worker has recorded the block in the meantime.
            await asyncio.to_thread(record.add_cost, cost)
            return
        if block.layer in self._sizes:
            await self._learn_size(block.layer, bodies.values())
        self._count(block, found)
        if Outcome.GONE in found.outcomes:
            missing = Missing(self._known_before, self.tally[Outcome.GONE])
            if missing.has_moved:
                raise await self._moved(missing)

    async def _learn_size(self, layer: str, bodies: Iterable[bytes]) -> None:
        """Takes over the size of a layer's first image, and logs the first image of another size."""
        for body in bodies:
            size, usual = size_of(body), self._sizes[layer]
            if usual is None:
                self._sizes[layer] = size
                await asyncio.to_thread(self._record.note_size, layer, size)
            elif size != usual:
                _log.warning(
                    "layer %s: an image has %d x %d pixels, and the others %d x %d: it is kept as it is,"
                    " and shown as large as they are",
                    layer,
                    *size,
                    *usual,
                )
                del self._sizes[layer]
                return

    async def keep_failed(self, block: Block, reason: str) -> None:
        """Notes that the tiles of a block have failed."""
        reasons = dict.fromkeys(bits_of(block.mask), reason)
        found = FoundBlock({Outcome.FAILED: block.mask}, reasons=reasons)
        await self.keep(block, found, {})

    async def _put(self, bodies: Mapping[Image, bytes]) -> None:
        """Puts the images of a block into the store, and counts the bytes of those that were not there."""
        async with self._storing:
            self.check_room(sum(map(len, bodies.values())))
            new = await asyncio.to_thread(self.holdings.store.put, bodies)
        # The cost is recorded in the transaction of the rows, so that it counts once, also after a kill.
        self.cost_meter.stored_bytes += sum(image.size for image in new)

    def _count(self, block: Block, found: FoundBlock) -> None:
        """Counts what was found in a block, also in the bounds of its layer. Raises BudgetError if the layer
        seems to have no end."""
        for outcome, mask in found.outcomes.items():
            if found.is_kept or outcome is Outcome.FAILED:
                self.tally[outcome] += mask.bit_count()
        there = tiles_with(THERE, found.outcomes) if found.is_kept else 0
        if not there:
            return
        guard = self.guards[block.layer]
        why = guard.add(there.bit_count())
        for bit, image in found.images.items():
            why = why or guard.add_image(block.tile(bit), image.sha1)
        if why is not None:
            raise self._without_end(block.layer, *why)

    def _without_end(self, layer: str, why: str, hint: str) -> BudgetError:
        """Returns the error about a layer that seems to have no end, with what `TileCountGuard` says."""
        return BudgetError(
            f"layer {layer} of map '{self.description.name}' {why}, so it may have no end: the harvest was"
            f" stopped. What was found is kept, and no tile is called gone; write {hint}, and run it again to"
            " go on",
            "max_tiles",
        )

    async def unasked(self) -> list[Block]:
        """Returns the tiles that the history has and the walk did not reach. There are none if the harvest is
        complete.

        The walk does not reach a tile if something above it has vanished. Reads all tiles of the map, so call
        it when nothing is under way. Raises MovedError as `keep` does, but by the results of all processes.
        """
        if self.is_pushed:
            return []
        record, areas = self._record, self._areas

        def look(_: Connection) -> tuple[list[Block], Missing]:
            missing = Missing(self._known_before, *record.vanished(areas))
            return record.unasked(areas, SAMPLE if missing.is_suspect else _UNASKED_AT_ONCE), missing

        found, missing = await asyncio.to_thread(record.history.read, look)
        if missing.has_moved:
            raise await self._moved(missing)
        return found

    async def audit(self) -> list[tuple[Block, Asked]]:
        """Returns the skipped tiles to ask before the end, and how they are asked."""
        return await asyncio.to_thread(self.walks.audit)

    async def is_finished(self) -> bool:
        """Returns whether the harvest is finished, by whatever process."""
        finished = await asyncio.to_thread(self._record.ended) == FINISHED
        self.ended_here = not finished
        return finished

    async def finish(self, reason: str = FINISHED) -> dict[Outcome, int]:
        """Ends the harvest, because every tile has a result, or for another reason: then the map is not
        there, and vanished tiles are not recorded as gone. Returns the exact counts."""
        await asyncio.to_thread(self._record.add_cost, self.cost_meter.take())
        self.ended_here = await asyncio.to_thread(self._record.finish, self._clock(), reason)
        return await self.counts()

    async def counts(self) -> dict[Outcome, int]:
        """Returns the exact counts so far, by all processes of the harvest."""
        return await asyncio.to_thread(self._record.counts)

    async def why_failed(self) -> dict[str, int]:
        """Returns the reasons of failed tiles with their numbers, by all processes, the most frequent
        first."""
        return await asyncio.to_thread(self._record.why_failed)

    async def stop(self, reason: str) -> None:
        """Notes why this run ends before the harvest does, such as `budget: 1,000 requests`."""
        self.ended_here = await asyncio.to_thread(self._record.stop, reason)

    async def close(self) -> None:
        """Records the cost that came with no block. An unfinished harvest can be continued."""
        if self.is_open:
            self.is_open = False
            if (left := self.cost_meter.take()) != NO_COST:
                await asyncio.to_thread(self._record.add_cost, left)
            if self._limits is not None and self._limits[0].daily_budget:
                # It limits all runs, also dry ones.
                await asyncio.to_thread(self.holdings.spend, self._today(), self.cost_meter.total)

    async def _moved(self, missing: Missing) -> MovedError:
        counts = await self.counts()
        return MovedError(missing.in_words(self.description.name, sum(counts.get(one, 0) for one in THERE)))

    async def expect_tiles(self) -> None:
        """Raises MovedError if the harvest is about to end without a single tile of a new map."""
        counts = await self.counts()
        # If tiles failed, nobody knows.
        if self.is_pushed or self._known_before or any(map(counts.get, (*THERE, Outcome.FAILED))):
            return
        urls = (
            self.layers[block.layer].layer.addresses.url_of(tile)
            for block, _ in self.walks.first()
            for _, tile in block.tiles()
        )
        example = next(urls, None)
        asked = "" if example is None else f", such as {example}"
        raise MovedError(
            f"map '{self.description.name}' has no tile at all at the addresses that were asked{asked}:"
            " compare them with the images that the map's own page loads, and correct its url, bounds,"
            " site_zooms or zones in maps.toml",
            "empty",
        )
