"""The figure of docs/results/001/signed.csv, drawn while the site is built."""

import csv
from pathlib import Path

import matplotlib.pyplot as plt

results = Path("results", "001", "signed.csv").read_text(encoding="utf-8").splitlines()
rows = list(csv.DictReader(line for line in results if not line.startswith("#")))
figure, axes = plt.subplots(2, 2, figsize=(7.0, 5.0), sharex=True, layout="constrained")
for panels, graph in zip(axes.T, dict.fromkeys(row["graph"] for row in rows), strict=True):
    panels[0].set_title(graph)
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if (row["graph"], row["method"]) == (graph, method)]
        for panel, quantity in zip(panels, ("test", "loss"), strict=True):
            panel.plot([float(row["epochs"]) for row in own], [float(row[quantity]) for row in own], marker=".", label=method)
    panels[1].set(xlabel="epochs", yscale="log")
axes[0, 0].set_ylabel("MRR of test triples")
axes[1, 0].set_ylabel("loss")
axes[0, 0].legend()
