import sys
import tomllib


def surplus_head(pump, flow):
    head = pump["head"]
    return head["h0"] + head["h1"] * flow + head["h2"] * flow**2 - system_head(flow)


def system_head(flow):
    return 18 + 0.0042 * flow**2


def operating_flow(pump):
    """The flow at which pump and system agree, found by bisection; None when the pump cannot lift the water."""
    if surplus_head(pump, 0) < 0:
        return None
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if surplus_head(pump, middle) > 0 else (low, middle)
    return low


def operating_point(pump):
    flow = operating_flow(pump)
    if flow is None:
        return {"name": pump["name"], "verdict": "no_operating_point"}
    efficiency = pump["efficiency"]["e1"] * flow + pump["efficiency"]["e2"] * flow**2
    return {
        "name": pump["name"],
        "verdict": verdict(pump, flow),
        "flow_m3h": round(flow, 4),
        "head_m": round(system_head(flow), 4),
        "efficiency": round(efficiency, 4),
        "power_kw": round(9.81 * flow / 3600 * system_head(flow) / efficiency, 4),
    }


def verdict(pump, flow):
    low, high = pump["flow_range_m3h"]
    if not low <= flow <= high:
        return "outside_range"
    return "ok" if flow >= 60 else "flow_too_low"


points = [operating_point(pump) for pump in tomllib.load(sys.stdin.buffer)["pump"]]
selected = min((point for point in points if point["verdict"] == "ok"), key=lambda point: point["power_kw"])
print(f'selected = "{selected["name"]}"')
for point in points:
    print("\n[[pump]]")
    for key, value in point.items():
        print(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}")
