"""What the server that forks programs does once, besides loading modules, so that no program has to.

Scrapy asks of each class in the modules of commands whether it is a command. Python's abstract classes take
long to find an answer, which is a fifth of what a short command costs, and remember it. It also reads the
metadata of all packages that are installed, for commands that they may have.
"""

from __future__ import annotations

import gc
import inspect
from functools import cache

from scrapy import cmdline
from scrapy.commands import ScrapyCommand
from scrapy.utils.misc import walk_modules_iter

for _package in ("scrapy.commands", "tileharvest.commands"):
    for _module in walk_modules_iter(_package):
        for _, _class in inspect.getmembers(_module, inspect.isclass):
            issubclass(_class, ScrapyCommand)

cmdline.entry_points = cache(cmdline.entry_points)
cmdline.entry_points(group="scrapy.commands")

# What was loaded stays, so no program looks through it for garbage, which would copy all of it, too.
gc.collect()
gc.freeze()
