import math

import verifier_kit as kit


def judge():
    answer = kit.last_json_block(kit.read_text("/workspace/report.md"))
    kit.require_keys(answer, ["voltage_drop_v", "voltage_drop_pct", "compliant"])
    drop = math.sqrt(3) * 62 * 0.085 * (1.15 * 0.86 + 0.080 * math.sin(math.acos(0.86)))
    return [
        kit.compare("voltage_drop_v", answer["voltage_drop_v"], drop, rel=0.005, unit="V", weight=2),
        kit.compare("voltage_drop_pct", answer["voltage_drop_pct"], drop / 4, rel=0.005),
        kit.check("compliant", answer["compliant"] is True, f"found {answer['compliant']!r}, expected true"),
    ]


kit.run(judge)
