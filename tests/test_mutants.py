"""Damaged files: every reader refuses them in a line, or reads them, and never ends, waits or fills the memory.

``python -m tests.test_mutants`` prints what became of the mutants of every reader, as JSON.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse

import topologies
from decentorth import DRFGT, CheckpointError, Checkpoints
from decentorth.api import Options, Run, set_up
from decentorth.commands.line import wiring
from decentorth.commands.line.config import Command
from decentorth.commands.line.form import config_bytes
from decentorth.commands.line.settings import CaseSettings
from decentorth.commands.study.command import STUDIES
from decentorth.data import Columns, MatrixFile, load_labels, load_matrix, load_triples
from decentorth.problems.common.division import Divided, Division
from decentorth.records.saved_runs import read_history, read_start, read_summary
from decentorth.running.checkpoint import newest_notes
from tests.support.mutants import Counts, Reader, Seed, compressed, edited, header, lines, tried, zipped
from tests.support.problems import GRAPHS, pca

MUTANTS = 150
"""Of every reader, beside those that are written by hand."""
OF_A_CHILD = 25
"""Of a reader that starts a process for each file."""
ROOT = Path(__file__).resolve().parents[1]
MANIFEST = "000000004/manifest.json"
M, D, N = 9, 4, 6
VALUES = np.random.default_rng(0).standard_normal((M, D))
LABELS = np.arange(M) % 3
WEIGHTS = GRAPHS["ring"](N)


def stored(save: Callable[..., Any], *values: Any, **named: Any) -> bytes:
    """What ``save`` writes into a file."""
    file = io.BytesIO()
    save(file, *values, **named)
    return file.getvalue()


def market(matrix: Any) -> bytes:
    """A matrix in Matrix Market format."""
    return stored(scipy.io.mmwrite, matrix)


def idx(values: np.ndarray[Any, Any]) -> bytes:
    """Bytes in idx format."""
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()


def npy_header(shape: str, descr: str = "'<f8'") -> bytes:
    """A file in .npy format that ends after its header."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


def sparse_npz(**members: Any) -> bytes:
    """An archive as ``scipy.sparse.save_npz`` writes them, with other members."""
    whole = {"format": b"csr", "shape": (N, N), "data": np.ones(3), "indices": [0, 1, 2], "indptr": [0, 1, 2, *[3] * (N - 2)]}
    return stored(np.savez, **(whole | members))


TABLE = b'a,b,c\n1,x,2\n3,"y, z",4\n,x,5\n6,y,7.5\n'
TEXT = "".join(" ".join(map(repr, row)) + "\n" for row in VALUES.tolist()).encode()
SVMLIGHT = "".join(
    f"{label} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row)) + "\n"
    for label, row in zip(LABELS.tolist(), VALUES.tolist(), strict=True)
).encode()
NPY_HEADERS = tuple(
    npy_header(*parts)
    for parts in (
        ("(0, 10000000000000000000000000000000)",),
        ("(1000000000000, 3)", "'|V0'"),
        ("(1000000000000, 1000000)",),
        ("(-1, -8)",),
        ("(" * 300,),
        ("(3,", "'<f8"),
        ("(9, 4)", "'|O'"),
    )
)
MARKETS = (
    b"%%MatrixMarket matrix array real general\n0 0\n",
    b"%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1.0\n",
    b"%%MatrixMarket matrix coordinate real general\n99999999999999999999 99999999999999999999 1\n1 1 1.0\n",
    b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 0x10\n",
    b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1.5abc\n",
    b"%%MatrixMarket matrix coordinate real general\n100000000000 100000000000 1\n1 1 1.0\n",
)
MATS = {
    "": stored(scipy.io.savemat, {"A": VALUES}),
    "compressed ": stored(partial(scipy.io.savemat, do_compression=True), {"A": VALUES}),
    "sparse ": stored(scipy.io.savemat, {"A": scipy.sparse.csc_array(VALUES)}),
}
SPARSE = (
    sparse_npz(indices=[0, 10**9, -5]),
    sparse_npz(indptr=[0, 2**30, *[3] * (N - 1)]),
    sparse_npz(format=b"csc", indices=[0, 10**9, -5]),
    sparse_npz(indptr=[0, -1, *[3] * (N - 1)]),
    sparse_npz(shape=(3 * 10**8, 2), indptr=[0, 1, 2, 3]),
    stored(np.savez, format=b"coo", shape=(2**40, 2**40), data=[1.0], row=[0], col=[0]),
    stored(np.savez, format=b"dia", shape=(2**40, 2**40), data=[[1.0]], offsets=[0]),
    stored(np.savez, format=b"bsr", shape=(4, 4), data=np.ones((1, 2, 2)), indices=[10**9], indptr=[0, 1, 1]),
)


def read_data(path: Path) -> None:
    """As the problems read matrices."""
    Division([str(path)], Divided(), 2, 0).read(slice(0, 2))
    file = MatrixFile(str(path))
    file.observed([0])
    file.stored()
    _ = file.labels


def read_named(path: Path) -> None:
    """As the problems read tables with named columns."""
    named = Divided(columns=("a", "c"), label_column="b", drop_missing=True)
    Division([str(path)], named, 2, 0).read(slice(0, 2))
    _ = MatrixFile(str(path), Columns(("a",), "b")).labels


def read_triplets(path: Path) -> None:
    """As matrix completion reads triplets."""
    MatrixFile(str(path), triplets=True).observed([0])


def parquet() -> dict[str, Reader]:
    """The reader of Parquet."""
    import pandas as pd

    file = io.BytesIO()
    pd.DataFrame({"a": [1.0, 3.0, None, 6.0], "b": list("xyxy"), "c": [2.0, 4.0, 5.0, 7.5]}).to_parquet(file)
    return {"table .parquet": Reader(read_named, (Seed("t.parquet", file.getvalue(), edited),))}


def read_weights(path: Path) -> None:
    """As --weights-file reads them."""
    wiring.make(CaseSettings(weights_file=str(path), agents=N))


def read_graph(path: Path) -> None:
    """As --topology file:PATH reads them."""
    topologies.graph_from_name(f"file:{path}")


def read_config(path: Path) -> None:
    """As --config reads them."""
    Command([], str(path), config_bytes(str(path))).resolve()


def read_flags(path: Path) -> None:
    """As launch/slurm.sbatch reads a sweep file: each line has the flags of a run."""
    for line in path.read_text(errors="surrogateescape").splitlines():
        Command(line.split()).resolve()


def read_table(path: Path) -> None:
    """As a study goes on with its file."""
    STUDIES["spectral"].kept(path)


@cache
def going_on() -> Run:
    """The run whose checkpoints are read."""
    return set_up(pca().problem, DRFGT(), GRAPHS["ring"](5), channel="delay:rounds=1")


def read_checkpoint(path: Path) -> None:
    """As --resume reads them."""
    newest_notes(path.parents[1])
    try:
        going_on().resume(path.parents[1])
    except CheckpointError as error:
        raise ValueError(str(error)) from error
    except ValueError as error:
        raise AssertionError(f"not a CheckpointError: {error}") from error


@cache
def checkpoint() -> dict[str, bytes]:
    """The files of a checkpoint, by their names in the folder of checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        going_on().solve(Options(iterations=4, checkpoints=Checkpoints(folder)))
        return {str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).glob("*/*")}


VALUES_OF_JSON: tuple[Any, ...] = (
    10**30,
    2**63,
    10**12,
    10**9,
    -1,
    0,
    1.5,
    1e308,
    float("inf"),
    float("nan"),
    None,
    True,
    "text",
    "",
    [],
    {},
    [[]],
)


def sealed(data: bytes, rng: np.random.Generator) -> bytes:
    """A manifest with one entry changed and the checksum that it then must have."""
    whole = json.loads(data)
    place: Any = whole["checkpoint"]
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(0, len(keys)))]
        if isinstance(place[key], dict | list) and len(place[key]) and rng.random() < 0.8:
            place = place[key]
            continue
        if rng.random() < 0.2:
            del place[key]
        else:
            place[key] = VALUES_OF_JSON[int(rng.integers(0, len(VALUES_OF_JSON)))]
        break
    canonical = json.dumps(whole["checkpoint"], sort_keys=True, separators=(",", ":"))
    return json.dumps({**whole, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


BOMB = "agents: [" + ", ".join(f"&l{k} [{', '.join([f'*l{k - 1}' if k else 'x'] * 9)}]" for k in range(9)) + "]"
YAML = """# Run
problem: procrustes
algorithm: drfgt
iterations: 100
agents: 10
topology: ring
self_weight: 0.8
weights_file: null
channel: [loss:p=0.1, 'topk:share=0.1']
repair: true
gradient_tolerance: 1.0e-08
step_size: diminishing:power=1.0
penalty: 10.0
order: combine-then-adapt
dimension: 12
rank: 3
out: runs/a
"""
TOML = """problem = "pca"
algorithm = 'drfgt'
iterations = 100
agents = 10
self_weight = 0.8
channel = ["loss:p=0.1", "topk:share=0.1"]
repair = true
gradient_tolerance = 1e-08
step_size = "auto"
data = "digits"
rank = 3
"""
SWEEP = b"--algorithm drgta --problem pca --rank=3 --step-size 1e-2 --topology torus:4x3 --agents 12 --plot --out a\n"
HISTORY = "iteration,rounds,messages,bytes,gradients,seconds,objective\n0,0,0,0,1,0.0,1.5\n1,1,20,320,2,0.1,1.25\n"
GML = "".join(nx.generate_gml(nx.cycle_graph(N))).replace("]", "]\n").encode()
GRAPHML = "\n".join(nx.generate_graphml(nx.cycle_graph(N))).encode()
EDGES = "".join(f"{i} {(i + 1) % N}\n" for i in range(N)).encode()
TRIPLES = "".join(f"e{i}\tr{i % 2}\te{(i + 1) % N}\n" for i in range(N)).encode()


def named(name: str, *contents: bytes) -> tuple[tuple[str, bytes], ...]:
    """Files of one name."""
    return tuple((name, content) for content in contents)


def readers() -> dict[str, Reader]:
    """Every reader of files, and files as they should be."""
    final = stored(np.savez, x=np.zeros((N, D, 2)))
    study = STUDIES["spectral"]
    table = ",".join(study.columns) + "\n" + "".join(",".join(map(str, range(len(study.columns)))) + "\n" for _ in range(1))
    files = checkpoint()
    return {
        "config .yaml": Reader(
            read_config,
            (Seed("run.yaml", YAML.encode(), lines),),
            named(
                "run.yaml",
                *map(
                    str.encode,
                    [
                        BOMB,
                        "agents: " + "[" * 30000,
                        "agents: " + "{a: " * 16000,
                        "a: 1\n" * 12000,
                        "- " * 30000,
                        "agents: !!int ''",
                        "step_size: !!float ''",
                        "quiet: !!bool maybe",
                        "data: !!timestamp xyz",
                        "agents: 99999999999999999999",
                        "agents: 1000000000000",
                        "agents: 190:20:30",
                        f"agents: {'9' * 5000}",
                        f"step_size: {'9' * 5000}",
                        f"{'a' * 5000}: 1",
                        'out: "\\U99999999"',
                        "%YAML 1.99999999999999999999\n---\nagents: 1",
                        "a: 1\n---\nb: 2",
                        "x" * 10**7,
                    ],
                ),
            ),
        ),
        "config .toml": Reader(
            read_config,
            (Seed("run.toml", TOML.encode(), lines),),
            named(
                "run.toml",
                *map(
                    str.encode,
                    [
                        ".".join("a" * 100_000) + " = 1",
                        ".".join("a" * 30_000) + " = 1",
                        "agents = " + "[" * 30000,
                        "agents = " + "{a = " * 10000,
                        f"agents = 0x{'f' * 5000}",
                        f"agents = {'9' * 5000}",
                        "agents = 2026-01-01",
                        "a = [" + "[]," * 20000 + "]",
                    ],
                ),
            ),
        ),
        "sweep lines": Reader(read_flags, (Seed("sweep.txt", SWEEP, lines),)),
        "study .csv": Reader(read_table, (Seed("spectral.csv", table.encode(), lines),)),
        "data .npy": Reader(read_data, (Seed("a.npy", stored(np.save, VALUES), header),), named("a.npy", *NPY_HEADERS)),
        "data .npz": Reader(read_data, (Seed("a.npz", stored(np.savez, VALUES), zipped(header)),)),
        "data .csv": Reader(read_data, (Seed("a.csv", b"a,b,c,d\n" + TEXT.replace(b" ", b","), lines),)),
        **{f"data {name}.mat": Reader(load_matrix, (Seed("a.mat", data, header),)) for name, data in MATS.items()},
        "table .csv": Reader(read_named, (Seed("t.csv", TABLE, lines),)),
        "triplets .csv": Reader(read_triplets, (Seed("t.csv", b"u,v,w\n1,1,2.5\n1,2,3\n2,1,4\n3,3,1\n", lines),)),
        **parquet(),
        "data .txt": Reader(read_data, (Seed("a.txt", TEXT, lines),)),
        "data .svm": Reader(read_data, (Seed("a.svm", SVMLIGHT, lines),)),
        "data .mtx": Reader(
            read_data,
            (Seed("a.mtx", market(VALUES), lines), Seed("a.mtx", market(scipy.sparse.coo_array(VALUES)), lines)),
            named("a.mtx", *MARKETS),
        ),
        "data .mtx.gz": Reader(read_data, (Seed("a.mtx.gz", gzip.compress(market(VALUES), mtime=0), compressed(lines)),)),
        "data sparse .npz": Reader(
            read_data,
            (Seed("a.npz", stored(scipy.sparse.save_npz, scipy.sparse.csr_array(VALUES)), zipped(header)),),
            named("a.npz", *SPARSE),
        ),
        "data idx": Reader(read_data, (Seed("a.idx", idx(np.arange(36).reshape(9, 2, 2)), header),)),
        "data idx.gz": Reader(
            read_data,
            (Seed("a-ubyte.gz", gzip.compress(idx(np.arange(36).reshape(9, 4)), mtime=0), compressed(header)),),
            named("a-ubyte.gz", gzip.compress(idx(np.arange(36).reshape(9, 4))) + 25 * gzip.compress(bytes(1 << 26))),
        ),
        "labels": Reader(
            load_labels,
            (
                Seed("a.npy", stored(np.save, LABELS), header),
                Seed("a.npz", stored(np.savez, LABELS), zipped(header)),
                Seed("a.txt", b"\n".join(b"%d" % label for label in LABELS), lines),
                Seed("a.csv", b"label\ncat\ndog\ncat\n", lines),
                Seed("a.svm", SVMLIGHT, lines),
                Seed("a.idx", idx(LABELS), header),
                Seed("a.idx.gz", gzip.compress(idx(LABELS), mtime=0), compressed(header)),
            ),
            named("a.npy", *NPY_HEADERS),
        ),
        "weights .npy": Reader(
            read_weights, (Seed("W.npy", stored(np.save, WEIGHTS.toarray()), header),), named("W.npy", *NPY_HEADERS)
        ),
        "weights .npz": Reader(
            read_weights,
            (
                Seed("W.npz", stored(np.savez, WEIGHTS.toarray()), zipped(header)),
                Seed("W.npz", stored(scipy.sparse.save_npz, WEIGHTS), zipped(header)),
            ),
            named("W.npz", *SPARSE),
        ),
        "weights .mtx": Reader(
            read_weights,
            (Seed("W.mtx", market(WEIGHTS), lines), Seed("W.mtx", market(WEIGHTS.toarray()), lines)),
            named("W.mtx", *MARKETS),
        ),
        "graph .graphml": Reader(
            read_graph,
            (Seed("g.graphml", GRAPHML, lines),),
            named("g.graphml", GRAPHML.replace(b"utf-8", b"nonsense"), GRAPHML.replace(b"<node", b'<node id="1"><node', 3)),
        ),
        "graph .gml": Reader(
            read_graph,
            (Seed("g.gml", GML, lines),),
            named("g.gml", b"graph 5", b"graph [ node 5 ]", b"graph [ edge 5 ]", b"graph " + b"[ a " * 5000),
        ),
        "graph .edgelist": Reader(
            read_graph,
            (Seed("g.edgelist", EDGES, lines), Seed("g.txt", EDGES, lines), Seed("g.csv", EDGES.replace(b" ", b","), lines)),
        ),
        "graph .npy": Reader(
            read_graph,
            (Seed("g.npy", stored(np.save, nx.to_numpy_array(nx.cycle_graph(N))), header),),
            named("g.npy", *NPY_HEADERS, stored(np.savez, VALUES)),
        ),
        "graph .mtx": Reader(
            read_graph, (Seed("g.mtx", market(nx.to_scipy_sparse_array(nx.cycle_graph(N))), lines),), named("g.mtx", *MARKETS)
        ),
        "start": Reader(
            lambda path: read_start(path if path.suffix == ".npy" else path.parent),
            (Seed("start.npy", stored(np.save, VALUES), header), Seed("final.npz", final, zipped(header))),
            (
                *named("start.npy", *NPY_HEADERS, final),
                *named(
                    "final.npz", stored(np.save, VALUES), stored(np.savez, x=np.zeros(())), stored(np.savez, x=np.zeros((0, 3)))
                ),
            ),
        ),
        "checkpoint": Reader(read_checkpoint, tuple(Seed(name, data, edited) for name, data in files.items()), beside=files),
        "checkpoint, forged": Reader(
            read_checkpoint,
            (Seed(MANIFEST, files[MANIFEST], sealed),),
            named(MANIFEST, b"[" * 10**6, b"[" + b"[]," * 5_000_000),
            beside=files,
        ),
        "triples": Reader(
            lambda path: load_triples(path if path.name == "graph.txt" else path.parent),
            (
                Seed("graph.txt", TRIPLES, lines),
                Seed("graph/train.txt", TRIPLES, lines),
                Seed("numbered/train2id.txt", b"3\n0 1 0\n1 2 1\n2 0 0\n", lines),
            ),
        ),
        "history": Reader(lambda path: read_history(path.parent), (Seed("history.csv", HISTORY.encode(), lines),)),
        "summary": Reader(
            lambda path: read_summary(path.parent),
            (Seed("summary.json", b'{"status": "converged", "iterations": 3, "metrics": {"objective": 1.5}}', edited),),
            named("summary.json", b"[" * 10**6),
        ),
    }


def all_counts() -> dict[str, Counts]:
    """What becomes of the mutants of every reader."""
    found = {}
    for number, (name, reader) in enumerate(readers().items()):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = tried(reader, OF_A_CHILD if name.endswith(".mat") else MUTANTS, (number,), Path(folder))
    return found


@pytest.mark.slow
def test_every_mutant_is_refused_in_a_line_or_read() -> None:
    """They are read by processes that one with a single thread forks."""
    command = [sys.executable, "-W", "error", "-m", "tests.test_mutants"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = {name: Counts(*found) for name, found in json.loads(done.stdout).items()}
    assert {name: found.failures for name, found in counts.items() if found.failures} == {}
    for mutants, refused, accepted, _ in counts.values():
        assert refused + accepted == mutants >= OF_A_CHILD
        assert refused > 0


if __name__ == "__main__":
    sys.stdout.write(json.dumps(all_counts()))
