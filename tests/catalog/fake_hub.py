"""A model hub on a local port: the few endpoints that `huggingface_hub` needs for downloads.

Serves repositories from memory, keeps a log of requests, and can gate or hide a repository.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

_INFO = re.compile(r"/api/models/([^/]+/[^/]+)/revision/([^/?]+)")
_TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/([^/?]+)")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class Repo:
    """Files by commit. `gated`: only requests with this token may read."""

    def __init__(self, files: dict[str, Any], gated: str | None = None) -> None:
        self.gated = gated
        self.commits: dict[str, dict[str, bytes]] = {}
        self.branches: dict[str, str] = {}
        self.commit(files)

    def commit(self, files: dict[str, Any], branch: str = "main") -> str:
        """Put `files` on a branch; returns the commit."""
        content = {name: _bytes(value) for name, value in files.items()}
        commit = hashlib.sha1(repr(content).encode()).hexdigest()
        self.commits[commit] = content
        self.branches[branch] = commit
        return commit

    def resolve(self, revision: str) -> str | None:
        commit = self.branches.get(unquote(revision), revision)
        return commit if commit in self.commits else None


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


class FakeHub:
    """The hub; `url` is what HF_ENDPOINT is set to, `log` the requests so far."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.log: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def _handler(hub) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.log.append(f"{self.command} {self.path}")
                try:
                    self._route()
                except KeyError as error:
                    self._error(*error.args[0])

            do_HEAD = do_GET

            def _route(self) -> None:
                if match := _INFO.match(self.path):
                    repo, commit = self._repo(match)
                    names = [{"rfilename": name} for name in repo.commits[commit]]
                    self._json({"id": match[1], "sha": commit, "siblings": names, "tags": []})
                elif match := _TREE.match(self.path):
                    repo, commit = self._repo(match)
                    self._json([_entry(*item) for item in repo.commits[commit].items()])
                elif match := _FILE.match(self.path):
                    repo, commit = self._repo(match)
                    self._file(repo.commits[commit].get(match[3]), commit)
                else:
                    self._error(404, "EntryNotFound", "")

            def _repo(self, match: re.Match[str]) -> tuple[Repo, str]:
                repo = hub.repos.get(match[1])
                if repo is None:
                    raise KeyError((401, "RepoNotFound", "Repository not found"))
                if repo.gated and self.headers.get("Authorization") != f"Bearer {repo.gated}":
                    raise KeyError((403, "GatedRepo", "Access to this model is restricted"))
                commit = repo.resolve(match[2])
                if commit is None:
                    raise KeyError((404, "RevisionNotFound", "Invalid rev id"))
                return repo, commit

            def _file(self, content: bytes | None, commit: str) -> None:
                if content is None:
                    self._error(404, "EntryNotFound", "Entry not found")
                    return
                etag = f'"{hashlib.sha1(content).hexdigest()}"'
                self._send(200, content, {"X-Repo-Commit": commit, "ETag": etag})

            def _json(self, value: Any) -> None:
                self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

            def _error(self, status: int, code: str, message: str) -> None:
                self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": message})

            def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on stderr."""

        return Handler


def _entry(name: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": name, "size": len(content), "oid": oid}


@contextmanager
def running() -> Iterator[FakeHub]:
    """A hub that serves until the block ends."""
    hub = FakeHub()
    thread = threading.Thread(target=hub.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.server.shutdown()
        hub.server.server_close()
        thread.join()
