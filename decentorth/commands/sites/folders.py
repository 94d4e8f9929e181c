"""``decentorth sites make``: the server's configuration, an authority, and a folder for each
site."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import topologies
from topologies.line.flags import InputError

from ...network.transport.sealed import SiteError, SiteIdentity

Edges = list[tuple[int, int]]
SITE = "site.json"
GRAPH = "graph.csv"
CONFIGURATION = "nats.conf"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
"""Names are parts of subjects, of files and of certificates."""
_RESERVED = ("server", "authority")
"""Names of folders that are not sites'."""
_EARLY = timedelta(days=1)
"""Certificates begin a day early, for clocks that are behind."""
_CONF = """\
# made by decentorth sites make; start with: nats-server -c nats.conf
listen: "{listen}"
max_payload: 1MB
max_connections: {connections}
tls {{
  cert_file: "server.pem", key_file: "server.key", ca_file: "ca.pem"
  verify_and_map: true, min_version: "1.3"
}}
authorization {{ users = [
{users}
] }}
"""
_README = """\
This folder is for site {name} only. {name}.key is its key: keep it as you keep a password.

1. Install decentorth, and beside it:  pip install nats-py cryptography
2. Try:      decentorth run --join {name} --check
3. Run:      decentorth run --join {name} --data YOUR_TABLE.csv ...   (the same settings at all sites)

The run connects to {server} and to nothing else. It sends to {near} only. Before anything
leaves, it shows what will leave and asks.
"""


class Party(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class Site(NamedTuple):
    """The content of a site's folder."""

    identity: SiteIdentity
    run: str
    server: str
    names: list[str]
    edges: list[tuple[int, int]]

    @classmethod
    def of(cls, folder: Path) -> Site:
        """Read the folder; a SiteError if it is none."""
        try:
            about = json.loads((folder / SITE).read_text(encoding="utf-8"))
            edges = [(int(i), int(j)) for i, j in about["edges"]]
            names = [str(name) for name in about["names"]]
            identity = SiteIdentity(folder, str(about["site"]))
            site = cls(identity, str(about["run"]), str(about["server"]), names, edges)
            names.index(identity.name)
        except OSError as error:
            raise SiteError(f"{folder} is no folder of a site ({error.strerror})") from None
        except (ValueError, KeyError, TypeError):
            raise SiteError(
                f"{folder / SITE} is damaged: ask for the folder of the site again"
            ) from None
        return site

    @property
    def rank(self) -> int:
        """The number of this site."""
        return self.names.index(self.identity.name)

    @property
    def near(self) -> list[int]:
        """The ranks of the neighbours."""
        return sorted({j for edge in self.edges if self.rank in edge for j in edge} - {self.rank})

    @property
    def away(self) -> list[str]:
        """The names of the sites that are no neighbours."""
        here = (*self.near, self.rank)
        return [name for rank, name in enumerate(self.names) if rank not in here]


def site_names(names: str) -> list[str]:
    """The names of sites in a list with commas; an InputError for names that cannot be."""
    found = names.split(",")
    for name in found:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InputError(
                f"--names must be of small letters, digits and -, and not {' or '.join(_RESERVED)}, "
                f"got {name!r:.80}: north,south,west"
            )
    if len({*found}) < max(2, len(found)):
        raise InputError(f"--names must be two different names or more, got {names:.80}")
    return found


def edges_of(graph: str, n: int) -> Edges:
    """The edges of a graph by its name; an InputError unless it is connected."""
    adjacency = topologies.adjacency_from_name(graph, n, 0)
    made = nx.from_scipy_sparse_array(adjacency)
    if not nx.is_connected(made):
        raise InputError(f"the graph {graph} of {n} sites is not connected")
    return sorted((min(i, j), max(i, j)) for i, j in made.edges if i != j)


def make(
    out: Path, graph: str, names: Sequence[str], server: str, listen: str, days: float
) -> Edges:
    """Write the folders of a run, and return its edges.

    ``server`` and ``listen`` are HOST:PORT, as the sites see the server and as it listens.
    """
    edges = edges_of(graph, len(names))
    if out.exists():
        raise InputError(f"{out} exists: choose another folder, or remove it")
    host = server.rpartition(":")[0]
    authority = _certified("decentorth authority", None, days)
    for folder in ("authority", "server", *names):
        (out / folder).mkdir(parents=True, mode=0o700)
        _write(out / folder / "ca.pem", authority.certificate)
    _write_key(out / "authority" / "ca.key", authority.key)
    _keep(out / "server", "server", _certified("server", authority, days, host))
    # runs of one server do not meet
    run = secrets.token_hex(4)
    users = []
    for rank, name in enumerate(names):
        near = [names[j] for edge in edges if rank in edge for j in edge if j != rank]
        users.append(_user(run, name, near))
        _keep(out / name, name, _certified(name, authority, days))
        about = {
            "site": name,
            "run": run,
            "server": f"tls://{server}",
            "names": [*names],
            "graph": graph,
            "edges": edges,
        }
        (out / name / SITE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        lines = ["from,to", *(f"{names[i]},{names[j]}" for i, j in edges)]
        (out / name / GRAPH).write_text("\n".join(lines) + "\n", encoding="utf-8")
        text = _README.format(name=name, server=server, near=" and ".join(near))
        (out / name / "README.txt").write_text(text, encoding="utf-8")
    conf = _CONF.format(listen=listen, connections=2 * len(names), users="\n".join(users))
    (out / "server" / CONFIGURATION).write_text(conf, encoding="utf-8")
    return edges


def _user(run: str, name: str, near: Sequence[str]) -> str:
    """A site in the server's configuration: it may send to its neighbours, and hear its own
    mail."""
    targets = ", ".join(f'"do.{run}.{name}.{other}"' for other in near)
    return (
        f'  {{ user: "CN={name}", permissions: {{ publish: [{targets}], '
        f'subscribe: ["do.{run}.*.{name}"] }} }}'
    )


def _certified(name: str, authority: Party | None, days: float, host: str = "") -> Party:
    """A certificate of this name, signed by the authority or, for the authority, by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    issuer = subject
    signer = key
    if authority is not None:
        issuer = authority.certificate.subject
        signer = authority.key
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(authority is None, None), critical=True)
    )
    if host:
        alternative = x509.SubjectAlternativeName([_general(host)])
        builder = builder.add_extension(alternative, critical=False)
    return Party(builder.sign(signer, hashes.SHA256()), key)


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _keep(folder: Path, name: str, party: Party) -> None:
    _write(folder / f"{name}.pem", party.certificate)
    _write_key(folder / f"{name}.key", party.key)


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(0o600)
    form = serialization.PrivateFormat.PKCS8
    none = serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, none))
