"""One HTTP request for a model file: who is asked, what may happen on the way, and what each failure means.

The standard proxy variables (``https_proxy``, ``no_proxy`` …) and ``SSL_CERT_FILE`` hold, as everywhere in Python.
"""

from __future__ import annotations

import http.client
import ssl
import time
import urllib.error
import urllib.request
from email.message import Message
from typing import IO
from urllib.parse import urlsplit

from ..core.errors import FamulusError, ModelUnavailable, TimedOut

_MAX_REDIRECTS = 5
_RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_OLDEST_CLOCK = 1704067200.0  # 2024-01-01: no certificate of today was valid before


class Lost(Exception):
    """The transfer broke in a way that may pass; ``final`` is for when it does not, ``wait_s`` what was asked."""

    def __init__(self, final: FamulusError, wait_s: float = 0.0) -> None:
        super().__init__(final.message)
        self.final = final
        self.wait_s = wait_s


class OutOfRange(Exception):
    """The server holds no byte at that offset; ``total`` is the size it tells, if any."""

    def __init__(self, total: int | None) -> None:
        super().__init__("416")
        self.total = total


def mirrored(url: str, mirror: str) -> str:
    """The address to ask for ``url``: itself without a mirror, else its path below the mirror's base.

    ``{host}`` in the base becomes the host of ``url``, for a mirror that keeps several hosts apart.
    """
    if not mirror:
        return url
    parts = urlsplit(url)
    rest = parts.path + (f"?{parts.query}" if parts.query else "")
    return mirror.replace("{host}", parts.netloc).rstrip("/") + rest


def get(url: str, headers: dict[str, str], *, timeout_s: float) -> http.client.HTTPResponse:
    """The open response to a GET, after redirects; ``timeout_s`` bounds connecting and each read.

    Raises ``Lost`` for what may pass, ``OutOfRange`` for 416, ``ModelUnavailable`` for what will not.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "famulus", **headers})  # noqa: S310 (checked: http, https)
    opener = urllib.request.build_opener(_Redirects())
    try:
        response: http.client.HTTPResponse = opener.open(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            raise _refused(url, error) from None
    except (OSError, http.client.HTTPException) as error:
        raise lost(url, error, timeout_s) from None
    return response


def lost(url: str, error: Exception, timeout_s: float) -> Lost | ModelUnavailable:
    """What a failure below HTTP means: worth another try, or not."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return ModelUnavailable(certificate_sentence(url, reason.verify_message, time.time()))
    if isinstance(reason, TimeoutError):
        return Lost(TimedOut(f"{url} sent nothing for {timeout_s:g} s; check the network and pull again."))
    if isinstance(reason, ssl.SSLError):
        return Lost(
            ModelUnavailable(
                f"No TLS connection to {url} ({reason.reason or reason}); check the network and its proxy."
            )
        )
    return Lost(ModelUnavailable(f"{url} cannot be fetched ({reason}); check the network and pull again."))


def certificate_sentence(url: str, reason: str, now: float) -> str:
    """Why a certificate is refused, in terms of what can be done; ``now`` in seconds since 1970."""
    if now < _OLDEST_CLOCK:
        date = time.strftime("%Y-%m-%d", time.gmtime(now))
        return (
            f"The certificate of {url} is refused because this machine's clock says {date}; set the clock "
            "(sudo timedatectl set-ntp true, or sudo date -s) and pull again."
        )
    return (
        f"The certificate of {url} is refused ({reason}); check this machine's date and its CA certificates "
        "(SSL_CERT_FILE names others)."
    )


def _refused(url: str, error: urllib.error.HTTPError) -> Exception:
    said = f"{url} answered {error.code} {error.reason}"
    if 300 <= error.code < 400:
        return ModelUnavailable(
            f"{url} leads in a circle, or further than {_MAX_REDIRECTS} addresses; check models.mirror."
        )
    if error.code == 416:
        total = error.headers.get("Content-Range", "").rpartition("/")[2]
        return OutOfRange(int(total) if total.isdecimal() else None)
    if error.code in _RETRY_STATUS:
        wait = error.headers.get("Retry-After", "")
        return Lost(ModelUnavailable(f"{said}; try again later."), float(wait) if wait.isdecimal() else 0.0)
    if error.code in (401, 403):
        return ModelUnavailable(f"{said}; it wants a login or an accepted licence: fetch the file by hand.")
    return ModelUnavailable(f"{said}; see whether the catalogue or models.mirror is out of date.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = _MAX_REDIRECTS
    max_repeats = 2

    def redirect_request(  # noqa: PLR0917 (the library's signature)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https"):
            raise ModelUnavailable(f"{req.full_url} leads to {newurl}, which is not HTTP; it was not followed.")
        if scheme == "http" and urlsplit(req.full_url).scheme == "https":
            raise ModelUnavailable(
                f"{req.full_url} leads from https to plain http ({newurl}); it was not followed: check the mirror or "
                "proxy."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]  # (typeshed wants HTTPMessage)
