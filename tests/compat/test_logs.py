import logging

import pytest

from seatrial.compat.logs import (
    log_level,
    print_prompt_completions_sample,
    print_time,
    quiet_verifiers,
    truncate,
    warning_once,
)


def test_the_level_holds_for_a_block():
    loggers = [logging.getLogger(name) for name in ("seatrial", "verifiers")]
    before = [logger.level for logger in loggers]
    with log_level("debug"):
        assert [logger.level for logger in loggers] == [logging.DEBUG] * 2
        with quiet_verifiers():
            assert loggers[1].level == logging.WARNING
    assert [logger.level for logger in loggers] == before


def test_a_warning_is_given_once(caplog):
    for message in ("a of this test", "a of this test", "b of this test"):
        warning_once(logging.getLogger("verifiers.own"), message)
    assert [record.message for record in caplog.records] == ["a of this test", "b of this test"]


@pytest.mark.parametrize(
    ("seconds", "read"), [(0.02, "20ms"), (7, "7s"), (60, "1m"), (310, "5m 10s"), (3600, "1h"), (183600, "2d 3h")]
)
def test_times_are_read_by_people(seconds, read):
    assert print_time(seconds) == read


def test_long_texts_are_cut():
    assert (truncate("abc", 3), truncate("abcd", 3)) == ("abc", "abc...")


def test_a_sample_shows_what_was_said(capsys):
    prompts = [[{"role": "user", "content": "2+2?"}], [{"role": "user", "content": "unseen"}]]
    completions = [[{"role": "assistant", "content": "four"}], "unseen"]
    print_prompt_completions_sample(prompts, completions, [None, "lost"], [0.5, None], step=7)
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("2+2?", "four", "0.50", "Step 7"))
    assert "unseen" not in shown
