import json
import math

current, length_km, resistance, reactance, cos_phi = 62.0, 0.085, 1.15, 0.080, 0.86
sin_phi = math.sqrt(1 - cos_phi**2)
drop = math.sqrt(3) * current * length_km * (resistance * cos_phi + reactance * sin_phi)
percent = drop / 400 * 100
answer = {"voltage_drop_v": round(drop, 3), "voltage_drop_pct": round(percent, 3), "compliant": percent <= 3}

print("# Voltage drop of the pump feeder\n")
print(f"sin(phi) = sqrt(1 - {cos_phi}^2) = {sin_phi:.4f}\n")
print(
    f"drop = sqrt(3) * {current:g} A * {length_km} km * ({resistance} * {cos_phi} + {reactance} * {sin_phi:.4f}) ohm/km"
)
print(f"     = {drop:.3f} V, which is {percent:.3f} % of 400 V (limit 3 %).\n")
print("```json")
print(json.dumps(answer, indent=2))
print("```")
