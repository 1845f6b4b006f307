"""The last sections: what was computed how, and the commands that compute it again."""

import shlex

from seatrial.report.document import ReportDocument
from seatrial.report.html.parts import PageSection


def methods_section(document: ReportDocument) -> PageSection:
    """What exactly was computed."""
    return PageSection("methods", "How was this computed?", (" ".join(document.methods),))


def reproduce_section(document: ReportDocument) -> PageSection:
    """Commands that make this report, and that show what is behind it."""
    options, folders = document.options, [str(job.path) for job in document.jobs]
    report = ["seatrial", "report", *folders, "-o", "report.html"]
    for name, value, usual in (("level", options.level, 0.95), ("seed", options.seed, 0)):
        report += [f"--{name}", str(value)] if value != usual else []
    report += [
        f"--{name}={value}" for name, value in (("title", options.title), ("baseline", options.baseline)) if value
    ]
    report += ["--family"] if options.clusters == "family" else []
    report += ["--force"] if options.comparability == "forced" else []
    report += [f"--where={each}" for each in options.filters]
    commands = [report, *(["seatrial", "show", folder] for folder in folders)]
    said = "The same jobs and options give the same bytes."
    return PageSection("again", "How is it made again?", (said,), commands=tuple(shlex.join(each) for each in commands))
