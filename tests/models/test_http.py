"""Who is asked for a model file, and what may happen on the way."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from famulus.core.errors import ModelUnavailable
from famulus.models.catalogue import ModelEntry
from famulus.models.fetch import Fetcher
from famulus.models.http import certificate_sentence, mirrored
from famulus.models.store import Store
from web_rig import HURRIED, Web, serving

Make = Callable[..., ModelEntry]


@pytest.mark.parametrize(
    ("mirror", "address"),
    [
        ("", "https://models.example/a/b.gguf?download=true"),
        ("https://mirror.example", "https://mirror.example/a/b.gguf?download=true"),
        ("https://mirror.example/hub/", "https://mirror.example/hub/a/b.gguf?download=true"),
        ("http://10.0.0.2/{host}", "http://10.0.0.2/models.example/a/b.gguf?download=true"),
    ],
)
def test_a_mirror_takes_the_place_of_scheme_and_host(mirror: str, address: str) -> None:
    assert mirrored("https://models.example/a/b.gguf?download=true", mirror) == address


def elsewhere(entry: ModelEntry, url: str) -> ModelEntry:
    return entry.model_copy(update={"files": (entry.files[0].model_copy(update={"url": url}),)})


def test_a_mirror_is_asked_instead(served: Make, tmp_path: Path, web: Any) -> None:
    entry = elsewhere(served(model=b"abc"), "https://models.invalid/model.bin")
    store = Store(tmp_path, Fetcher(web.url, HURRIED))
    assert store.pull(entry) is True


def test_a_mirror_cannot_change_what_is_fetched(served: Make, tmp_path: Path, web: Any) -> None:
    entry = elsewhere(served(model=b"abc"), "https://models.invalid/model.bin")
    web.bodies["model.bin"] = b"abd"
    with pytest.raises(Exception, match="is not what was promised"):
        Store(tmp_path, Fetcher(web.url, HURRIED)).pull(entry)


def test_what_the_mirror_lacks_is_told_with_its_address(served: Make, tmp_path: Path, web: Any) -> None:
    entry = elsewhere(served(model=b"abc"), "https://models.invalid/other.bin")
    with pytest.raises(ModelUnavailable, match=rf"{web.url}/other\.bin answered 404.*models\.mirror"):
        Store(tmp_path, Fetcher(web.url, HURRIED)).pull(entry)


def test_a_proxy_is_used(served: Make, store: Store, web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    entry = elsewhere(served(model=b"abc"), "http://models.invalid/model.bin")
    assert store.pull(entry) is True
    assert web.requests == ["http://models.invalid/model.bin"]


def test_redirects_are_followed_with_their_range(served: Make, store: Store, web: Any) -> None:
    entry = elsewhere(served(model=b"abcdef"), f"{web.url}/first")
    web.leads = {"first": f"{web.url}/second", "second": "/model.bin"}
    web.cuts, web.tags["model.bin"] = [2], '"one"'
    assert store.pull(entry) is True
    assert web.asked[-1] == ("/model.bin", "bytes=2-")


def test_redirects_without_end_are_given_up(served: Make, store: Store, web: Any) -> None:
    entry = elsewhere(served(model=b"abc"), f"{web.url}/0")
    web.leads = {str(i): f"{web.url}/{i + 1}" for i in range(50)}
    with pytest.raises(ModelUnavailable, match="leads in a circle, or further than 5"):
        store.pull(entry)
    assert len(web.asked) <= 7


def test_a_redirect_out_of_http_is_not_followed(served: Make, store: Store, web: Any) -> None:
    entry = elsewhere(served(model=b"abc"), f"{web.url}/first")
    web.leads = {"first": "ftp://127.0.0.1/model.bin"}
    with pytest.raises(ModelUnavailable, match="is not HTTP"):
        store.pull(entry)


def test_a_login_is_told(served: Make, store: Store, web: Any) -> None:
    entry = served(model=b"abc")
    web.status = 403
    with pytest.raises(ModelUnavailable, match="wants a login or an accepted licence"):
        store.pull(entry)
    assert len(web.asked) == 1


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[Web, Path]]:
    """An HTTPS server, and the certificate that only itself vouches for."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(Web(), context) as web:
        yield web, certificate


def test_a_certificate_that_nobody_vouches_for_is_refused(
    served: Make, store: Store, secure: tuple[Web, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    web, certificate = secure
    web.bodies["model.bin"] = b"abc"
    entry = elsewhere(served(model=b"abc"), f"{web.url}/model.bin")
    with pytest.raises(ModelUnavailable, match=r"certificate of .* is refused .*this machine's date"):
        store.pull(entry)
    assert web.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(certificate))
    assert store.pull(entry) is True


def test_a_redirect_from_https_to_http_is_refused(
    served: Make, store: Store, web: Any, secure: tuple[Web, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, certificate = secure
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(certificate))
    entry = elsewhere(served(model=b"abc"), f"{tls.url}/first")
    tls.leads = {"first": f"{web.url}/model.bin"}
    with pytest.raises(ModelUnavailable, match="leads from https to plain http"):
        store.pull(entry)
    assert web.asked == []


def test_a_server_that_speaks_no_tls_is_named(served: Make, store: Store, web: Any) -> None:
    entry = elsewhere(served(model=b"abc"), f"{web.url.replace('http:', 'https:')}/model.bin")
    with pytest.raises(ModelUnavailable, match="No TLS connection"):
        store.pull(entry)


def test_a_clock_from_before_the_certificates_is_explained() -> None:
    told = certificate_sentence("https://models.example/a", "certificate is not yet valid", now=86400.0)
    assert "this machine's clock says 1970-01-02; set the clock" in told
    told = certificate_sentence("https://models.example/a", "self-signed certificate", now=1796000000.0)
    assert "(self-signed certificate)" in told
