import csv
import math
import sys


def row(item, centre, tolerance, contribution):
    numbers = (centre, tolerance, centre - tolerance, centre + tolerance, contribution)
    return [item, *(f"{number:.4f}" for number in numbers)]


names, centres, tolerances, gap = [], [], [], 0.0
for part in csv.DictReader(sys.stdin):
    plus, minus = float(part["plus_mm"]), float(part["minus_mm"])
    names.append(part["part"])
    centres.append(float(part["nominal_mm"]) + (plus - minus) / 2)
    tolerances.append((plus + minus) / 2)
    gap += int(part["direction"]) * centres[-1]

squares = sum(tolerance**2 for tolerance in tolerances)
table = csv.writer(sys.stdout, lineterminator="\n")
table.writerow(["item", "centre_mm", "tolerance_mm", "min_mm", "max_mm", "contribution_pct"])
for index, name in enumerate(names):
    table.writerow(row(name, centres[index], tolerances[index], 100 * tolerances[index] ** 2 / squares))
table.writerow(row("gap_worst_case", gap, sum(tolerances), 100))
table.writerow(row("gap_rss", gap, math.sqrt(squares), 100))
