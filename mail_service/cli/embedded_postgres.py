"""A throw-away PostgreSQL for the demo and the tests, durable while it lives.

::

    with EmbeddedPostgres() as postgres:
        url = postgres.create_database("shop")

It needs no installation beyond the virtual environment and works as root. When its owner ends,
even by ``kill -9``, the server is stopped and its directory removed.
"""

import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from mail_service.cli.postgres_server import PostgresServer
from mail_service.cli.run_directory import RunDirectory


class EmbeddedPostgres:
    """A PostgreSQL 18 of its own in a fresh temporary directory.

    It listens on a unix socket, and with ``tcp=True`` also on a free port of 127.0.0.1. Durability
    is PostgreSQL's default, with fsync. ``settings`` are further lines of postgresql.conf.
    """

    def __init__(
        self,
        *,
        tcp: bool = False,
        max_connections: int = 60,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.run = RunDirectory()
        self._tcp = tcp
        self._password = secrets.token_urlsafe(16)
        self._stopped = False
        try:
            self.port = _free_port() if tcp else 5432
            options = {
                "max_connections": str(max_connections),
                "shared_buffers": "32MB",
                # Files in the data directory instead of /dev/shm, which is small in containers.
                "dynamic_shared_memory_type": "mmap",
                "timezone": "UTC",
                "log_timezone": "UTC",
                "port": str(self.port),
                "listen_addresses": "127.0.0.1" if tcp else "",
                "unix_socket_directories": str(self.directory),
            }
            self._server = PostgresServer(self.run, options | dict(settings or {}))
            self._server.initialise(self._password)
            self._server.start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def directory(self) -> Path:
        """Where everything is: data, socket, log. Gone when the server is stopped."""
        return self.run.path

    @property
    def postmaster_pid(self) -> int:
        """Number of the running server process. Raises Unavailable when there is none."""
        return self._server.pid

    def url(self, database: str = "postgres") -> str:
        """Give a libpq URI that goes through the unix socket."""
        where = quote(str(self.directory), safe="")
        return f"postgresql://postgres@/{quote(database)}?host={where}&port={self.port}"

    def tcp_url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """Give a libpq URI over TCP, through a proxy's port if one is given."""
        if not self._tcp:
            raise ValueError("this server was made without tcp=True")
        user = f"postgres:{quote(self._password)}"
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{quote(database)}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, as a copy of ``template`` if one is given; gives its URI."""
        command = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            command += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
        self._execute(command)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it is there, along with the connections to it."""
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._execute(drop.format(sql.Identifier(name)))

    def kill9(self) -> None:
        """Kill the server process without warning; ``start`` brings it back on the same data."""
        self._server.kill9()

    def start(self) -> None:
        """Start the server again after ``kill9``; returns when it has recovered and answers."""
        self._server.start()

    def stop(self) -> None:
        """Stop the server at once and remove everything. Safe to call twice."""
        if self._stopped:
            return
        self._stopped = True
        try:
            if hasattr(self, "_server"):
                self._server.stop()
        finally:
            self.run.close()

    def _execute(self, command: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(command)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
