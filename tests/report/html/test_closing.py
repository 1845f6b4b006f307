import shlex
from pathlib import Path

from seatrial.report.document import ReportOptions, make_document
from seatrial.report.html.closing import reproduce_section
from seatrial.report.html.page import render_html
from tests.analysis.memory_jobs import memory_job, trial
from tests.cli_words import taken_apart


def test_the_command_has_every_option_as_the_program_takes_it():
    options = ReportOptions(
        title="-x 'y'",
        baseline="a",
        level=0.999_999_9,
        seed=123_456_789,
        clusters="family",
        comparability="forced",
        filters=("task=t",),
    )
    words = shlex.split(reproduce_section(make_document([memory_job([trial("t", "a", 1.0)])], options)).commands[0])
    taken = taken_apart("report", words[2:])
    assert [taken[name] for name in ("title", "baseline", "level", "seed")] == ["-x 'y'", "a", 0.999_999_9, 123_456_789]
    assert taken["family"]
    assert taken["force"]
    assert str(taken["where"]) == "task=t"


def test_a_folder_is_one_word_in_commands_for_readers_without_a_script():
    job = memory_job([trial("t", "a", 1.0)])
    job.store.path = Path("/my jobs")
    assert b"seatrial show --all &#39;/my jobs&#39;" in render_html(make_document([job]))
