"""The settings of UltraE: knowledge graphs from files, or from a known model."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from decentorth.families.j_orthogonal.problems.signed_settings import SignedSettings
from decentorth.families.j_orthogonal.sets.j_orthogonal import JOrthogonal
from decentorth.problems.base import stream
from decentorth.problems.deferred import Deferred, Outline, on_each_rank
from decentorth.settings import Count, Probability, Range

from .knowledge import KnowledgeGraph, hold_out, most_frequent
from .planted_graph import planted_triples
from .ultrae import UltraE, UltraEOptions

PLANTED = (2, 1)
"""The numbers of signs +1 and -1 of the model of a planted graph, the hyperbolic plane."""


@dataclass(frozen=True, kw_only=True)
class UltraESettings(SignedSettings, UltraEOptions):
    """An ultrahyperbolic knowledge graph embedding, for a single agent.

    Parameters
    ----------
    data
        planted, a graph from a known model; a folder with train.txt and maybe valid.txt and
        test.txt (or .tsv); or one file. Lines are head, relation and tail, separated by tabs;
        OpenKE's layout is recognised.
    entities
        The number of entities of a planted graph, by default 60. From files, only triples between
        this number of most frequent entities are read; by default all.
    relations
        Of a planted graph.
    triples
        Of a planted graph, about.
    held_out
        Share of the triples to test with, where there is no test file.
    dimension
        n, the length of an entity's vector.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.UltraESettings().problem(1, seed=0)
    >>> problem.n_agents
    1
    """

    data: str = "planted"
    entities: Annotated[int, Range(least=2)] | None = None
    relations: Count = 5
    triples: Count = 1500
    held_out: Probability = 0.2
    dimension: Count = 36

    _generators, _for_generated = ("planted",), ("relations", "triples")

    def idle(self) -> dict[str, str]:
        found = super().idle()
        if self.loss == "softmax":
            found |= dict.fromkeys(("negatives", "delta"), "it is for loss cross-entropy")
        return found

    def in_blocks(self, n_blocks: int, seed: int) -> Deferred:
        """The problem of ``n_blocks`` agents, one for each block of the training triples, with the
        same mean: for `Spread`."""
        options = {field.name: vars(self)[field.name] for field in fields(UltraEOptions)}

        def make(agents: slice) -> UltraE:
            signs = self._constraint(self.dimension, self.dimension - 1).signs
            return UltraE(
                self._graph(seed), signs, **options, n_agents=n_blocks, agents=agents, seed=seed
            )

        planted_size = 0
        if not self.from_file:
            planted_size = (self.entities or 60) * self.dimension + 3 * self.triples
        outline = Outline([0] * n_blocks, more=lambda own: planted_size)
        return on_each_rank(n_blocks, make, lambda: outline)

    def _graph(self, seed: int) -> KnowledgeGraph:
        from .triples import load_triples

        rng = stream(seed)
        if self.data == "planted":
            n_entities = self.entities or 60
            triples = planted_triples(
                rng, JOrthogonal(*PLANTED), n_entities, self.relations, self.triples
            )
            train, test = hold_out(triples, self.held_out, n_entities, self.relations, rng)
            return KnowledgeGraph(train, test[:0], test, n_entities, self.relations)
        files = load_triples(self.data)
        graph = KnowledgeGraph(*files[:3], len(files.entities), len(files.relations))
        if self.entities is not None:
            graph = most_frequent(graph, self.entities)
        if not len(graph.test):
            train, test = hold_out(
                graph.train, self.held_out, graph.n_entities, graph.n_relations, rng
            )
            graph = graph._replace(train=train, test=test)
        return graph
