"""A Hugging Face hub on this machine, as far as downloading models goes: listings, trees, files, a second server that large
files are redirected to, and a package index. What it does wrong is set by the test. Ports are chosen by the system."""

import hashlib
import http.server
import json
import re
import threading
import urllib.parse


def git_digest(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Repository:
    """`large` files are stored elsewhere and known by their SHA-256, the others by Git's digest."""

    def __init__(self, files, large=(), commit="a" * 40):
        self.files, self.large, self.commit = dict(files), set(large), commit
        self.revisions = {"main": commit, commit: commit}

    def digest(self, path):
        return sha256(self.files[path]) if path in self.large else git_digest(self.files[path])

    def listing(self, with_blobs):
        def entry(path):
            if not with_blobs:
                return {"rfilename": path}
            data = self.files[path]
            found = {"rfilename": path, "size": len(data), "blobId": git_digest(data)}
            if path in self.large:
                found["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 130}
            return found

        return {"id": "x/y", "sha": self.commit, "siblings": [entry(path) for path in self.files]}

    def tree(self):
        def entry(path):
            data = self.files[path]
            found = {"type": "file", "path": path, "size": len(data), "oid": git_digest(data)}
            if path in self.large:
                found["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 130}
            return found

        return [entry(path) for path in self.files]


class Hub:
    """Use as a context. `endpoint` is what HF_ENDPOINT should be; `requests` is a list of (server, method, path, headers)."""

    def __init__(self, repositories, prefix=""):
        self.repositories, self.prefix = repositories, prefix
        self.token = None  # that is asked for
        self.with_blobs = True  # mirrors leave sizes and digests out
        self.listing = None  # bytes instead of the real listing
        self.error = None  # (status, X-Error-Code) for everything
        self.first_answers = []  # (status, headers) that come before any real one
        self.extra_headers = []  # (name, value), added to every answer
        self.redirect = None  # where files are redirected to instead
        self.sent = {}  # path -> bytes that are sent instead of the right ones
        self.cuts = []  # how many bytes of a file are sent before the connection breaks, one for each time
        self.stall = None  # an event: the rest of a file that is cut comes when it is set, if ever
        self.pages = {}  # path -> (content type, bytes): an index of packages
        self.requests = []

    def __enter__(self):
        self.hub = self._start("hub", "127.0.0.1")
        self.store = self._start("store", "localhost")  # another origin
        self.endpoint = self.hub + self.prefix
        return self

    def __exit__(self, *ignored):
        for server in self._servers:
            server.shutdown()
            server.server_close()

    _servers = ()

    def _start(self, name, host):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *ignored):
                pass

            def do_GET(self):
                hub.requests.append((name, self.command, self.path, dict(self.headers)))
                Answer(hub, self).send(name)

            do_HEAD = do_GET

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *ignored):  # a client that hangs up is what some tests are about
                pass

        server = Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self._servers = (*self._servers, server)
        return f"http://{host}:{server.server_address[1]}"

    def gets(self, part=""):
        return [path for _, method, path, _ in self.requests if method == "GET" and part in path]


class Answer:
    def __init__(self, hub, handler):
        self.hub, self.handler = hub, handler

    def send(self, server):
        hub, url = self.hub, urllib.parse.urlsplit(self.handler.path)
        path = urllib.parse.unquote(url.path)
        if hub.first_answers:
            status, headers = hub.first_answers.pop(0)
            return self.end(status, headers)
        if server == "store":
            return self.stored(path)
        if path in hub.pages:
            kind, data = hub.pages[path]
            return self.data(data, [("Content-Type", kind)])
        if not path.startswith(hub.prefix + "/"):
            return self.end(404)
        path = path[len(hub.prefix):]
        if hub.error:
            return self.end(hub.error[0], [("X-Error-Code", hub.error[1])] if hub.error[1] else [])
        if hub.token and self.handler.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.end(401, [("X-Error-Code", "RepoNotFound")])
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path):
            return self.api(url, *found.groups())
        if found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.file(*found.groups())
        return self.end(404)

    def api(self, url, name, kind, revision):
        hub = self.hub
        repository = hub.repositories.get(name)
        if repository is None:
            return self.end(404, [("X-Error-Code", "RepoNotFound")])
        if revision is not None and revision not in repository.revisions:
            return self.end(404, [("X-Error-Code", "RevisionNotFound")])
        if kind == "tree":
            return self.data(json.dumps(repository.tree()).encode(), [("Content-Type", "application/json")])
        with_blobs = hub.with_blobs and "blobs=true" in url.query.lower()
        listing = json.dumps(repository.listing(with_blobs)).encode() if hub.listing is None else hub.listing
        return self.data(listing, [("Content-Type", "application/json")])

    def file(self, name, revision, path):
        hub = self.hub
        repository = hub.repositories.get(name)
        if repository is None or revision not in repository.revisions:
            return self.end(404, [("X-Error-Code", "RepoNotFound" if repository is None else "RevisionNotFound")])
        commit = [("X-Repo-Commit", repository.commit)]
        if path not in repository.files:
            return self.end(404, [*commit, ("X-Error-Code", "EntryNotFound")])
        data = repository.files[path]
        if path in repository.large or hub.redirect:
            target = hub.redirect or f"{hub.store}/store/{name}/{path}"
            return self.end(302, [*commit, ("X-Linked-Etag", f'"{repository.digest(path)}"'),
                                  ("X-Linked-Size", str(len(data))), ("Location", target)])
        return self.data(hub.sent.get(path, data), [*commit, ("ETag", f'"{repository.digest(path)}"')])

    def stored(self, path):
        if not path.startswith("/store/"):
            return self.end(404)
        _, _, org, name, path = path.split("/", 4)
        data = self.hub.repositories[f"{org}/{name}"].files[path]
        return self.data(self.hub.sent.get(path, data), [("ETag", '"of the store"')])

    def data(self, data, headers=()):
        status, size = 200, len(data)
        if found := re.fullmatch(r"bytes=(\d+)-", self.handler.headers.get("Range", "")):
            begin = int(found.group(1))
            if begin >= size:
                return self.end(416)
            status, data = 206, data[begin:]
            headers = [*headers, ("Content-Range", f"bytes {begin}-{size - 1}/{size}")]
        self.head(status, [*headers, ("Content-Length", str(len(data))), ("Accept-Ranges", "bytes")])
        if self.handler.command == "HEAD":
            return
        is_file = "/resolve/" in self.handler.path or "/store/" in self.handler.path
        if is_file and self.hub.cuts:
            self.handler.wfile.write(data[:self.hub.cuts.pop(0)])
            self.handler.wfile.flush()
            if self.hub.stall is not None:
                self.hub.stall.wait()
            self.handler.close_connection = True
            return
        self.handler.wfile.write(data)

    def end(self, status, headers=()):
        self.head(status, [*headers, ("Content-Length", "0")])

    def head(self, status, headers):
        self.handler.send_response(status)
        for name, value in [*headers, *self.hub.extra_headers]:
            self.handler.send_header(name, value)
        self.handler.end_headers()
