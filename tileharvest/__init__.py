"""TileHarvest: the time machine for web maps. The flow, one way, downhill:

maps.toml -> MapDescription (maps/) -> renderer: the site's configuration and layers (renderers/)
  -> walk: which tiles are asked for (walk/) -> spider: HEAD requests, GET in a first harvest (spiders/)
  -> scheduler: segment, seen?, lane, lease (scheduler/, queue/)
  -> politeness: may the next request start? (politeness/) -> Scrapy's downloader
  -> retry and diff middlewares (middlewares/), with the verdict (tiles/verdict.py): a HEAD settles the
     outcome or leads to a GET, and a GET is judged by its SHA1
  -> spider callback: a TileResult (tiles/results.py), and requests for the tiles below (spiders/)
  -> pipeline (pipelines/, harvest/): 1 the bytes are stored (store/), 2 the version is recorded (history/),
     3 the lease is finished (scheduler/)
  -> history and store -> pictures (pictures/) -> viewer, export, notices and commands, which only read
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Returns the add-on `tileharvest.TileHarvest`. It is loaded here, so that the package itself loads
    nothing."""
    if name == "TileHarvest":
        from tileharvest.extensions.addon import TileHarvest  # noqa: PLC0415

        return TileHarvest
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
