"""The harvest of a map that is published through git: the newest commit answers in place of the site."""

from __future__ import annotations

import asyncio
import shutil
from itertools import islice
from typing import TYPE_CHECKING, Final

from tileharvest.history.blocks import FoundBlock
from tileharvest.importers.repository import CommitSnapshot, Repository, inside, no_map, packed_bytes
from tileharvest.importers.snapshot import SnapshotSite, in_parts, is_configuration
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from tileharvest.errors import SiteError
    from tileharvest.harvest.harvest import Harvest
    from tileharvest.importers.snapshot import Place
    from tileharvest.maps.description import GitEntry
    from tileharvest.politeness.probe import Probe
    from tileharvest.tiles.block import Block
    from tileharvest.tiles.versions import Version

_MOST_KEPT: Final = 256_000_000
"""The bytes of fetched files beyond which all are thrown away. Otherwise each tile would be kept a second
time for ever. Files that are needed again are fetched anew."""
_MOST_LIKELY: Final = 100
"""The most files that are fetched in advance because a probe is likely to read them. They have some kilobytes
each."""
_AT_ONCE: Final = 1000
"""The number of tiles that are judged together. If all have changed they take 20 MB of memory."""
_LARGEST_PACK: Final = 100
"""The most tiles of a pack if bytes are limited."""
_GROWTH: Final = 4
"""The growth of packs if bytes are limited: the first pack of a run has one tile, and each later one this
many times more. A pack that is cut off is lost. So a run brings something as long as the limit allows for one
tile."""


class PublishedTree:
    """Harvests a map from its git repository. Used from one event loop.

    Git's trees name the id of every file, and an id changes exactly when the bytes do. So an unchanged tile
    costs nothing, and all changed tiles come in one pack.
    """

    def __init__(self, harvest: Harvest, *, is_limited: bool = False) -> None:
        """If the bytes of a run are limited (`is_limited`), changed tiles come in several packs, small ones
        first. Each pack is recorded before the next one is fetched."""
        self._harvest = harvest
        self._is_limited = is_limited

    async def read(
        self, probe: Probe, entry: GitEntry, folder: Path, agent: str, check: Callable[[], None]
    ) -> SnapshotSite:
        """Fetches the newest commit without its tiles, and returns it as the site that `probe` reads from it.

        `folder` keeps the fetched files; it may be deleted at any time. `agent` is the user agent of its
        requests. `check` is called again and again during a fetch, and an error that it raises ends the
        fetch. Raises SiteError if the repository cannot be reached, or has no map in its folder.
        """

        async def read() -> SnapshotSite:
            self._snapshot = self._fetched(entry, folder, agent, check)
            try:
                return await SnapshotSite.read(self._harvest.description, self._snapshot, probe)
            except UnrecognisedError as error:
                raise self._no_map(error) from None

        self._found = await asyncio.to_thread(lambda: asyncio.run(read()))
        return self._found

    async def keep(self) -> None:
        """Keeps a result for every tile that the commit lists, and for every known tile.

        The harvest must be open. Raises what `Harvest.keep` raises, and SiteError if neither the commit nor
        the history has a tile, or if the changed tiles cannot be fetched or are pointers of Git LFS.
        """
        changed: list[Place] = []
        listed = await asyncio.to_thread(self._listed)
        if not listed and not await self._harvest.unasked():
            raise await asyncio.to_thread(self._no_map, self._found.no_tiles())
        for places in in_parts(listed, _AT_ONCE):
            latest = await self._latest(_blocks(places))
            unread = self._found.unread(latest)
            changed += unread
            await self._keep({place: latest[place] for place in latest.keys() - unread})
        for pack in self._packs(changed):
            paths = [path for place in pack if (path := self._found.path(place)) is not None]
            await asyncio.to_thread(self._snapshot.fetch, paths)
            for places in in_parts(pack, _AT_ONCE):
                await self._keep(await self._latest(_blocks(places)))
        await self.keep_missed()

    async def keep_missed(self) -> None:
        """Keeps a result for each known tile that the commit does not list."""
        while missed := await self._harvest.unasked():
            await self._keep(await self._latest(missed))

    def _fetched(
        self, entry: GitEntry, folder: Path, agent: str, check: Callable[[], None]
    ) -> CommitSnapshot:
        """Fetches the commit with those of its files that the probe is likely to read."""
        if packed_bytes(folder) > _MOST_KEPT:
            shutil.rmtree(folder)
        meter = self._harvest.cost_meter
        self._repository = Repository(folder, entry.url, agent=agent, meter=meter, check=check)
        self._commit = self._repository.fetch(entry.branch or None, is_whole=False)
        self._folder = inside(entry.path)
        ids = self._repository.files(self._commit, self._folder)
        snapshot = CommitSnapshot(self._commit, ids, self._repository)
        likely = sorted(filter(is_configuration, ids), key=lambda path: (path.count("/"), path))
        snapshot.fetch(likely[:_MOST_LIKELY])
        return snapshot

    def _no_map(self, why: SiteError) -> SiteError:
        return no_map(self._repository, self._commit, self._folder, why)

    def _listed(self) -> list[Place]:
        """Returns the kept tiles that the commit lists, coarse ones first. Of a layer that is larger than
        allowed it returns one tile more than that, which ends the layer."""
        every = set(filter(self._found.is_kept, self._found.places(self._snapshot.paths)))
        listed: list[Place] = []
        for name in self._found.layers:
            its = sorted((place for place in every if place[0] == name), key=lambda place: place[1].zoom)
            listed += its[: self._harvest.guards[name].most + 1]
        return listed

    def _packs(self, places: Sequence[Place]) -> Iterator[Sequence[Place]]:
        """Yields the changed tiles that come in one pack each."""
        left, most = iter(places), 1 if self._is_limited else len(places)
        while pack := list(islice(left, most)):
            yield pack
            most = min(_GROWTH * most, _LARGEST_PACK)

    async def _latest(self, blocks: Sequence[Block]) -> dict[Place, Version | None]:
        """Returns the latest version of each tile of these blocks."""
        known = [(block, await self._harvest.look_up(block)) for block in blocks]
        return {
            (block.layer, tile): one.versions.get(bit) for block, one in known for bit, tile in block.tiles()
        }

    async def _keep(self, latest: Mapping[Place, Version | None]) -> None:
        """Keeps a result for each of these tiles, given their latest versions. Changed files were fetched."""
        harvest = self._harvest
        verdicts, bodies = await asyncio.to_thread(self._found.judged, latest, harvest.day)
        for place, verdict in verdicts.items():
            version = latest[place]
            if verdict.outcome is Outcome.IGNORED and version is not None and version.image is not None:
                harvest.cost_meter.spared_bytes += version.image.size
        for block in _blocks(latest):
            found = FoundBlock()
            for bit, tile in block.tiles():
                found.add(bit, verdicts[block.layer, tile])
            await harvest.keep(block, found, {image: bodies[image] for image in found.images.values()})


def _blocks(places: Collection[Place]) -> list[Block]:
    layers = dict.fromkeys(name for name, _ in places)
    return [one for name in layers for one in blocks_of(name, (tile for of, tile in places if of == name))]
