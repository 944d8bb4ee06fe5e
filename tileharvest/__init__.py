"""TileHarvest: the time machine for web maps. The flow, one way, downhill:

maps.toml -> MapDescription (maps/) -> renderer: the site's configuration and layers (renderers/)
  -> walk: which tiles are asked for (walk/) -> spider: a BlockRequest for each block of them (spiders/)
  -> scheduler: segment, seen?, lane, lease (scheduler/, queue/)
  -> DiffMiddleware: what the history knows of the block (middlewares/)
  -> download handler: asks the tiles, each when it may start (politeness/), and answers with a BlockResponse
  -> DiffMiddleware again, with the verdict (tiles/verdict.py): a HEAD settles the outcome or leads to a GET,
     and a GET is judged by its SHA1
  -> spider callback: what is asked next, the blocks below, and a BlockResult (spiders/)
  -> pipeline (pipelines/, harvest/): 1 the images are stored (store/), 2 the block is recorded (history/)
  -> LeaseMiddleware: 3 the lease ends (scheduler/)
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
