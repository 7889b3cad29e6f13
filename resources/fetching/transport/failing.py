"""What an error of aiohttp, or of the system, means."""

import errno
import socket
from collections.abc import Iterator

import aiohttp
from aiohttp.http_exceptions import LineTooLong

from ..errors import FetchError
from ..outcomes import Failure, Obstacle
from . import guarding

MAX_DETAIL_CHARACTERS = 300

_OURS = frozenset(
    {
        errno.ENETDOWN,
        errno.EADDRNOTAVAIL,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
    }
)
"""No network, no ports, no files, no memory. No route to one address is not among them: that may be the address's."""
_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class ProxyNotFoundError(OSError):
    """The name of a proxy that has no address."""


class Disconnected(aiohttp.ClientError):
    """The server closed or reset the connection in place of an answer.

    Not one of those errors on which aiohttp sends a request again by itself.
    """


def meaning(error: Exception) -> FetchError:
    """The failure that an error stands for. Does not look at what was going on."""
    refusal = guarding.refusal_in(error)
    if refusal is not None:
        return FetchError(Failure.REFUSED, str(refusal))
    match error:
        case aiohttp.ClientConnectorCertificateError():
            invalid = _said("a certificate that is not valid", error.certificate_error)
            return FetchError(Failure.PERMANENT, invalid, obstacle=Obstacle.TLS)
        case aiohttp.ClientConnectorSSLError():
            return FetchError(Failure.TRANSIENT, _said("no TLS", error.os_error), obstacle=Obstacle.TLS)
        case aiohttp.ClientConnectorDNSError():
            return of_lookup(error.os_error)
        case aiohttp.ClientProxyConnectionError():
            return FetchError(Failure.OURS, _said("no connection to the proxy", error.os_error))
        case aiohttp.ClientHttpProxyError():
            return _of_proxy(error.status)
        case aiohttp.InvalidURL():
            return FetchError(Failure.PERMANENT, "an address that cannot be asked")
        case aiohttp.ClientResponseError():
            return _of_head(error)
        case aiohttp.ClientPayloadError():
            return FetchError(Failure.TRANSIENT, "a body that is cut short or malformed")
    return _of_system(error)


def of_lookup(error: OSError) -> FetchError:
    """What it means that a name was not found."""
    if isinstance(error, ProxyNotFoundError):
        return FetchError(Failure.OURS, str(error))
    if isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME:
        return FetchError(Failure.PERMANENT, "there is no such host", obstacle=Obstacle.LOOKUP)
    failed = _said("the host's name could not be looked up", error)
    return FetchError(Failure.TRANSIENT, failed, obstacle=Obstacle.LOOKUP)


def _of_proxy(status: int) -> FetchError:
    """What a proxy answered in place of a tunnel."""
    if status == 407:
        return FetchError(Failure.OURS, "the proxy does not accept the user and the password")
    if status == 403:
        return FetchError(Failure.REFUSED, "the proxy does not connect to that address")
    return FetchError(Failure.TRANSIENT, f"the proxy has no connection: it answered {status}")


def _of_head(error: aiohttp.ClientResponseError) -> FetchError:
    # aiohttp has no type for too many fields.
    large = any(isinstance(each, LineTooLong) or "Too many headers" in str(each) for each in _causes(error))
    if large:
        return FetchError(Failure.TOO_BIG, "header fields beyond the limit")
    return FetchError(Failure.TRANSIENT, "an answer that is not HTTP")


def _of_system(error: Exception) -> FetchError:
    numbers = {number for each in _causes(error) if (number := getattr(each, "errno", None)) is not None}
    if numbers & _OURS:
        return FetchError(Failure.OURS, _said("this machine could not", error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return FetchError(Failure.TRANSIENT, _said("no connection", error.os_error), obstacle=Obstacle.CONNECTION)
    return FetchError(Failure.TRANSIENT, _said("the connection broke", error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, and what aiohttp keeps inside."""
    found: BaseException | None = error
    while found is not None:
        yield found
        inner = getattr(found, "os_error", None)
        if isinstance(inner, BaseException):
            yield inner
        found = found.__cause__


def _said(what: str, error: BaseException) -> str:
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{what}: {why}"[:MAX_DETAIL_CHARACTERS]
