"""The table of the papers' figures, tables and claims, with the command of each, as on the pages docs/papers/*.md."""

from __future__ import annotations

from dataclasses import dataclass

STUDY = "-m decentorth.study"
STATIONARITY = "-m pytest -q -p no:cacheprovider tests/algorithms/test_stationarity.py"
J, GENERALIZED, NONSMOOTH = "examples/j_orthogonal", "examples/generalized", "examples/nonsmooth"


@dataclass(frozen=True)
class Item:
    """A figure, a table or a claim of a paper, and the two forms of its command.

    Parameters
    ----------
    paper
        The paper's number.
    name
        A name within the paper, which also names the file with the output.
    shows
        A sentence.
    program
        A script of the repository, or a module, ``-m name``, with the arguments that both forms have.
    fast, full
        The other arguments of the short and of the long form.
    takes
        The processor time of both forms, measured on a busy machine unless it says "about".
    """

    paper: str
    name: str
    shows: str
    program: str
    fast: str
    full: str
    takes: str

    def command(self, form: str) -> str:
        """The command of the form ``fast`` or ``full``, to be typed in the folder of the repository."""
        return " ".join(filter(None, ("python", self.program, self.full if form == "full" else self.fast)))


ITEMS = (
    Item(
        "004",
        "figure1",
        "Figure 1: DRFGT, DRGTA and DESTINY on the published problem, each at its best step.",
        "examples/figure1.py figure1.png",
        "2 300",
        "10 3000",
        "about 15 s; about 3 min",
    ),
    Item(
        "004",
        "time",
        "Section V: the time of an iteration of DRFGT and of its rivals, in its parts.",
        "benchmarks/rivals.py",
        "",
        "",
        "about 1 min",
    ),
    Item(
        "004",
        "theory",
        "Every constant and guaranteed step of the theorems; in full beside 3000 iterations.",
        "-m decentorth.theory",
        "",
        "--measure 3000",
        "2 s; 9 s",
    ),
    Item(
        "004",
        "spectral",
        "The spectra of 13 families of graphs with three rules of weights.",
        f"{STUDY} spectral --out .",
        "",
        "--full",
        "about 10 s; 2 min",
    ),
    Item(
        "004",
        "consensus",
        "Plain averaging on these graphs against sigma^k.",
        f"{STUDY} consensus --out .",
        "",
        "--full",
        "about 5 s; 2 min",
    ),
    Item(
        "004",
        "drfgt",
        "Measured rates of DRFGT on these graphs against predicted ones.",
        f"{STUDY} drfgt --out .",
        "",
        "--full",
        "about 2 min; about an hour",
    ),
    Item(
        "001",
        "table2",
        "Table 2: the hyperbolic eigenvalue problem, objectives after a time.",
        f"{J}/table2.py",
        "--data randn100 --seconds 3",
        "--data randn10 randn100 randn1000 --seconds 90 --seeds 3",
        "at most 40 s; 48 min",
    ),
    Item(
        "001",
        "table4",
        "Table 4: the same with 70 of 100 signs +1.",
        f"{J}/table2.py --data randn100 --positive 70",
        "--seconds 3",
        "--seconds 90 --seeds 10",
        "at most 40 s; 34 min",
    ),
    Item(
        "001",
        "figure1",
        "Figures 1, 4, 5 and 6: its objectives against time, and the gap of the well-posed form.",
        f"{J}/figure1.py figure1.png",
        "--data randn10 --seconds 1",
        "--data randn10 randn100 randn1000 --seconds 60",
        "at most 25 s; 50 min",
    ),
    Item(
        "001",
        "table3",
        "Table 3 and Figure 3: ADMM with a constant beta and one that doubles.",
        f"{J}/table3.py",
        "--data randn10",
        "--seeds 10",
        "4 s; about 10 min",
    ),
    Item(
        "001",
        "table3_large",
        "Table 3 and Figure 3 for the largest matrix.",
        f"{J}/table3.py --data randn1000",
        "--iterations 10",
        "--iterations 200",
        "about 1 min; about 15 min",
    ),
    Item(
        "001",
        "hspp",
        "Figures 2, 7 and 8 and Table 5: the hyperbolic structural probe.",
        f"{J}/hspp.py hspp.png",
        "",
        "--full",
        "at most 40 s; 18 min",
    ),
    Item(
        "001",
        "ultrae",
        "Figures 9 to 12 with the printed score: loss and ranks of each method after the same epochs.",
        f"{J}/ultrae.py",
        "--seeds 1 --epochs 40",
        "--seeds 10",
        "about 10 s; about 5 min",
    ),
    Item(
        "001",
        "figure9",
        "Figures 9 to 12 with the signed score, against epochs and seconds, on planted graphs of the paper's sizes.",
        f"{J}/figure9.py figure9.png",
        "",
        "--full",
        "half a minute; some minutes",
    ),
    Item(
        "001",
        "convergence",
        "Theorems 4.6 to 4.10: the gap to the known minimum against time.",
        "benchmarks/jobcd.py",
        "exact",
        "exact printed samples",
        "about 2 min; 140 s",
    ),
    Item(
        "003",
        "figure2",
        "Figures 2 and 5: the generalized eigenvalue problem, gap and feasibility.",
        f"{GENERALIZED}/figure2.py figure2.png",
        "",
        "--published --seeds 10",
        "about 1 min; 1 h 51 min",
    ),
    Item(
        "003",
        "figure3",
        "Figures 3 and 6: stochastic canonical correlations, on digits.",
        f"{GENERALIZED}/figure3.py figure3.png",
        "2",
        "10",
        "about 1 min; about 5 min",
    ),
    Item(
        "003",
        "figure4",
        "Figure 4: stochastic independent components.",
        f"{GENERALIZED}/figure4.py figure4.png",
        "2 20000",
        "10 100000",
        "about 10 s; about 2 min",
    ),
    Item(
        "003",
        "figure7",
        "Table 1 and Figure 7: the time of a direction and of a retraction.",
        f"{GENERALIZED}/figure7.py figure7.png",
        "",
        "--published",
        "about 10 s; minutes",
    ),
    Item(
        "003",
        "figure8",
        "Figures 8 and 10: landing and PLAM with many steps and penalties.",
        f"{GENERALIZED}/figure8.py figure8.png",
        "--dimension 100 --rank 50",
        "--published --seeds 3",
        "about 1 min; 2 h 47 min",
    ),
    Item(
        "003",
        "sensitivity",
        "The question of Figures 8 and 10 on canonical correlations.",
        f"{GENERALIZED}/sensitivity.py sensitivity.png",
        "1 2",
        "10",
        "about 15 s; about 5 min",
    ),
    Item(
        "003",
        "figure9",
        "Figure 9: the safe step along a run.",
        f"{GENERALIZED}/figure9.py figure9.png",
        "",
        "--published --seeds 10",
        "about 10 s; 40 min",
    ),
    Item(
        "003",
        "safe_steps",
        "The question of Figure 9 on canonical correlations.",
        f"{GENERALIZED}/safe_steps.py safe_steps.png",
        "200",
        "2000",
        "about 2 s; 10 s",
    ),
    Item(
        "003",
        "samples",
        "Table 2 and Figures 3 and 6 as tables: canonical correlations from samples, and memory.",
        "benchmarks/stochastic_cca.py",
        "small",
        "full",
        "about 1 min; about 18 min",
    ),
    Item(
        "003",
        "images",
        "Figures 3 and 6 on halves of images, per sample and per second.",
        "benchmarks/stochastic_cca.py images",
        "",
        "",
        "minutes",
    ),
    Item(
        "003",
        "ica",
        "Figure 4 per sample and per second.",
        "benchmarks/stochastic_cca.py ica",
        "",
        "",
        "minutes",
    ),
    Item(
        "002",
        "figure1",
        "Figure 1: robust subspaces, RSM and RSSM with 3, 5 and 10 blocks.",
        f"{NONSMOOTH}/figures.py rsr figure1.png",
        "2",
        "10",
        "about 1 min; about 5 min",
    ),
    Item(
        "002",
        "figure2",
        "Figure 2: orthogonal dictionaries, the same methods.",
        f"{NONSMOOTH}/figures.py odl figure2.png",
        "2",
        "10",
        "about 1 min; 6 min",
    ),
    Item(
        "002",
        "subspaces",
        "Figure 1 as a table, ten seeds.",
        "benchmarks/nonsmooth.py rsr",
        "100 2",
        "100 10",
        "about 30 s; about 3 min",
    ),
    Item(
        "002",
        "dictionaries",
        "Figure 2 as a table, ten seeds.",
        "benchmarks/nonsmooth.py odl",
        "100 2",
        "100 10",
        "about 1 min; about 6 min",
    ),
    Item(
        "002",
        "blocks",
        "Proposition 3.5: operations and time against the number of blocks.",
        "benchmarks/blocks.py",
        "400 100 400",
        "",
        "about 20 s; 29 s",
    ),
    Item(
        "002",
        "network",
        "Subspaces and dictionaries over networks from random starts; why dictionaries miss on a ring.",
        f"{NONSMOOTH}/network.py network.png",
        "--share 0.5",
        "--full",
        "about 30 s; about 5 min",
    ),
    Item("000", "stationarity", "Lemmas 4.2 to 4.6 and Theorem 4.9: tests of their statements.", STATIONARITY, "", "", "9 s"),
)
PAPERS = tuple(dict.fromkeys(item.paper for item in ITEMS))
