"""
What if the graph changes?
==========================

Talking to one neighbour at a time: DRFGT on the one-peer exponential sequence,
the static exponential graph and the ring.

Paper 004's problem with 16 agents and the published steps. Prints what each
costs and draws gradient norm and consensus error against iterations and against
bytes sent by an agent. ::

    python examples/time_varying.py time_varying.png          # 3000 iterations
    python examples/time_varying.py time_varying.png 1000

Explained in ``docs/networks.md``.
"""

import sys

import matplotlib.pyplot as plt

import decentorth as do
import topologies as tp

# %%
# Three networks
# --------------

networks = {
    "one-peer exponential": tp.sequence_from_name("one_peer_exponential", 16),
    "static exponential": tp.uniform_weights(
        tp.exponential(16), self_weight=0.8
    ),
    "ring": tp.uniform_weights(tp.ring(16), self_weight=0.8),
}
problem = do.problems.ProcrustesSettings().problem(16, seed=0)
# %%
# Iterations and bytes
# --------------------

iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
figure, axes = plt.subplots(
    2, 2, figsize=(7, 5), sharey="row", sharex="col", layout="constrained"
)
for (name, W), style in zip(networks.items(), ("-", "--", ":"), strict=True):
    result = do.solve(
        problem,
        do.DRFGT(step_size=1e-2, penalty=10.0, order="combine-then-adapt"),
        W,
        iterations=iterations,
    )
    history = result.history
    last = result.row
    print(
        f"{name:22s} gradient norm {last.values['gradient_norm']:.1e}, "
        f"consensus error {last.values['consensus_error']:.1e}, "
        f"{last.bytes / 16 / last.iteration / 1000:.0f} kB an agent and "
        f"iteration"
    )
    for row, metric in zip(
        axes, ("gradient_norm", "consensus_error"), strict=True
    ):
        row[0].loglog(
            history["iteration"][1:], history[metric][1:], style, label=name
        )
        row[1].loglog(history["bytes"][1:] / 16e6, history[metric][1:], style)
        row[0].set_ylabel(metric.replace("_", " "))
axes[1, 0].set_xlabel("iteration")
axes[1, 1].set_xlabel("MB sent by an agent")
axes[0, 0].legend()
figure.savefig(
    sys.argv[1] if len(sys.argv) > 1 else "time_varying.png", dpi=150
)
