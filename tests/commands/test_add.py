from __future__ import annotations

import pytest

from tileharvest.commands.add import asked_contact


@pytest.mark.parametrize(
    ("known", "answers", "contact"),
    [
        ([], ["me@example.net"], "me@example.net"),
        ([], ["https://example.net/why"], "https://example.net/why"),
        ([], [""], ""),
        (["a@example.net", "b@example.net"], [""], "b@example.net"),
        (["a@example.net"], ["-"], ""),
        (
            ["a@example.net"],
            ["me", "me (at) example.net", "(me@example.net)", "me@example.net"],
            "me@example.net",
        ),
    ],
)
def test_a_person_is_asked_until_the_answer_can_be_one(
    known: list[str], answers: list[str], contact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[str] = []

    def line(question: str) -> str:
        questions.append(question)
        return answers[len(questions) - 1]

    assert asked_contact(known, line) == contact
    assert len(questions) == len(answers)
    assert all(one in "".join(questions) + capsys.readouterr().err for one in known)
