"""For `scrapyd-deploy`, which builds its egg with this file; all else is in pyproject.toml."""

from setuptools import setup

setup()
