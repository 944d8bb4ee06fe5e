"""`tileharvest rate NAME [RATE | default]`: how fast a map is asked, changed by hand."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from tileharvest.commands.project_command import Answer, ProjectCommand
from tileharvest.commands.settings import queue_owner
from tileharvest.errors import ConfigurationError, program
from tileharvest.maps.rates import Delay, parse_rate, rate_in_words
from tileharvest.politeness.settings import rules_for
from tileharvest.queue.controls import Controls, controls_of, set_rate

_OWN: Final = "default"
"""The word that takes back a rate that was set by hand."""


class Command(ProjectCommand):
    arguments = "NAME [RATE]"
    form = "NAME [2/s | 30/min | 100/h | default]"
    summary = "Show or set how fast a map is asked"
    details = "A new rate also holds for what runs now."
    examples = ("my-server 2/s", "my-server default")

    def check(self, opts: Namespace) -> None:
        if opts.rate not in (None, _OWN):
            try:
                parse_rate(opts.rate)
            except ValueError as error:
                raise ConfigurationError(f"{error}; or {_OWN} for its own") from None

    def answer(self, opts: Namespace) -> Answer:
        owner = queue_owner(self.settings, opts.name)
        if owner.description is None:
            raise ConfigurationError(
                f"{owner.in_words} harvests no map: its rate is Scrapy's DOWNLOAD_DELAY; stop it, set"
                " that, and run it again, and it goes on"
            )
        if opts.rate is not None:
            rate = None if opts.rate == _OWN else opts.rate
            owner.ask(lambda queue: set_rate(queue, rate))
        own = _in_words(rules_for(self.settings, owner.description).gap)
        by_hand = owner.ask_if_any(controls_of, Controls()).rate
        words = f"{owner.in_words} is asked at its own rate: {own}; none is set by hand"
        if by_hand is not None:
            words = (
                f"{owner.in_words} is asked at {_in_words(by_hand)}, as set by hand, until"
                f" `{program()} rate {owner.name} {_OWN}`; its own rate: {own}. Where its host, robots.txt or"
                " quiet hours ask for less, that holds"
            )
        result = {owner.kind: opts.name, "by_hand": by_hand and _in_words(by_hand), "own": own}
        return result, [words]


def _in_words(gap: Delay) -> str:
    return rate_in_words(gap) if gap.least == gap.most else f"{rate_in_words(gap)}, {gap} apart"
