"""A harvest that is killed again and again before it gets far."""

import json
from pathlib import Path

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, SECOND_DAY, staged, visit
from tests.end_to_end.project import await_condition


def test_tiles_whose_process_is_killed_each_time_have_failed_and_the_next_harvest_asks_for_them(
    tmp_path: Path,
) -> None:
    once = ("-s", "MAX_ATTEMPTS=1")
    with staged(tmp_path) as stage:
        project, received = stage.project, stage.site.received
        project.maps_file.unlink()
        project.add_map("small", f"{stage.site.url}/", requests_per_second=25)
        for _ in range(2):
            already = len(received)
            with project.running("harvest", "small", "-a", f"day={FIRST_DAY}", *once) as process:
                # robots.txt and the configuration come first.
                assert await_condition(lambda: len(received) >= already + 4, process)  # noqa: B023
                process.kill()
        assert visit(project, FIRST_DAY, *once).status == 3
        (failure, *_) = json.loads(project.scrapy("failures", "small", "--json").stdout)
        assert failure["reason"] == "its worker ended 2 times while it was under way"
        assert visit(project, SECOND_DAY).status == 0
        assert len(project.versions()) == len(PATHS)
