"""A harvest whose images go to S3."""

from urllib.request import urlopen

import pytest

from tests.end_to_end.bad_input.small_site import FIRST_DAY, PATHS, Stage, visit
from tests.servers.s3 import S3


def test_every_published_image_is_in_the_bucket_alone_and_the_viewer_shows_it(
    stage: Stage, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_STORE", "s3://tiles/my/maps")
    assert visit(stage.project, FIRST_DAY).counts == {"add": len(PATHS)}
    for path in PATHS:
        name = stage.files.sha1(path)
        stored = s3.ask("GET", f"/tiles/my/maps/{name[:2]}/{name}.png")
        assert stored.body == stage.files.file(path).read_bytes()
    assert not (stage.project.data / "tiles").exists()
    with stage.project.running("serve", "--port", "0") as viewer:
        address = viewer.stdout.readline().split()[4]
        with urlopen(f"{address}tiles/{name}.png") as answer:
            assert answer.read() == stored.body
