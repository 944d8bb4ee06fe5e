"""The parts of the demo command that need no harvest."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from typing import TYPE_CHECKING

import pytest

from tileharvest.demo.__main__ import MARKER, fresh_data_folder, main, what_next, write_maps_file
from tileharvest.demo.prediction import counts_of, matches, verdict
from tileharvest.errors import ConfigurationError, ExitStatus, HistoryError
from tileharvest.maps.maps_file import load_maps
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from pathlib import Path

DAY = date(2026, 11, 18)
PREDICTED = {Outcome.ADDED: 59, Outcome.NOTHING: 13}
LISTING = json.dumps(
    [
        {"day": "2026-11-17", "counts": {"add": 1}},
        {"day": "2026-11-18", "counts": {"add": 59, "404": 13}},
    ]
)


def test_a_folder_that_does_not_exist_is_made_and_marked(tmp_path: Path) -> None:
    fresh_data_folder(tmp_path / "data" / "demo")
    assert [path.name for path in (tmp_path / "data" / "demo").iterdir()] == [MARKER]


def test_the_demos_own_folder_is_emptied(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    fresh_data_folder(folder)
    (folder / "tiles" / "ab").mkdir(parents=True)
    (folder / "tiles" / "ab" / "abc.png").write_bytes(b"x")
    (folder / "history.sqlite").write_bytes(b"x")
    fresh_data_folder(folder)
    assert [path.name for path in folder.iterdir()] == [MARKER]


def test_empty_folder_is_taken(tmp_path: Path) -> None:
    fresh_data_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]


def test_any_other_folder_is_refused_untouched(tmp_path: Path) -> None:
    content = ["history.sqlite"]
    (tmp_path / "history.sqlite").write_text("precious")
    with pytest.raises(ConfigurationError, match="was not made by the demo"):
        fresh_data_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == content


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("precious")
    with pytest.raises(ConfigurationError, match="was not made by the demo"):
        fresh_data_folder(tmp_path / "demo")
    assert (tmp_path / "demo").read_text() == "precious"


def test_a_link_to_the_demos_folder_is_refused(tmp_path: Path) -> None:
    fresh_data_folder(tmp_path / "demo")
    (tmp_path / "link").symlink_to(tmp_path / "demo")
    with pytest.raises(ConfigurationError, match="was not made by the demo"):
        fresh_data_folder(tmp_path / "link")


def test_emptying_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("precious")
    fresh_data_folder(tmp_path / "demo")
    (tmp_path / "demo" / "link").symlink_to(tmp_path / "precious")
    fresh_data_folder(tmp_path / "demo")
    assert (tmp_path / "precious" / "file").read_text() == "precious"
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [MARKER]


def test_the_command_refuses_a_folder_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("precious")
    assert main(["--data", str(tmp_path)]) == ExitStatus.USAGE
    assert str(tmp_path) in capsys.readouterr().err


def test_the_maps_file_is_toml_with_one_map(tmp_path: Path) -> None:
    file = write_maps_file(tmp_path, "http://127.0.0.1:8000/")
    entry = {"url": "http://127.0.0.1:8000/", "timezone": "UTC", "audit": 0}
    assert tomllib.loads(file.read_text()) == {"demo": entry}


def test_the_maps_file_can_be_harvested_from(tmp_path: Path) -> None:
    (description,) = load_maps(write_maps_file(tmp_path, "http://127.0.0.1:8000/")).values()
    assert (description.name, description.page) == ("demo", "http://127.0.0.1:8000/")


@pytest.mark.parametrize(("is_project", "program"), [(True, "scrapy"), (False, "tileharvest")])
def test_the_program_that_has_the_commands_here_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_project: bool, program: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if is_project:
        (tmp_path / "scrapy.cfg").touch()
    last = what_next(tmp_path / "data" / "demo").splitlines()[-1]
    places, _, words = last.rpartition("/")
    assert words == f"{program} serve demo"
    assert "TILEHARVEST_DATA=data/demo" in places


def test_the_counts_of_a_day_are_read_from_the_listing() -> None:
    assert counts_of(LISTING, DAY) == PREDICTED


def test_a_day_without_a_harvest_has_no_counts() -> None:
    assert counts_of(LISTING, date(2026, 11, 20)) is None


@pytest.mark.parametrize(
    "listing",
    [
        "",
        "Traceback ...",
        "{}x",
        "[1]",
        '[{"day": "2026-11-18"}]',
        '[{"day": "2026-11-18", "counts": {"what": 1}}]',
    ],
)
def test_a_listing_that_is_none_is_refused(listing: str) -> None:
    with pytest.raises(HistoryError, match="not as expected"):
        counts_of(listing, DAY)


def test_equal_counts_are_as_predicted() -> None:
    assert verdict(DAY, PREDICTED, PREDICTED) == "day 2026-11-18: as predicted"
    assert matches(PREDICTED, PREDICTED)


def test_zeros_may_be_left_out() -> None:
    assert matches(PREDICTED | {Outcome.FAILED: 0}, PREDICTED)


def test_a_difference_is_told_with_both_numbers() -> None:
    found = {Outcome.ADDED: 58, Outcome.NOTHING: 13, Outcome.FAILED: 1}
    assert verdict(DAY, found, PREDICTED) == (
        "day 2026-11-18: NOT as predicted: add 58 instead of 59, fail 1 instead of 0"
    )
    assert not matches(found, PREDICTED)


def test_a_missing_harvest_is_told() -> None:
    assert verdict(DAY, None, PREDICTED) == "day 2026-11-18: no harvest is recorded"
    assert not matches(None, PREDICTED)
