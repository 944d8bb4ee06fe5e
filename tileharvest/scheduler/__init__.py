"""Scrapy's scheduler, ours: `SCHEDULER = "tileharvest.scheduler.Scheduler"`."""

from tileharvest.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
