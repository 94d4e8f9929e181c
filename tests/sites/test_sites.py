"""Sites as processes over a real NATS server on the loopback, with certificates of their own."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from decentorth.commands.sites.trial import NAMES
from tests.support.conformance import CHECKS
from tests.support.mpi import HUNG
from tests.support.sites import RUN, SCREEN, Place, Tap, ended, errors, refuse


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def listening(pid: int) -> list[str]:
    """The sockets of a process that listen."""
    held = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(os.readlink(descriptor))
        except OSError:
            continue
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return [line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in held]


def test_three_sites_have_the_bits_of_one_process_and_the_server_reads_nothing(
    place: Place,
) -> None:
    tap = Tap(place)
    with place.serving(), tap:
        sites = [place.start(name) for name in NAMES]
        found = ended(sites)
    assert [code for code, _ in found] == [0, 0, 0], found
    expected = place.pooled(100)
    for name, x in zip(NAMES, expected, strict=True):
        assert place.points(name).tobytes() == x[None].tobytes()

    ways = {tuple(subject.split(".")[2:]) for subject, _ in tap.heard}
    assert ways == {*(("north", "south"), ("south", "north"), ("south", "west"), ("west", "south"))}
    sealed = b"".join(data[13:] for _, data in tap.heard if data[:1] == b"S")
    table = np.loadtxt(place.root / "north.csv", delimiter=",", skiprows=1)
    first = place.pooled(1)
    secrets = [b"lab", b"drfgt", b"objective", *(x.tobytes() for x in first.ravel())]
    secrets += [x.tobytes() for x in table.ravel()]
    everything = b"".join(data for _, data in tap.heard)
    assert [one for one in secrets if one in everything] == []
    counts = np.bincount(np.frombuffer(sealed, np.uint8), minlength=256) / len(sealed)
    assert -(counts * np.log2(counts)).sum() > 7.99

    for name in NAMES:
        rows = (place.root / f"run-{name}" / "sent.csv").read_text().splitlines()[1:]
        near = {target for source, target in ways if source == name}
        assert {row.split(",")[0] for row in rows} == near
        for other, outside in zip(NAMES, NAMES[1:] + NAMES[:1], strict=True):
            assert f"/{outside}.csv" not in found[NAMES.index(other)][1].split("agreed")[0]


def test_no_site_listens(place: Place) -> None:
    with place.serving():
        sites = [place.start(name) for name in NAMES]
        for site in sites:
            assert site.stdout is not None
            while "agree " not in site.stdout.readline():
                assert site.poll() is None
        assert [listening(site.pid) for site in sites] == [[], [], []]
        for site in sites:
            site.kill()
            site.communicate()


def test_settings_columns_and_consent_are_compared_before_anything_is_sent(place: Place) -> None:
    table = (place.root / "west.csv").read_text()
    with place.serving():
        sites = [place.start(name) for name in NAMES[:2]] + [
            place.start("west", "--record-every", "7")
        ]
        found = [*refuse(sites)]
        assert [code for code, _ in found] == [2, 2, 2]
        words = errors(found)
        assert words[0] == words[1] == "site west has another --record-every: agree on one"
        assert words[2] == "site north has another --record-every: agree on one"

        (place.root / "west.csv").write_text(table.replace("lab3", "lab_3", 1))
        found = [*refuse([place.start(name) for name in NAMES])]
        assert [code for code, _ in found] == [2, 2, 2]
        assert all("the columns of site" in line and "lab" not in line for line in errors(found))

        (place.root / "west.csv").write_text(table)
        sites = [
            place.start(*one) for one in (("north",), ("south", "--agree", "12345678"), ("west",))
        ]
        assert sites[0].stdin is not None
        assert sites[2].stdin is not None
        sites[0].stdin.write("no\n")
        found = [*refuse(sites)]
        assert [code for code, _ in found] == [2, 2, 2]
        north, south, west = errors(found)
        assert north == "you did not agree: nothing was sent but hashes"
        assert south.startswith("--agree 12345678 was given for another plan; this one is ")
        assert "there is no keyboard to agree at: read the lines above, and give --agree " in west


def test_a_site_with_a_fault_keeps_the_reason(place: Place) -> None:
    table = (place.root / "west.csv").read_text()
    (place.root / "west.csv").write_text(table + "a patient,1,1,1,1,1,1,1\n")
    ((code, text),) = refuse([place.start("west")])
    assert code == 2
    assert "'a patient' is not a number" in text
    (place.root / "west.csv").write_text(table + "1e99,1,1,1,1,1,1,1\n")
    with place.serving():
        found = ended([place.start(name, "--wait", "60") for name in NAMES])
    assert [code for code, _ in found] == [2, 2, 2]
    *others, own = errors(found)
    assert "1e+99" in own
    assert others == [f"site west cannot continue: {SCREEN}"] * 2
    assert not any("1e+99" in text or "west.csv" in text for _, text in found[:2])


def test_what_is_not_there_is_said_in_one_line(place: Place) -> None:
    ((code, text),) = refuse([place.start("north", "--wait", "1")])
    assert code == 75
    assert text.splitlines() == [
        f"decentorth: no server answers at localhost:{place.port}: is it running, and may this "
        "computer connect to it?"
    ]
    with place.serving():
        ((code, text),) = refuse([place.start("north", "--wait", "1")])
        assert (code, text) == (75, "decentorth: site south has not come within 1 s\n")
        other = Place(place.root / "another")
        about = other.root / "north" / "site.json"
        about.write_text(about.read_text().replace(str(other.port), str(place.port)))
        ((code, text),) = refuse([other.start("north", "--wait", "1")])
        assert code == 2
        assert "shows a certificate that is not of this run" in text
    ((code, text),) = refuse([place.start("north", "--topology", "ring")])
    assert (code, text) == (
        2,
        "decentorth: --topology is not for a run with --join, whose folder says it\n",
    )


MASKED = ("--problem", "pca", "--rank", "2", "--algorithm", "rgd", "--step-size", "1e-3")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:secure:UserWarning")
@pytest.mark.parametrize("run", [RUN, MASKED])
def test_a_site_that_is_killed_comes_back_and_the_bits_are_the_same(
    place: Place, run: Sequence[str]
) -> None:
    """New masks too give the bits of an unbroken run."""
    flags = ("--checkpoint-every", "50", "--rank-timeout", "6", "--retries", "9")
    with place.serving():
        sites = [place.start(name, *flags, iterations=3000, run=run) for name in NAMES]
        killed = sites[2]
        outputs: list[list[tuple[int, str]]] = []
        reader = threading.Thread(target=lambda: outputs.append(ended(sites)))
        reader.start()
        kept = place.root / "run-west" / "checkpoints" / "000000100"
        while not kept.is_dir():
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
        again = place.start("west", *flags, iterations=3000, run=run)
        back = ended([again])
        reader.join(HUNG)
    assert [code for code, _ in outputs[0][:2] + back] == [0, 0, 0], (outputs, back)
    assert all("lost        " in text for _, text in outputs[0][:2])
    expected = place.pooled(3000)
    if run is MASKED:
        expected = place.pooled(3000, "rgd:step_size=1e-3", secure=True)
    for name, x in zip(NAMES, expected, strict=True):
        assert place.points(name).tobytes() == x[None].tobytes()


def iterating(place: Place, name: str) -> int:
    """The bytes of iterations that the file of a site lists."""
    with (place.root / f"run-{name}" / "sent.csv").open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len({(row["to"], row["use"]) for row in rows}) == len(rows)
    return sum(int(row["bytes"]) for row in rows if row["use"] == "iterations and sums")


@pytest.mark.slow
def test_the_list_of_what_left_survives_losses_and_restarts(place: Place) -> None:
    """A server that dies, then a site that is killed: all messages of the whole run are listed."""
    flags = ("--checkpoint-every", "50", "--rank-timeout", "6", "--retries", "9", "--wait", "60")

    def awaited(checkpoint: str) -> None:
        while not any((place.root / "run-west" / "checkpoints").glob(checkpoint)):
            assert reader.is_alive()
            time.sleep(0.01)

    with place.serving() as server:
        sites = [place.start(name, *flags, iterations=3000) for name in NAMES]
        outputs: list[list[tuple[int, str]]] = []
        reader = threading.Thread(target=lambda: outputs.append(ended(sites)))
        reader.start()
        awaited("000000[1-9]*")
        server.kill()
    with place.serving():
        awaited("000001*")
        sites[2].kill()
        back = ended([place.start("west", *flags, iterations=3000)])
        reader.join(HUNG)
    assert [code for code, _ in outputs[0][:2] + back] == [0, 0, 0], (outputs, back)
    summary = json.loads((place.root / "run-west" / "summary.json").read_text())
    sent = {name: iterating(place, name) for name in NAMES}
    # 3000 iterations and what was sent a second time; the middle of the path has two neighbours
    for name, share in zip(NAMES, (0.25, 0.5, 0.25), strict=True):
        assert sent[name] >= share * summary["bytes"], sent


RING = ("north", "east", "south", "west")


@pytest.mark.slow
def test_the_suite_of_transports(tmp_path: Path) -> None:
    place = Place(tmp_path, "ring", RING)
    with place.serving():
        found = [*refuse([place.checking(name) for name in RING])]
    assert found == [(0, f"{len(CHECKS)} checks on 4 ranks\n")] * 4


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "stop", "leave"])
def test_the_loss_of_a_site_ends_the_run_of_all(tmp_path: Path, how: str) -> None:
    place = Place(tmp_path, "ring", RING)
    with place.serving():
        *sites, lost = [place.checking(name, "--lose", how) for name in RING]
        found = [*refuse(sites)]
        lost.kill()
        lost.communicate()
    words = "has ended its run" if how == "leave" else "has been silent for 10 s"
    for code, text in found:
        assert code == 1
        assert text.splitlines()[-1].endswith(f": site west {words}")


@pytest.mark.slow
def test_a_server_that_dies_ends_the_run_of_all(place: Place) -> None:
    with place.serving() as server:
        sites = [place.start(name, iterations=10**6) for name in NAMES]
        outputs: list[list[tuple[int, str]]] = []
        reader = threading.Thread(target=lambda: outputs.append(ended(sites)))
        reader.start()
        while not (place.root / "run-west" / "history.csv").is_file():
            time.sleep(0.05)
        server.kill()
        reader.join(HUNG)
    assert [code for code, _ in outputs[0]] == [75, 75, 75], outputs
    assert {line.split(" (")[0] for line in errors(outputs[0])} <= {
        "the connection to the server is lost"
    }


def test_sites_add_by_masked_sums_and_the_plan_says_so(tmp_path: Path) -> None:
    """With two sites it says that each learns the other's terms; what it foresees is what is sent."""
    pair = Place(tmp_path, "path", NAMES[:2])
    run = ("--problem", "pca", "--rank", "2")
    ((code, text),) = refuse([pair.start("north", run=(*run, "--algorithm", "drfgt"))])
    assert code == 2
    assert text.startswith("decentorth: secure sums are for methods by exact sums, and DRFGT sends")
    assert "--clear-sums" in text
    assert text.count("\n") == 1
    config = tmp_path / "clear.yaml"
    config.write_text("problem: pca\nrank: 2\nclear_sums: true\n")
    with pair.serving():
        masked = ended([pair.start(name, "--wait", "60", run=run) for name in pair.names])
        flags = ("--wait", "60", "--overwrite")
        given = ("--config", str(config))
        clear = ended([pair.start(name, *flags, run=given) for name in pair.names])
    for code, text in masked:
        assert code == 0, text
        before = text.split("agreed ")[0]
        assert "sums        masked: neighbours read random numbers, and all sites the tot" in before
        assert "note        secure sums hide nothing between two agents: each computes" in before
        (foreseen,) = re.findall(r"at most about ([\d.]+) kB in all", before)
        (sent,) = re.findall(r"sent +\d+ messages, ([\d.]+) kB", text)
        assert float(foreseen) == pytest.approx(float(sent) / 2, rel=0.01)
    for code, text in clear:
        assert code == 0, text
        assert "sums        in the clear: a neighbour reads what this site sends it" in text
        assert "masked sums" not in text
