"""Scrapy's scheduler, ours: `SCHEDULER = "tileharvest.scheduler.Scheduler"`, with its spider middleware."""

from tileharvest.scheduler.leases import LeaseMiddleware
from tileharvest.scheduler.scheduler import Scheduler

__all__ = ["LeaseMiddleware", "Scheduler"]
