"""What the commands about one map have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError

from tileharvest.commands.terminal import failing_clearly

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings, Settings


class MapCommand:
    """`scrapy WORD [--json] NAME`, where WORD is the name of the command's module.

    A command inherits from this and from ScrapyCommand, in this order, and gives `short_desc` and `answer`.
    This is no ScrapyCommand itself: Scrapy would offer it as one of the commands.
    """

    requires_project = True
    requires_crawler_process = False
    settings: Settings | None
    exitcode: int

    def syntax(self) -> str:
        return "[options] NAME"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)  # type: ignore[misc]
        parser.add_argument("--json", action="store_true", help="write JSON for programs")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self.check(args)
        assert self.settings is not None
        with failing_clearly(self):
            self.answer(self.settings, args, opts)

    def check(self, args: list[str]) -> None:
        """Raises UsageError unless exactly one map is named."""
        if len(args) != 1:
            word = type(self).__module__.rpartition(".")[2]
            raise UsageError(f"say which map: scrapy {word} NAME", print_help=False)

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        """Write what was asked for. Raises TileHarvestError, which becomes a line and an exit status."""
        raise NotImplementedError
