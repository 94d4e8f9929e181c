"""
What if messages are lost or short?
===================================

DRFGT on the published Procrustes problem when messages are lost, and when they
are short.

Ten agents on a ring with the published steps, until the gradient norm is 1e-4:
on a good network, with a tenth of all messages lost (with repair, without, and
without but with corrected trackers), with the tenth of each array that changed
most, and with that in 8 bits a number. Prints what each takes and draws
gradient norm against iterations and against bytes, and the error of tracking.
::

    python examples/bad_network.py bad_network.png            # a minute or two
    python examples/bad_network.py bad_network.png 300        # 300 iterations

Explained in ``docs/bad_networks.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys

import matplotlib.pyplot as plt

import decentorth as do
import topologies as tp

# %%
# The channels
# ------------
#
# A channel is a list of faults. Repair adds what was lost to the next message.

W = tp.uniform_weights(tp.ring(10), self_weight=0.8)
problem = do.problems.ProcrustesSettings().problem(10, seed=0)
channels = {
    "good": None,
    "loss 10 %": do.Channel("loss:p=0.1"),
    "loss 10 %, no repair": do.Channel("loss:p=0.1", repair=False),
    "loss 10 %, corrected": do.Channel(
        "loss:p=0.1", repair=False, correction=1.0
    ),
    "topk 10 %": do.Channel("topk:share=0.1"),
    "topk 10 %, 8 bits": do.Channel("topk:share=0.1", "quantize:bits=8"),
}
# %%
# The runs
# --------
#
# The gray line is the gradient norm at which a run ends.

iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
looks = ("C0-", "C1--", "C3:", "C4-.", "C2-", "C5-")
figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
for (name, channel), look in zip(channels.items(), looks, strict=True):
    result = do.solve(
        problem,
        do.DRFGT(step_size=1e-2, penalty=10.0, order="combine-then-adapt"),
        W,
        iterations=iterations,
        channel=channel,
        stopping=do.stopping.GradientNorm(1e-4),
        record_every=50,
    )
    history = result.history
    last = result.row
    print(
        f"{name:21s} {result.status:10s} after {last.iteration:4d} iterations, "
        f"{last.bytes / 1e6:7.1f} MB: gradient norm "
        f"{last.values['gradient_norm']:.1e}, tracking error "
        f"{last.values['tracking_error']:.1e}"
        f"{' (drifted)' if result.drifted else ''}",
        flush=True,
    )
    axes[0].semilogy(
        history["iteration"], history["gradient_norm"], look, label=name
    )
    axes[1].loglog(
        history["bytes"][1:] / 1e6, history["gradient_norm"][1:], look
    )
    axes[2].semilogy(
        history["iteration"][1:], history["tracking_error"][1:], look
    )
for axis in axes[:2]:
    axis.axhline(1e-4, color="gray", linewidth=0.8)
axes[0].set(xlabel="iteration", ylabel="gradient norm")
axes[1].set(xlabel="MB sent by all agents", ylabel="gradient norm")
axes[2].set(xlabel="iteration", ylabel="error of the mean tracker")
figure.legend(loc="outside upper center", ncols=6)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "bad_network.png", dpi=150)
