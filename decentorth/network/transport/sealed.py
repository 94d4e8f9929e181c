"""Messages that only a site's neighbour can read.

The sites of a run have certificates of one authority. Two neighbours greet each other with X25519
keys that are new in each run, signed by their certificates. From both follow two keys of AES-GCM,
one a direction. The nonce of a message is its number, which its receiver expects: a message that is
repeated, changed, left out or out of order is an error.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .communicator import SiteError as SiteError

_SIGNATURE = ec.ECDSA(hashes.SHA256())
_NONCE = 12
"""The bytes of the number of a message."""
_PURPOSE = b"decentorth sites 1"
"""The first words of what is signed, so that a signature serves nothing else."""


class SiteLostError(SiteError):
    """A neighbour or the server is lost: the run can be started again from its checkpoint."""


def common_name(certificate: x509.Certificate) -> str:
    """The name of the site in its certificate."""
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def fingerprint(certificate: x509.Certificate) -> str:
    """The first eight bytes of a certificate's SHA-256, for people to compare."""
    return certificate.fingerprint(hashes.SHA256()).hex(" ", 2)[:19]


class SiteIdentity:
    """A site's certificate and key, and the authority that signed the certificates of all sites.

    Parameters
    ----------
    folder
        The folder with ``ca.pem``, ``NAME.pem`` and ``NAME.key``.
    name
        The name of the site.

    Raises
    ------
    SiteError
        A file is missing or damaged, the key belongs to another certificate, or the certificate is
        not valid today.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder
        try:
            self.authority = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
            self.pem = (folder / f"{name}.pem").read_bytes()
            self.certificate = x509.load_pem_x509_certificate(self.pem)
            key = serialization.load_pem_private_key((folder / f"{name}.key").read_bytes(), None)
        except OSError as error:
            raise SiteError(
                f"{folder} is not the folder of site {name}: {error.filename}: {error.strerror}"
            ) from None
        except ValueError:
            raise SiteError(
                f"{folder} has a damaged file (ca.pem, {name}.pem or {name}.key): ask for the "
                f"folder of {name} again"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or (
            key.public_key() != self.certificate.public_key()
        ):
            raise SiteError(
                f"{name}.key does not belong to {name}.pem: ask for the folder of {name} again"
            )
        self._key = key
        self.check(self.certificate, name)

    def check(self, certificate: x509.Certificate, name: str) -> None:
        """Raise unless this is a certificate of site ``name``, signed by the authority and valid
        today."""
        whose = self._whose(name)
        try:
            certificate.verify_directly_issued_by(self.authority)
        except (ValueError, TypeError, InvalidSignature):
            raise SiteError(
                f"{whose} is not signed by the authority of this run (ca.pem): all sites need the "
                "folders of one decentorth sites make"
            ) from None
        if (found := common_name(certificate)) != name:
            raise SiteError(f"{whose} is that of site {found}")
        self.check_dates(certificate, name)

    def _whose(self, name: str) -> str:
        if name == self.name:
            return "the certificate of this site"
        return f"the certificate of site {name}"

    def check_dates(self, certificate: x509.Certificate, name: str) -> None:
        """Raise unless the certificate of site ``name`` is valid today."""
        now = datetime.now(UTC)
        first = certificate.not_valid_before_utc
        last = certificate.not_valid_after_utc
        if now < first:
            raise SiteError(
                f"{self._whose(name)} begins on {first:%Y-%m-%d %H:%M} UTC, and the clock here says "
                f"{now:%Y-%m-%d %H:%M}: set the clock"
            )
        if now > last:
            raise SiteError(
                f"{self._whose(name)} ended on {last:%Y-%m-%d %H:%M} UTC (it is "
                f"{now:%Y-%m-%d %H:%M}): ask for new folders, by decentorth sites make"
            )

    def sign(self, data: bytes) -> bytes:
        """The signature of this site."""
        return self._key.sign(data, _SIGNATURE)

    def verify(self, pem: bytes, name: str, data: bytes, signature: bytes) -> x509.Certificate:
        """The certificate of site ``name``, if it has signed the data; otherwise a SiteError."""
        try:
            certificate = x509.load_pem_x509_certificate(pem)
        except ValueError:
            raise SiteError(f"the certificate of site {name} is damaged") from None
        self.check(certificate, name)
        key = certificate.public_key()
        try:
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise InvalidSignature
            key.verify(signature, data, _SIGNATURE)
        except InvalidSignature:
            raise SiteError(f"a message in the name of site {name} is not signed by it") from None
        return certificate

    def signed(self, facts: object) -> bytes:
        """Facts as JSON, signed, for sites that are no neighbours."""
        text = json.dumps(facts)
        signature = self.sign(_PURPOSE + b" facts " + text.encode())
        return json.dumps([text, self.pem.decode(), signature.hex()]).encode()

    def opened(self, data: bytes, name: str) -> tuple[Any, x509.Certificate]:
        """The facts that site ``name`` has signed, and its certificate."""
        try:
            text, pem, signature = json.loads(data)
            signed = _PURPOSE + b" facts " + text.encode()
            certificate_bytes = pem.encode()
            signature_bytes = bytes.fromhex(signature)
        except (ValueError, TypeError, AttributeError):
            raise SiteError(f"what site {name} has signed is damaged") from None
        certificate = self.verify(certificate_bytes, name, signed, signature_bytes)
        return json.loads(text), certificate


class Seal:
    """The two directions between this site and a neighbour, from the greeting on.

    Parameters
    ----------
    own
        This site.
    neighbour
        The name of the neighbour.
    run
        The name of the run.
    """

    def __init__(self, own: SiteIdentity, neighbour: str, run: str) -> None:
        self._own = own
        self.neighbour = neighbour
        self._run = run
        self._secret = X25519PrivateKey.generate()
        self._public = self._secret.public_key().public_bytes_raw()
        self._theirs = b""
        self._sent = self._received = 0
        self.certificate: x509.Certificate | None = None
        """The certificate of the neighbour, once it has greeted."""

    def _about(self, sender: str, receiver: str, public: bytes) -> bytes:
        names = [name.encode() for name in (self._run, sender, receiver)]
        return b"\0".join((_PURPOSE, *names, public))

    def greeting(self) -> bytes:
        """This site's key of the run, signed for the neighbour."""
        signature = self._own.sign(self._about(self._own.name, self.neighbour, self._public))
        return json.dumps([self._public.hex(), self._own.pem.decode(), signature.hex()]).encode()

    def greeted(self, greeting: bytes) -> bool:
        """Make the keys from the neighbour's greeting; True at the first time.

        A SiteError for a greeting that is not signed by the neighbour, a SiteLostError if it has
        started again.
        """
        try:
            public_text, pem, signature_text = json.loads(greeting)
            public = bytes.fromhex(public_text)
            signature = bytes.fromhex(signature_text)
            key = X25519PublicKey.from_public_bytes(public)
            pem_bytes = pem.encode()
        except (ValueError, TypeError, AttributeError):
            raise SiteError(f"a greeting in the name of site {self.neighbour} is damaged") from None
        if public == self._theirs:
            return False
        about = self._about(self.neighbour, self._own.name, public)
        certificate = self._own.verify(pem_bytes, self.neighbour, about, signature)
        if self._theirs:
            raise SiteLostError(f"site {self.neighbour} has started again")
        shared = self._secret.exchange(key)
        self._theirs = public
        self.certificate = certificate
        self._out = self._key(shared, self._own.name, self.neighbour)
        self._in = self._key(shared, self.neighbour, self._own.name)
        return True

    def _key(self, shared: bytes, sender: str, receiver: str) -> AESGCM:
        both = b"".join(sorted((self._public, self._theirs)))
        about = self._about(sender, receiver, b"")
        return AESGCM(HKDF(hashes.SHA256(), 32, both, about).derive(shared))

    def close(self, data: bytes) -> bytes:
        """The next message to the neighbour."""
        nonce = self._sent.to_bytes(_NONCE, "big")
        self._sent += 1
        return nonce + self._out.encrypt(nonce, data, None)

    def open(self, sealed: bytes) -> bytes:
        """The contents of the next message of the neighbour; a SiteError for any other message."""
        nonce = sealed[:_NONCE]
        due = self._received
        try:
            data = self._in.decrypt(nonce, sealed[_NONCE:], None)
        except (InvalidTag, ValueError):
            raise SiteError(
                f"message {due} from site {self.neighbour} was changed on its way, or is of "
                "another sender"
            ) from None
        number = int.from_bytes(nonce, "big")
        if number < due:
            raise SiteError(
                f"message {number} from site {self.neighbour} came a second time: the server, or "
                "an intruder there, repeats messages"
            )
        if number > due:
            raise SiteError(
                f"message {due} from site {self.neighbour} is missing: the server, or an "
                "intruder there, drops messages"
            )
        self._received += 1
        return data
