"""What the times of tiles prove, when a walk is pruned, and what is said of it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta

import pytest

from tests.history.making import tiles_of
from tileharvest.tiles.block import blocks_of
from tileharvest.tiles.grid import Tile, first_level
from tileharvest.tiles.pyramid import Pyramid
from tileharvest.walk.change_index import ChangedGround, ChangeIndex, StoredIndex, audited_share
from tileharvest.walk.decision import Decisions, decide
from tileharvest.walk.proof import DatedBlock, Proof, prove
from tileharvest.walk.walk import Walk

MORNING, NOON = "Sat, 13 Feb 2021 08:00:00 GMT", "Sat, 13 Feb 2021 12:00:00 GMT"
PARENT = Tile(-1, 2, 2)
CHILD, *OTHERS = PARENT.children()
DAY = date(2021, 2, 13)
FOUR_HOURS = 4 * 3600.0


def dated(times: Mapping[Tile, str | None]) -> list[DatedBlock]:
    return [(tile.zoom, tile.column, tile.row, {0: times[tile]}) for tile in sorted(times)]


@pytest.mark.parametrize(
    ("times", "proof"),
    [
        ({PARENT: MORNING, CHILD: NOON, OTHERS[0]: MORNING}, Proof(DAY, 2, 1, 0, FOUR_HOURS)),
        *(
            ({PARENT: NOON, CHILD: MORNING, OTHERS[0]: text}, Proof(DAY, 1, 0, 1, FOUR_HOURS))
            for text in (
                None,
                "",
                "yesterday",
                "Sat, 99 Feb 2021 12:00:00 GMT",
                NOON.replace(":00 ", ":61 "),
                "0",
            )
        ),
        # Dates have three forms (RFC 9110, section 5.6.7).
        *(
            ({PARENT: text, CHILD: MORNING}, Proof(DAY, 1, 0, 0, FOUR_HOURS))
            for text in ("Saturday, 13-Feb-21 12:00:00 GMT", "Sat Feb 13 12:00:00 2021", NOON)
        ),
        ({PARENT: NOON, CHILD: NOON.replace(":00 ", ":01 ")}, Proof(DAY, 1, 1, 0, 1.0)),
        # Nothing is known of the zoom between.
        ({PARENT.parent(): MORNING, CHILD: NOON}, Proof(DAY, 0, 0, 0, FOUR_HOURS)),
        ({}, Proof(DAY, 0, 0, 0, 0.0)),
        (dict.fromkeys(first_level(5), NOON) | {first_level(5)[0]: MORNING}, Proof(DAY, 0, 0, 0, FOUR_HOURS)),
    ],
)
def test_what_the_times_of_tiles_prove(times: dict[Tile, str | None], proof: Proof) -> None:
    assert prove(dated(times), DAY) == proof
    assert proof.holds is (proof.pairs > 0 and not proof.broken and not proof.undated)


def test_a_proof_compares_tiles_with_their_parents_by_the_layers_own_factor() -> None:
    times = dated({Tile.at(-1, 0, 0): MORNING, Tile.at(0, 4, 4): NOON})
    assert prove(times, DAY, 5) == Proof(DAY, 1, 1, 0, FOUR_HOURS)


@pytest.mark.parametrize(
    ("proof", "words", "holds"),
    [
        (
            Proof(DAY, 400, 0, 0, 86400.0),
            "none of 400 tiles changed after the one above it, in 24 hours",
            True,
        ),
        (Proof(DAY, 400, 7, 0, 86400.0), "of 400 tiles below another one 7 changed after that one", False),
        (Proof(DAY, 400, 7, 1, 86400.0), "the site does not say when 1 tile changed", False),
        (Proof(DAY, 400, 0, 0, 599.0), "all tiles changed within 10 minutes, as in one upload", False),
        (Proof(DAY, 0, 0, 0, 0.0), "no tile is known together with the one above it", False),
    ],
)
def test_proof_says_in_one_line_why_it_holds_or_does_not(proof: Proof, words: str, holds: bool) -> None:
    assert (proof.in_words, proof.holds) == (words, holds)


TODAY = date(2021, 2, 20)
PROVED = Proof(TODAY, pairs=400, broken=0, undated=0, span=86400.0)
BROKEN = replace(PROVED, broken=1)


@pytest.mark.parametrize(
    ("wish", "proof", "withdrawn", "days", "is_pruned"),
    [
        ("auto", PROVED, None, 1, True),
        ("auto", PROVED, None, 0, True),
        ("auto", PROVED, None, 6, True),
        ("auto", PROVED, None, 7, False),
        ("auto", PROVED, None, None, False),
        ("auto", PROVED, None, -1, False),
        ("auto", PROVED, "a tile had changed", 1, False),
        ("auto", BROKEN, None, 1, False),
        ("auto", None, None, 1, False),
        ("pruned", None, None, 1, True),
        ("pruned", BROKEN, None, 1, True),
        ("pruned", PROVED, "a tile had changed", 1, False),
        ("pruned", PROVED, None, 7, False),
        ("pruned", PROVED, None, None, False),
        ("full", PROVED, None, 1, False),
    ],
)
def test_walk_is_pruned_only_as_wished_and_proved_and_for_some_days(wish, proof, withdrawn, days, is_pruned):
    last_full = None if days is None else TODAY - timedelta(days=days)
    stored = proof and replace(proof, withdrawn=withdrawn, withdrawn_day=withdrawn and TODAY)
    assert decide(wish, stored, last_full, TODAY, 7).is_pruned is is_pruned


def test_of_one_zoom_a_share_is_asked() -> None:
    shared = Decisions({"zoom11": decide("auto", None, TODAY, TODAY, 7, "nobody says so", is_share=True)})
    assert (shared.kind, shared.in_short) == ("share", "share")
    assert shared.layers["zoom11"].in_words == (
        "share: of the empty places of its only zoom a share is asked, all of them within 7 days"
    )


def test_what_a_change_index_says_decides_unless_it_could_not_be_read() -> None:
    index = StoredIndex(ChangeIndex("a"), TODAY)
    decisions = Decisions({"a": decide("auto", PROVED, TODAY, TODAY, 7, index=index)})
    unread = decisions.with_grounds({}, ()).layers["a"]
    assert (unread.way, unread.change_index) == ("pruned", None)
    nothing = ChangedGround((), Pyramid(3))
    said = {
        name: decisions.with_grounds(grounds, ["a"]).layers["a"].reason
        for name, grounds in (
            ("nothing", {"a": nothing}),
            ("one", {"a": ChangedGround([(0, 1, 1)], Pyramid(3))}),
            ("all", {}),
        )
    }
    assert said["nothing"] == f"its change index says that nothing has changed since {TODAY}"
    assert said["one"] == f"its change index says that 1 tile may have changed since {TODAY}"
    assert said["all"].startswith("its change index says that all of it may have changed; none of 400 tiles")


# -- change indexes


DEPTH = 3
DEEP = Tile(0, 1, 1)
PYRAMID = Pyramid(DEPTH)


def ground(*tiles: Tile, pyramid: Pyramid = PYRAMID) -> ChangedGround:
    return ChangedGround(((tile.zoom, tile.x, tile.y) for tile in tiles), pyramid)


@pytest.mark.parametrize(
    ("earlier", "changed"),
    [
        (ChangeIndex("a", ((1, 1, "x"), (3, 1, "y"))), {(0, 1, 1), (0, 5, 1)}),
        (ChangeIndex("a", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z"))), set()),
        (ChangeIndex("b", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z"))), None),
        (ChangeIndex("0", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z"))), None),
    ],
    ids=["a tile's stamp, and a new tile", "nothing", "the layer's stamp", "a lower stamp"],
)
def test_an_index_tells_of_changes(earlier: ChangeIndex, changed: set[tuple[int, int, int]] | None) -> None:
    now = ChangeIndex("a", ((1, 1, "x 2"), (3, 1, "y"), (5, 1, "z")))
    assert now.changed_since(earlier) == changed


def test_what_was_written_is_read_again() -> None:
    index = ChangeIndex("a", ((1, -1, "x"),))
    assert ChangeIndex.read(index.written()) == index
    its = ground(DEEP, Tile(-1, -2, 2))
    assert ChangedGround.read(its.written(), PYRAMID).cells == its.cells


def test_the_ground_is_all_above_and_below_its_tiles_and_nothing_beside() -> None:
    its = ground(Tile(-1, 2, 2))
    inside = (Tile(-2, 4, 4), Tile(-1, 2, 2), *Tile(-1, 2, 2).children())
    outside = (Tile(-1, 6, 2), Tile(-2, -4, 4), Tile(0, 5, 1))
    for tile in (*inside, *outside):
        (block,) = blocks_of("", [tile])
        assert its.mask_of(block) == (block.mask if tile in inside else 0)


def walked_over(walk: Walk, its: ChangedGround) -> set[Tile]:
    found, coming = set[Tile](), tiles_of(walk.start_on("", its))
    while coming:
        tile = coming.pop()
        found.add(tile)
        coming += [one for one in walk.below(tile) if (one.zoom, one.x, one.y) in its]
    return found


def test_a_walk_on_a_ground_comes_to_its_tiles_and_those_above_them() -> None:
    assert walked_over(Walk(PYRAMID), ground(DEEP)) == {DEEP, DEEP.parent(), DEEP.ancestor(2)}
    assert Walk(PYRAMID).start_on("", ground()) == []


def test_land_that_lies_apart_is_where_an_endless_walk_starts() -> None:
    far = Tile.at(0, 400, 400)
    pyramid = Pyramid.endless(2, (Tile.at(-1, 0, 0),))
    assert tiles_of(Walk(pyramid).start_on("", ground(far, pyramid=pyramid))) == [far.parent()]


@pytest.mark.parametrize(
    ("share", "confirmed", "least"),
    [(0.02, 0, 0.02), (0.02, 1, 0.01), (0.02, 3, 0.0025), (1, 9, 1), (0, 4, 0), (0.5, 10_000, 0)],
)
def test_the_audit_becomes_smaller_as_the_index_was_right(share: float, confirmed: int, least: float) -> None:
    assert audited_share(share, confirmed) == pytest.approx(least, abs=1e-6)
