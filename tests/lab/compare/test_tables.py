"""Tables in every format hold the comparison's numbers; figures are their curves."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from decentorth import DRFGT
from decentorth.commands.line.config_files import InputError
from decentorth.commands.new.algorithm import Template
from decentorth.compare import Comparison, MedianRange, Rules, load
from decentorth.lab.compare.comparison_figures import curve
from decentorth.lab.compare.comparison_tables import UNITS, number
from tests.lab.compare.cases import ATC, CTA, RULES, small

WILD = "drfgt:step_size=5"
LABELS = (CTA, ATC, WILD)


@pytest.fixture(scope="module")
def found() -> Comparison:
    return small(
        algorithms=LABELS,
        rules=Rules(trials=3, iterations=300, tolerances=(3.0, 1.0, 1e-40), tune=True, grid=2),
    )


def close(shown: float, true: float, quantity: str) -> bool:
    """To the digits that are shown: all of whole numbers, three of others."""
    if math.isinf(true) or math.isinf(shown) or quantity in ("iterations", "rounds", "gradients"):
        return shown == true
    return abs(shown - true * UNITS.get(quantity, ("", 1.0))[1]) <= 0.5e-2 * shown


def spreads(cell: str) -> tuple[float, float, float]:
    plain = re.sub(r"\*\*|\\textbf|[{}$]", "", cell).replace(r"\infty", "inf")
    median, _, span = plain.partition(" (")
    low, _, high = (span.rstrip(")") or f"{median} to {median}").partition(" to ")
    return float(median), float(low), float(high)


def cells(found: Comparison, form: Any) -> Iterator[tuple[float, list[str]]]:
    tolerance = math.nan
    for line in found.table(form).splitlines():
        goal = re.search(r"^## To (\S+)$|\{to ([^}]+)\}", line)
        if goal:
            tolerance = float(goal[1] or goal[2])
        parts = [
            part.strip()
            for part in line.removesuffix(r"\\")
            .strip("| ")
            .split("&" if form == "latex" else " | ")
        ]
        if parts[0].replace("\\", "") in LABELS:
            yield tolerance, [part.replace(r"\_", "_") for part in parts]


@pytest.mark.slow_cases("markdown")
@pytest.mark.parametrize("form", ["markdown", "latex"])
def test_text_tables_read_back_to_the_same_numbers(found: Comparison, form: Any) -> None:
    lines = [
        line for tolerance in found.shown for line in found.lines if line.tolerance == tolerance
    ]
    read = list(cells(found, form))
    assert len(read) == len(lines) == len(LABELS) * len(found.shown)
    for line, (tolerance, parts) in zip(lines, read, strict=True):
        assert (tolerance, parts[:3]) == (
            line.tolerance,
            [line.algorithm, line.step, f"{line.reached}/{line.trials}"],
        )
        for (quantity, spread), cell in zip(line.counts.items(), parts[3:], strict=True):
            assert all(
                close(shown, true, quantity)
                for shown, true in zip(spreads(cell), spread, strict=True)
            ), (quantity, cell)


@pytest.mark.parametrize(("form", "bold"), [("markdown", "**"), ("latex", r"\textbf")])
def test_the_least_median_of_each_column_is_bold(found: Comparison, form: Any, bold: str) -> None:
    for tolerance in found.shown:
        own = [line for line in found.lines if line.tolerance == tolerance]
        section = [parts[3:] for at, parts in cells(found, form) if at == tolerance]
        for column, quantity in enumerate(found.quantities):
            medians = [line.counts[quantity].median for line in own]
            expected = [median == min(medians) and math.isfinite(median) for median in medians]
            assert [bold in parts[column] for parts in section] == expected


def test_a_row_with_failed_trials_is_not_bold(found: Comparison) -> None:
    sure, fast, _ = found.entries
    broken = {name: column[:1] for name, column in fast.traces[0].history.items()}
    failed = replace(fast.traces[0], history=broken, status="diverged")
    one = replace(found, entries=(sure, replace(fast, traces=(failed, *fast.traces[1:]))))
    rows = [parts for at, parts in cells(one, "markdown") if at == 1.0]
    assert [parts[2] for parts in rows] == ["3/3", "2/3"]
    assert all("**" in cell for cell in rows[0][3:])
    assert not any("**" in cell for cell in rows[1][3:])


def test_csv_reads_back_bit_for_bit_with_every_tolerance(found: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(found.table("csv"))))
    assert len(rows) == len(found.lines) == len(LABELS) * 3
    for line, row in zip(found.lines, rows, strict=True):
        assert (row["algorithm"], row["step"], float(row["tolerance"])) == (
            line.algorithm,
            line.step,
            line.tolerance,
        )
        assert (int(row["trials"]), int(row["reached"]), int(row["diverged"])) == (
            3,
            line.reached,
            line.diverged,
        )
        for quantity, spread in line.counts.items():
            assert (
                MedianRange(
                    *(float(row[f"{quantity} {kind}"]) for kind in ("median", "low", "high"))
                )
                == spread
            )


def test_a_terminal_gets_the_medians_in_80_columns(found: Comparison) -> None:
    lines = found.table("text").splitlines()
    assert max(map(len, lines)) <= 80
    own = [line for tolerance in found.shown for line in found.lines if line.tolerance == tolerance]
    places = [
        place
        for place, line in enumerate(lines)
        if line.startswith(tuple(f"{label}, step" for label in LABELS))
    ]
    assert len(places) == len(own)
    for line, place in zip(own, places, strict=True):
        assert lines[place] == f"{line.algorithm}, step {line.step}"
        reached, *medians = lines[place + 1].split()
        assert reached == f"{line.reached}/{line.trials}"
        shown = {name: counts.median for name, counts in line.counts.items() if name != "gradients"}
        assert all(
            close(float(cell), true, name)
            for cell, (name, true) in zip(medians, shown.items(), strict=True)
        )


def test_whole_numbers_are_shown_whole() -> None:
    shown = [number(value, "rounds") for value in (3.0, 3.5, 12345678.0, math.inf)]
    assert shown == ["3", "3.5", "12345678", "inf"]
    assert [number(value, "bytes") for value in (1.234567e9, 8.0)] == ["1235", "8e-06"]


def test_trials_are_those_of_the_table(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path, plot=False)
    trials = list(csv.DictReader((tmp_path / "trials.csv").read_text().splitlines()))
    assert len(trials) == len(LABELS) * 3 * 3
    for line in found.lines:
        own = [
            row
            for row in trials
            if (row["algorithm"], float(row["tolerance"])) == (line.algorithm, line.tolerance)
        ]
        counts = [float(row["rounds"]) if row["reached"] == "1" else math.inf for row in own]
        assert MedianRange.of(counts) == line.counts["rounds"]


def test_a_trial_that_has_ended_keeps_its_value_and_one_that_diverged_is_infinite(
    found: Comparison,
) -> None:
    entry = found.entries[1]
    long = entry.traces[0].history
    short = {name: column[:5] for name, column in long.items()}
    for status, held in (("converged", short["gradient_norm"][-1]), ("diverged", 0.0)):
        ended = replace(entry.traces[1], history=short, status=status)
        changed = replace(entry, traces=(entry.traces[0], ended, entry.traces[0]))
        drawn = curve(found, changed, ("gradient_norm", "iterations"))
        assert len(drawn.x) == len(long["iteration"]) - 1
        rest = long["gradient_norm"][5:]
        assert np.array_equal(drawn.high[4:], np.maximum(rest, held))
        assert np.array_equal(drawn.median[4:], rest)


def test_a_curve_ends_where_the_median_of_the_table_is(found: Comparison) -> None:
    """Of five trials two diverge: the median is the slowest of the other three, and the band is
    that of these."""
    entry = found.entries[1]
    long = entry.traces[0].history
    last = len(long["iteration"])

    def cut(rows: int, status: str) -> Any:
        history = {name: column[:rows] for name, column in long.items()}
        return replace(entry.traces[0], history=history, status=status)

    ended = [cut(rows, "converged") for rows in (4, 6, last)]
    traces = (cut(2, "diverged"), *ended, cut(3, "diverged"))
    five = replace(found, rules=replace(found.rules, trials=5))
    drawn = curve(five, replace(entry, traces=traces), ("gradient_norm", "iterations"))
    assert drawn.x[-1] == long["iteration"][-1]
    assert np.isfinite(drawn.high).all()
    assert np.array_equal(drawn.high[5:], np.full(last - 6, long["gradient_norm"][3]))


def test_curves_on_axes_and_in_colours_of_ones_own(found: Comparison) -> None:
    figure = Figure()
    axes = figure.subplots()
    drawn = found.plot(ax=axes, x="rounds", colors={ATC: "black"}, labels={CTA: "theirs"})
    assert drawn is figure
    lines = {line.get_color() for line in axes.lines if line.get_gid() == "median"}
    assert "black" in lines
    assert len(lines) == 3
    legend = axes.get_legend()
    assert legend is not None
    assert "theirs" in [text.get_text() for text in legend.get_texts()]
    with pytest.raises(InputError, match="ax is for one panel, and there are 4"):
        found.plot(ax=axes)


def test_a_notebook_shows_the_table(found: Comparison) -> None:
    shown = found._repr_html_()
    assert shown.count("<table>") == len(found.shown)
    assert f"<th>{CTA}</th>" in shown
    assert all(html.escape(note) in shown for note in found.notes()[1:])


def test_a_comparison_prints_as_its_table(found: Comparison) -> None:
    assert repr(found) == str(found) == found.table("text")


def test_a_comparison_that_was_saved_is_the_same(found: Comparison, tmp_path: Path) -> None:
    found.save(tmp_path / "one", plot=False)
    again = load(tmp_path / "one")
    again.save(tmp_path / "two", plot=False)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    assert (again.rules, again.networks, again.notes()) == (
        found.rules,
        found.networks,
        found.notes(),
    )


def test_a_folder_without_a_whole_comparison_is_named(found: Comparison, tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"comparison.json: No such file .*; is .* the folder of a comparison that has ended\?",
    ):
        load(tmp_path)
    found.save(tmp_path, plot=False)
    data = tmp_path / "comparison.json"
    whole = data.read_text()
    for damage in (
        "",
        whole[:999],
        whole.replace('"trials": 3', '"trials": 4'),
        whole.replace('"agents": 5', '"agents": []'),
        whole.replace('"tolerances": [', '"tolerances": [' + "0.5, " * 10**6),
    ):
        assert damage != whole
        data.write_text(damage)
        with pytest.raises(
            InputError, match=r"comparison.json is damaged \(.*\): make the comparison again"
        ):
            load(tmp_path)


def test_tables_have_the_columns_that_are_asked_for(found: Comparison) -> None:
    text = found.table(columns=["bytes", "step"], tolerances=[3.0])
    head, _, first, *_ = [line for line in text.splitlines() if line.startswith("|")]
    assert [part.strip() for part in head.strip("|").split("|")] == ["method", "step", "megabytes"]
    assert first.startswith(f"| {CTA}")
    latex = found.table(
        "latex", columns=["bytes"], tolerances=[3.0], ranges=False, caption="A & B", label="tab:x"
    )
    assert r"\caption{A \& B}" + "\n" + r"\label{tab:x}" in latex
    assert re.search(rf"{ATC} & \\textbf{{[\d.]+}} \\\\$", latex, re.M)  # without a range
    with pytest.raises(
        ValueError, match=r"unknown form 'word' \(there are csv, text, html, markdown, latex\)"
    ):
        found.table("word")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"unknown column 'byte'.*; did you mean 'bytes'"):
        found.table(columns=["byte"])
    with pytest.raises(InputError, match=r"unknown tolerance '2.0' \(there are 3.0, 1.0, 1e-40\)"):
        found.table(tolerances=[2.0])


def test_a_figure_can_be_drawn_again_for_a_paper(found: Comparison) -> None:
    drawn = found.plot(
        x="bytes", width="column", band="quartiles", log="y", order=[ATC, CTA], labels={ATC: "ours"}
    )
    (axes,) = drawn.axes
    assert (drawn.get_figwidth(), axes.get_xscale(), axes.get_yscale()) == (3.5, "linear", "log")
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "ours",
        CTA,
    ]
    lines = [line for line in axes.lines if line.get_gid() == "median"]
    for entry, line in zip((found.entries[1], found.entries[0]), lines, strict=True):
        expected = curve(found, entry, ("gradient_norm", "bytes"))
        assert np.array_equal(np.asarray(line.get_xydata()).T, (expected.x, expected.median))
    tolerances = [line.get_ydata()[0] for line in axes.lines if line.get_gid() == "tolerance"]  # type: ignore[index]
    assert tolerances == list(found.shown)
    assert not any(
        line.get_gid() == "range"
        for line in found.plot(x="rounds", band="none").axes[0].collections
    )
    assert len(found.plot(width="column").axes) == 4
    for words, wrong in (
        ("unknown count 'byte'", {"x": "byte"}),
        ("unknown band 'iqr'", {"band": "iqr"}),
        ("unknown width 'columns' .*did you mean 'column'", {"width": "columns"}),
        ("unknown log 'yx'", {"log": "yx"}),
        ("no run has the metric 'objectiv' .*did you mean 'objective'", {"metrics": "objectiv"}),
        ("unknown method 'drgt'", {"order": ["drgt"]}),
        ("no run has the metric 'fog'", {"metrics": ["fog"]}),
    ):
        with pytest.raises(InputError, match=words):
            found.plot(**wrong)


def test_curves_are_medians_with_ranges_or_quartiles_by_sorting(found: Comparison) -> None:
    entry = replace(found.entries[0], traces=found.entries[0].traces + found.entries[1].traces[:2])
    five = replace(found, rules=replace(found.rules, trials=5))
    values, sent = (
        np.sort([trace.history[name] for trace in entry.traces], axis=0)
        for name in ("gradient_norm", "bytes")
    )
    for band, low, high in (("range", 0, 4), ("quartiles", 1, 3)):
        drawn = curve(five, entry, ("gradient_norm", "bytes"), band)  # type: ignore[arg-type]
        assert np.array_equal(
            (drawn.x, drawn.median, drawn.low, drawn.high),
            (sent[2, 1:], values[2, 1:], values[low, 1:], values[high, 1:]),
        )


def test_a_figure_has_a_panel_for_each_cost_and_metric(found: Comparison) -> None:
    drawn = found.plot(metrics=("gradient_norm", "consensus_rms", "feasibility"))
    assert len(drawn.axes) == 4 * 3
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        f"{entry.label}, step {entry.step}" for entry in found.entries
    ]
    names = [axes.get_xlabel() for axes in drawn.axes[-4:]]
    assert names == [
        "iteration $k$",
        "rounds of messages",
        "bytes sent, all agents",
        "modelled seconds on lan",
    ]


@pytest.mark.slow
def test_a_metric_that_a_method_lacks_is_drawn_for_the_others() -> None:
    some = small(
        algorithms={"drfgt": DRFGT(), "template": Template()}, rules=replace(RULES, trials=1)
    )
    drawn = some.plot(metrics=("tracking_error",))
    assert [sum(line.get_gid() == "median" for line in axes.lines) for axes in drawn.axes] == [
        1
    ] * 4


def test_the_curves_in_the_folder_are_medians_and_ranges_of_the_runs(
    found: Comparison, tmp_path: Path
) -> None:
    found.save(tmp_path, plot=False)
    rows = list(csv.DictReader((tmp_path / "curves.csv").read_text().splitlines()))
    assert {row["algorithm"] for row in rows} == set(LABELS)
    entry = found.entries[0]
    own = [row for row in rows if row["algorithm"] == entry.label]
    # none is ended early
    values = np.array([trace.history["gradient_norm"] for trace in entry.traces])
    for kind, expected in (
        ("median", np.median(values, axis=0)),
        ("low", values.min(axis=0)),
        ("high", values.max(axis=0)),
    ):
        np.testing.assert_allclose(
            [float(row[f"gradient_norm {kind}"]) for row in own], expected, rtol=1e-5
        )
    np.testing.assert_array_equal(
        [float(row["iterations"]) for row in own], entry.traces[0].history["iteration"]
    )
