"""The owner's file of named areas."""

import re
from pathlib import Path

import pytest

from tileharvest.errors import ConfigurationError
from tileharvest.maps.named_areas import LONGEST_NAME, NamedArea, add_area, load_areas, remove_area

BASE = NamedArea(name="my base", layer="day", corners=((80, -400), (240, -200)))
FARM = NamedArea(name='农场 "two"', layer="day", corners=((0.5, 1), (-3, 4)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "areas.toml"


def test_what_is_added_is_there_in_order_as_a_person_would_write_it(file: Path) -> None:
    assert load_areas(file) == {}
    add_area(file, "world", BASE)
    assert file.read_text(encoding="utf-8").splitlines()[1:] == [
        "",
        '[["world"]]',
        'name = "my base"',
        'layer = "day"',
        "corners = [[80, -400], [240, -200]]",
    ]
    add_area(file, "other.map", BASE)
    add_area(file, "world", FARM)
    assert load_areas(file) == {"world": [BASE, FARM], "other.map": [BASE]}
    assert [one.name for one in file.parent.iterdir()] == ["areas.toml"]
    remove_area(file, "world", "my base")
    remove_area(file, "other.map", "my base")
    assert load_areas(file) == {"world": [FARM]}


GOOD = 'name = "base"\nlayer = "day"\ncorners = [[0, 0], [1, 1]]'
OWN = f"# The places of our server.\n[[world]]\n{GOOD}   # of sand\n# The end.\n"


def test_what_the_owner_wrote_stays_as_it_was(file: Path) -> None:
    file.parent.mkdir()
    file.write_text(OWN)
    add_area(file, "world", BASE)
    added = file.read_text()
    assert added.startswith(OWN)
    with pytest.raises(ConfigurationError, match="nothing was changed: edit it yourself"):
        remove_area(file, "world", "base")
    assert file.read_text() == added
    other = f"world = [{{{GOOD}}}]\n".replace("\n", ", ", 2)
    file.write_text(other)
    with pytest.raises(ConfigurationError, match="nothing was changed: edit it yourself"):
        add_area(file, "world", BASE)
    assert file.read_text() == other


def test_a_name_stands_for_one_area(file: Path) -> None:
    add_area(file, "world", BASE)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=re.escape("map 'world' has an area 'my base' already")):
        add_area(file, "world", BASE)
    assert file.read_bytes() == before


def test_what_is_not_there_cannot_be_removed(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="none yet: `tileharvest areas world add AREA X,Z X,Z`"):
        remove_area(file, "world", "my base")
    add_area(file, "world", FARM)
    with pytest.raises(ConfigurationError, match=re.escape("it has '农场 \"two\"'")):
        remove_area(file, "world", "my base")


@pytest.mark.parametrize(
    ("name", "corner", "message"),
    [
        *(
            (name, 1, "is not a name of an area")
            for name in ("", " base", "base ", "a/b", "a\\b", "a\nb", "\x7f", "x" * (LONGEST_NAME + 1))
        ),
        *(("base", value, "farther out than any map") for value in (float("nan"), float("inf"), 1e12)),
    ],
)
def test_an_area_that_cannot_be_is_refused(name: str, corner: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NamedArea(name=name, layer="day", corners=((0, 0), (1, corner)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[world]", "is not valid TOML"),
        ("world = 3", "map 'world': Expected `array`, got `int`"),
        (
            '[[world]]\nname = "x"\nlayer = "d"\ncorners = [[0, 0]]',
            "map 'world': Expected `array` of length 2",
        ),
        ('[["a b"]]\nname = "x"\nlayer = "d"\ncorners = [[0, 0], [1, 1]]', "map 'a b'"),
        (2 * '[[world]]\nname = "x"\nlayer = "d"\ncorners = [[0, 0], [1, 1]]\n', "'x' is there twice"),
        ("\xff", "cannot be read"),
        (
            f"[[world]]\n{GOOD}\n[[world]]\n{GOOD.replace('base', 'a/b')}\n",
            "map 'world': 'a/b' is not a name of an area: write 1 to 60 characters",
        ),
    ],
)
def test_a_file_that_is_wrong_is_one_clear_line(file: Path, text: str, said: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=re.escape(said)) as refused:
        load_areas(file)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)
