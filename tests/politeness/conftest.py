"""Asynchronous tests of politeness run on a clock that jumps."""

from tests.middlewares.making import JumpingLoop


def pytest_asyncio_loop_factories() -> dict[str, type[JumpingLoop]]:
    return {"jumping": JumpingLoop}
