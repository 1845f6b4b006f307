import csv
import io
import math
from pathlib import Path

import verifier_kit as kit

OUTPUT = "/workspace/stack.csv"
SIZES = ["centre_mm", "tolerance_mm", "min_mm", "max_mm"]


def judge():
    rows, expected = read_rows(), expected_stack()
    found = {row["item"]: row for row in rows}
    order = [row["item"] for row in rows]
    parts = [item for item in expected if not item.startswith("gap_")]
    shares = ["contribution_pct"]
    return [
        share_right("parts", parts, SIZES, found, expected, weight=2),
        share_right("contributions", parts, shares, found, expected, weight=1),
        share_right("gap_worst_case", ["gap_worst_case"], SIZES + shares, found, expected, weight=2),
        share_right("gap_rss", ["gap_rss"], SIZES + shares, found, expected, weight=2),
        kit.check("row_order", order == list(expected), f"found {order!r:.300}", weight=0.5),
    ]


def read_rows():
    reader = csv.DictReader(io.StringIO(kit.read_text(OUTPUT)))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise kit.OutputProblem("unparseable", f"{OUTPUT} is not CSV: {error}") from None
    missing = [name for name in ["item", *SIZES, "contribution_pct"] if name not in (reader.fieldnames or [])]
    if missing:
        raise kit.OutputProblem("schema_mismatch", f"{OUTPUT} has no column {', '.join(missing)}")
    return rows


def expected_stack():
    """The truth from the verifier's own copy of the input: the extremes first, everything else from them."""
    stack, low, high, squares = {}, 0.0, 0.0, 0.0
    with Path(__file__).with_name("dimensions.csv").open() as file:
        for part in csv.DictReader(file):
            nominal, direction = float(part["nominal_mm"]), int(part["direction"])
            limits = nominal - float(part["minus_mm"]), nominal + float(part["plus_mm"])
            stack[part["part"]] = from_limits(*limits)
            low += min(direction * limit for limit in limits)
            high += max(direction * limit for limit in limits)
            squares += stack[part["part"]]["tolerance_mm"] ** 2
    for row in stack.values():
        row["contribution_pct"] = 100 * row["tolerance_mm"] ** 2 / squares
    centre, spread = (low + high) / 2, math.sqrt(squares)
    stack["gap_worst_case"] = {**from_limits(low, high), "contribution_pct": 100.0}
    stack["gap_rss"] = {**from_limits(centre - spread, centre + spread), "contribution_pct": 100.0}
    return stack


def from_limits(low, high):
    return {"centre_mm": (low + high) / 2, "tolerance_mm": (high - low) / 2, "min_mm": low, "max_mm": high}


def share_right(name, items, columns, found, expected, *, weight):
    cells = [
        kit.compare(f"{item} {column}", found.get(item, {}).get(column), expected[item][column], abs=margin(column))
        for item in items
        for column in columns
    ]
    wrong = [f"{cell.name}: {cell.evidence}" for cell in cells if cell.score < 1]
    return kit.share(name, wrong, len(cells), weight)


def margin(column):
    return 0.01 if column == "contribution_pct" else 0.0002


kit.run(judge)
