"""A map whose past is imported from folders or git: each snapshot becomes a day of its history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, Protocol

from tileharvest.errors import MovedError, SiteError
from tileharvest.export.target import Watch
from tileharvest.harvest.walks import kept_in_words
from tileharvest.history.imported_day import (
    ImportedDay,
    ImportedTile,
    imported_days,
    is_alone_since,
    record_day,
)
from tileharvest.history.recorded_versions import versions_until
from tileharvest.importers.repository import CommitSnapshot, inside, no_map
from tileharvest.importers.snapshot import FolderSnapshot, NoTilesError, SnapshotSite, in_parts, maps_within
from tileharvest.renderers.site import UnrecognisedError
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Validator, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from zoneinfo import ZoneInfo

    from tileharvest.history.database import History
    from tileharvest.history.imported_day import DayRecord
    from tileharvest.importers.repository import Repository
    from tileharvest.importers.snapshot import Place, Snapshot
    from tileharvest.maps.description import MapDescription
    from tileharvest.store.port import TileStore
    from tileharvest.tiles.verdict import Verdict

_AT_ONCE: Final = 256
"""The number of tiles that are judged together. Their bytes are in memory at the same time: 10 MB if each has
40 KB."""
SOURCE: Final = "folder"
"""The name of this source in the history. All folders share it, so that for a day the last imported folder
counts."""
_DAY: Final = 24 * 60 * 60
_SILENT: Final = frozenset({Outcome.NOTHING, Outcome.IGNORED, Outcome.NOT_MODIFIED})
"""The outcomes that change nothing. They are not recorded, because each of an import's many days would write
a row for every tile."""


class ImportWatch(Watch, Protocol):
    """Shows how an import gets on, and what it brings."""

    def recorded(self, day: date, record: DayRecord) -> None:
        """Takes a day that is in the history now."""

    def left_out(self, day: date, why: str) -> None:
        """Takes a day that could not be read, and was not recorded."""

    def lacks(self, day: date, file: str, why: str) -> None:
        """Takes an image that the source names for a day and does not have. The day is recorded without
        the image."""


@dataclass
class ImportedMap:
    """Imports the snapshots of one source into the history of a map, in the order of their days.

    Every file of a snapshot that is a tile, by its path, and that the map keeps, is a tile of that day. After
    the first snapshot only changed files are looked at, unless the map's configuration has changed. Keeps
    about 1 KB for each tile in memory.
    """

    _description: MapDescription
    _history: History
    _store: TileStore
    _source: str
    """The name of the snapshots' source, as `ImportedDay` has it."""
    _now: datetime
    _stored_bytes: int = 0
    """The bytes of the day that were not in the store before."""
    _site: SnapshotSite | None = None
    """The snapshot that was recorded last, or None before the first one and after an error."""
    _day: date = date.min
    """The day of that snapshot."""
    _latest: dict[Place, Version] = field(default_factory=dict)
    """The version on that day of each tile that was there and that the map keeps."""

    def days(self) -> dict[date, str]:
        """Returns the days that were imported from this source, in order, each with the state that was
        imported."""
        return imported_days(self._history, self._description.name, self._source)

    async def add(self, snapshot: Snapshot, changed: set[str] | None, day: date, state: str) -> DayRecord:
        """Records the snapshot as a harvest of the day, after its images are stored.

        `changed` are the paths whose bytes may differ from the snapshot before; None means that all may.
        `state` names the snapshot among others of the same day.

        Raises SiteError if the snapshot cannot be read as a map, NoTilesError if it has no tile and none is
        known, and MovedError if more than half of the known tiles are missing. The day is then left out, and
        the next one may be added. Raises StoreError and HistoryError.
        """
        last, self._site = self._site, None
        name = self._description.name
        if last is None or not is_alone_since(self._history, name, self._source, self._day, day):
            # This is the first day, or the history also has what others have found since.
            last = None
        if last is None or changed is None or not changed.isdisjoint(last.looked_at):
            site, changed = await SnapshotSite.read(self._description, snapshot), None
        else:
            site = replace(last, snapshot=snapshot)
        if last is None:
            known = versions_until(self._history, name, day)
            # A layer that the site does not have now may come back.
            its = (place for place in known if place[0] not in site.layers or site.is_kept(place))
            self._latest = {place: known[place] for place in its}
        self._stored_bytes = 0
        results = self._results(site, changed, day)
        named = [
            ImportedTile(*place, one.image, one.validator or Validator(), missing=one.reason)
            for place, one in results.items()
        ]
        others = [place for place in self._latest if place not in results]
        if last is None:
            # An earlier record of this day may have changed them.
            there = ((place, self._latest[place]) for place in others if place[0] in site.layers)
            named += [ImportedTile(*place, one.image, one.validator) for place, one in there]
        record = record_day(
            self._history,
            ImportedDay(
                map_name=name,
                source=self._source,
                state=state,
                day=day,
                imported=self._now,
                renderer=site.site.renderer,
                layers=[part.layer for part in site.layers.values()],
                tiles=named,
                unchanged={} if last is None else Counter(layer for layer, _ in others),
                kept=kept_in_words(self._description),
                stored_bytes=self._stored_bytes,
                files=site.files,
            ),
        )
        self._site, self._day = site, day
        return record

    def _results(self, site: SnapshotSite, changed: Iterable[str] | None, day: date) -> dict[Place, Verdict]:
        """Returns the verdicts on the tiles that have changed or cannot be read. Their images are in the
        store."""
        paths = site.snapshot.paths if changed is None else changed
        places = dict.fromkeys(filter(site.is_kept, site.places(paths)))
        known = [place for place in self._latest if place[0] in site.layers]
        if changed is None:
            places |= dict.fromkeys(filter(site.is_kept, known))
        missing = sum(place in self._latest and not site.has(place) for place in places)
        if missing > len(known) / 2:
            raise MovedError(
                f"{missing} of the {len(known)} tiles known of map '{self._description.name}' are missing in"
                f" {site.snapshot.name}: the map has moved rather than vanished"
            )
        results: dict[Place, Verdict] = {}
        for part in in_parts(list(places), _AT_ONCE):
            found, bodies = site.judged({place: self._latest.get(place) for place in part}, day)
            self._stored_bytes += sum(image.size for image in self._store.put(bodies))
            results |= {place: one for place, one in found.items() if one.outcome not in _SILENT}
        for place, one in results.items():
            if one.image is not None:
                self._latest[place] = Version(day, one.image, one.validator or Validator())
            elif one.outcome is Outcome.GONE:
                del self._latest[place]
        if not results and not self._latest:
            raise site.no_tiles()
        return results


async def import_folder(imported: ImportedMap, folder: Path, day: date, watch: ImportWatch) -> None:
    """Imports the folder in which the map's page lies, in one transaction. Repeating it changes nothing.

    Raises ConfigurationError if there is no folder, SiteError if it has no map, no tile, or cannot be read,
    and MovedError if most tiles that are known of that day are missing.
    """
    snapshot = FolderSnapshot(folder)
    watch.expects(1)
    try:
        record = await imported.add(snapshot, None, day, snapshot.name)
    except (UnrecognisedError, NoTilesError) as error:
        hint, maps = str(error), [one for one in maps_within(snapshot.paths) if one != "."]
        if not snapshot.paths:
            hint = "the folder is empty"
        elif maps and isinstance(error, UnrecognisedError):
            hint = f"is it in {folder / maps[0]}?"
        raise SiteError(f"no map was found in {folder}; nothing was changed: {hint}") from None
    watch.recorded(day, record)
    watch.passed()


def commit_days(commits: Iterable[tuple[int, str]], zone: ZoneInfo, now: datetime) -> dict[date, str]:
    """Returns the days of these commits in order, each with its last commit.

    A commit counts for the day on which it was committed, in the map's time zone. A commit that is dated
    before the one that it follows, or more than a day after now, had a wrong clock. It counts for the day of
    the one before it.
    """
    found: dict[date, str] = {}
    day = date.min
    for seconds, commit in commits:
        if seconds < now.timestamp() + _DAY or not found:
            day = max(day, datetime.fromtimestamp(min(seconds, now.timestamp()), zone).date())
        found[day] = commit
    return found


async def import_git(
    imported: ImportedMap,
    repository: Repository,
    tip: str,
    folder: str,
    zone: ZoneInfo,
    now: datetime,
    watch: ImportWatch,
    *,
    rewritten: bool,
) -> None:
    """Imports all days of a branch that were not imported yet. `tip` is its newest commit, and `folder` the
    map's folder in the repository. Each day is one transaction, so that a killed import goes on with the next
    day.

    Raises SiteError if the branch no longer has the commit that was imported last. With `rewritten` it raises
    nothing then, and imports the branch's days from the last imported day on. Raises SiteError if no commit
    has a map, and StoreError and HistoryError.
    """
    done = imported.days()
    first = _first_day(repository, tip, done, rewritten=rewritten)
    folder = inside(folder)
    days = commit_days(repository.commits(tip, folder), zone, now)
    watch.expects(len(days))
    ids: dict[str, str] = {}
    before, why, is_any = "", None, bool(done)
    for day, commit in days.items():
        if done.get(day) == commit or (first is not None and day < first):
            before = ""
        else:
            changed = None
            if before:
                changes = repository.changes(before, commit, folder)
                changed = set(changes)
                ids = {path: id_ for path, id_ in {**ids, **changes}.items() if id_ is not None}
            else:
                ids = repository.files(commit, folder)
            before = commit
            try:
                record = await imported.add(CommitSnapshot(commit, ids, repository), changed, day, commit)
            except SiteError as error:
                why = error
                if is_any or not isinstance(error, (UnrecognisedError, NoTilesError)):
                    watch.left_out(day, str(error))
            else:
                is_any = True
                watch.recorded(day, record)
        watch.passed()
    if not is_any:
        raise no_map(repository, tip, folder, why)


def _first_day(repository: Repository, tip: str, done: Mapping[date, str], *, rewritten: bool) -> date | None:
    """Returns the first day to import anew in a rewritten branch, or None if the branch was not
    rewritten."""
    last = max(done, default=None)
    if last is None or repository.has(tip, done[last]):
        return None
    if not rewritten:
        raise SiteError(
            f"the branch of {repository.name} was rewritten (a forced push): it no longer has"
            f" commit {done[last][:10]} of {last}, which was imported last; nothing was changed; add"
            " --rewritten to import what the branch has now of that day and later ones"
        )
    return last
