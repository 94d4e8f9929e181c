"""The figure of docs/results/001/signed.csv, drawn while the site is built."""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

from decentorth.figures.canvas import look
from decentorth.figures.paper import STYLE

plt.style.use(STYLE)
results = Path("results", "001", "signed.csv").read_text(encoding="utf-8").splitlines()
rows = list(csv.DictReader(line for line in results if not line.startswith("#")))
figure, axes = plt.subplots(2, 2, figsize=(7.16, 5.0), sharex=True, layout="constrained")
for column, graph in zip(axes.T, dict.fromkeys(row["graph"] for row in rows), strict=True):
    column[0].set_title(graph)
    for place, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        own = [row for row in rows if (row["graph"], row["method"]) == (graph, method)]
        for panel, quantity in zip(column, ("test", "loss"), strict=True):
            epochs, values = ([float(row[name]) for row in own] for name in ("epochs", quantity))
            panel.plot(epochs, values, label=method, **look(place, marked=True))
    column[1].set(xlabel="epochs", yscale="log")
axes[0, 0].set_ylabel("MRR of test triples")
axes[1, 0].set_ylabel("loss")
axes[0, 0].legend()
