"""A program's clock that goes wrong while it runs."""

from pathlib import Path


class Clock:
    """A program's clock, which the test sets while it runs. What measures time that passes goes on evenly."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            # Seconds for which it is not read again.
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Else threads that wait for a time go round without a pause, with the C libraries of today.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
        self.step(0)

    def step(self, seconds: float) -> None:
        """Lets the clock go wrong by so many seconds."""
        self._file.write_text(f"{seconds:+.0f}")
