"""What the exporting commands say of one thing, and of several."""

from __future__ import annotations

from pathlib import Path

from tests.viewer.building import FIRST
from tileharvest.commands import archive, publish, restore
from tileharvest.export.archive import Archived
from tileharvest.export.published_folder import Published
from tileharvest.export.restored_tree import Restored


def test_one_thing_is_said_in_the_singular() -> None:
    out, day = Path("out"), FIRST
    restored = restore._in_words(
        out, day, Restored(1, 10, ["a.js"], missing=1, elsewhere=1, undated=1, later=1)
    )
    assert restored[0] == f"out: 1 tile of {day}, 1 configuration file; 10 B"
    assert [line[:7] for line in restored[1:]] == ["1 tile ", "1 file ", "1 file ", "1 file "]
    published = publish._in_words(out, Published(images=1, lists=1, removed=1, missing=1))
    assert "out: 1 image, 0 of them new; 1 list, 0 new;" in published
    assert "; 1 file removed that nothing names any more; 1 image not readable" in published
    assert archive._in_words(out, Archived(tiles=1, zooms=[3, 4])).startswith("out: 1 tile of zooms 3 to 4")


def test_several_things_are_said_in_the_plural() -> None:
    restored = restore._in_words(Path("out"), FIRST, Restored(2, 10, ["a.js", "b.js"], later=31_574))
    assert restored[0] == f"out: 2 tiles of {FIRST}, 2 configuration files; 10 B"
    assert restored[1].startswith("31,574 files with a later time")
