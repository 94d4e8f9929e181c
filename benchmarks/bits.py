"""The bits of many short runs, written to a file and compared with an earlier file: the judge of a
change that is to keep them all.

Write a file before the change, and compare with it after the change, in one process and on ranks:

    python benchmarks/bits.py before.json
    python benchmarks/bits.py after.json --against before.json
    mpirun -n 3 python benchmarks/bits.py after3.json --against before.json
    mpirun -n 10 python benchmarks/bits.py after10.json --against before.json

All four must agree, because bits do not depend on the number of ranks. A comparison prints each
difference with the commands that show it; the exit code is 1 where there is one, or where a run
fails. On ranks, runs with fewer agents than ranks are left out. The bits depend on the machine and
on the versions of NumPy, SciPy and BLAS, so a file is good for one machine and one environment.

The runs are command lines of ``python -m decentorth.run``, which outlive a change of what is
inside. `RUNS` has, below the flags of a group, one run a line: its name and its other flags; after
``then`` those with which it is resumed from its last checkpoint; after ``for`` the words that
replace the star, one run each. Of a run the file holds how it ended, its counts, and the SHA-256 of
its last iterates, of all arrays in final.npz, and of history.csv without seconds. A new list of
runs needs a first file from the old code.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
import traceback
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from decentorth.commands.run.command import main as run

RANK = int(os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
RANKS = int(os.environ.get("PMI_SIZE") or os.environ.get("OMPI_COMM_WORLD_SIZE") or 1)
DEFAULTS = {
    "--agents": "10",
    "--algorithm": "drfgt",
    "--iterations": "30",
    "--record-every": "5",
}
RUNS = {
    "--problem procrustes --dimension 8 --rank 3 --rows 4": """
        * --algorithm * for drfgt destiny gradient_tracking drgta dprgt rfextra rextra dgd dprgd drsgd
        resumed-* --algorithm * --checkpoint-every 7 --iterations 18 then --iterations 30 for drfgt drgta rfextra rextra dgd drsgd
        growing-* --algorithm * --iterations 300 --record-every 50 for drfgt destiny drgta dprgt rmtracking rfextra rextra
        growing-orders-* --order * --iterations 300 --record-every 50 for adapt-then-combine combine-then-adapt
        growing-given-* --algorithm * --step-size growing:initial=5 --iterations 400 --record-every 50 for drfgt destiny drgta rextra
        growing-resumed-* --algorithm * --checkpoint-every 7 --iterations 180 then --iterations 300 for drfgt drgta rfextra
        lossy-* --algorithm * --channel loss:p=0.2 for drfgt destiny gradient_tracking drgta dprgt rfextra rextra dgd dprgd drsgd
        order-* --algorithm * --order adapt-then-combine --step-size 2e-3 --penalty 5 for drfgt destiny gradient_tracking
        order-combine-* --algorithm * --order combine-then-adapt for drfgt destiny gradient_tracking
        safe-* --algorithm * --safe --step-size 50 for drfgt destiny
        safe-given-penalty --safe --step-size 0.5 --penalty 1 --eps 0.3 --order adapt-then-combine
        safe-* --safe --step-size 2 --channel loss:p=0.2 --topology * for ring random_matching
        safe-resumed --safe --step-size 2 --checkpoint-every 7 --iterations 18 then --iterations 30
        diverges --step-size 10
        leaves-region --step-size 0.05 --penalty 5 --safety-region 0.5 --order combine-then-adapt
        step-* --step-size * for diminishing horizon square-summable
        step-annealed --step-size annealed:initial=1e-3,pairs=9,cap=9 --algorithm destiny --variant dissolved
        rounds-* --algorithm * --rounds 2 for dprgt dprgd
        rounds-* --algorithm * --rounds 2 --consensus-step 0.5 for drgta drsgd
        chebyshev-* --algorithm * --rounds 3 --chebyshev --step-size geometric:initial=2e-3,ratio=0.96 for drgta dprgt dprgd drsgd
        * --algorithm drgta --retraction * --step-size piecewise:knots=9:1/25:0.1 for polar-svd polar-eigh qr cholesky-qr
        soft-* --algorithm * --penalty 2 --step-size 1e-3 for dgd gradient_tracking rfextra
        tracker-correction --channel loss:p=0.2 --no-repair --tracker-correction 1
        crash-without-repair --channel crash:p=0.05,length=3 --no-repair --tracker-correction 0.5 --algorithm drgta
        channel-* --channel *:p=0.1 for bursts failures sleep crash
        channel-* --channel *:share=0.3 for topk randomk
        channel-* --channel * for quantize:bits=8 delay:rounds=2,random=true
        channel-coded-twice --channel quantize:bits=8 --channel randomk:share=0.5,feedback=false --no-repair --algorithm dgd
        channel-resumed --channel topk:share=0.3 --channel delay:rounds=2 --checkpoint-every 7 --iterations 18 then --iterations 30
        agents-decide-* --algorithm * --local-tolerance 20 --local-every 7 for drfgt drgta rfextra dgd
        agents-decide-on-losses --local-tolerance 20 --local-every 7 --channel loss:p=0.2
        observer-decides --objective-below 27 --gradient-tolerance 2 --consensus-tolerance 1 --record-every 3
        one-peer-exponential --topology one_peer_exponential --agents 16 --algorithm drgta --step-size 2e-3
        random-gossip --topology random_gossip@torus:3x4 --agents 12 --algorithm destiny --step-size 2e-3 --penalty 5
        link-failures --topology link_failures:p=0.2@ring:10 --channel loss:p=0.1 --step-size 2e-3
        periodic --topology periodic@ring:10|star:10 --algorithm destiny --step-size 2e-3 --local-tolerance 20 --local-every 7
        fewer-cuts --topology erdos_renyi:p=0.4 --agents 13 --weights metropolis --placement fewer-cuts --seed 3
        starts-from-another --start {folder}/drfgt --algorithm destiny
    """,
    "--problem pca --dimension 8 --rank 3 --samples 20 --heterogeneity 0.5 --checkpoint-every 7": """
        batches-* --data synthetic --algorithm * --batch-size 5 for destiny gradient_tracking drgta dprgt dgd dprgd drsgd
        batches-resumed --data synthetic --batch-size 5 --iterations 18 then --iterations 30
        batches-alone-* --data synthetic --algorithm * --agents 1 --batch-size 5 --step-size diminishing for landing rgd plam pcal
        batches-spread-* --data synthetic --algorithm * --agents 1 --batch-size 40 --spread-samples 12 for landing rgd plam pcal
        spread-safe --data synthetic --algorithm landing --agents 1 --safe --step-size 10 --penalty 20 --spread-samples 12
        deepca-* --data synthetic --algorithm deepca * --gradient-tolerance 1e-3 for --chebyshev --no-chebyshev
    """,
    "--record-every 6": """
        digits --problem pca --data digits --rank 3 --partition by-label --weighting agents --algorithm rfextra
        many-* --agents 300 --iterations 12 --algorithm * for drfgt destiny gradient_tracking drgta dprgt rfextra rextra dprgd
        many-safe --agents 300 --iterations 12 --algorithm destiny --variant dissolved --safe --step-size 1
        many-losses --agents 300 --iterations 12 --topology torus:15x20 --channel loss:p=0.1 --channel topk:share=0.2
        alone-* --agents 1 --dimension 8 --rank 3 --algorithm * for drfgt drgta landing rgd plam pcal
        alone-bb-* --agents 1 --dimension 8 --rank 3 --algorithm * --step-size bb:formula=alternating for landing rgd plam pcal
        alone-resumed --agents 1 --algorithm landing --step-size bb --checkpoint-every 7 --iterations 18 then --iterations 30
        gevp-* --problem gevp --dimension 12 --rank 3 --agents 1 --algorithm * --step-size bb for generalized_landing rgd plam pcal
        gevp-*-unsafe --problem gevp --agents 1 --algorithm generalized_landing --direction * --no-safe for psi-b psi-br riemannian
        gevp-safe --problem gevp --agents 1 --algorithm generalized_landing --safe --step-size 5 --penalty 1 --eps 0.5
        gevp-euclidean --problem gevp --agents 1 --algorithm rgd --metric euclidean --retraction cholesky-qr
        cca-* --problem cca --data synthetic --algorithm * --local-tolerance 5 --local-every 7 for cdadt generalized_drfgt
        cca-*-plain --problem cca --algorithm * --preconditioner none --momentum 0 --penalty 1 for cdadt generalized_drfgt
        resumed-* --problem cca --algorithm * --checkpoint-every 7 --iterations 9 then --iterations 20 for cdadt generalized_drfgt
        cca-* --problem cca --algorithm cdadt --preconditioner * --partition by-label for covariance diagonal
        cca-* --problem cca --algorithm generalized_landing --agents 1 --batch-size 40 --covariance * for sampled rolling
        cca-rgd --problem cca --algorithm rgd --agents 1 --batch-size 40 --covariance rolling
        lda-* --problem lda --agents 1 --algorithm * for generalized_landing rgd
        features-* --split features --agents 8 --data digits --rank 3 --algorithm lobpcg --rows-per-message 500 --problem * for pca lda
        features-tracked-* --split features --agents 8 --data digits --rank 3 --algorithm tracked_landing --problem * for pca lda
        features-cca-* --split features --agents 8 --problem cca --algorithm * for lobpcg tracked_landing
        features-losses --split features --agents 8 --problem pca --center --algorithm tracked_landing --channel loss:p=0.2
        ica --problem ica --sources 4 --samples 40 --imbalance 5 --mixing general
        ica-generalized --problem ica --sources 4 --samples 60 --no-whiten --agents 1 --algorithm generalized_landing
        matrix-completion --problem matrix_completion --dimension 20 --columns 15 --rank 2 --algorithm rfextra
        *-drsm --problem * --rank 2 --algorithm drsm --rounds 2 --partition dirichlet for l1_pca sparse_pca rsr
        rsr-* --problem rsr --dimension 10 --rank 4 --inliers 80 --outliers 60 --agents 1 --algorithm * for rsm rssm
        odl-drsm --problem odl --dimension 8 --samples 240 --algorithm drsm --batch-size 5 --retraction qr
        odl-* --problem odl --dimension 8 --samples 240 --agents 1 --algorithm * for rsm rssm
        odl-redraw --problem odl --dimension 8 --agents 1 --algorithm rssm --block-partition redraw --reorthogonalize 9
        hspp-* --problem hspp --points 16 --dimension 6 --agents 1 --algorithm * for gs_jobcd j_jobcd rgd
        hspp-smooth --problem hspp --points 16 --dimension 6 --smoothing 0.5 --agents 1 --algorithm vr_j_jobcd --varsigma 300
        hspp-spread --problem hspp --points 30 --dimension 6 --distances planted --agents 1 --spread-samples 12 --algorithm csdm
        ultrae-* --problem ultrae --entities 16 --triples 150 --negatives 4 --agents 1 --algorithm * for vr_j_jobcd csdm rgd
        ultrae-spread --problem ultrae --entities 16 --triples 150 --agents 1 --spread-samples 12 --algorithm j_jobcd --rounds 3
    """,
    "--problem hevp --dimension 10 --agents 1": """
        hevp-* --algorithm * for gs_jobcd j_jobcd vr_j_jobcd hyperbolic_jacobi csdm umcm jadmm rgd
        hevp-spread-* --algorithm * --spread-samples 12 for gs_jobcd j_jobcd vr_j_jobcd hyperbolic_jacobi csdm umcm jadmm rgd
        hevp-resumed-* --algorithm * --checkpoint-every 7 --iterations 18 then --iterations 30 for vr_j_jobcd csdm umcm jadmm
        hevp-*-corrected --algorithm * --varsigma pair --correction 5 for gs_jobcd vr_j_jobcd
        hevp-unbounded --algorithm gs_jobcd --form as-printed
        hevp-published-umcm --algorithm umcm --optimizer adagrad
        hevp-published-jadmm --algorithm jadmm --schedule published
    """,
}


def commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The name of every run, and the flags of its command, followed by those of the commands that
    resume it."""
    for common, lines in RUNS.items():
        for line in lines.strip().splitlines():
            form, _, values = line.partition(" for ")
            for value in values.split() or ["*"]:
                name, _, flags = (
                    form.replace("*", value).format(folder=folder).strip().partition(" ")
                )
                first, *later = f"{common} {flags}".split(" then ")
                missing = " ".join(
                    f"{flag} {default}"
                    for flag, default in DEFAULTS.items()
                    if flag not in first.split()
                )
                later = [f"{part} --resume {folder / name}" for part in later]
                yield name, [f"{first} {missing} --overwrite --out {folder / name}", *later]


def outcome(folder: Path) -> dict[str, Any]:
    """How a run ended, its counts, and its bits."""
    summary = json.loads((folder / "summary.json").read_text())
    kept = "status message iterations rounds messages bytes gradients iterates_sha256".split()
    rows = [line.split(",") for line in (folder / "history.csv").read_text().splitlines()]
    seconds = rows[0].index("seconds")
    history = "\n".join(",".join(row[:seconds] + row[seconds + 1 :]) for row in rows)
    with zipfile.ZipFile(folder / "final.npz") as arrays:
        final = b"".join(name.encode() + arrays.read(name) for name in sorted(arrays.namelist()))
    hashes = {
        "history_sha256": sha256(history.encode()).hexdigest(),
        "final_sha256": sha256(final).hexdigest(),
    }
    return {name: summary[name] for name in kept} | hashes


def main() -> int:
    """Make the runs, compare them and write the file; the exit code."""
    arguments = argparse.ArgumentParser(
        description="Write the bits of many short runs to a file, and compare them with another."
    )
    arguments.add_argument(
        "out",
        type=Path,
        help="the file; the runs' own folders are beside it for as long as they are needed",
    )
    arguments.add_argument("--against", type=Path, help="an earlier file")
    given = arguments.parse_args()
    before = json.loads(given.against.read_text()) if given.against else {}
    folder, begun = Path(f"{given.out}.runs"), time.perf_counter()
    found: dict[str, Any] = {}
    wrong = []
    for name, parts in commands(folder):
        if int(re.findall(r"--(?:agents|spread-samples) (\d+)", parts[0])[-1]) < RANKS:
            continue
        try:
            codes = [run([*part.split(), "--quiet"]) for part in parts]
        except Exception:
            if RANKS > 1:
                raise  # the other ranks may wait for this one: the job ends
            traceback.print_exc()
            codes = [1]
        if 130 in codes:
            return 130  # interrupted
        if RANK == 0:
            now = found[name] = (
                outcome(folder / name) if set(codes) <= {0, 3} else {"exit codes": codes}
            )
            expected = before.get(name, now)
            differences = [
                f"{of} {expected.get(of)} -> {now[of]}" for of in now if now[of] != expected.get(of)
            ]
            if differences or "exit codes" in now:
                wrong.append(name)
                print(
                    f"{name}: {'; '.join(differences) or f'failed, {now}'}",
                    *parts,
                    sep="\n    ",
                    flush=True,
                )
    if RANK == 0:
        shutil.rmtree(folder)
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        wrong += [
            f"{name} (only in {given.against})"
            for name in sorted(before.keys() - dict(commands(folder)))
        ]
        print(
            f"{len(found)} runs, {len(before.keys() & found)} compared, {RANKS} ranks, "
            f"{time.perf_counter() - begun:.0f} s"
        )
        print(f"differ or failed: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
