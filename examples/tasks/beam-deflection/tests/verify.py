import verifier_kit as kit

KEYS = ["max_deflection_mm", "max_stress_mpa", "utilisation", "governing", "verdict"]


def judge():
    answer = kit.read_json("/workspace/result.json")
    kit.require_keys(answer, KEYS)
    span, uniform, point = 6.0, 12e3, 25e3  # m, N/m, N
    bending_stiffness = 210e9 * 8356e-8  # N m^2
    deflection = (5 * uniform * span / 8 + point) * span**3 / (48 * bending_stiffness) * 1e3
    stress = (uniform * span / 2 + point) * span / 4 / 557.1e-6 / 1e6
    utilisation = deflection / (span * 1e3 / 360)  # above the 0.912 of the stress, and above 1
    return [
        kit.compare("max_deflection_mm", answer["max_deflection_mm"], deflection, rel=0.002, unit="mm", weight=2),
        kit.compare("max_stress_mpa", answer["max_stress_mpa"], stress, rel=0.002, unit="MPa", weight=2),
        kit.compare("utilisation", answer["utilisation"], utilisation, rel=0.002),
        exact("governing", answer["governing"], "deflection"),
        exact("verdict", answer["verdict"], "fail"),
    ]


def exact(name, found, expected):
    return kit.check(name, found == expected, f"found {found!r:.100}, expected {expected!r}")


kit.run(judge)
