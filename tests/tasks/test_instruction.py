"""Which file an instruction asks for: one table of sentences as authors write them, and the choice for each."""

import pytest

from seatrial.model.task import TaskConfig, VerifierPhaseSpec
from seatrial.tasks.expected import resolve_output
from seatrial.tasks.instruction import named_paths, strip_canary

NONE = ("none", None)


def inferred(name):
    return ("inferred", f"/workspace/{name}")


def guessed(name):
    return ("guessed", f"/workspace/{name}")


def choice(instruction, workdir="/workspace"):
    output = resolve_output(TaskConfig(), VerifierPhaseSpec(), instruction, workdir, None)
    return output.source, output.path


PLAIN = {
    "Write the answer to `/workspace/out.json`.": inferred("out.json"),
    "Save the plot as /workspace/plot.png": inferred("plot.png"),
    "Put the answer in a file called `/workspace/answer`.": inferred("answer"),
    "Generate a report (/workspace/report.md) for the owner.": inferred("report.md"),
    "The total is to be stored in '/workspace/total.txt'!": inferred("total.txt"),
    "**Output:** `/workspace/out.csv`": inferred("out.csv"),
    "Write a JSON file to\n`/workspace/out.json` with the sum.": inferred("out.json"),
    "Write it to [the results file](/workspace/out.json).": inferred("out.json"),
    "Write the tables into the folder `/workspace/tables/`.": inferred("tables"),
    "Write the archive to /workspace/v1.2/build.tar.gz.": inferred("v1.2/build.tar.gz"),
    "Export the orders to “/workspace/bestellungen-größe.csv”.": inferred("bestellungen-größe.csv"),
    "WRITE THE ANSWER TO /workspace/ANSWER.TXT": inferred("ANSWER.TXT"),
    # Inputs and tools do not count.
    "Read /workspace/in.csv and find the mean.": NONE,
    "Read `/workspace/in.csv` and write the mean to `/workspace/mean.txt`.": inferred("mean.txt"),
    "The data in /workspace/in.csv must be cleaned; save it as /workspace/clean.csv.": inferred("clean.csv"),
    "Generate /workspace/out.json from /workspace/in.json.": inferred("out.json"),
    "Write /workspace/out.json, using the template provided in /workspace/template.json.": inferred("out.json"),
    "Use /workspace/bin/solver to create /workspace/answer.sol.": inferred("answer.sol"),
    "Run /workspace/calc.py and store what it prints in /workspace/log.txt.": inferred("log.txt"),
    "You are given /workspace/in.json. Sort it.": NONE,
    "`/workspace/in.csv` contains one row per day. What is the mean?": NONE,
    "Write a script at /workspace/solve.py that reads /workspace/in.csv.": inferred("solve.py"),
    # The passive voice asks too.
    "`/workspace/out.json` must contain the keys `a` and `b`.": inferred("out.json"),
    "/workspace/out.csv should have one row per sensor.": inferred("out.csv"),
    "The answer must be written to /workspace/answer.txt.": inferred("answer.txt"),
    "Your answer belongs into /workspace/answer.txt.": inferred("answer.txt"),
    # A refusal asks for nothing.
    "Do not write to /workspace/raw.csv.": NONE,
    "Write to /workspace/out.csv. Never write anything to /workspace/raw.csv.": inferred("out.csv"),
    "Write to /workspace/out.csv without touching /workspace/raw.csv.": inferred("out.csv"),
    # Of several outputs the last one counts.
    "Write the sums to /workspace/a.json and the plot to /workspace/b.png.": inferred("b.png"),
    "Create /workspace/b.txt first. Create /workspace/a.txt next.": inferred("a.txt"),
    "Write /workspace/a.json. Write /workspace/b.json. Write it all again to /workspace/a.json.": inferred("a.json"),
    "Write /workspace/out/a.json. Write more files to /workspace/out.": inferred("out/a.json"),
    "Write /workspace/out/a.json. Write more files to /workspace/outer.": inferred("outer"),
    "Write /workspace/a.json. You may also write tables to /workspace/b.csv.": inferred("a.json"),
    "Write /workspace/a.json. The result should have the shape shown in /workspace/schema.json.": inferred("a.json"),
    # A mere mention is a guess, and only of a file in a format we read.
    "Have a look at /workspace/data.csv.": guessed("data.csv"),
    "Have a look at /workspace/a.csv and /workspace/b.csv.": guessed("b.csv"),
    "Fix the bug in /workspace/src/main.py.": NONE,
    # Patterns, placeholders, addresses and folders of others are no paths.
    "Write one file per day to /workspace/days/*.csv.": NONE,
    "Write one file per sensor to /workspace/out/<sensor>.json.": NONE,
    "Write each part to /workspace/part_{n}.csv.": NONE,
    "Write it to /workspace/$NAME.txt.": NONE,
    "Save the page at https://example.com/workspace/page.html.": NONE,
    "Save it to ~/workspace/out.json or ./workspace/out.json.": NONE,
    "Write it to /tmp/out.json.": NONE,
    "Write your files into /workspace.": NONE,
    "Write your files into /workspaces/out.json.": NONE,
    "": NONE,
}  # fmt: skip


@pytest.mark.parametrize(("instruction", "expected"), PLAIN.items(), ids=PLAIN)
def test_a_sentence_leads_to_an_output(instruction, expected):
    assert choice(instruction) == expected


BLOCKS = {
    "colon and paragraph": ("Write the answer to:\n\n`/workspace/out.json`\n", inferred("out.json")),
    "colon and code block": ("Write the answer to:\n\n```\n/workspace/out.json\n```\n", inferred("out.json")),
    "colon and marked block": ("Write the answer to:\n\n~~~text\n/workspace/out.json\n~~~\n", inferred("out.json")),
    "input after a colon": ("Read the values from:\n\n`/workspace/in.json`\n", NONE),
    "list": ("- Read `/workspace/in.csv`\n- Write `/workspace/out.csv`\n", inferred("out.csv")),
    "numbered list": ("1. Write `/workspace/out.csv`\n2. See `/workspace/in.csv`\n", inferred("out.csv")),
    "labelled lines": ("Output: /workspace/out.csv\n\nInput: /workspace/in.csv\n", inferred("out.csv")),
    "Windows line ends": ("Write the answer to:\r\n\r\n```\r\n/workspace/out.json\r\n```\r\n", inferred("out.json")),
    "Windows paragraphs": ("Read the notes\r\n\r\n`/workspace/out.json` must be short\r\n", inferred("out.json")),
    "fenced command": ("Save it.\n\n```sh\nsort /workspace/a.txt > /workspace/b.txt\n```\n", NONE),
    "unclosed fence": ("Create it:\n\n```sh\nsort > /workspace/b.txt\n", NONE),
    "inline command": ("Create it by `sort /workspace/a.txt > /workspace/b.txt`.", NONE),
    "prompt": ("To create it:\n\n    $ sort /workspace/a.txt > /workspace/b.txt\n", NONE),
    "command beside a path": ("Write `/workspace/a.txt`, as `cat /workspace/b.txt` would.", inferred("a.txt")),
    "example beside a path": (
        'Write `/workspace/out.json` in this form:\n\n```json\n{"file": "/workspace/x.json"}\n```\n',
        inferred("out.json"),
    ),
}


@pytest.mark.parametrize(("instruction", "expected"), BLOCKS.values(), ids=BLOCKS)
def test_layout_leads_to_an_output(instruction, expected):
    assert choice(instruction) == expected


HARD = {
    # The source stands between the verb and the target.
    "Write the totals from /workspace/in.csv to /workspace/out.csv.": inferred("out.csv"),
    "Write the mean of the values in /workspace/in.csv to /workspace/out.json.": inferred("out.json"),
    "Save the rows of /workspace/a.csv sorted by date as /workspace/b.csv.": inferred("b.csv"),
    "Write the answer, as described in /workspace/README.md, to /workspace/answer.json.": inferred("answer.json"),
    "Copy the notes from /workspace/a.txt to /workspace/b.txt.": inferred("b.txt"),
    # The words of another path are not words of the sentence.
    "Sort /workspace/input.csv and save it. The new file is /workspace/sorted.csv.": guessed("sorted.csv"),
    "Convert /workspace/input.csv to /workspace/result.json.": guessed("result.json"),
    # Refusals of more than one verb, and in other words.
    "Write /workspace/out.txt. Do not move or rename /workspace/in.csv.": inferred("out.txt"),
    "Write /workspace/out.txt. Do not move, rename or copy /workspace/in.csv.": inferred("out.txt"),
    "Write /workspace/out.txt. You should not write to /workspace/in.csv.": inferred("out.txt"),
    "Write /workspace/out.txt. Don’t write to /workspace/in.csv.": inferred("out.txt"),  # noqa: RUF001 - as typed
    "Write /workspace/out.txt. Leave /workspace/in.csv unchanged.": inferred("out.txt"),
    "The file /workspace/in.csv must not be modified.": NONE,
    # What somebody else wrote is an input.
    "Write the mean to /workspace/mean.txt. The values were recorded in /workspace/log.csv.": inferred("mean.txt"),
    "Write a report to /workspace/report.md. The log was created by /workspace/make_log.py.": inferred("report.md"),
    # A path that is mentioned again is still no output.
    "Read /workspace/in.csv and save it to /workspace/out.csv in the form of /workspace/in.csv.": inferred("out.csv"),
    # Markdown around a path is no part of it, and a placeholder within it makes it none.
    "Write the result to **/workspace/out.json**.": inferred("out.json"),
    "Write it to <code>/workspace/out.json</code>.": inferred("out.json"),
    "Write each case to /workspace/case-<id>.json.": NONE,
    "Write the parts to /workspace/part.*.csv.": NONE,
    "Write everything below /workspace/...": NONE,
    "Write each table to /workspace/out/table_XX.json, one for each page.": NONE,
    "Write the logs to /workspace/MAXX.txt.": inferred("MAXX.txt"),
    "Create these files:\n\n- `/workspace/a.json`: sums\n- `/workspace/b.json`: means\n": inferred("b.json"),
    "Create these files:\n\n1. `/workspace/a.json`\n2. `/workspace/b.json`\n": inferred("b.json"),
    "You are given:\n\n- `/workspace/a.csv`\n- `/workspace/b.csv`\n": NONE,
    "Outputs:\n\n- `/workspace/out.csv`\n": inferred("out.csv"),
    "To create it:\n$ sort /workspace/a.txt > /workspace/b.txt\n": NONE,
}  # fmt: skip


@pytest.mark.parametrize(("instruction", "expected"), HARD.items(), ids=HARD)
def test_a_hard_sentence_leads_to_an_output(instruction, expected):
    assert choice(instruction) == expected


NAMED = {
    # The folder stands in the same sentence, after the name or before it.
    "Produce `result.json` in `/workspace`.": inferred("result.json"),
    "Write result.json into the working directory /workspace": inferred("result.json"),
    "Save the table as `tables/a.csv` under /workspace/out/.": inferred("out/tables/a.csv"),
    "In `/workspace`, create `solve.py`.": inferred("solve.py"),
    "Create a file named \"answer.txt\" inside the folder `/workspace/final`.": inferred("final/answer.txt"),
    "Write a.json and b.json to /workspace.": inferred("b.json"),
    "Read `in.csv` and write `out.csv` in /workspace.": inferred("out.csv"),
    # The text says somewhere else where the file is.
    "Save it to /elsewhere/fix.txt. All paths in fix.txt should be relative to /workspace.": NONE,
    "Save it to /elsewhere/fix.txt. Write fix.txt before you leave, in /workspace, a note.": NONE,
    # It may be where something comes from.
    "Read the logs in /workspace/logs and write report.json.": NONE,
    "Produce `report.json` from the logs in `/workspace/logs`.": NONE,
    "Write report.json. Then look into /workspace.": NONE,
    # What begins with ./ is in the working directory.
    "Write `./out.json`.": inferred("out.json"),
    "Read ./in.csv and save the means to ./sub/means.csv.": inferred("sub/means.csv"),
    "## Output\n\n`./labels.json`: one object per clip.\n": inferred("labels.json"),
    "## Inputs\n\n`./labels.json`: one object per clip.\n": NONE,
    "## Output\n\nThe file has the form of `./labels.json`.\n": NONE,
    # Neither are addresses, modules, versions, patterns and placeholders names of files.
    "Write to https://example.com/a.json in /workspace.": NONE,
    "Implement `shapes.area` in /workspace.": NONE,
    "Write v1.2 of it in /workspace.": NONE,
    "Write *.json, part-<n>.json and $NAME.json in /workspace.": NONE,
    "Create it by `sort a.txt > b.txt` in /workspace.": NONE,
}  # fmt: skip


@pytest.mark.parametrize(("instruction", "expected"), NAMED.items(), ids=NAMED)
def test_a_name_counts_with_the_folder_of_its_sentence(instruction, expected):
    assert choice(instruction) == expected


PROGRAMS = {
    "Write a script /workspace/solve.py that writes /workspace/out.txt when run.": inferred("solve.py"),
    "Create `/workspace/solve.py`, a small script that writes `/workspace/out.txt`.": inferred("solve.py"),
    "Build /workspace/bin/conv, which reads /workspace/a.csv and creates /workspace/b.csv.": inferred("bin/conv"),
    "Write `solve.py` in /workspace that, when called, saves its result in /workspace/a.json.": inferred("solve.py"),
    "Save /workspace/solve.py that:\n- reads /workspace/in.csv\n- writes /workspace/out.csv\n": inferred("solve.py"),
    # The same file is still what the program writes when it is spoken of again.
    "Write /workspace/s.py that writes /workspace/o.txt. /workspace/o.txt must have one line.": inferred("s.py"),
    "Write /workspace/s.py that writes /workspace/o.txt.\n\nSave your results to /workspace/o.txt.": inferred("o.txt"),
    # Here somebody is to do it after all, or the program is there already, or is none.
    "Write /workspace/s.py that reads /workspace/a.csv and save its log to /workspace/o.txt.": inferred("o.txt"),
    "Run /workspace/gen.py that creates /workspace/a.csv. Write /workspace/b.csv.": inferred("b.csv"),
    "Run /workspace/gen.py, which writes /workspace/a.csv.": inferred("a.csv"),
    "Write /workspace/a.json with a key that creates /workspace/b.json.": inferred("b.json"),
}  # fmt: skip


@pytest.mark.parametrize(("instruction", "expected"), PROGRAMS.items(), ids=PROGRAMS)
def test_what_a_program_writes_when_it_runs_is_not_the_output_but_the_program_is(instruction, expected):
    assert choice(instruction) == expected


EDIT = ("edit", "modify", "touch", "change", "delete", "overwrite")
REFUSED = {
    **{f"Do not {verb} /workspace/invoke.mjs.": NONE for verb in EDIT},
    **{f"You must not {verb} the output helper /workspace/invoke.mjs.": NONE for verb in EDIT},
    **{f"Never {verb} `package.json`, results or `/workspace/invoke.mjs`.": NONE for verb in EDIT},
    "Do not delete or change the record /workspace/invoke.mjs.": NONE,
    "Do not edit the driver that writes results, /workspace/invoke.mjs.": NONE,
    "Leave /workspace/a.py and `/workspace/b.py` unchanged.": NONE,
    "Leave /workspace/a.py, /workspace/b.py and /workspace/c.py as they are.": NONE,
    "Do not write `result.json` into /workspace.": NONE,
    # A refusal ends where something is to be done after all.
    "Do not edit anything except /workspace/solve.py.": inferred("solve.py"),
    "Change nothing other than /workspace/solve.py.": NONE,
    "Do not modify /workspace/in.csv, write /workspace/out.csv.": inferred("out.csv"),
    "Do not edit the tests but put the result into /workspace/out.csv.": inferred("out.csv"),
}


@pytest.mark.parametrize(("instruction", "expected"), REFUSED.items(), ids=REFUSED)
def test_what_is_not_to_be_edited_is_no_output(instruction, expected):
    assert choice(instruction) == expected


def test_every_candidate_is_kept_with_its_role_in_the_order_of_its_last_telling_mention():
    text = (
        "Write /workspace/a.json. Read /workspace/in.csv. See also the page /workspace/notes.md. "
        "Write /workspace/b.json and, at the end, write /workspace/a.json again."
    )
    assert [(candidate.path, candidate.role) for candidate in named_paths(text, ("/workspace",))] == [
        ("/workspace/in.csv", "input"),
        ("/workspace/notes.md", "input"),
        ("/workspace/b.json", "output"),
        ("/workspace/a.json", "output"),
    ]


@pytest.mark.parametrize(
    ("workdir", "path"),
    [("/srv/app", "/srv/app/out.json"), ("/srv/app/", "/srv/app/out.json"), ("/", "/workspace/out.json")],
)
def test_paths_count_below_the_workdir_and_the_workspace(workdir, path):
    assert choice(f"Write /etc/out.json. Write {path}. Write /srv/other/out.json.", workdir) == ("inferred", path)


def test_a_workdir_is_taken_literally():
    assert choice("Write to /aXb/out.json.", "/a.b") == NONE


def test_a_path_never_leads_out_of_its_root():
    assert choice("Write to /workspace/../etc/passwd.") == NONE


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("# CANARY 123\n\nDo it.\n", "Do it.\n"),
        ("<!-- seatrial canary GUID 1 -->\n<!-- canary 2 -->\nDo it.", "Do it."),
        ("  // Canary: do not train\r\n\r\nDo it.\r\n", "Do it.\r\n"),
        ("\ufeff# canary\nDo it.", "Do it."),
        ("# Birds\n\nFeed the canary.\n", "# Birds\n\nFeed the canary.\n"),
        ("The canary is yellow.\n", "The canary is yellow.\n"),
        ("Do it.\n# canary\n", "Do it.\n# canary\n"),
        ("\n\nDo it.\n", "\n\nDo it.\n"),
        ("# canary", ""),
        ("", ""),
    ],
    ids=["hash", "html", "slashes, CRLF", "BOM", "heading", "sentence", "not leading", "blank lines", "alone", "empty"],
)
def test_leading_comments_with_a_canary_are_stripped(text, seen):
    assert strip_canary(text) == seen
