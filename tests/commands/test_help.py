"""What `-h` shows."""

import argparse
import shlex
from typing import Any

import pytest
from scrapy.cmdline import ScrapyArgumentParser
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.project import get_project_settings

COMMANDS = {
    module.__name__.rpartition(".")[2]: module.Command
    for module in walk_modules_iter("tileharvest.commands")
    if hasattr(module, "Command") and hasattr(module.Command, "examples")
}


def parser_of(command: Any) -> argparse.ArgumentParser:
    command.settings = get_project_settings()
    parser = ScrapyArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    return parser


@pytest.mark.parametrize("word", COMMANDS)
def test_help_has_two_examples_that_can_be_typed_and_scrapys_options_last(word: str) -> None:
    command = COMMANDS[word]()
    parser = parser_of(command)
    shown = parser.format_help()
    assert shown.startswith(f"usage: tileharvest {word} [options]")
    own, _, scrapys = shown.partition("\nScrapy's options:\n")
    assert "--logfile" not in own
    assert all(f"{option} " in scrapys for option in ("--logfile", "-s"))
    assert len(command.examples) == 2
    for example in command.examples:
        assert f"  tileharvest {word} {example}".rstrip() in own
        opts, args = parser.parse_known_args(shlex.split(example))
        command._refuse_unknown_options(args)
        command._read(args, opts)
