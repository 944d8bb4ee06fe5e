"""The program `tileharvest`, which is `python -m tileharvest` too."""

import sys


def main() -> None:
    """Runs the program. Ctrl-C ends it with one word, also while its modules are loaded, which takes half a
    second."""
    try:
        from tileharvest.commands import program  # noqa: PLC0415

        program.main()
    except KeyboardInterrupt:
        sys.exit("stopped")


if __name__ == "__main__":
    main()
