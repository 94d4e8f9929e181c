"""Damaged files: every reader refuses them in a line, or reads them, and never ends, waits or fills
the memory.

``python -m tests.test_mutants`` prints what became of the mutants of every reader, as JSON.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib
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
from decentorth.commands.line.run_settings import CaseSettings
from decentorth.data import Columns, MatrixFile, load_labels, load_matrix, load_triples
from decentorth.lab.study.spectral import trials
from decentorth.lab.study.sweep import kept
from decentorth.problems import PCASettings
from decentorth.problems.common.division import Division
from decentorth.records.saved_runs import read_history, read_start, read_summary
from decentorth.running.checkpoint import newest_notes
from tests.support.mutants import (
    Counts,
    Edit,
    Reader,
    Seed,
    compressed,
    edited,
    header,
    lines,
    tried,
    zipped,
)
from tests.support.problems import GRAPHS, pca

# of every reader beside those written by hand; of one that starts a process for each file
MUTANTS, OF_A_CHILD = 100, 20
ROOT = Path(__file__).resolve().parents[1]
STUDY = list(trials(False, 0)[0])
MANIFEST = "000000004/manifest.json"
M, D, N = 9, 4, 6
VALUES = np.random.default_rng(0).standard_normal((M, D))
LABELS = np.arange(M) % 3
WEIGHTS = GRAPHS["ring"](N)


def stored(save: Callable[..., Any], *values: Any, **named: Any) -> bytes:
    file = io.BytesIO()
    save(file, *values, **named)
    return file.getvalue()


def market(matrix: Any) -> bytes:
    return stored(scipy.io.mmwrite, matrix)


def idx(values: np.ndarray[Any, Any]) -> bytes:
    return (
        struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
        + values.astype(np.uint8).tobytes()
    )


def npy_header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


def sparse_npz(**members: Any) -> bytes:
    """An archive as ``scipy.sparse.save_npz`` writes them, with other members."""
    whole = {
        "format": b"csr",
        "shape": (N, N),
        "data": np.ones(3),
        "indices": [0, 1, 2],
        "indptr": [0, 1, 2, *[3] * (N - 2)],
    }
    return stored(np.savez, **(whole | members))


TABLE = b'a,b,c\n1,x,2\n3,"y, z",4\n,x,5\n6,y,7.5\n'
TEXT = "".join(" ".join(map(repr, row)) + "\n" for row in VALUES.tolist()).encode()
SVMLIGHT = "".join(
    f"{label} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row)) + "\n"
    for label, row in zip(LABELS.tolist(), VALUES.tolist(), strict=True)
).encode()
NPY_HEADERS = (
    npy_header("(0, 10000000000000000000000000000000)"),
    npy_header("(1000000000000, 3)", "'|V0'"),
    npy_header("(1000000000000, 1000000)"),
    npy_header("(-1, -8)"),
    npy_header("(" * 300),
    npy_header("(3,", "'<f8"),
    npy_header("(9, 4)", "'|O'"),
)
COORDINATE = b"%%MatrixMarket matrix coordinate real general\n"
MARKETS = (
    b"%%MatrixMarket matrix array real general\n0 0\n",
    COORDINATE + b"2000000000 2000000000 1\n1 1 1.0\n",
    COORDINATE + b"99999999999999999999 99999999999999999999 1\n1 1 1.0\n",
    COORDINATE + b"2 2 1\n1 1 0x10\n",
    COORDINATE + b"2 2 1\n1 1 1.5abc\n",
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
    stored(
        np.savez,
        format=b"bsr",
        shape=(4, 4),
        data=np.ones((1, 2, 2)),
        indices=[10**9],
        indptr=[0, 1, 1],
    ),
)


def read_data(path: Path) -> None:
    """As the problems read matrices."""
    Division([str(path)], PCASettings(data=str(path)), 2, 0).read(slice(0, 2))
    file = MatrixFile(str(path))
    file.observed([0])
    file.stored()
    _ = file.labels


def read_named(path: Path) -> None:
    """As the problems read tables with named columns."""
    named = PCASettings(data=str(path), columns=("a", "c"), label_column="b", drop_missing=True)
    Division([str(path)], named, 2, 0).read(slice(0, 2))
    _ = MatrixFile(str(path), Columns(("a",), "b")).labels


def read_triplets(path: Path) -> None:
    MatrixFile(str(path), triplets=True).observed([0])


def parquet() -> bytes:
    file = io.BytesIO()
    table = {"a": [1.0, 3.0, None, 6.0], "b": list("xyxy"), "c": [2.0, 4.0, 5.0, 7.5]}
    importlib.import_module("pandas").DataFrame(table).to_parquet(file)
    return file.getvalue()


def read_weights(path: Path) -> None:
    wiring.make(CaseSettings(weights_file=str(path), agents=N))


def read_graph(path: Path) -> None:
    topologies.graph_from_name(f"file:{path}")


def read_config(path: Path) -> None:
    Command([], str(path), config_bytes(str(path))).resolve()


def read_flags(path: Path) -> None:
    """As launch/slurm.sbatch reads a sweep file: each line has the flags of a run."""
    for line in path.read_text(errors="surrogateescape").splitlines():
        Command(line.split()).resolve()


def read_table(path: Path) -> None:
    """As a study goes on with its file."""
    kept(path, STUDY)


@cache
def going_on() -> Run:
    return set_up(pca().problem, DRFGT(), GRAPHS["ring"](5), channel="delay:rounds=1")


def read_checkpoint(path: Path) -> None:
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
        return {
            str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).glob("*/*")
        }


VALUES_OF_JSON: tuple[Any, ...] = (
    *(10**30, 2**63, 10**12, 10**9, -1, 0, 1.5, 1e308, float("inf"), float("nan")),
    *(None, True, "text", "", [], {}, [[]]),
)


def sealed(data: bytes, rng: np.random.Generator) -> bytes:
    """A manifest with one entry changed and the checksum that it then must have."""
    whole = json.loads(data)
    place: Any = whole
    key: Any = "checkpoint"
    while (
        isinstance(place[key], dict | list)
        and len(place[key])
        and (place is whole or rng.random() < 0.8)
    ):
        place = place[key]
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[int(rng.integers(0, len(keys)))]
    if rng.random() < 0.2:
        del place[key]
    else:
        place[key] = VALUES_OF_JSON[int(rng.integers(0, len(VALUES_OF_JSON)))]
    canonical = json.dumps(whole["checkpoint"], sort_keys=True, separators=(",", ":"))
    return json.dumps({**whole, "sha256": hashlib.sha256(canonical.encode()).hexdigest()}).encode()


BOMB = (
    "agents: ["
    + ", ".join(f"&l{k} [{', '.join([f'*l{k - 1}' if k else 'x'] * 9)}]" for k in range(9))
    + "]"
)
YAML = """# Run
problem: procrustes
algorithm: drfgt
agents: 10
weights: uniform
self_weight: 0.8
weights_file: null
channel: [loss:p=0.1, 'topk:share=0.1']
repair: true
gradient_tolerance: 1.0e-08
step_size: diminishing:power=1.0
out: runs/a
"""
TOML = """problem = "pca"
algorithm = 'drfgt'
agents = 10
weights = "uniform"
self_weight = 0.8
channel = ["loss:p=0.1", "topk:share=0.1"]
repair = true
gradient_tolerance = 1e-08
"""
SWEEP = (
    b"--algorithm drgta --problem pca --rank=3 --step-size 1e-2 --topology torus:4x3 --agents 12 "
    b"--plot --out a\n"
)
HISTORY = "iteration,rounds,messages,bytes,gradients,seconds,objective\n0,0,0,0,1,0.0,1.5\n1,1,20,320,2,0.1,1.25\n"
GML = "".join(nx.generate_gml(nx.cycle_graph(N))).replace("]", "]\n").encode()
GRAPHML = "\n".join(nx.generate_graphml(nx.cycle_graph(N))).encode()
EDGES = "".join(f"{i} {(i + 1) % N}\n" for i in range(N)).encode()
TRIPLES = "".join(f"e{i}\tr{i % 2}\te{(i + 1) % N}\n" for i in range(N)).encode()


HOSTILE_YAML = (
    BOMB,
    "agents: " + "[" * 30000,
    "agents: " + "{a: " * 16000,
    "a: 1\n" * 12000,
    "- " * 30000,
    *("agents: !!int ''", "step_size: !!float ''", "quiet: !!bool maybe", "data: !!timestamp xyz"),
    *("agents: 99999999999999999999", "agents: 1000000000000", "agents: 190:20:30"),
    *(f"agents: {'9' * 5000}", f"step_size: {'9' * 5000}", f"{'a' * 5000}: 1"),
    'out: "\\U99999999"',
    "%YAML 1.99999999999999999999\n---\nagents: 1",
    "a: 1\n---\nb: 2",
    "x" * 10**7,
)
HOSTILE_TOML = (
    ".".join("a" * 100_000) + " = 1",
    "agents = " + "[" * 30000,
    "agents = " + "{a = " * 10000,
    f"agents = 0x{'f' * 5000}",
    f"agents = {'9' * 5000}",
    "agents = 2026-01-01",
    "a = [" + "[]," * 20000 + "]",
)


def npy(values: Any) -> bytes:
    return stored(np.save, values)


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def one(
    read: Callable[[Path], object], name: str, data: bytes, edit: Edit, *hostile: bytes
) -> Reader:
    return Reader(read, (Seed(name, data, edit),), hostile)


def readers() -> dict[str, Reader]:
    study = ",".join([*STUDY, "gap"]) + "\n64,ring,metropolis,0,0.5\n"
    files, cycle, images = checkpoint(), nx.cycle_graph(N), np.arange(36)
    bomb = packed(idx(images.reshape(9, 4))) + 25 * gzip.compress(bytes(1 << 26))
    dense, sparse = market(VALUES), market(scipy.sparse.coo_array(VALUES))
    archived = stored(scipy.sparse.save_npz, scipy.sparse.csr_array(VALUES))
    labels = (
        Seed("a.npy", npy(LABELS), header),
        Seed("a.npz", stored(np.savez, LABELS), zipped(header)),
        Seed("a.txt", b"\n".join(b"%d" % label for label in LABELS), lines),
        Seed("a.csv", b"label\ncat\ndog\ncat\n", lines),
        Seed("a.svm", SVMLIGHT, lines),
        Seed("a.idx", idx(LABELS), header),
        Seed("a.idx.gz", packed(idx(LABELS)), compressed(header)),
    )
    weights = (
        Seed("W.npz", stored(scipy.sparse.save_npz, WEIGHTS), zipped(header)),
        Seed("W.npz", stored(np.savez, WEIGHTS.toarray()), zipped(header)),
    )
    triples = (
        Seed("graph.txt", TRIPLES, lines),
        Seed("graph/train.txt", TRIPLES, lines),
        Seed("numbered/train2id.txt", b"3\n0 1 0\n1 2 1\n2 0 0\n", lines),
    )
    edges = (
        Seed("g.edgelist", EDGES, lines),
        Seed("g.txt", EDGES, lines),
        Seed("g.csv", EDGES.replace(b" ", b","), lines),
    )
    spoilt = (
        GRAPHML.replace(b"utf-8", b"nonsense"),
        GRAPHML.replace(b"<node", b'<node id="1"><node', 3),
    )
    saved = [stored(np.savez, x=np.zeros(shape)) for shape in ((N, D, 2), (), (0, 3))]
    kept = tuple(Seed(name, data, edited) for name, data in files.items())
    forged = (b"[" * 10**6, b"[" + b"[]," * 5_000_000)
    summary = b'{"status": "converged", "iterations": 3, "metrics": {"objective": 1.5}}'
    return {
        "config .yaml": one(
            read_config, "run.yaml", YAML.encode(), lines, *map(str.encode, HOSTILE_YAML)
        ),
        "config .toml": one(
            read_config, "run.toml", TOML.encode(), lines, *map(str.encode, HOSTILE_TOML)
        ),
        "sweep lines": one(read_flags, "sweep.txt", SWEEP, lines),
        "study .csv": one(read_table, "spectral.csv", study.encode(), lines),
        "data .npy": one(read_data, "a.npy", npy(VALUES), header, *NPY_HEADERS),
        "data .npz": one(read_data, "a.npz", stored(np.savez, VALUES), zipped(header)),
        "data .csv": one(read_data, "a.csv", b"a,b,c,d\n" + TEXT.replace(b" ", b","), lines),
        **{
            f"data {name}.mat": one(load_matrix, "a.mat", data, header)
            for name, data in MATS.items()
        },
        "table .csv": one(read_named, "t.csv", TABLE, lines),
        "triplets .csv": one(
            read_triplets, "t.csv", b"u,v,w\n1,1,2.5\n1,2,3\n2,1,4\n3,3,1\n", lines
        ),
        "table .csv.gz": one(read_named, "t.csv.gz", packed(TABLE), compressed(lines)),
        "table .parquet": one(read_named, "t.parquet", parquet(), edited),
        "data .txt": one(read_data, "a.txt", TEXT, lines),
        "data .svm": one(read_data, "a.svm", SVMLIGHT, lines),
        "data .mtx": Reader(
            read_data, (Seed("a.mtx", dense, lines), Seed("a.mtx", sparse, lines)), MARKETS
        ),
        "data .mtx.gz": one(read_data, "a.mtx.gz", packed(dense), compressed(lines)),
        "data sparse .npz": one(read_data, "a.npz", archived, zipped(header), *SPARSE),
        "data idx": one(read_data, "a.idx", idx(images.reshape(9, 2, 2)), header),
        "data idx.gz": one(
            read_data, "a-ubyte.gz", packed(idx(images.reshape(9, 4))), compressed(header), bomb
        ),
        "labels": Reader(load_labels, labels, NPY_HEADERS),
        "weights .npy": one(read_weights, "W.npy", npy(WEIGHTS.toarray()), header, *NPY_HEADERS),
        "weights .npz": Reader(read_weights, weights, SPARSE),
        "weights .mtx": one(read_weights, "W.mtx", market(WEIGHTS), lines, *MARKETS),
        "graph .graphml": one(read_graph, "g.graphml", GRAPHML, lines, *spoilt),
        "graph .gml": one(
            read_graph,
            "g.gml",
            GML,
            lines,
            b"graph 5",
            b"graph [ node 5 ]",
            b"graph " + b"[ a " * 5000,
        ),
        "graph .edgelist": Reader(read_graph, edges),
        "graph .npy": one(
            read_graph, "g.npy", npy(nx.to_numpy_array(cycle)), header, *NPY_HEADERS, saved[0]
        ),
        "graph .mtx": one(
            read_graph, "g.mtx", market(nx.to_scipy_sparse_array(cycle)), lines, *MARKETS
        ),
        "start .npy": one(read_start, "start.npy", npy(VALUES), header, *NPY_HEADERS, saved[0]),
        "checkpoint": Reader(read_checkpoint, kept, beside=files),
        "checkpoint, forged": Reader(
            read_checkpoint, (Seed(MANIFEST, files[MANIFEST], sealed),), forged, files
        ),
        "triples": Reader(
            lambda path: load_triples(path if path.name == "graph.txt" else path.parent), triples
        ),
        "history": one(
            lambda path: read_history(path.parent), "history.csv", HISTORY.encode(), lines
        ),
        "summary": one(
            lambda path: read_summary(path.parent), "summary.json", summary, edited, b"[" * 10**6
        ),
        "start .npz": one(
            lambda path: read_start(path.parent),
            "final.npz",
            saved[0],
            zipped(header),
            npy(VALUES),
            *saved[1:],
        ),
    }


def all_counts() -> dict[str, Counts]:
    found = {}
    for number, (name, reader) in enumerate(readers().items()):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = tried(
                reader, OF_A_CHILD if name.endswith(".mat") else MUTANTS, (number,), Path(folder)
            )
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
