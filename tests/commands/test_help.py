"""What `-h` shows, and what Scrapy has to load for it."""

import argparse
import shlex
import subprocess
import sys
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


def test_to_load_all_commands_loads_none_of_what_they_work_with() -> None:
    """Scrapy loads all commands whenever it runs one."""
    program = (
        "import sys\n"
        "from scrapy.utils.misc import walk_modules_iter\n"
        "assert len(list(walk_modules_iter('tileharvest.commands'))) > 30\n"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {
        "sqlalchemy",
        "aiohttp",
        "PIL",
        "obstore",
        "redis",
        "tileharvest.export.excerpt",
        "tileharvest.harvest.harvest",
        "tileharvest.importers",
        "tileharvest.pictures",
        "tileharvest.queue.settings",
        "tileharvest.renderers.registry",
        "tileharvest.scheduler",
        "tileharvest.spiders.tiles",
    }
    assert not heavy & set(run.stdout.split())
