"""TLS with certificates of our own: a server's context, and that of a client which trusts it."""

import ssl
from pathlib import Path


def served(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    return context


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate / "certificate")
