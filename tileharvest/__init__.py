"""TileHarvest: the time machine for web maps. The flow, one way, downhill:

maps.toml -> MapDescription (maps/) -> site probe: configuration and depth (maps/overviewer.py)
  -> walk: which tiles to ask for (walk/) -> spider: HEAD requests (spiders/)
  -> scheduler: segment, seen?, lane, lease (scheduler/) -> Scrapy's downloader
  -> retry and diff middlewares (middlewares/)
  -> verdict: HEAD is done or calls for a GET, GET is judged by SHA1 (verdict.py, pure)
  -> spider callback: TileResult item, requests for the tiles below (items.py, spiders/)
  -> pipeline: 1 store the bytes (store/), 2 record the version (history/) (harvest/, pipelines.py),
     3 the lease is finished (scheduler/completion.py)
  -> history and store -> commands (commands/), read only
"""
