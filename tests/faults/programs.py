"""A program that runs other programs, each with a fault. It runs with `failing_calls.c` preloaded, which the
server that it forks them from inherits.

It reads lines of JSON: a list of arguments, and the environment. For each line it runs `scrapy ARGUMENTS`
and writes a list: exit status, stdout, stderr.
"""

from __future__ import annotations

import json
import sys
from typing import Final

from tests.end_to_end.forking import Forked

_PATIENCE: Final = 240.0
"""The most seconds that a program may take."""


def main() -> None:
    for line in sys.stdin:
        arguments, environment = json.loads(line)
        program = Forked("scrapy", arguments, environment)
        output, errors = program.communicate(_PATIENCE)
        program.close()
        sys.stdout.write(json.dumps([program.returncode, output, errors]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
