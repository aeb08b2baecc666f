"""Messy tables, and a simple reference implementation of their features."""

import csv
import gzip
import io
import random
import statistics

MISSING = ["", "?", "NA", "n/a", "null", "<null>", "NaN", "-", "None", " NA "]
HEADER = [
    *("patient", "nr", "age", "weight", "sex", "colour", "grade"),
    *("span", "visit", "same", "note", "town", "class"),
]
GRADES = ["low", "medium", "high"]
SPANS = ["<5", "5-9", "10-19", "20+"]
DROPPED = ["patient", "nr", "visit", "same", "note"]

DIALECTS = {
    "plain": {},
    "semicolons and decimal commas": {"delimiter": ";", "decimal": ","},
    "tabs, Latin-1": {"delimiter": "\t", "encoding": "latin-1"},
    "Windows": {"delimiter": ";", "decimal": ",", "encoding": "cp1252", "newline": "\r\n"},
    "byte order mark": {"encoding": "utf-8-sig"},
    "packed, Latin-1": {"packed": True, "encoding": "latin-1"},
}


def messy_rows(n=150, seed=0, missing_rate=0.1):
    """Return rows of cells: ids, numbers, categories, ordinals, dates, text and missing values."""
    rng = random.Random(seed)
    rows = []
    for k in range(n):
        age, weight = rng.randint(20, 80), round(rng.gauss(70, 10), 1)
        colour = rng.choice(["rot", "grün", "weiß"])
        row = {
            "patient": f"P{rng.randrange(10**6):06d}-{k}",
            "nr": str(1000 + k),
            "age": str(age),
            "weight": str(weight),
            "sex": rng.choice(["m", "w"]),
            "colour": colour,
            "grade": rng.choice(GRADES),
            "span": rng.choice(SPANS),
            "visit": f"2021-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "same": "x",
            "note": f"came in for the {k}th time, nothing new",
            "town": rng.choice(["Köln"] * 30 + ["Bonn"] * 20 + [f"Ort {j}" for j in range(60)]),
            "class": "ill" if age + (colour == "rot") * 20 > 55 else "well",
        }
        for name in ("age", "colour", "grade"):
            if rng.random() < missing_rate:
                row[name] = rng.choice(MISSING)
        rows.append(row)
    rows[3]["weight"] = "?"  # a single missing value is imputed without an indicator
    return rows


def written(rows, *, delimiter=",", decimal=".", encoding="utf-8", packed=False, newline="\n"):
    """Return the bytes of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=newline)
    writer.writeheader()
    for row in rows:
        cell = row.get("weight", "")
        writer.writerow(row | {"weight": cell.replace(".", decimal)} if "weight" in row else row)
    content = text.getvalue().encode(encoding)
    return gzip.compress(content) if packed else content


def write_messy(folder, rows, dialect):
    """Write a CSV file in one of the `DIALECTS`."""
    options = DIALECTS[dialect]
    path = folder / ("data.csv.gz" if options.get("packed") else "data.csv")
    path.write_bytes(written(rows, **options))
    return path


def is_missing(cell):
    """Return whether a cell is a missing value."""
    return cell.strip() in {name.strip() for name in MISSING}


def expected(rows, training=None):
    """Return feature names and features of rows of cells, computed by simple code."""
    training = rows if training is None else training
    names, columns = [], []

    def add(name, values):
        names.append(name)
        columns.append([float(value) for value in values])

    for name in HEADER[:-1]:
        cells = [row[name] for row in rows]
        seen = [row[name] for row in training if not is_missing(row[name])]
        n_missing = len(training) - len(seen)
        if name in ("age", "weight"):
            median = statistics.median_low(map(float, seen))
            add(name, [median if is_missing(cell) else cell for cell in cells])
        elif name in ("grade", "span"):
            order = GRADES if name == "grade" else SPANS
            middle = statistics.median_low(map(order.index, seen))
            add(name, [middle if is_missing(c) else order.index(c) for c in cells])
        elif name == "town":
            frequent = sorted(w for w in set(seen) if seen.count(w) >= max(5, len(seen) / 100))
            for word in frequent:
                add(f"town = {word}", [cell == word for cell in cells])
            add("town = other", [cell not in frequent for cell in cells])
        elif name not in DROPPED:
            for word in sorted(set(seen)):
                add(f"{name} = {word}", [cell == word for cell in cells])
        if n_missing >= (5 if name == "colour" else max(5, len(training) / 20)):
            add(f"{name} is missing", [is_missing(cell) for cell in cells])
    return names, [list(row) for row in zip(*columns, strict=True)]
