"""The project's item pipeline: `ITEM_PIPELINES = {"tileharvest.pipelines.HistoryPipeline": 300}`."""

from tileharvest.pipelines.pipeline import HistoryPipeline

__all__ = ["HistoryPipeline"]
