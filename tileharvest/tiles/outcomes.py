"""The outcomes: what a harvest can find for one tile. Pure."""

from enum import StrEnum


class Outcome(StrEnum):
    """One word per tile and harvest; the words of the history, of the commands and of the messages."""

    NOTHING = "404"
    """Nothing here, and nothing known."""
    IGNORED = "ign"
    """The server's validator is the stored one: not fetched."""
    SKIPPED = "skip"
    """Not asked, as nothing above it has changed. Counted when a harvest ends; no tile's result."""
    NOT_MODIFIED = "nMod"
    """Fetched, and the same bytes as the latest version."""
    UPDATED = "upd"
    """Other bytes than the latest version, which is of an earlier day."""
    ADDED = "add"
    """A first version, or the first since the tile was gone."""
    REPLACED = "rep"
    """Other bytes than the latest version, which is of this day: they take its place."""
    GONE = "gone"
    """A version is known, and the server has the tile no more."""
    FAILED = "fail"
    """No answer that says anything, after all attempts: the tile counts as unchanged."""

    @property
    def makes_version(self) -> bool:
        """Whether the history gets a new version of the tile, or another in place of today's."""
        return self in _MAKING_VERSIONS


_MAKING_VERSIONS = frozenset({Outcome.UPDATED, Outcome.ADDED, Outcome.REPLACED, Outcome.GONE})
