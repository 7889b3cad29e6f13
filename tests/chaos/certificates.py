"""A certificate of our own for an address, in force or expired, and the file that has others trust it."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(slots=True)
class Certificates:
    """A valid and an expired certificate in a folder. A server's `context` can change between them while it serves."""

    folder: Path
    address: str
    context: ssl.SSLContext

    @classmethod
    def made(cls, folder: Path, address: str) -> "Certificates":
        certificates = cls(folder, address, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        now = datetime.now(UTC)
        certificates._write("valid", now - DAY, now + DAY)
        certificates._write("expired", now - 3 * DAY, now - 2 * DAY)
        both = (folder / f"{name}.pem" for name in ("valid", "expired"))
        certificates.trusted.write_text("".join(file.read_text() for file in both))
        certificates.serve("valid")
        return certificates

    @property
    def trusted(self) -> Path:
        """The file to be named in SSL_CERT_FILE."""
        return self.folder / "trusted.pem"

    def serve(self, name: str) -> None:
        self.context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")

    def _write(self, name: str, begins: datetime, ends: datetime) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} for tests")])
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address(self.address))])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(alternative, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        (self.folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / f"{name}.key").write_bytes(secret)
