import json

span, uniform, point = 6000.0, 12.0, 25000.0  # mm, N/mm, N
stiffness, modulus = 210e3 * 8356e4, 557.1e3  # N mm^2, mm^3

deflection = 5 * uniform * span**4 / (384 * stiffness) + point * span**3 / (48 * stiffness)
stress = (uniform * span**2 / 8 + point * span / 4) / modulus
checks = {"deflection": deflection / (span / 360), "stress": stress / 180}
governing = max(checks, key=checks.get)
answer = {
    "max_deflection_mm": round(deflection, 4),
    "max_stress_mpa": round(stress, 4),
    "utilisation": round(checks[governing], 4),
    "governing": governing,
    "verdict": "pass" if checks[governing] <= 1 else "fail",
}
print(json.dumps(answer, indent=2))
