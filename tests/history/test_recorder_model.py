"""Recording, compared step by step with the rules written down once more over plain dictionaries."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from sqlalchemy import select

from tests.history.making import (
    LAYER,
    RECORDED,
    WITH_IMAGE,
    A,
    B,
    D,
    TileResult,
    began,
    found,
    record,
    tiles_of,
)
from tileharvest.history.database import History
from tileharvest.history.recorded_versions import tile_versions
from tileharvest.history.schema import changes
from tileharvest.history.summaries import failed_tiles, harvest_summaries
from tileharvest.tiles.grid import Tile, TileRange
from tileharvest.tiles.outcomes import Outcome
from tileharvest.tiles.versions import Image

TILES = [A, B, D, Tile(0, -1, -17)]
WEAK_TO_STRONG = ["fail", "404", "ign", "nMod", "rep", "upd add gone"]
RESULTS = st.builds(
    found,
    st.sampled_from(RECORDED),
    st.sampled_from(TILES),
    st.sampled_from([b"sea", b"island"]),
    st.sampled_from(['"1"', 'W/"2"']),
)
END = datetime(2021, 6, 1, tzinfo=UTC)


def rank(outcome: Outcome) -> int:
    return next(rank for rank, words in enumerate(WEAK_TO_STRONG) if outcome.value in words.split())


def block_of(tile: Tile) -> Tile:
    """The tile three levels coarser, from parent to parent."""
    return tile.parent().parent().parent()


def block_changes(history: History) -> dict[tuple[Tile, int, date], int]:
    with history.reading() as connection:
        return {
            (Tile(row.zoom - 3, row.x, row.y), row.zoom, row.day): row.tiles
            for row in connection.execute(select(changes))
        }


class Model:
    """The history of one map as dictionaries."""

    def __init__(self) -> None:
        self.versions: dict[tuple[Tile, date], tuple[Image | None, str | None]] = {}
        self.outcomes: dict[Tile, Outcome] = {}
        self.failures: Counter[Tile] = Counter()
        self.ended: list[Counter[Outcome]] = []

    def latest(self, tile: Tile) -> date | None:
        return max((day for place, day in self.versions if place == tile), default=None)

    def record(self, result: TileResult, today: date) -> None:
        tile, old = result.tile, self.outcomes.get(result.tile)
        taken_back = old is Outcome.GONE and result.outcome.value in ("ign", "nMod", "rep", "upd", "add")
        if old is None or taken_back or rank(result.outcome) >= rank(old):
            self.outcomes[tile] = result.outcome
            if result.outcome is not Outcome.FAILED:
                del self.failures[tile]
            elif old is None:
                self.failures[tile] += 1
        latest = self.latest(tile)
        if result.outcome in WITH_IMAGE:
            self.versions[tile, today] = (result.image, result.validator.etag)
        elif result.outcome is Outcome.NOT_MODIFIED and latest and self.versions[tile, latest][0]:
            self.versions[tile, latest] = (self.versions[tile, latest][0], result.validator.etag)

    def end(self, today: date, *, is_finished: bool) -> None:
        gone = {tile for tile, outcome in self.outcomes.items() if outcome is Outcome.GONE}
        for tile in gone if is_finished else ():
            latest = self.latest(tile)
            if latest and self.versions[tile, latest][0]:
                self.versions[tile, today] = (None, None)
        left_out = set() if is_finished else gone
        self.ended.append(Counter(self.outcomes[tile] for tile in self.outcomes.keys() - left_out))
        self.outcomes = {}


class RecordingMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.history = self.opened()
        self.model = Model()
        self.day = date(2021, 2, 13)
        self.segment = 0
        self.harvest = began(self.history, self.day, segment="0")

    def opened(self) -> History:
        """An empty one."""
        return History.open_temporary()

    def begin_next(self, days: int) -> None:
        self.day += timedelta(days=days)
        self.segment += 1
        self.harvest = began(self.history, self.day, segment=str(self.segment))

    @rule(batch=st.lists(RESULTS, max_size=5, unique_by=lambda result: result.tile))
    def record(self, batch: list[TileResult]) -> None:
        record(self.harvest, batch)
        for result in batch:
            self.model.record(result, self.day)

    @rule(batch=st.lists(RESULTS, max_size=3, unique_by=lambda result: result.tile))
    def record_and_be_killed_and_record_again(self, batch: list[TileResult]) -> None:
        """The repetition is left out of the model on purpose: it must change nothing."""
        self.record(batch)
        self.harvest = began(self.history, self.day, segment=str(self.segment))
        assert self.harvest.continued
        record(self.harvest, batch)

    @rule(is_finished=st.booleans(), days=st.integers(0, 2))
    def finish(self, is_finished: bool, days: int) -> None:
        self.harvest.finish(END, "finished" if is_finished else "moved")
        self.model.end(self.day, is_finished=is_finished)
        self.begin_next(days)

    @rule(days=st.integers(0, 2))
    def be_interrupted(self, days: int) -> None:
        self.model.end(self.day, is_finished=False)
        self.begin_next(days)

    @invariant()
    def the_versions_are_those_of_the_model(self) -> None:
        recorded = {
            (version.tile, version.version.day): (version.version.image, version.version.validator.etag)
            for version in tile_versions(self.history, "world")
        }
        assert recorded == self.model.versions

    @invariant()
    def the_changes_are_those_of_the_versions(self) -> None:
        recorded = block_changes(self.history)
        assert recorded == Counter((block_of(tile), tile.zoom, day) for tile, day in self.model.versions)

    @invariant()
    def the_counts_are_those_of_the_model(self) -> None:
        *ended, _ = harvest_summaries(self.history, "world")
        assert [summary.counts for summary in ended] == self.model.ended
        assert self.harvest.counts() == Counter(self.model.outcomes.values())

    @invariant()
    def the_failures_in_a_row_are_those_of_the_model(self) -> None:
        failed = {one.tile: one.in_a_row for one in failed_tiles(self.history, "world")}
        assert failed == self.model.failures

    @invariant()
    def the_unasked_tiles_are_those_of_the_model(self) -> None:
        versions, latest = self.model.versions, self.model.latest
        present = {tile for tile, _ in versions if versions[tile, latest(tile)][0]}
        areas = {LAYER: [TileRange(tile.zoom, tile.x, tile.x, tile.y, tile.y) for tile in TILES]}
        assert set(tiles_of(self.harvest.unasked(areas, 10))) == present - set(self.model.outcomes)

    def teardown(self) -> None:
        if hasattr(self, "history"):
            self.close()

    def close(self) -> None:
        self.history.close()


TestRecording = RecordingMachine.TestCase
TestRecording.settings = settings(
    max_examples=15, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
