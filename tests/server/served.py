"""A process of `ballast serve` and a tiny model, for tests over real sockets. Reads the program's path from sys.argv."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BALLAST = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHAT_TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
KEY = "sk-of-the-tests-0123456789"
PATIENCE = 60  # seconds until something counts as hanging; nothing here depends on speed


def hear_signals():
    """What nohup or a shell without job control lets a process ignore, the server would ignore, too."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class Server:
    """A process of `ballast serve` on a free port."""

    def __init__(self, *arguments, environment=None, **options):
        self.lines = []
        self.address = None
        variables = {name: value for name, value in os.environ.items()
                     if not name.startswith(("BALLAST_", "LISTEN_", "NOTIFY_"))}
        if not any(argument == "--listen" for argument in arguments):
            arguments = (*arguments, "--listen", "127.0.0.1:0")
        self.process = subprocess.Popen([BALLAST, "serve", *arguments, "--threads", "2"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env={**variables, **(environment or {})}, preexec_fn=hear_signals, **options)
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.ready.wait(PATIENCE)
        self.port = int(self.address.rsplit(":", 1)[1]) if self.address and self.address.startswith("http") else None

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.match(r"ballast \S+ listens on (\S+?),?(?:\s|$)", line)
            if found:
                self.address = found[1]
            if line.startswith("stop "):
                self.ready.set()
        self.ready.set()

    def text(self):
        return "".join(self.lines)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.reader.join(PATIENCE)
        self.process.stderr.close()
        return code

    # ------------------------------------------------------------ asking

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers or {})
            answer = connection.getresponse()
            return answer.status, dict((name.lower(), value) for name, value in answer.getheaders()), answer.read()
        finally:
            connection.close()

    def raw(self, request):
        """What the server says until it closes."""
        with self.connect() as client:
            client.sendall(request)
            return receive_all(client)

    def metric(self, name):
        text = self.ask("GET", "/metrics")[2].decode()
        values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)
        if not values:
            raise AssertionError(f"no metric {name} in\n{text}")
        return sum(float(value) for value in values)


def receive_all(client):
    parts = []
    while True:
        try:
            part = client.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.01)


class WithModel(unittest.TestCase):
    """A tiny chat model, and a server that the tests of a class share."""

    arguments = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = cls.folder / "tiny.gguf"
        shutil.copy(ROOT / "tests/data/gguf/tiny/tiny_llama.q4_0.gguf", cls.model)
        cls.model.chmod(0o644)
        subprocess.run([BALLAST, "edit", str(cls.model), "--set", f"tokenizer.chat_template={CHAT_TEMPLATE}"],
                       check=True, stdout=subprocess.DEVNULL)
        cls.keys = cls.folder / "keys"
        cls.keys.write_text(f"alice:{KEY}\n")
        cls.keys.chmod(0o600)
        cls.server = None
        if cls.arguments is not None:
            cls.server = cls.start_class_server(*cls.arguments)

    @classmethod
    def start_class_server(cls, *arguments):
        server = Server(str(cls.model), *arguments)
        cls.addClassCleanup(server.end)
        if not server.address:
            raise AssertionError(server.text())
        return server

    def start(self, *arguments, **options):
        server = Server(*(arguments or (str(self.model),)), **options)
        self.addCleanup(server.end, signal.SIGKILL)
        self.assertTrue(server.address, server.text())
        return server
