import calendar
import csv
import json
import sys
import time

PLANT_OFFSET_S = 2 * 3600
TO_CELSIUS = {
    "degC": lambda value: value,
    "degF": lambda value: (value - 32) * 5 / 9,
    "K": lambda value: value - 273.15,
}


def instant(text):
    """Seconds since the epoch."""
    if text.endswith("Z"):
        return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))
    return calendar.timegm(time.strptime(text, "%d.%m.%Y %H:%M")) - PLANT_OFFSET_S


def plausible(rows):
    """The readings by instant and sensor, sorted: those with a value in range, the first of each duplicate."""
    readings = {}
    for row in rows:
        if row["value"] in ("", "NA", "error"):
            continue
        celsius = TO_CELSIUS[row["unit"]](float(row["value"]))
        if -40 <= celsius <= 125:
            readings.setdefault((instant(row["time"]), row["sensor"]), celsius)
    return sorted(readings.items())


last_kept = {}
for (when, sensor), celsius in plausible(csv.DictReader(sys.stdin)):
    if abs(celsius - last_kept.get(sensor, celsius)) > 8:
        continue
    last_kept[sensor] = celsius
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    print(json.dumps({"time": stamp, "sensor": sensor, "celsius": round(celsius, 2)}))
