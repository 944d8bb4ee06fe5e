"""The harvest of a map that is published through git: the newest commit answers in place of the site."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from tileharvest.errors import StoreError
from tileharvest.importers.commits import etag_of, is_git_etag
from tileharvest.importers.fetched_commit import FetchedCommit
from tileharvest.importers.repository import blob_id
from tileharvest.importers.snapshot_site import Front, Place, SnapshotSite
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image, Validator, Version

if TYPE_CHECKING:
    from pathlib import Path

    from tileharvest.harvest.harvest import Harvest
    from tileharvest.history.site_files import SiteFile
    from tileharvest.maps.description import GitEntry
    from tileharvest.politeness.probe import Probe
    from tileharvest.renderers.site import Site
    from tileharvest.store.port import TileStore

_AT_ONCE: Final = 1000
"""The number of tiles that are judged together and recorded in one transaction. If all have changed they take
20 MB of memory."""
_AT_ONCE_LIMITED: Final = 100
"""The same number if bytes are limited; then it is also the most tiles of a pack."""
_GROWTH: Final = 4
"""The growth of packs if bytes are limited: the first pack of a run has one tile, and each later one this
many times more. A pack that is cut off is lost. So a run brings something as long as the limit allows for one
tile."""

_Judge: TypeAlias = Callable[[Sequence[Place], Sequence[Version | None]], Awaitable[list[Outcome]]]
"""A function that returns the outcomes of tiles, given their latest versions."""


class PublishedTree:
    """Harvests a map from its git repository. Used from one event loop.

    Git's trees name the id of every file, and an id changes exactly when the bytes do. So an unchanged tile
    costs nothing, and all changed tiles come in one pack.
    """

    def __init__(
        self,
        harvest: Harvest,
        entry: GitEntry,
        folder: Path,
        store: TileStore,
        agent: str,
        check: Callable[[], None],
        *,
        is_limited: bool = False,
    ) -> None:
        """`folder` keeps the fetched files; it may be deleted at any time. `store` holds the images of the
        history. `agent` is the user agent that the host is told. `check` is called again and again during a
        fetch, and an error that it raises ends the fetch.

        If the bytes of a run are limited (`is_limited`), changed tiles come in several packs, small ones
        first. Each pack is recorded before the next one is fetched.
        """
        self._harvest = harvest
        self._entry = entry
        self._folder = folder
        self._store = store
        self._agent = agent
        self._check = check
        self._is_limited = is_limited
        self._pack = 1
        """The number of tiles of the next pack, if bytes are limited."""
        self._git_ids: dict[Image, str | None] = {}
        """The ids that git gives to images of the store. None stands for an image that cannot be read
        there."""

    async def read(self, probe: Probe) -> Site:
        """Fetches the newest commit without its tiles, and returns the site that `probe` reads from it.

        Raises SiteError if the repository cannot be reached, or has no map in its folder.
        """
        self._found = await asyncio.to_thread(lambda: asyncio.run(self._read(probe)))
        return self._found.site

    @property
    def files(self) -> Mapping[str, SiteFile]:
        """The files that describe the map, by address. They are known after `read`."""
        return self._found.files

    async def keep(self) -> None:
        """Keeps a result for every tile that the commit lists or a walk asks for, and for every known tile.

        The harvest must be open. Raises what `Harvest.keep` raises, and SiteError if the changed tiles cannot
        be fetched, or are pointers of Git LFS.
        """
        changed: dict[str, None] = {}

        async def foresee(places: Sequence[Place], latest: Sequence[Version | None]) -> list[Outcome]:
            foreseen = self._found.foreseen(places, latest)
            changed.update((path, None) for _, path in foreseen if path is not None)
            return [outcome for outcome, _ in foreseen]

        start = [(layer.name, tile) for layer, tile in self._harvest.first()]
        listed = await asyncio.to_thread(self._listed)
        if not self._is_limited:
            await self._walk(foresee, start, listed)
            await asyncio.to_thread(self._snapshot.fetch, list(changed))
        await self._walk(self._judge_and_keep, start, listed)
        if not self._harvest.doubted:
            await self.keep_missed()

    def _listed(self) -> list[Place]:
        """Returns all kept tiles that the tree lists, those too to which no walk leads."""
        if self._harvest.is_pushed:
            return []
        return list(filter(self._found.is_kept, self._found.places(self._snapshot.paths())))

    async def keep_missed(self) -> None:
        """Keeps a result for each known tile that the walk has not reached, and for the tiles below it."""
        while missed := await self._harvest.unasked():
            await self._walk(self._judge_and_keep, [(layer.name, tile) for layer, tile in missed])

    async def _read(self, probe: Probe) -> SnapshotSite:
        self._snapshot = FetchedCommit(
            self._entry, self._folder, self._agent, self._harvest.traffic, self._check
        )
        try:
            return await SnapshotSite.read(self._harvest.description, self._snapshot, probe)
        except UnrecognisedError as error:
            raise self._snapshot.no_map(error) from None

    async def _walk(self, judge: _Judge, start: Sequence[Place], listed: Sequence[Place] = ()) -> None:
        """Judges the tiles of a walk, and then those of `listed` to which it did not lead."""
        front, rest = Front(self._found.layers), iter(listed)
        front.add(start)
        extents, doubted = self._harvest.extents, self._harvest.doubted
        there: Counter[str] = Counter()
        while taken := self._next(front, rest):
            # A layer that is larger than allowed is walked no further.
            places = [one for one in taken if one[0] not in doubted and there[one[0]] <= extents[one[0]].most]
            latest = [(await self._harvest.walks.known.of(*place))[0] for place in places]
            await asyncio.to_thread(self._name_images, places, latest)
            as_git = [self._as_git(version) for version in latest]
            for place, version, outcome in zip(places, latest, await judge(places, as_git), strict=True):
                there[place[0]] += outcome not in (Outcome.NOTHING, Outcome.GONE)
                front.answered(place, outcome, known=version is not None and not version.gone)

    def _next(self, front: Front, rest: Iterator[Place]) -> list[Place]:
        """Returns the next tiles of a walk, and when it is over the next ones of the rest."""
        most = _AT_ONCE_LIMITED if self._is_limited else _AT_ONCE
        if not front:
            front.add(rest)
        return front.take(most)

    async def _judge_and_keep(
        self, places: Sequence[Place], latest: Sequence[Version | None]
    ) -> list[Outcome]:
        """Keeps a result for each of these tiles, in parts of which each needs one pack. Returns the
        outcomes."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(places):
            done = len(outcomes)
            most = self._in_one_pack(places[done:], latest[done:]) if self._is_limited else len(places)
            outcomes += await self._keep_together(places[done : done + most], latest[done : done + most])
        return outcomes

    def _in_one_pack(self, places: Sequence[Place], latest: Sequence[Version | None]) -> int:
        """Returns how many of the next tiles to judge together, so that the changed ones among them are one
        pack."""
        foreseen = self._found.foreseen(places, latest)
        changed = [number for number, (_, path) in enumerate(foreseen) if path is not None]
        most = changed[self._pack] if len(changed) > self._pack else len(places)
        if changed:
            self._pack = min(_GROWTH * self._pack, _AT_ONCE_LIMITED)
        return most

    async def _keep_together(
        self, places: Sequence[Place], latest: Sequence[Version | None]
    ) -> list[Outcome]:
        harvest = self._harvest
        results = await asyncio.to_thread(self._found.results, places, latest, harvest.day)
        renewed = []
        for one, version in zip(results, latest, strict=True):
            result = one
            if one.outcome is Outcome.IGNORED and version is not None and version.image is not None:
                harvest.traffic.spared_bytes += version.image.size
                known, _ = await harvest.walks.known.of(one.layer, one.tile)
                if known is not None and known.validator != version.validator:
                    # The bytes are the same. From now on the ETag is git's id, which tells that without
                    # reading them.
                    validator = version.validator
                    result = msgspec.structs.replace(one, outcome=Outcome.NOT_MODIFIED, validator=validator)
            renewed.append(result)
        await asyncio.gather(*(harvest.keep(one) for one in renewed if one.is_counted))
        return [one.outcome for one in renewed]

    def _name_images(self, places: Sequence[Place], latest: Sequence[Version | None]) -> None:
        """Finds out git's ids of images that did not come through git. Their bytes are read once."""
        for place, version in zip(places, latest, strict=True):
            image = None if version is None else version.image
            if version is None or image is None or image in self._git_ids:
                continue
            if is_git_etag(version.validator.etag) or not self._found.has(place):
                continue
            try:
                self._git_ids[image] = blob_id(self._store.named(image.file_name))
            except StoreError:
                self._git_ids[image] = None

    def _as_git(self, version: Version | None) -> Version | None:
        """Returns the version with git's id of its bytes as the ETag, if that id is known; else as it is."""
        if version is None or version.image is None or is_git_etag(version.validator.etag):
            return version
        id_ = self._git_ids.get(version.image)
        return version if id_ is None else msgspec.structs.replace(version, validator=Validator(etag_of(id_)))
