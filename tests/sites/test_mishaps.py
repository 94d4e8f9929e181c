"""Mishaps of runs between institutions: none hangs, none is silent; docs/sites.md has the table."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
from benchmarks.sites import answers
from decentorth.commands.sites.folders import CONFIGURATION
from decentorth.commands.sites.trial import free_port
from decentorth.network import AlongEdges
from decentorth.network.transport.sealed import SiteError
from tests.support.mpi import HUNG
from tests.support.sites import RUN, SCREEN, Place, at_sites, ended, errors, refuse

NAMES = ("north", "south", "west")
LBFGS = ("--problem", "pca", "--rank", "2", "--algorithm", "lbfgs")
WAIT = ("--wait", "60")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def endless(communicator: AlongEdges, **more: Any) -> do.Result:
    rng = np.random.default_rng(0)
    problem = do.problems.PCA([rng.standard_normal((20, 5)) for _ in NAMES], 2)
    given: dict[str, Any] = {"iterations": 10**7, "clear_sums": True}
    return do.solve(problem, "drfgt", "path", comm=communicator, **given, **more)


def lines(found: list[Any]) -> list[str]:
    """The one line that each site reads."""
    assert all(isinstance(error, SiteError) for error in found), found
    assert not any("\n" in str(error) for error in found)
    return [str(error) for error in found]


def test_a_certificate_that_ends_in_mid_run(tmp_path: Path) -> None:
    place = Place(tmp_path, days=8 / 86400)
    with place.serving():
        found = lines(at_sites(place, endless))
    assert all(one.startswith("the certificate of ") and " ended on " in one for one in found)


def test_a_user_whom_the_server_no_longer_knows_in_mid_run(place: Place) -> None:
    """The folder of west is stolen: its line goes from nats.conf, and the server reads it again."""
    conf = place.root / "server" / CONFIGURATION

    def work(communicator: AlongEdges) -> do.Result:
        if communicator.rank == 2:
            kept = [line for line in conf.read_text().splitlines() if "CN=west" not in line]
            conf.write_text("\n".join(kept) + "\n")
            server.send_signal(signal.SIGHUP)
        return endless(communicator, rank_timeout=8.0)

    with place.serving() as server:
        found = lines(at_sites(place, work))
        again = at_sites(place, endless, waiting=1.0)
    assert "the connection to the server is lost" in found[2]
    assert all("silent" in one or "lost" in one for one in found)
    assert "knows no site of this name" in str(again[2])


def test_a_delay_of_20_ms_changes_no_bit(place: Place) -> None:
    """Which is put between two sites by the relay of benchmarks/sites.py."""
    way = free_port()
    for name in NAMES:
        about = place.root / name / "site.json"
        about.write_text(about.read_text().replace(str(place.port), str(way)))

    def work(communicator: Any) -> Any:
        rng = np.random.default_rng(0)
        problem = do.problems.PCA([rng.standard_normal((20, 5)) for _ in NAMES], 2)
        given: dict[str, Any] = {"iterations": 20, "comm": communicator, "clear_sums": True}
        return np.asarray(do.solve(problem, "drfgt", "path", **given).x)

    begun = time.monotonic()
    words = ["benchmarks/sites.py", "--relay", str(way), str(place.port), "0.01"]
    with place.serving(), subprocess.Popen([sys.executable, *words]) as relay:
        try:
            answers(way)
            found = at_sites(place, work)
        finally:
            relay.terminate()
    assert time.monotonic() - begun > 20 * 0.02
    for one, x in zip(found, work("serial"), strict=True):
        assert isinstance(one, np.ndarray), found
        assert one.tobytes() == x[None].tobytes()


def test_sites_that_take_different_steps(place: Place) -> None:
    """As of methods by sums whose decisions hang on a rounding; it was a hang."""

    def work(communicator: AlongEdges) -> None:
        if communicator.rank == 2:
            communicator.max(np.zeros(1))
        else:
            communicator.exchange(
                [(rank, np.zeros(1)) for rank in communicator.neighbours],
                [(rank, np.zeros(1)) for rank in communicator.neighbours],
            )()

    with place.serving():
        found = at_sites(place, work)
    for error in found[1:]:
        assert " is at another step of the method than this one" in str(error)


def test_a_site_in_two_runs_at_once(place: Place) -> None:
    """The second run of north ends the first one of all, and then waits for the others."""
    second: list[Any] = []

    def work(communicator: AlongEdges) -> do.Result:
        if communicator.rank == 0:
            thread = threading.Thread(target=lambda: second.extend(at_north()))
            thread.start()
        return endless(communicator)

    def at_north() -> list[Any]:
        return at_sites(place, endless, names=["north"], waiting=2.0)

    with place.serving():
        found = lines(at_sites(place, work))
        until = time.monotonic() + HUNG
        while not second and time.monotonic() < until:
            time.sleep(0.05)
    assert found == ["site north has started again"] * 3
    assert lines(second) == ["site south has not come within 2 s"]


def test_two_runs_of_the_same_folders_on_one_server(place: Place) -> None:
    """The second one ends the first, in one line everywhere; started alone it works."""

    def work(communicator: AlongEdges) -> do.Result:
        started.set()
        return endless(communicator)

    started = threading.Event()
    first: list[Any] = []
    with place.serving():
        thread = threading.Thread(target=lambda: first.extend(at_sites(place, work)))
        thread.start()
        assert started.wait(HUNG)
        second = at_sites(place, _short, waiting=3.0)
        thread.join(HUNG)
        third = at_sites(place, _short)
    assert all("has started again" in one for one in lines(first))
    for one in second:
        assert isinstance(one, do.Result | SiteError)
    assert all(isinstance(one, do.Result) for one in third)


def _short(communicator: AlongEdges) -> do.Result:
    rng = np.random.default_rng(0)
    problem = do.problems.PCA([rng.standard_normal((20, 5)) for _ in NAMES], 2)
    return do.solve(problem, "direct", "path", comm=communicator)


def test_a_disk_that_is_full_at_one_site(place: Place) -> None:
    """Its own line names the folder; the others read whose fault it is."""
    flags = ("--checkpoint-every", "20", *WAIT)
    full = place.root / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(full)], check=True)
    try:
        with place.serving():
            sites = [place.start(name, *flags, iterations=4000) for name in NAMES[:2]]
            sites.append(place.start("west", *flags, iterations=4000, out=full / "run"))
            found = ended(sites)
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert all(code not in (0, 2) for code, _ in found), found
    *others, own = errors(found)
    assert "No space left on device" in own
    words = f"cannot write the checkpoint of iteration 20: site west cannot continue: {SCREEN}"
    assert others == [words] * 2


@pytest.mark.slow
def test_a_server_that_is_restarted_ten_times(place: Place) -> None:
    """The sites meet again each time, and the bits are those of an unbroken run."""
    flags = ("--checkpoint-every", "50", "--retries", "99", *WAIT)
    sites: list[subprocess.Popen[str]] = []
    outputs: list[list[tuple[int, str]]] = []
    reader = threading.Thread(target=lambda: outputs.append(ended(sites)))
    checkpoints = place.root / "run-west" / "checkpoints"
    seen: set[str] = set()
    for restart in range(10):
        with place.serving() as server:
            if not sites:
                sites += [place.start(name, *flags, iterations=10_000) for name in NAMES]
                reader.start()
            until = time.monotonic() + HUNG
            while time.monotonic() < until and reader.is_alive():
                now = {path.name for path in checkpoints.glob("0*")}
                if now - seen:
                    break
                time.sleep(0.02)
            assert reader.is_alive(), f"ended after {restart} restarts"
            server.kill()
        seen |= {path.name for path in checkpoints.glob("0*")}
    with place.serving():
        reader.join(HUNG)
    assert [code for code, _ in outputs[0]] == [0, 0, 0], outputs
    assert all(text.count("\nlost        ") >= 10 for _, text in outputs[0])
    expected = place.pooled(10_000)
    for name, x in zip(NAMES, expected, strict=True):
        assert place.points(name).tobytes() == x[None].tobytes()


@pytest.mark.slow
def test_numpy_2_0_beside_the_newest(place: Place, tmp_path: Path) -> None:
    """Runs where it may round differently, with a note, and is refused where it may not."""
    folder = str(tmp_path / "numpy")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder]
    subprocess.run([*pip, "numpy==2.0.2"], check=True)

    def started(run: Sequence[str]) -> list[tuple[int, str]]:
        sites = [place.start(name, *WAIT, "--overwrite", run=run) for name in NAMES[:2]]
        flags = (*WAIT, "--overwrite")
        older = place.start("west", *flags, run=run, more={"PYTHONPATH": folder})
        return ended([*sites, older])

    with place.serving():
        found = started(RUN)
        assert [code for code, _ in found] == [0, 0, 0], found
        expected = place.pooled(100)
        for name, x in zip(NAMES, expected, strict=True):
            np.testing.assert_allclose(place.points(name)[0], x, rtol=0, atol=1e-10)
        same = "rounds differently" not in found[0][1]
        for code, text in started(LBFGS):
            assert code == 0 if same else "rounds differently" in text


@pytest.mark.slow
def test_a_site_with_another_processor(place: Place) -> None:
    """Methods by sums, where each site decides by its own roundings, are refused; direct runs."""
    other = {"OPENBLAS_CORETYPE": "Nehalem"}

    def started(run: tuple[str, ...]) -> list[Any]:
        sites = [place.start(name, *WAIT, run=run) for name in NAMES[:2]]
        return ended([*sites, place.start("west", *WAIT, run=run, more=other)])

    with place.serving():
        found = started(LBFGS)
        assert [code for code, _ in found] == [2, 2, 2], found
        different = "rounds differently (another processor, NumPy or BLAS), and lbfgs needs the"
        assert all(different in one for one in errors(found))
        found = started((*LBFGS[:4],))
    assert [code for code, _ in found] == [0, 0, 0], found
    assert "note        site west rounds differently" in found[0][1]


LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


@pytest.mark.slow
@pytest.mark.skipif(not Path(LIBRARY).exists(), reason="needs Debian's faketime")
@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("-10d", "the certificate of this site begins on "),
        ("+10d", "the certificate of this site ended on "),
    ],
)
def test_a_wrong_clock(place: Place, when: str, words: str) -> None:
    more = {"LD_PRELOAD": LIBRARY, "FAKETIME": when, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    ((code, text),) = refuse([place.start("north", more=more)])
    assert code == 2
    assert text.startswith(f"decentorth: {words}")
    assert text.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path(LIBRARY).exists(), reason="needs Debian's faketime")
def test_a_clock_that_is_an_hour_off_is_a_note(place: Place) -> None:
    more = {"LD_PRELOAD": LIBRARY, "FAKETIME": "+1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    with place.serving():
        sites = [place.start(name, *WAIT) for name in NAMES[:2]]
        found = ended([*sites, place.start("west", *WAIT, more=more)])
    assert [code for code, _ in found] == [0, 0, 0], found
    for _, text in found[:2]:
        assert "note        the clock of west differs by 60 minutes" in text
