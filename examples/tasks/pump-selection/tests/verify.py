import math
import tomllib  # Python 3.11, which the image has
from pathlib import Path

import verifier_kit as kit

OUTPUT = "/workspace/selection.toml"
VERDICTS = {
    "alder": "no_operating_point",
    "birch": "flow_too_low",
    "cedar": "ok",
    "dogwood": "outside_range",
    "elm": "ok",
}


def judge():
    answer = read_toml()
    kit.require_keys(answer, ["selected", "pump"])
    found, selected = tables_by_name(answer["pump"]), answer["selected"]
    order = [table["name"] for table in answer["pump"]]
    expected = expected_points()
    return [
        kit.check("selected", selected == "cedar", f"found {selected!r:.100}, expected 'cedar'", weight=2),
        verdicts(found),
        share_right("operating_points", ["flow_m3h", "head_m"], found, expected, weight=3),
        share_right("power", ["efficiency", "power_kw"], found, expected, weight=2),
        kit.check("order", order == list(VERDICTS), f"found {order!r:.200}, expected {list(VERDICTS)}", weight=0.5),
    ]


def read_toml():
    try:
        return tomllib.loads(kit.read_text(OUTPUT))
    except (ValueError, RecursionError) as error:
        raise kit.OutputProblem("unparseable", f"{OUTPUT} is not TOML: {error}") from None


def tables_by_name(tables):
    if not isinstance(tables, list):
        raise kit.OutputProblem("schema_mismatch", f"pump is {type(tables).__name__}, expected [[pump]] tables")
    for table in tables:
        kit.require_keys(table, ["name", "verdict"])
    return {table["name"]: table for table in tables if isinstance(table["name"], str)}


def expected_points():
    """The operating points in closed form, from the verifier's own copy of the pumps."""
    with Path(__file__).with_name("pumps.toml").open("rb") as file:
        pumps = tomllib.load(file)["pump"]
    return {pump["name"]: point(pump) for pump in pumps if VERDICTS[pump["name"]] != "no_operating_point"}


def point(pump):
    a, b, c = pump["head"]["h2"] - 0.0042, pump["head"]["h1"], pump["head"]["h0"] - 18
    flow = (-b - math.sqrt(b * b - 4 * a * c)) / (2 * a)
    head = 18 + 0.0042 * flow**2
    efficiency = flow * (pump["efficiency"]["e1"] + pump["efficiency"]["e2"] * flow)
    power = 1000 * 9.81 * flow / 3600 * head / efficiency / 1000
    return {"flow_m3h": flow, "head_m": head, "efficiency": efficiency, "power_kw": power}


def verdicts(found):
    wrong = [
        f"{name}: found {found.get(name, {}).get('verdict')!r:.100}, expected {verdict!r}"
        for name, verdict in VERDICTS.items()
        if found.get(name, {}).get("verdict") != verdict
    ]
    return kit.share("verdicts", wrong, len(VERDICTS), weight=2)


def share_right(name, keys, found, expected, *, weight):
    cells = [
        kit.compare(f"{pump} {key}", found.get(pump, {}).get(key), expected[pump][key], rel=0.003)
        for pump in expected
        for key in keys
    ]
    wrong = [f"{cell.name}: {cell.evidence}" for cell in cells if cell.score < 1]
    return kit.share(name, wrong, len(cells), weight)


kit.run(judge)
