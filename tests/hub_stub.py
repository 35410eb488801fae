"""A small HTTP server that speaks the part of the hub's API that `srl push` and `srl pull` use.

Large files go by Git LFS, as they do where Xet is switched off; whatever else the hub's client asks is a 404.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

OWNER_KEY, OTHER_KEY = "hf_0000owner0000owner0000owner0000", "hf_1111other1111other1111other1111"
_LFS = (".safetensors", ".xz")
Files = dict[str, bytes]


@dataclass
class Repository:
    """One repository: commits, the newest last."""

    owner_key: str
    private: bool
    commits: list[tuple[str, Files]]

    @property
    def files(self) -> Files:
        """Of the newest commit."""
        return self.commits[-1][1]

    def at(self, revision: str) -> tuple[str, Files] | None:
        """A commit by its hash, or the newest by the branch's name."""
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit[0] == revision), None)


@dataclass
class HubStub:
    """What it holds may be changed at any moment; what it was asked is kept."""

    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    """(models or spaces, OWNER/NAME) -> repository."""
    objects: Files = field(default_factory=dict)
    """Large files by SHA-256, in commits or not."""
    asked: list[str] = field(default_factory=list)
    """Methods and paths, in order."""
    on: dict[str, Callable[[], object]] = field(default_factory=dict)
    """Part of a method and path -> what happens before the answer, such as the kill of the client."""
    url: str = ""

    def commit(self, key: tuple[str, str], files: Files) -> str:
        """Add a commit; returns its hash."""
        seed = json.dumps([len(self.repositories[key].commits), sorted(files)])
        name = hashlib.sha1(seed.encode()).hexdigest()
        self.repositories[key].commits.append((name, files))
        return name

    def create(self, kind: str, name: str, files: Files, *, private: bool = False) -> None:
        """A repository with one commit."""
        self.repositories[kind, name] = Repository(OWNER_KEY, private, [])
        self.commit((kind, name), files)


@contextmanager
def hub_stub() -> Iterator[HubStub]:
    """Inside, a hub answers at its ``url``."""
    stub = HubStub()

    class Handler(_Handler):
        hub = stub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: HubStub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the client was killed
            self._answer()

    def _answer(self) -> None:
        place = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = f"{self.command} {place}"
        self.hub.asked.append(asked)
        for part, act in [*self.hub.on.items()]:
            if part in asked:
                act()
        parts = place.strip("/").split("/")
        if parts[:2] == ["api", "validate-yaml"]:
            return self._json({"errors": [], "warnings": []})
        if parts[:3] == ["api", "repos", "create"]:
            return self._create(json.loads(body))
        if parts[0] == "lfs":
            self.hub.objects[parts[1]] = body
            return self._json({})
        if place.endswith("/info/lfs/objects/batch"):
            return self._batch(json.loads(body))
        if parts[0] == "api":
            return self._api(parts[1], "/".join(parts[2:4]), parts[4:], body)
        kind = parts.pop(0) if parts[0] in ("spaces", "datasets") else "models"
        return self._file(kind, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    do_GET = do_HEAD = do_POST = do_PUT = _serve

    @property
    def _key(self) -> str:
        return (self.headers.get("Authorization") or "").removeprefix("Bearer ")

    def _create(self, asked: dict[str, Any]) -> None:
        if self._key not in (OWNER_KEY, OTHER_KEY):
            return self._fault(401, "Invalid username or password.")
        key = (f"{asked['type']}s", f"{asked['organization']}/{asked['name']}")
        if key in self.hub.repositories:
            return self._json({"url": f"{self.hub.url}/{key[1]}", "error": "it exists"}, 409)
        first = {".gitattributes": b""}
        if asked["type"] == "space":
            assert asked["sdk"] == "static"
            first |= {"README.md": b"new", "index.html": b"hello", "style.css": b"p {}"}
        self.hub.repositories[key] = Repository(self._key, asked.get("visibility") == "private", [])
        self.hub.commit(key, first)
        return self._json({"url": f"{self.hub.url}/{key[1]}"})

    def _repository(self, kind: str, name: str, *, writes: bool) -> Repository | None:
        """The repository if this key may have it; otherwise the answer is written."""
        found = self.hub.repositories.get((kind, name))
        if self._key and self._key not in (OWNER_KEY, OTHER_KEY):
            self._fault(401, "Invalid credentials")
        elif found is None or (found.private and self._key != found.owner_key):
            self._fault(404 if self._key else 401, "Repository not found", "RepoNotFound")
        elif writes and self._key != found.owner_key:
            self._fault(403, "Forbidden: you must have write access")
        else:
            return found
        return None

    def _api(self, kind: str, name: str, rest: list[str], body: bytes) -> None:
        reads = self.command == "GET"
        found = self._repository(kind, name, writes=not reads)
        if found is None:
            return None
        what, revision = (rest or ["revision"])[0], (rest[1:] or ["main"])[0]
        commit = found.at(revision)
        if commit is None:
            return self._fault(404, "Invalid rev id", "RevisionNotFound")
        if what == "settings":
            found.private = json.loads(body)["visibility"] == "private"
            return self._json({})
        if what == "preupload":
            files = [self._mode(one, found.files) for one in json.loads(body)["files"]]
            return self._json({"files": files})
        if what == "commit":
            return self._commit(kind, name, found, body)
        if what == "tree":
            return self._json(
                [
                    {"type": "file", "path": p, "size": len(d), "oid": "0"}
                    for p, d in commit[1].items()
                ]
            )
        siblings = [{"rfilename": p, "size": len(d)} for p, d in commit[1].items()]
        return self._json(
            {"id": name, "sha": commit[0], "private": found.private, "siblings": siblings}
        )

    def _mode(self, asked: dict[str, Any], there: Files) -> dict[str, Any]:
        path = asked["path"]
        large = path.endswith(_LFS)
        before = there.get(path)
        oid = None
        if before is not None:
            git = hashlib.sha1(b"blob %d\0" % len(before) + before).hexdigest()
            oid = hashlib.sha256(before).hexdigest() if large else git
        mode = "lfs" if large else "regular"
        return {"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid}

    def _batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {**one, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}"}}}
            if one["oid"] not in self.hub.objects
            else one
            for one in asked["objects"]
        ]
        return self._json({"transfer": "basic", "objects": objects})

    def _commit(self, kind: str, name: str, found: Repository, body: bytes) -> None:
        header, *operations = [json.loads(line) for line in body.splitlines()]
        if header["value"].get("parentCommit") not in (None, found.commits[-1][0]):
            return self._fault(412, "A commit has happened since.")
        files = dict(found.files)
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "deletedFile":
                del files[value["path"]]
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            else:
                files[value["path"]] = base64.b64decode(value["content"])
        commit = self.hub.commit((kind, name), files)
        return self._json({"commitUrl": f"{self.hub.url}/{name}", "commitOid": commit})

    def _file(self, kind: str, name: str, revision: str, path: str) -> None:
        found = self._repository(kind, name, writes=False)
        if found is None:
            return None
        commit = found.at(revision)
        if commit is None or path not in commit[1]:
            return self._fault(404, "Entry not found", "EntryNotFound")
        data = commit[1][path]
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", commit[0])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        self.wfile.write(data)
        return None

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _fault(self, status: int, text: str, code: str = "") -> None:
        self._json({"error": text}, status, {"X-Error-Code": code, "X-Error-Message": text})
