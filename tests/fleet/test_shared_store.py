"""Workers as on several boxes: the history on a server, the images on S3, and nothing on their own disks."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING

from tests.fleet.records import records
from tests.servers.s3 import environment, s3

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.rendering import Rendering
    from tests.fleet.workers import Fleet
    from tests.servers.nginx import Nginx
    from tests.servers.redis import RedisServer


def test_workers_keep_every_image_on_s3_once_and_nothing_in_a_folder(
    fleet_on: Callable[..., Fleet],
    redis: RedisServer,
    postgresql: str,
    small: Rendering,
    nginx: Callable[..., Nginx],
) -> None:
    fleet = fleet_on(redis.url, postgresql)
    fleet.describe(nginx(small.folder).url, requests_per_second=50)
    with s3() as bucket:
        bucket.start_over("tiles")
        places = environment(bucket.url) | {"TILE_STORE": "s3://tiles/my/maps"}
        fleet.assert_ended_together(*[fleet.start(environment=places) for _ in range(3)])
        images = small.images()
        for body in images.values():
            name = sha1(body).hexdigest()
            assert bucket.ask("GET", f"/tiles/my/maps/{name[:2]}/{name}.png").body == body
    found = records(fleet)
    assert {version.tile: version.sha1 for version in found.versions} == {
        tile: sha1(body).hexdigest() for tile, body in images.items()
    }
    assert found.harvests[-1].stored_bytes == sum(map(len, set(images.values())))
    assert not (fleet.project.data / "tiles").exists()
