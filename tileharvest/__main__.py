"""The program `python -m tileharvest`, which is `tileharvest` too."""

from tileharvest.commands.program import main

if __name__ == "__main__":
    main()
