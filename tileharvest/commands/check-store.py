"""`tileharvest check-store [NAME]`: whether the history is sound and the store has all of its images."""  # noqa: N999

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from scrapy.settings import BaseSettings

from tileharvest.commands.project_command import Answer, ProjectCommand, switch
from tileharvest.commands.push import tile_order
from tileharvest.commands.settings import QueueOwner
from tileharvest.commands.terminal import table
from tileharvest.errors import ConfigurationError, ExitStatus, HistoryError, StoreError, counted, program
from tileharvest.history.damage import ask_anew
from tileharvest.history.recorded_versions import RecordedVersion, named_images
from tileharvest.history.settings import open_history, open_history_for_reading
from tileharvest.maps.settings import all_maps
from tileharvest.queue.port import PUSHED, Entry
from tileharvest.queue.settings import has_local_worker, is_shared, workers_of_all
from tileharvest.store.port import HeldImage, TileStore
from tileharvest.store.settings import open_store

_Missing: TypeAlias = tuple[RecordedVersion, str]
"""A version whose image is missing or damaged, and what is wrong, such as `it is not there`."""

_AGE: Final = timedelta(days=1)
"""How long an image stays that no version names, because a page that shows it may be open, or a backup may
run."""
_SHOWN: Final = 20
"""The most lines of each kind. `--json` has all of them."""


class Command(ProjectCommand):
    arguments = "[NAME]"
    summary = "Check the history and the store, and list missing images"
    details = (
        "It changes nothing without --clean or --mend, and may run beside a harvest. What is damaged or"
        " missing is an error, also where --mend has all of it fetched. Images that no version names do no"
        " harm."
    )
    examples = ("", "my-server --bytes --mend")
    options = {
        "--bytes": switch("also read every image and check its sha1"),
        "--clean": switch("remove the images that no version of any map names and that are older than a day"),
        "--mend": switch("have missing and, with --bytes, damaged images fetched anew by the next harvest"),
    }

    def check(self, opts: Namespace) -> None:
        if opts.clean and opts.name:
            raise ConfigurationError(
                "--clean looks at the images of all maps, which share them: leave the name out; nothing was"
                " done"
            )

    def answer(self, opts: Namespace) -> Answer:
        settings = self.settings
        with open_history_for_reading(settings) as history:
            damage = history.damage()
            store = open_store(settings)
            # The store is listed first. An image in this list was recorded, if at all, before the history is
            # read. The names of all images are in memory, with some 150 bytes each.
            held = {one.name: one for one in store.held()}
            named = named_images(history, opts.name)
            missing = _compared(held, named, store, reads_bytes=opts.bytes)
        unnamed = sorted(held[name] for name in held.keys() - {one.image.file_name for one in named})
        if missing or damage:
            self.exitcode = ExitStatus.ERROR
        names = None if opts.name else [one.name for one in unnamed]
        result: dict[str, Any] = {"damage": damage, "images": len(named)}
        result |= {"missing": [_plain(*one) for one in missing], "unnamed": names}
        lines = [f"the history is damaged, restore it from a backup: {line}" for line in damage[:_SHOWN]]
        lines += _in_words(len(named), result["missing"], names, opts)
        if opts.clean:
            if damage:
                raise HistoryError(
                    f"the history is damaged ({damage[0]}), so nobody knows which images it names: no image"
                    " was removed; restore it from a backup first"
                )
            result["removed"] = removed = _cleaned(settings, unnamed)
            lines.append(f"{counted(removed, 'image')} older than a day that no version names: removed")
        if opts.mend:
            asked = _asked_anew(settings, missing)
            result["asked"] = [one.image.file_name for one in asked]
            lines += _mended(asked, missing)
        return result, lines


def _compared(
    held: Mapping[str, HeldImage], named: Sequence[RecordedVersion], store: TileStore, *, reads_bytes: bool
) -> list[_Missing]:
    """Returns the versions whose image is missing or damaged in the store. `held` are its images, which were
    listed before the history was read. `reads_bytes` reads every image and compares its sha1, which takes as
    long as copying the store."""
    missing = []
    for one in named:
        listed = held.get(one.image.file_name)
        is_sound = listed is not None and listed.size == one.image.size and not reads_bytes
        # An image that is not in the list may have been stored since.
        if not is_sound and (why := _fault(store, one)) is not None:
            missing.append((one, why))
    return missing


def _fault(store: TileStore, named: RecordedVersion) -> str | None:
    """Reads an image. Returns what is wrong with it, or None."""
    try:
        found = len(store.named(named.image.file_name))
    except StoreError as error:
        # The advice is left out here, because it is given once for all images.
        return str(error).removesuffix(": restore it from a backup")
    return None if found == named.image.size else f"it has {found} bytes instead of {named.image.size}"


def _cleaned(settings: BaseSettings, unnamed: Sequence[HeldImage]) -> int:
    """Removes the unnamed images that are older than a day. Returns how many were removed.

    Raises ConfigurationError if any map is harvested now: a harvest may be about to name an image that it has
    found in the store.
    """
    names = sorted(all_maps(settings))
    shared = asyncio.run(workers_of_all(settings, names)) if is_shared(settings) else None
    for name in names:
        if shared[name] if shared is not None else has_local_worker(settings, name):
            raise ConfigurationError(
                f"map '{name}' is being harvested, and its harvest may be about to name some of these"
                " images: none was removed; run it again when no harvest is under way"
            )
    before = (datetime.now(UTC) - _AGE).timestamp()
    old = [one.name for one in unnamed if one.stored <= before]
    # A harvest may have begun and ended since the images were listed.
    with open_history_for_reading(settings) as history:
        old = sorted(set(old) - {one.image.file_name for one in named_images(history)})
    open_store(settings).remove(old)
    return len(old)


def _asked_anew(settings: BaseSettings, missing: Sequence[_Missing]) -> list[RecordedVersion]:
    """Pushes requests for missing and damaged images into the queues of the maps that may still show them.

    Returns the images that were asked for. Only maps of maps.toml can be harvested.
    """
    maps = all_maps(settings)
    with open_history(settings) as history:
        asked = ask_anew(history, {named.image for named, _ in missing}, maps)
    for name in sorted({one.map_name for one in asked}):
        owner = QueueOwner(settings, name, maps[name])
        bodies = [tile_order(owner, one.layer, one.tile, 1) for one in asked if one.map_name == name]
        owner.push([Entry(body, PUSHED, None, 1) for body in bodies])
    return asked


def _mended(asked: Sequence[RecordedVersion], missing: Sequence[_Missing]) -> Iterator[str]:
    """Yields what a person must know of the images that are fetched anew."""
    if asked:
        names = " ".join(sorted({one.map_name for one in asked}))
        yield (
            f"{len(asked):,} of them may still be had from the sites: run {program()} harvest {names}; an"
            " image of an earlier day comes back only where its site still has the same bytes"
        )
    if left := len(missing) - len({one.image for one in asked}):
        yield (
            f"{left:,} of them can come only from a backup of the store: no latest version of a tile of a map"
            " in maps.toml has such an image"
        )


def _plain(named: RecordedVersion, why: str) -> dict[str, Any]:
    return {
        "map": named.map_name,
        "layer": named.layer,
        "tile": str(named.tile),
        "day": named.version.day.isoformat(),
        "image": named.image.file_name,
        "problem": why,
    }


def _in_words(
    images: int, rows: Sequence[dict[str, Any]], unnamed: Sequence[str] | None, opts: Namespace
) -> Iterator[str]:
    if rows:
        columns = ["map", "layer", "tile", "first day", "image", "problem"]
        yield from table(columns, [list(row.values()) for row in rows[:_SHOWN]])
        yield ""
    missing = f"{len(rows):,} of them are missing or damaged" if rows else "all are there"
    yield f"the history names {counted(images, 'image')}: {missing}"
    if rows and not opts.mend:
        yield "restore them from a backup of the store, or see what --mend can do"
    if unnamed and not opts.clean:
        yield (
            f"the store holds {counted(len(unnamed), 'image')} that no version names, such as"
            f" {unnamed[0]}: a second harvest of the same day leaves those that it has replaced,"
            " and a kill leaves some; they do no harm, and --clean removes those that are older than a day"
        )
