"""Reading of delimited text: seconds of the processor over those of pandas, and peaks of memory.

    python benchmarks/tables.py
    python benchmarks/tables.py --rows 200000 --columns 50

Each way reads the same file in a process of its own, after a small file that loads its libraries.
The peak is that of the process above its memory before, over the bytes of the numbers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

WAYS = {
    "pandas": "import pandas; read = lambda path: pandas.read_csv(path).to_numpy()",
    "numpy.loadtxt": "read = lambda path: np.loadtxt(path, delimiter=',', skiprows=1)",
    "decentorth with pyarrow": "from decentorth.data import load_matrix as read",
    "decentorth without": """
from decentorth.data import load_matrix as read, text_table
text_table.has_arrow = lambda: False
""",
}
READ = """
import sys, time
import numpy as np

def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

read(sys.argv[1])
before = kilobytes("VmRSS")
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
start = time.process_time()
found = read(sys.argv[2])
seconds = time.process_time() - start
print(seconds, 1024 * (kilobytes("VmHWM") - before) / found.nbytes)
"""


def write(path: Path, rows: int, columns: int) -> None:
    """Write a table of normal numbers in 17 digits, with names."""
    values = np.random.default_rng(0).standard_normal((rows, columns))
    names = ",".join(f"x{column}" for column in range(columns))
    np.savetxt(path, values, fmt="%.17g", delimiter=",", header=names, comments="")


def measured(way: str, small: Path, large: Path) -> tuple[float, float]:
    """The seconds and the peak of one way."""
    command = [sys.executable, "-c", f"{way}\n{READ}", str(small), str(large)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, peak = map(float, done.stdout.split())
    return seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.csv"), Path(folder, "large.csv")
        write(small, 3 * 10**6 // (20 * given.columns), given.columns)
        write(large, given.rows, given.columns)
        for _ in range(given.repeats):
            for name, way in WAYS.items():
                found[name].append(measured(f"import numpy as np\n{way}", small, large))
    seconds, peaks = (
        {name: float(np.median([run[at] for run in runs])) for name, runs in found.items()}
        for at in (0, 1)
    )
    table = Table("way", "seconds", "over pandas", "peak over the numbers")
    for name in WAYS:
        ratio = seconds[name] / seconds["pandas"]
        table.add_row(name, f"{seconds[name]:.2f}", f"{ratio:.2f}", f"{peaks[name]:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
