"""`tileharvest rate NAME [RATE | default]`: how fast a map is asked, changed by hand."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from scrapy.commands import ScrapyCommand

from tileharvest.commands.project_command import ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.commands.terminal import write_answer
from tileharvest.errors import ConfigurationError, program
from tileharvest.maps.rates import parse_rate, rate_in_words
from tileharvest.queue.controls import Controls, controls_of, set_rate

if TYPE_CHECKING:
    from tileharvest.maps.rates import Delay

_OWN: Final = "default"
"""The word that takes back a rate that was set by hand."""


class Command(ProjectCommand, ScrapyCommand):
    arguments = "NAME [RATE]"
    form = "NAME [2/s | 30/min | 100/h | default]"
    summary = "Show or set how fast a map is asked"
    details = "A new rate also holds for what runs now."
    examples = ("my-server 2/s", "my-server default")

    def answer(self, opts: Namespace) -> None:
        from tileharvest.politeness.settings import rules_for

        owner = queue_owner(self.settings, opts.name)
        if owner.description is None:
            raise ConfigurationError(
                f"{owner.in_words} harvests no map: its rate is Scrapy's DOWNLOAD_DELAY; stop it, set"
                " that, and run it again, and it goes on"
            )
        own = rules_for(self.settings, owner.description).gap
        if opts.rate == _OWN:
            owner.ask_if_any(lambda queue: set_rate(queue, None), None)
        elif opts.rate is not None:
            _check_rate(opts.rate)
            owner.ask(lambda queue: set_rate(queue, opts.rate))
        by_hand = owner.ask_if_any(controls_of, Controls()).rate
        asks = f"{owner.in_words} is asked"
        if by_hand is None:
            words = f"{asks} at its own rate: {_in_words(own)}; none is set by hand"
        else:
            words = (
                f"{asks} at {_in_words(by_hand)}, as set by hand, until"
                f" `{program()} rate {owner.name} {_OWN}`; its own rate: {_in_words(own)}. Where its host,"
                " robots.txt or quiet hours ask for less, that holds"
            )
        result = {
            owner.kind: opts.name,
            "by_hand": by_hand and _in_words(by_hand),
            "own": _in_words(own),
        }
        write_answer(result, words, as_json=opts.json)


def _check_rate(text: str) -> None:
    """Raises ConfigurationError for a text that is not a rate."""
    try:
        parse_rate(text)
    except ValueError as error:
        raise ConfigurationError(f"{error}; or {_OWN} for its own") from None


def _in_words(gap: Delay) -> str:
    return rate_in_words(gap) if gap.least == gap.most else f"{rate_in_words(gap)}, {gap} apart"
