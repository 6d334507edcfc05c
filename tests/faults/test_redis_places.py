"""Masters found by sentinels, and TLS."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from taskkit.errors import BrokerUnavailable, PushRefused
from tests.faults.redis_steps import Connect, push_error, works
from tests.redis_places import Sentinel
from tests.servers import Valkey, find_program, free_port

pytestmark = pytest.mark.faults
pytest_plugins = ["tests.faults.redis_fixtures"]


def test_the_master_is_found_by_the_sentinels(server: Valkey, admin: redis.Redis, connect: Connect) -> None:
    with Sentinel(server.port) as sentinel:
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}"
        queue = connect(f"redis+sentinel://{hosts}/main/2")
        assert works(queue)
        assert {client["db"] for client in admin.client_list() if client["cmd"] == "rpush"} == {"2"}
        with pytest.raises(BrokerUnavailable, match="knows no master 'other'"):
            connect(f"redis+sentinel://{hosts}/other").ping()
        admin.replicaof("127.0.0.1", str(free_port()))
        assert type(push_error(queue)) is PushRefused
        assert "a failover is under way" in str(push_error(queue))
        admin.replicaof("NO", "ONE")
        assert works(queue)
    server.kill()
    assert type(push_error(queue)) is PushRefused


def test_no_sentinel_answers(connect: Connect) -> None:
    error = push_error(connect(f"redis+sentinel://:s3cret@127.0.0.1:{free_port()}/main"))
    assert type(error) is PushRefused
    assert "has no master that can be reached" in str(error)
    assert "s3cret" not in str(error)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A file with the key and certificate of 127.0.0.1."""
    file = tmp_path / "tls.pem"
    options = [
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    subprocess.run(
        [
            find_program("openssl"),
            "req",
            *options,
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            file,
            "-out",
            file.with_suffix(".crt"),
        ],
        check=True,
        capture_output=True,
    )
    file.write_bytes(file.read_bytes() + file.with_suffix(".crt").read_bytes())
    return file


@pytest.fixture
def tls_port(server: Valkey, certificate: Path) -> Iterator[int]:
    """A port that takes TLS and hands on to the server, whose own build has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=hand_on, args=(listener, context, server.port), daemon=True).start()
        yield listener.getsockname()[1]


def hand_on(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    while True:
        try:
            outside = context.wrap_socket(listener.accept()[0], server_side=True)
        except ssl.SSLError:
            continue
        except OSError:
            return
        inside = socket.create_connection(("127.0.0.1", port))
        for source, sink in ((outside, inside), (inside, outside)):
            threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    finally:
        source.close()
        sink.close()


def test_tls(tls_port: int, certificate: Path, connect: Connect) -> None:
    assert works(connect(f"rediss://127.0.0.1:{tls_port}/1?ssl_ca_certs={certificate.with_suffix('.crt')}"))
    assert works(connect(f"rediss://127.0.0.1:{tls_port}/1?ssl_cert_reqs=none"))


def test_a_certificate_that_nobody_trusts(tls_port: int, connect: Connect) -> None:
    error = push_error(connect(f"rediss://127.0.0.1:{tls_port}"))
    assert type(error) is PushRefused
    assert "cannot be reached by TLS" in str(error)


def test_tls_to_a_port_without_it_and_the_other_way_round(
    server: Valkey, tls_port: int, connect: Connect
) -> None:
    for url in (f"rediss://127.0.0.1:{server.port}", f"redis://127.0.0.1:{tls_port}"):
        assert type(push_error(connect(url))) is PushRefused
