"""The message of a notice, and the rule when a notice is sent. Pure.

The text is Markdown that is also readable as plain text, because services show it differently. Tables and
errors are indented, and addresses stand in angle brackets.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tileharvest.errors import AlreadyHarvestedError, BudgetError, ExitStatus, counted, printable
from tileharvest.maps.budgets import bytes_in_words
from tileharvest.maps.permalink import permalink
from tileharvest.tiles.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from tileharvest.errors import TileHarvestError
    from tileharvest.history.costs import Cost
    from tileharvest.notices.notice import ChangedPlace

_WIDTH: Final = 76
"""The columns of an indented line. Mail programs show that many without breaking the line."""

_MOST_IN_TITLE: Final = 3
"""The most areas that a title names."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a harvest that has ended."""

    map: str
    day: date
    counts: Mapping[Outcome, int]
    """Empty for a harvest that was ended before it began."""
    error: TileHarvestError | None = None
    """The error that has ended the harvest. None if it is complete."""
    cost: Cost | None = None
    """The cost of all workers together. None for a harvest that was ended before it began."""

    @property
    def changed(self) -> int:
        """The number of tiles with a new version."""
        return sum(tiles for outcome, tiles in self.counts.items() if outcome.makes_version)

    @property
    def failed(self) -> int:
        """The number of failed tiles."""
        return self.counts.get(Outcome.FAILED, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """The text of a notice."""

    title: str
    """One line."""
    body: str
    """Markdown."""
    is_failure: bool


def is_wanted(report: Report, occasions: Collection[str]) -> bool:
    """Returns whether a notice of this result is wanted. `occasions` are words of `NOTICES`.

    No notice is sent if the harvest was complete already, or if its daily budget was spent before. Such a run
    asked for nothing, and there was a notice of the run before.
    """
    error = report.error
    if isinstance(error, AlreadyHarvestedError) or (isinstance(error, BudgetError) and not report.counts):
        return False
    return (
        "always" in occasions
        or ("change" in occasions and report.changed > 0)
        or ("failure" in occasions and _is_failure(report))
    )


def compose(
    report: Report,
    places: Sequence[ChangedPlace] = (),
    viewer: str = "",
    areas: Sequence[ChangedPlace] = (),
) -> Message:
    """Returns the message about a result.

    `viewer` is the address of the viewer. Without it the message has no links. `areas` are the watched areas
    that have changed. The title names them.
    """
    parts = []
    if report.error is not None:
        parts.append(_indented(textwrap.wrap(str(report.error), _WIDTH, break_on_hyphens=False)))
    if report.counts:
        parts.append(_indented(_table(report.counts)))
    if report.cost is not None:
        parts.append(_in_words(report.cost))
    for heading, found in (("Areas that changed:", areas), ("Where most changed:", places)):
        if found:
            parts += [heading, "\n".join(_line(report, place, viewer) for place in found)]
    return Message(_title(report, areas), "\n\n".join(parts) + "\n", _is_failure(report))


def _is_failure(report: Report) -> bool:
    return report.error is not None or report.failed > 0


def _title(report: Report, areas: Sequence[ChangedPlace]) -> str:
    said = [f"{printable(area.area)} has changed" for area in areas[:_MOST_IN_TITLE]]
    if len(areas) > _MOST_IN_TITLE:
        said.append(f"{len(areas) - _MOST_IN_TITLE} more areas have changed")
    if report.error is not None:
        by_budget = report.error.exit_status is ExitStatus.BUDGET
        said.append("ended by its budget" if by_budget else "the harvest failed")
    if report.changed or report.error is None:
        said.append(f"{counted(report.changed, 'tile')} changed" if report.changed else "nothing changed")
    if report.failed:
        said.append(f"{counted(report.failed, 'tile')} failed")
    return f"{report.map}, {report.day}: {', '.join(said)}"


def _table(counts: Mapping[Outcome, int]) -> list[str]:
    rows = [("outcome", "tiles")]
    rows += [(outcome.value, f"{counts[outcome]:,}") for outcome in Outcome if counts.get(outcome)]
    width = max(len(figure) for _, figure in rows)
    return [f"{word:<8} {figure:>{width}}" for word, figure in rows]


def _in_words(cost: Cost) -> str:
    received, spared = bytes_in_words(cost.received_bytes), bytes_in_words(cost.spared_bytes)
    return f"{counted(cost.requests, 'request')}, {received} received, {spared} spared by ETags."


def _line(report: Report, place: ChangedPlace, viewer: str) -> str:
    title = _quoted(place.area) if place.area else f"{place.tile} of {_quoted(place.layer)}"
    if place.degrees is not None:
        title += " at {:.5f}\u00b0, {:.5f}\u00b0".format(*place.degrees)
    line = f"- {title}: {counted(place.count, 'tile')}"
    if not viewer:
        return line
    address = permalink(viewer, report.map, place.layer, report.day, place.x, place.z, place.zoom)
    return f"{line}\n  <{address}>"


def _quoted(name: str) -> str:
    """Returns a name for Markdown, which ignores all characters between backticks. A site may put any
    characters into a layer's name."""
    words = " ".join(printable(name).replace("`", "'").split())
    return f"`{words}`"


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
