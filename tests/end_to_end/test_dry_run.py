"""A dry run asks and reports as a harvest does, and leaves nothing behind but what it has spent."""

from pathlib import Path

from tests.end_to_end.bad_input.small_site import FIRST_DAY, SECOND_DAY, drawn, staged, visit


def test_a_dry_run_reports_what_a_harvest_reports_and_changes_no_byte(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        dry = visit(stage.project, FIRST_DAY, "-a", "dry=1")
        assert (dry.status, dry.counts, stage.project.data.exists()) == (0, {"add": 20}, False)
        visit(stage.project, FIRST_DAY)
        stage.files.write("00", drawn("changed"))
        before = stage.project.kept()
        assert visit(stage.project, SECOND_DAY, "-a", "dry=1").counts == {"ign": 19, "upd": 1}
        assert stage.project.kept() == before


def test_a_dry_run_counts_against_the_days_budget(tmp_path: Path) -> None:
    """A first harvest of the small site needs 22 requests, a dry one too."""
    with staged(tmp_path) as stage:
        stage.project.maps_file.unlink()
        stage.project.add_map("small", f"{stage.site.url}/", daily_budget={"requests": 30})
        dry = visit(stage.project, FIRST_DAY, "-a", "dry=1")
        assert (dry.status, len(stage.site.received)) == (0, 22)
        assert visit(stage.project, FIRST_DAY).status == 4
        assert len(stage.site.received) == 30
        third = visit(stage.project, FIRST_DAY, "-a", "dry=1")
        assert (third.status, len(stage.site.received)) == (4, 30)
        assert "has spent its daily budget" in third.said
