"""The parts of the demo command that need no harvest, and its server."""

from pathlib import Path

import pytest

from tileharvest.demo.__main__ import MARKER, differences, how_to_see, main, make_folder
from tileharvest.errors import ConfigurationError, ExitStatus


def test_its_own_folder_is_made_and_emptied_without_following_links(tmp_path: Path) -> None:
    folder, precious = tmp_path / "data" / "demo", tmp_path / "precious"
    make_folder(folder)
    precious.mkdir()
    (precious / "file").touch()
    (folder / "tiles" / "ab").mkdir(parents=True)
    (folder / "history.sqlite").touch()
    (folder / "link").symlink_to(precious)
    make_folder(folder)
    assert [path.name for path in folder.iterdir()] == [MARKER]
    assert (precious / "file").exists()


def test_whatever_it_did_not_make_is_refused_untouched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(tmp_path / "ours")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    for folder in (tmp_path, tmp_path / "file", tmp_path / "link"):
        with pytest.raises(ConfigurationError, match="was not made by the demo"):
            make_folder(folder)
    assert (tmp_path / "file").read_text() == "precious"
    assert main(["--data", str(tmp_path)]) == ExitStatus.USAGE
    assert str(tmp_path) in capsys.readouterr().err


def test_the_last_line_is_the_command_that_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = how_to_see(tmp_path / "data" / "demo")
    assert line.startswith("see it: TILEHARVEST_MAPS=data/demo/maps.toml TILEHARVEST_DATA=data/demo ")
    assert line.endswith("/tileharvest serve")


def test_counts_that_differ_are_named_with_both_numbers() -> None:
    predicted = {"new": 12, "changed": 11, "gone": 0, "same": 43}
    fine = {"add": 12, "upd": 11, "ign": 10, "nMod": 4, "skip": 29, "404": 19}
    assert differences(fine, predicted) == []
    assert differences(fine | {"upd": 10, "gone": 1}, predicted) == [
        "changed 10 instead of 11",
        "gone 1 instead of 0",
    ]
