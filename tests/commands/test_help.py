"""What `scrapy WORD -h` shows, and what Scrapy has to load for it."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
from scrapy.cmdline import ScrapyArgumentParser
from scrapy.commands import ScrapyHelpFormatter
from scrapy.utils.misc import walk_modules_iter
from scrapy.utils.project import get_project_settings

COMMANDS = [
    module.Command for module in walk_modules_iter("tileharvest.commands") if hasattr(module, "Command")
]


@pytest.mark.parametrize("columns", range(60, 140, 4))
def test_only_headings_are_headings_however_wide_the_terminal_is(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for command_class in COMMANDS:
        command = command_class()
        command.settings = get_project_settings()
        parser = ScrapyArgumentParser(
            formatter_class=ScrapyHelpFormatter, description=command.long_desc(), conflict_handler="resolve"
        )
        command.add_options(parser)
        lines = parser.format_help().splitlines()
        ruled = itertools.pairwise(lines)
        headings = [line for line, rule in ruled if rule and not rule.strip("=-")]
        assert set(headings) <= {"Usage", "Options", "Global Options"}, (command_class.__module__, headings)


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
