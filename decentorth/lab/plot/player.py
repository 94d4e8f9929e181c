"""A run played over its iterations in a browser: the agents' points, their graph and the curves,
with a slider."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

import topologies
from topologies.line.flags import InputError

from ...display import size
from ...running.history import Columns

SCRIPT = Path(__file__).with_name("player.js").read_text(encoding="utf-8")
HASH = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""The hash by which a page allows this script and no other."""
FRAMES, AGENTS = 300, 200
"""The most iterations and agents of a page, so that it stays below 5 MB."""
CURVES = {
    "gradient_norm": "gradient norm at the mean point",
    "consensus_error": "disagreement of the agents",
    "distance_to_manifold": "distance from the constraint",
}
GRAPH = "The graph. Neighbours exchange messages. Brighter agents are farther from the mean."
_COLOURS = ("#0072b2", "#d55e00", "#009e73")
STYLE = """
.player { margin: 1.5rem 0; }
.panels { display: flex; flex-wrap: wrap; gap: 1rem; }
.panels figure { flex: 1 1 17rem; min-width: 0; margin: 0; }
.panels canvas { width: 100%; height: 17rem; touch-action: pan-y; }
.panels figcaption { font-size: .85rem; color: #444; }
.controls { display: flex; gap: .8rem; align-items: center; flex-wrap: wrap; margin: .6rem 0; }
.controls input { flex: 1 1 12rem; min-width: 0; } .controls button { min-width: 4.5rem; }
.controls output { font-variant-numeric: tabular-nums; min-width: 17rem; }
"""


def can_play(history: Columns) -> bool:
    """True if the run has recorded its agents (``--record-agents``), few enough for a page."""
    few = "agent_0" in history and f"agent_{AGENTS}" not in history
    return few and len(history["iteration"]) > 0


def player(history: Columns, graph: nx.Graph[int]) -> str:
    """The player of a run as HTML.

    Parameters
    ----------
    history
        The recorded columns of the run, for which `can_play` holds.
    graph
        The graph of its agents.

    Raises
    ------
    InputError
        The history is that of another number of agents.
    """
    if not {f"agent_{agent}" for agent in range(len(graph))} <= {*history}:
        raise InputError(f"the history does not have the columns of {len(graph)} agents")
    data = _recorded(history, len(graph))
    data["edges"] = [list(edge) for edge in graph.edges]
    data["places"] = _plain(_unit(topologies.agent_positions(graph)))
    words = [CURVES[name] for name in data["curves"]]
    legend = [f'<b style="color:{_COLOURS[place]}">{one}</b>' for place, one in enumerate(words)]
    panels = {"points": _caption(data), "graph": GRAPH, "curves": f"{', '.join(legend)}."}
    figures = []
    for name, text in panels.items():
        figures.append(
            f'<figure><canvas class="{name}" role="img" '
            f'aria-label="{name}"></canvas><figcaption>{text}</figcaption></figure>'
        )
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f'<div class="player"><script type="application/json">{text}</script>'
        f'<div class="panels">{"".join(figures)}</div>'
        '<div class="controls"><button type="button">Play</button>'
        '<input type="range" min="0" value="0" aria-label="iteration"><output></output></div></div>'
    )


Data = dict[str, Any]


def _recorded(history: Columns, n: int) -> Data:
    """The numbers that the script draws, at no more than `FRAMES` recorded iterations."""
    count = len(history["iteration"])
    frames = np.unique(np.linspace(0, count - 1, min(count, FRAMES)).round().astype(int))

    def of_agents(ending: str) -> NDArray[np.float64]:
        columns = [history[f"agent_{agent}{ending}"][frames] for agent in range(n)]
        return np.stack(columns, axis=1)

    counts = ("iteration", "rounds", "bytes")
    data: Data = {name: history[name][frames].tolist() for name in counts}
    data["distance"] = _plain(of_agents(""))
    data["curves"] = {name: _plain(history[name][frames]) for name in CURVES if name in history}
    data["points"] = data["angle"] = None
    axes = [one for one in ("_x", "_y", "_z") if f"agent_0{one}" in history]
    if axes:
        data["points"] = _plain(np.stack([of_agents(one) for one in axes], axis=-1))
    elif "agent_0_angle" in history:
        data["angle"] = _plain(np.degrees(of_agents("_angle")))
    return data


def _caption(data: Data) -> str:
    if data["points"]:
        return "The agents' points and their paths. Lines join neighbours."
    if data["angle"]:
        return "Largest angle between each agent's subspace and the mean's, in degrees."
    return "Distance of each agent from the mean point."


def _plain(values: NDArray[np.float64]) -> object:
    """The numbers as lists, six digits each; 0 in place of what is not finite."""
    text = json.dumps(np.where(np.isfinite(values), values, 0.0).tolist())
    return json.loads(text, parse_float=lambda one: float(f"{float(one):.6g}"))


def _unit(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions scaled into the unit square, their shape kept."""
    low = places.min(axis=0)
    high = places.max(axis=0)
    size = max(float((high - low).max()), 1e-9)
    scaled: NDArray[np.float64] = 0.5 + (places - 0.5 * (low + high)) / size
    return scaled


def sentences(history: Columns, n: int) -> list[str]:
    """The three sentences about the end of a run of n agents."""
    rounds = int(history["rounds"][-1])
    sent = float(history["bytes"][-1])
    said = [f"{n} agents took {rounds} rounds of messages; each sent {size(sent / n)}."]
    if "consensus_error" in history:
        apart = history["consensus_error"]
        said.append(f"Their disagreement rose to {apart.max():.2g} and fell to {apart[-1]:.2g}.")
    last = []
    if "gradient_norm" in history:
        gradient = history["gradient_norm"]
        last.append(
            f"The gradient norm at their mean point went from {gradient[0]:.2g} to "
            f"{gradient[-1]:.2g}."
        )
    if "error" in history:
        last.append(
            f"That point is {history['error'][-1]:.2g} from the solution of the pooled data."
        )
    return [*said, " ".join(last)]
