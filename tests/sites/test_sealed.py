"""Messages between neighbours: any that is not the next one of the neighbour is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from decentorth.commands.sites.folders import make
from decentorth.network.transport.sealed import Seal, SiteError, SiteIdentity, SiteLostError

Pair = tuple[Seal, Seal]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    names = ("north", "south", "west")
    make(root / "sites", "path", names, "localhost:4222", "127.0.0.1:4222", 2.0)
    make(root / "others", "path", names, "localhost:4222", "127.0.0.1:4222", 2.0)
    make(root / "ended", "path", names, "localhost:4222", "127.0.0.1:4222", -0.5)
    return root


def identity(folders: Path, name: str, made: str = "sites") -> SiteIdentity:
    return SiteIdentity(folders / made / name, name)


@pytest.fixture
def pair(folders: Path) -> Pair:
    north = Seal(identity(folders, "north"), "south", "run")
    south = Seal(identity(folders, "south"), "north", "run")
    assert north.greeted(south.greeting())
    assert south.greeted(north.greeting())
    return north, south


def test_messages_arrive_in_both_directions(pair: Pair) -> None:
    north, south = pair
    for data in (b"", b"one", bytes(10**6)):
        for sender, receiver in ((north, south), (south, north)):
            sealed = sender.close(data)
            assert len(sealed) == len(data) + 28
            assert receiver.open(sealed) == data


def test_equal_messages_are_sealed_differently_in_each_run(folders: Path, pair: Pair) -> None:
    again = Seal(identity(folders, "north"), "south", "run")
    assert again.greeted(pair[1].greeting())
    sealed = {pair[0].close(b"the same") for _ in range(3)} | {again.close(b"the same")}
    assert len(sealed) == 4


Change = Callable[[Seal, Seal], bytes]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda north, south: north.close(b"")[:-1], "message 1 from site north was changed"),
        (lambda north, south: north.close(b"")[:5], "message 1 from site north was changed"),
        (lambda north, south: b"", "message 1 from site north was changed"),
        (lambda north, south: north.close(b"")[:-1] + b"\0", "was changed on its way"),
        (lambda north, south: bytes(12) + north.close(b"x")[12:], "was changed on its way"),
        (lambda north, south: south.close(b"x"), "is of another sender"),
        (lambda north, south: (north.close(b"x"), north.close(b"y"))[1], "message 1 .* is missing"),
    ],
)
def test_what_is_not_the_next_message_is_refused(pair: Pair, change: Change, words: str) -> None:
    north, south = pair
    first = north.close(b"first")
    assert south.open(first) == b"first"
    with pytest.raises(SiteError, match=words):
        south.open(change(north, south))
    with pytest.raises(SiteError, match="message 0 from site north came a second time"):
        south.open(first)


def test_greetings_of_others_are_refused(folders: Path) -> None:
    own = identity(folders, "north")

    def greeting(name: str, to: str = "north", run: str = "run", made: str = "sites") -> bytes:
        return Seal(identity(folders, name, made), to, run).greeting()

    for one, words in (
        (greeting("west"), "is that of site west"),
        (greeting("south", made="others"), "is not signed by the authority of this run"),
        (greeting("south", to="west"), "is not signed by it"),
        (greeting("south", run="another"), "is not signed by it"),
        (b"nothing", "is damaged"),
        (b'["", "", ""]', "is damaged"),
        (b"[1, 2, 3]", "is damaged"),
    ):
        with pytest.raises(SiteError, match=words):
            Seal(own, "south", "run").greeted(one)


def test_a_neighbour_that_starts_again_ends_the_run(folders: Path, pair: Pair) -> None:
    north, south = pair
    assert not north.greeted(south.greeting())
    again = Seal(identity(folders, "south"), "north", "run")
    with pytest.raises(SiteLostError, match="site south has started again"):
        north.greeted(again.greeting())


def test_facts_are_signed_by_their_site(folders: Path) -> None:
    north, south = identity(folders, "north"), identity(folders, "south")
    text = south.signed({"clock": 1.5})
    facts, certificate = north.opened(text, "south")
    assert facts == {"clock": 1.5}
    assert certificate == south.certificate
    for changed in (text.replace(b"1.5", b"2.5"), text[:-3], b"{}"):
        with pytest.raises(SiteError, match=r"is not signed by it|is damaged"):
            north.opened(changed, "south")
    with pytest.raises(SiteError, match="is that of site south"):
        north.opened(text, "west")


def test_folders_that_cannot_be_used(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(SiteError, match=r"certificate of this site ended on .*: ask for new"):
        identity(folders, "north", "ended")
    with pytest.raises(SiteError, match=r"is not the folder of site west: .*west.pem"):
        SiteIdentity(folders / "sites" / "north", "west")
    for name in ("ca.pem", "north.pem", "north.key"):
        source = folders / "sites" / "north" / name
        (tmp_path / name).write_bytes(source.read_bytes())
    other = folders / "others" / "north" / "north.key"
    (tmp_path / "north.key").write_bytes(other.read_bytes())
    with pytest.raises(SiteError, match=r"north.key does not belong to north.pem"):
        SiteIdentity(tmp_path, "north")
    (tmp_path / "north.pem").write_bytes(b"damaged")
    with pytest.raises(SiteError, match="has a damaged file"):
        SiteIdentity(tmp_path, "north")


def test_keys_are_for_their_owner_alone(folders: Path) -> None:
    for key in (folders / "sites").rglob("*.key"):
        assert key.stat().st_mode & 0o077 == 0, key
    for folder in (folders / "sites").iterdir():
        assert folder.stat().st_mode & 0o077 == 0, folder
    held = {path.name for path in (folders / "sites" / "north").iterdir()}
    assert held == {"README.txt", "ca.pem", "graph.csv", "north.key", "north.pem", "site.json"}


def test_the_server_lets_sites_send_to_neighbours_only(folders: Path) -> None:
    text = (folders / "sites" / "server" / "nats.conf").read_text()
    lines = {line.split('"')[1]: line for line in text.splitlines() if "user:" in line}
    run = lines["CN=north"].split("do.")[1].split(".")[0]
    assert (
        f'publish: ["do.{run}.north.south"], subscribe: ["do.{run}.*.north"]' in lines["CN=north"]
    )
    assert f'["do.{run}.south.north", "do.{run}.south.west"]' in lines["CN=south"]
    assert "verify_and_map: true" in text
