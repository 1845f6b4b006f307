"""Answers that hold for all trials of a task."""

from seatrial.trial import reference as answers_module


def test_only_so_many_answers_are_kept(monkeypatch):
    monkeypatch.setattr(answers_module, "_KEPT_ANSWERS", 2)
    answers: answers_module.Answers[str] = answers_module.Answers()
    for question in range(5):
        answers.keep(question, "silent")
    assert list(answers.known) == [3, 4]
