from datetime import date, timedelta

import pytest

from tests.history.making import DAY, END, LATER, START, A, D, ended, found, record
from tileharvest.history.database import History
from tileharvest.history.harvests import begin
from tileharvest.history.outlines import LayerOutline, MapOutline, map_outline
from tileharvest.history.recorded_versions import story
from tileharvest.tiles.ground import Projection
from tileharvest.tiles.layers import Layer
from tileharvest.tiles.pyramid import Pyramid


def described(history: History, day: date, *layers: Layer) -> None:
    harvest = begin(history, "world", day.isoformat(), day, START, "overviewer", layers)
    harvest.finish(END, "finished")


def descriptions(history: History) -> list[tuple[date, int]]:
    """Days and depths of the only layer."""
    (layer,) = map_outline(history, "world").layers
    return [(day, said.depth) for day, said in layer.descriptions.items()]


def test_a_map_is_outlined(history: History) -> None:
    layer = Layer(
        "day",
        Pyramid(10),
        "jpg",
        tile_size=(256, 256),
        north_direction=3,
        world="overworld",
        background="#1a1a1a",
        spawn=(8, 64, -16),
        projection=Projection((1.0, 0.0, 0.0, 8.0), (0.0, 0.0, -1.0, 0.5), 62.0),
        rendered=1613200000,
    )
    harvest = begin(history, "world", DAY.isoformat(), DAY, START, "overviewer", [layer])
    assert map_outline(history, "world").unfinished == (DAY,)
    harvest.finish(END, "finished")
    assert map_outline(history, "world") == MapOutline(
        name="world",
        days=(DAY,),
        layers=(
            LayerOutline(
                id=1,
                name="day",
                zooms={},
                descriptions={DAY: layer},
                last_day=DAY,
            ),
        ),
        renderer="overviewer",
        reason="finished",
        ended=(END,),
    )


def test_a_size_that_the_site_does_not_say_is_that_of_an_image_from_then_on(history: History) -> None:
    layer = Layer("day", Pyramid(1), "png", tile_size=(256, 256), tells_size=False)
    harvest = begin(history, "world", "first", DAY, START, "xyz", (layer,))
    harvest.note_size("day", (1000, 800))
    harvest.finish(END, "finished")
    described(history, LATER, layer)
    (found_layer,) = map_outline(history, "world").layers
    assert [said.tile_size for said in found_layer.descriptions.values()] == [(1000, 800)]


def test_layers_that_the_last_harvest_no_longer_had_come_last(history: History) -> None:
    """As after another renderer has taken the place of the first one."""
    described(history, DAY, Layer("day", Pyramid(10), "png"))
    described(history, LATER, Layer("minecraft_overworld", Pyramid(4), "png"))
    outlined = [(layer.name, layer.last_day) for layer in map_outline(history, "world").layers]
    assert outlined == [("minecraft_overworld", LATER), ("day", DAY)]


def test_the_coarse_zooms_of_a_layer_begin_anew_when_its_tiles_nest_by_another_factor(
    history: History, caplog: pytest.LogCaptureFixture
) -> None:
    """Zoom 0 goes on, because its tiles lie where they lay."""
    for day, factor, body in ((DAY, 3, b"first"), (LATER, 5, b"second")):
        layer = Layer("day", Pyramid.kept(3, factor), "png")
        harvest = begin(history, "world", f"{day}", day, START, "bluemap", (layer,))
        record(harvest, [found("add" if day == DAY else "upd", A, body), found("add", D, body)])
        ended(harvest)
    (line,) = caplog.messages
    assert "its tiles nest by 5 now and by 3 before" in line
    assert line.endswith(f"their earlier days are kept as layer 'day until {LATER}'")
    now, before = map_outline(history, "world").layers
    assert (now.name, now.factor, now.zooms) == ("day", 5, {0: DAY, -1: LATER})
    assert (before.name, before.factor, before.zooms) == (f"day until {LATER}", 3, {-1: DAY})
    assert list(before.descriptions) == [DAY]
    assert [version.day for version in story(history, now.id, A)] == [DAY, LATER]
    assert [version.day for version in story(history, now.id, D)] == [LATER]
    assert [version.day for version in story(history, before.id, D)] == [DAY]


def test_a_description_that_says_the_same_is_left_out(history: History) -> None:
    days = [DAY + timedelta(days=number) for number in range(6)]
    for day, depth in zip(days, (3, 3, 4, 4, 3, 3), strict=True):
        described(history, day, Layer("day", Pyramid(depth), "png", rendered=day.toordinal()))
    assert descriptions(history) == [(days[0], 3), (days[2], 4), (days[4], 3)]
