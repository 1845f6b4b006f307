import json
from pathlib import Path

import verifier_kit as kit

OUTPUT = "/workspace/clean.jsonl"
TRUTH = json.loads(Path(__file__).with_name("truth.json").read_text())


def judge():
    rows = read_rows()
    keys = [key_of(row) for row in rows]
    celsius = {key_of(row): row["celsius"] for row in rows}
    expected = {key_of(row): row["celsius"] for row in TRUTH["kept"]}
    missing = [key for key in expected if key not in celsius]
    # Leaving things out is worth only as much as the good readings that are still there.
    kept = 1 - len(missing) / len(expected)
    return [
        kit.Dimension("kept", kept, weight=2, evidence=f"{len(missing)} of {len(expected)} missing: {missing[:3]}"),
        values(celsius, expected),
        left_out("out_of_range", celsius, [key_of(row) for row in TRUTH["out_of_range"]], kept),
        left_out("spikes", celsius, [key_of(row) for row in TRUTH["spikes"]], kept),
        no_strangers(celsius, kept),
        kit.Dimension("no_duplicates", kept * (len(keys) == len(celsius)), evidence=f"{len(keys)} lines"),
        kit.Dimension("sorted", kept * (keys == sorted(keys)), evidence="sorted by time, then sensor"),
    ]


def read_rows():
    lines = kit.read_text(OUTPUT).split("\n")
    rows = [read_row(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not rows:
        raise kit.OutputProblem("no_output", f"{OUTPUT} holds no reading")
    return rows


def read_row(number, line):
    row = kit.parse_json(line, f"line {number} of {OUTPUT}")
    kit.require_keys(row, ["time", "sensor", "celsius"])
    if not isinstance(row["time"], str) or not isinstance(row["sensor"], str):
        raise kit.OutputProblem("schema_mismatch", f"line {number} of {OUTPUT}: time and sensor must be text")
    return row


def key_of(row):
    return row["time"], row["sensor"]


def values(celsius, expected):
    cells = [kit.compare(str(key), celsius.get(key), value, abs=0.011) for key, value in expected.items()]
    wrong = [f"{cell.name}: {cell.evidence}" for cell in cells if cell.score < 1]
    return kit.share("values", wrong, len(cells), weight=3)


def left_out(name, celsius, rejected, kept):
    still_there = [key for key in rejected if key in celsius]
    share = 1 - len(still_there) / len(rejected)
    return kit.Dimension(name, kept * share, evidence=f"{len(still_there)} of {len(rejected)} still there")


def no_strangers(celsius, kept):
    known = {key_of(row) for rows in TRUTH.values() for row in rows}
    strangers = [key for key in celsius if key not in known]
    evidence = f"{len(strangers)} readings that have no value in the input: {strangers[:2]!r:.200}"
    return kit.Dimension("no_strangers", kept * (not strangers), evidence=evidence)


kit.run(judge)
