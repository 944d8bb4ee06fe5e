"""`scrapy rate NAME [RATE | default]`: how fast a map or a spider asks, changed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.commands.terminal import write_answer
from tileharvest.errors import ConfigurationError
from tileharvest.maps.rates import NO_GAP, parse_rate, rate_in_words
from tileharvest.queue.orders import Orders, orders_of, set_rate

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import BaseSettings

    from tileharvest.commands.settings import QueueOwner
    from tileharvest.maps.rates import Gap

_OWN: Final = "default"
"""The word that takes back a rate that was set by hand."""


class Command(ProjectCommand, ScrapyCommand):
    form = "[options] NAME [2/s | 30/min | 100/h | default]"
    summary = "Show or set how fast a map is asked, or a spider asks"
    details = "A new rate also holds for what runs now."
    arguments = range(1, 3)
    usage = "say which map, and how fast: scrapy rate NAME 2/s"

    def answer(self, settings: BaseSettings, args: list[str], opts: argparse.Namespace) -> None:
        name, *rate = args
        owner = queue_owner(settings, name)
        own = NO_GAP
        if owner.description is not None:
            from tileharvest.politeness.settings import rules_for

            own = rules_for(settings, owner.description).gap
        if rate:
            _check_rate(rate[0])
            if rate[0] == _OWN:
                owner.ask_if_any(lambda queue: set_rate(queue, None), None)
            else:
                owner.ask(lambda queue: set_rate(queue, rate[0]))
        by_hand = owner.ask_if_any(orders_of, Orders()).rate
        words = None if by_hand is None else _in_words(by_hand)
        told = {owner.kind: name, "by_hand": words, "own": _in_words(own)}
        write_answer(told, _sentence(owner, by_hand, own), as_json=opts.json)


def _check_rate(text: str) -> None:
    """Raises ConfigurationError for a text that is neither a rate nor `default`."""
    try:
        if text != _OWN:
            parse_rate(text)
    except ValueError as error:
        raise ConfigurationError(f"{error}; or {_OWN} for its own") from None


def _sentence(owner: QueueOwner, by_hand: Gap | None, own: Gap) -> str:
    if by_hand is None:
        return f"{_asking(owner)} at its own rate: {_in_words(own)}; none is set by hand"
    return (
        f"{_asking(owner)} at {_in_words(by_hand)}, as set by hand, until scrapy rate {owner.name} {_OWN};"
        f" its own rate: {_in_words(own)}. Where its host, robots.txt or quiet hours ask for less, that holds"
    )


def _asking(owner: QueueOwner) -> str:
    return f"{owner.in_words} {'asks' if owner.description is None else 'is asked'}"


def _in_words(gap: Gap) -> str:
    return rate_in_words(gap) if gap.least == gap.most else f"{rate_in_words(gap)}, {gap} apart"
