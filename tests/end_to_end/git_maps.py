"""The shared maps that are read through git, beside what harvests over HTTP have recorded of them."""

from typing import Any, Final

from tests.end_to_end.project import RecordedVersion
from tests.end_to_end.real_maps import ANTWORLD_MAP, DUCKMAP, MAPCRAFTERS

URL: Final = "https://map.example.net/world/"
"""Nobody is there: where git is asked, the site is asked nothing."""
MAPS: Final = (ANTWORLD_MAP, MAPCRAFTERS[0], DUCKMAP)
"""They show all that differs where git is asked: squares, regions, one layer and several. The others differ
in what their renderers publish, which has tests of its own."""


def rows(versions: set[RecordedVersion]) -> set[tuple[Any, ...]]:
    """Returns the versions without what only a server says: ETags and times."""
    return {version[:8] for version in versions}
