"""A harvest whose images go to S3."""

from urllib.request import urlopen

import pytest

from tests.end_to_end.project import Project
from tests.end_to_end.real_maps import SMALL, SMALL_DAY
from tests.end_to_end.rendering import Rendering
from tests.servers.s3 import S3


def test_every_published_image_is_in_the_bucket_alone_and_the_viewer_shows_it(
    project: Project, small_map: Rendering, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_STORE", "s3://tiles/my/maps")
    project.crawl(SMALL, SMALL_DAY)
    published = small_map.images()
    versions = {version.tile: version for version in project.versions()}
    assert versions.keys() == published.keys()
    for tile, body in published.items():
        sha1 = versions[tile].sha1
        assert sha1 is not None
        assert s3.ask("GET", f"/tiles/my/maps/{sha1[:2]}/{sha1}.png").body == body
    assert not (project.data / "tiles").exists()
    version = next(iter(versions.values()))
    with project.running("serve", "--port", "0") as viewer:
        address = viewer.stdout.readline().split()[4]
        with urlopen(f"{address}tiles/{version.sha1}.{version.extension}") as answer:
            assert answer.read() == published[version.tile]
