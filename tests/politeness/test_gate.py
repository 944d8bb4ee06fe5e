"""A gate is open while there is no reason to hold requests back."""

from __future__ import annotations

from tileharvest.politeness.gate import Gate, Reason


def test_it_opens_when_the_last_reason_is_gone() -> None:
    gate = Gate(lambda: None)
    gate.hold(Reason.PAUSED)
    gate.hold(Reason.DOWN)
    gate.let_go(Reason.PAUSED)
    assert not gate.is_open
    assert (gate.holds(Reason.DOWN), gate.holds(Reason.PAUSED)) == (True, False)
    gate.let_go(Reason.DOWN)
    assert gate.is_open


def test_it_tells_only_when_it_opens_or_shuts() -> None:
    told: list[bool] = []
    gate = Gate(lambda: told.append(gate.is_open))
    gate.let_go(Reason.QUIET)
    for reason in (Reason.PAUSED, Reason.PAUSED, Reason.QUIET):
        gate.hold(reason)
    for reason in (Reason.QUIET, Reason.PAUSED, Reason.PAUSED):
        gate.let_go(reason)
    assert told == [False, True]
