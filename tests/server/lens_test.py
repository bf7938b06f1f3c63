#!/usr/bin/env python3
"""`ballast lens` as a program, over real sockets. Usage: lens_test.py BALLAST PAGE [unittest arguments]

PAGE is the folder with the page that the program was built with."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BALLAST = os.path.abspath(sys.argv.pop(1))
PAGE = pathlib.Path(sys.argv.pop(1))
PATIENCE = 60  # seconds until something counts as hanging; nothing here depends on speed
META = b'<meta name="ballast-files" content="files.json">'


class Lens:
    """A process of `ballast lens`; `url` is None where it ended instead of serving."""

    def __init__(self, *arguments, **options):
        self.process = subprocess.Popen([BALLAST, "lens", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.url = self.process.stdout.readline().rstrip("\n") or None
        self.errors = []
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()
        if self.url:
            found = re.fullmatch(r"http://(.+):(\d+)/([0-9a-f]{32})/", self.url)
            self.host, self.port, self.secret = found[1].strip("[]"), int(found[2]), found[3]

    def end(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def text(self):
        return "".join(self.errors)

    def ask(self, path, method="GET", **headers):
        """`path` below the secret, or a whole one where it begins with a slash."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            whole = path if path.startswith("/") else f"/{self.secret}/{path}"
            connection.request(method, whole, headers={name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def files(self):
        status, _, body = self.ask("files.json")
        assert status == 200, body
        return json.loads(body)["files"]


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def start(self, *arguments, **options):
        lens = Lens(*arguments, **options)
        self.addCleanup(lens.end, signal.SIGKILL)
        if not lens.url:
            lens.reader.join(PATIENCE)
        self.assertTrue(lens.url, lens.text())
        return lens

    def fails(self, *arguments):
        """What it says on standard error, and nothing on standard output."""
        run = subprocess.run([BALLAST, "lens", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        return run.stderr


class Page(WithFolder):
    def test_without_a_path_the_page_is_all_there_is(self):
        lens = self.start()
        for file in sorted(path for path in PAGE.rglob("*") if path.is_file()):
            name = "" if file.relative_to(PAGE) == pathlib.Path("index.html") else file.relative_to(PAGE).as_posix()
            status, headers, body = lens.ask(name)
            self.assertEqual((status, body.replace(META, b"", 1)), (200, file.read_bytes()), name)
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["referrer-policy"], "no-referrer")
            self.assertEqual(headers["cross-origin-opener-policy"], "same-origin")
            self.assertEqual(headers["cross-origin-resource-policy"], "same-origin")
            self.assertNotIn("access-control-allow-origin", headers)
            rules = dict(rule.strip().partition(" ")[::2] for rule in headers["content-security-policy"].split(";"))
            self.assertEqual(rules["default-src"], "'none'")
            self.assertEqual(rules["script-src"], "'self' 'wasm-unsafe-eval'")
            self.assertEqual(rules["connect-src"], "'self'")
        self.assertIn(META, lens.ask("")[2])
        self.assertEqual(lens.files(), [])
        self.assertIn("Ctrl-C", lens.text())

    def test_with_files_the_page_is_told_of_the_list(self):
        lens = self.start(self.write("model.gguf", b"GGUF"))
        self.assertEqual(lens.ask("")[2].replace(META, b"", 1), (PAGE / "index.html").read_bytes())
        self.assertIn(META, lens.ask("")[2])

    def test_a_wrong_secret_is_not_there(self):
        lens = self.start(self.write("model.gguf", b"GGUF"))
        url = lens.files()[0]["url"]
        other = ("1" if lens.secret[0] == "0" else "0") + lens.secret[1:]
        answers = {lens.ask(path)[2] for path in ("/", "/files.json", f"/{other}/", f"/{other}/{url}", f"/{url}")}
        self.assertEqual(answers, {b"not found\n"})
        self.assertNotEqual(self.start().secret, lens.secret)

    def test_a_name_that_was_rebound_and_pages_of_others_are_refused(self):
        lens = self.start(self.write("model.gguf", b"GGUF"))
        for host in ("evil.example", f"evil.example:{lens.port}", "127.0.0.1", "localhost:1", f"10.0.0.1:{lens.port}"):
            status, _, body = lens.ask("files.json", Host=host)
            self.assertEqual(status, 403, host)
            self.assertNotIn(b"--", body)
        for host in (f"localhost:{lens.port}", f"127.0.0.1:{lens.port}"):
            self.assertEqual(lens.ask("files.json", Host=host)[0], 200, host)
        own = f"http://127.0.0.1:{lens.port}"
        self.assertEqual(lens.ask("files.json", Origin=own)[0], 200)
        for origin in ("https://evil.example", "null", "http://127.0.0.1", f"http://localhost:{lens.port}", own + "0"):
            status, headers, _ = lens.ask("files.json", Origin=origin)
            self.assertEqual(status, 403, origin)
            self.assertNotIn("access-control-allow-origin", headers)

    def test_only_reading_is_known(self):
        lens = self.start()
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            status, headers, _ = lens.ask("", method)
            self.assertEqual((status, headers["allow"]), (405, "GET, HEAD"))


class Files(WithFolder):
    def test_a_5_gb_file_is_read_by_range_in_little_memory(self):
        path = self.write("large.safetensors", b"head")
        with open(path, "r+b") as file:
            file.seek(5_000_000_000)
            file.write(b"tail")
        lens = self.start(path)
        entry = lens.files()[0]
        self.assertEqual((entry["name"], entry["size"]), ("large.safetensors", 5_000_000_004))
        status, headers, body = lens.ask(entry["url"], Range="bytes=4999999998-5000000003")
        self.assertEqual((status, body), (206, b"\0\0tail"))
        self.assertEqual(headers["content-range"], "bytes 4999999998-5000000003/5000000004")
        self.assertEqual((headers["accept-ranges"], headers["cache-control"]), ("bytes", "no-store"))
        self.assertEqual(lens.ask(entry["url"], "HEAD")[1]["content-length"], "5000000004")
        self.assertEqual(lens.ask(entry["url"], Range="bytes=5000000004-")[0], 416)
        with socket.create_connection((lens.host, lens.port), timeout=PATIENCE) as client:  # 300 MB of it, and away
            client.sendall(f"GET /{lens.secret}/{entry['url']} HTTP/1.1\r\nHost: localhost:{lens.port}\r\n\r\n".encode())
            left = 300_000_000
            while left > 0:
                left -= len(client.recv(1 << 20))
        peak = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{lens.process.pid}/status").read_text())
        self.assertLess(int(peak[1]), 200_000)
        self.assertEqual(lens.ask(entry["url"], Range="bytes=0-3")[2], b"head")

    def test_many_clients_at_a_time_get_their_own_bytes(self):
        content = os.urandom(3_000_000)
        lens = self.start(self.write("a.bin", content), self.write("b.bin", content[::-1]))
        files = lens.files()
        failures = []

        def read(number):
            which = number % 2
            expected = content[::-1] if which else content
            for i in range(20):
                first = (number * 7919 + i * 104729) % len(content)
                got = lens.ask(files[which]["url"], Range=f"bytes={first}-{first + 70000}")[2]
                if got != expected[first:first + 70001]:
                    failures.append((number, i))

        threads = [threading.Thread(target=read, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_folder_is_listed_without_what_leads_out_of_it(self):
        with tempfile.TemporaryDirectory() as outside:
            pathlib.Path(outside, "secret").write_text("s")
            self.write("models/a.gguf", b"a")
            self.write("models/sub/b \"quoted\" ü.npz", b"b")
            self.write("models/.hidden", b"h")
            (self.folder / "models/link").symlink_to(pathlib.Path(outside, "secret"))
            lens = self.start(self.folder / "models")
        self.assertEqual([file["name"] for file in lens.files()], ["a.gguf", "sub/b \"quoted\" ü.npz"])
        self.assertEqual([lens.ask(file["url"])[2] for file in lens.files()], [b"a", b"b"])
        lens.end()
        self.assertIn("1 symbolic link", lens.text())

    def test_hostile_paths_are_not_there(self):
        lens = self.start(self.write("model.gguf", b"GGUF"))
        for path in ("../model.gguf", "files/../../model.gguf", "files/%2e%2e/model.gguf", "..%2fmodel.gguf",
                     f"{self.folder}/model.gguf", f"files/{self.folder}/model.gguf", "files/0%00/x", "model.gguf",
                     "files/18446744073709551616/x", "files/1/x", "files/0", "....//", "%", "%zz"):
            for prefix in ("", "/"):
                self.assertEqual(lens.ask(prefix + path)[::2], (404, b"not found\n"), prefix + path)
        with socket.create_connection((lens.host, lens.port), timeout=PATIENCE) as client:
            client.sendall(f"GET /{lens.secret}/\0 HTTP/1.1\r\nHost: localhost:{lens.port}\r\n\r\n".encode())
            self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 400 "))
        self.assertEqual(lens.ask("")[0], 200)

    def test_a_file_that_changes_is_an_error_until_the_page_is_loaded_again(self):
        path = self.write("model.gguf", b"GGUF")
        lens = self.start(path)
        url = lens.files()[0]["url"]
        path.write_bytes(b"GGUF, and more")
        status, _, body = lens.ask(url, Range="bytes=0-3")
        self.assertEqual(status, 409)
        self.assertIn("model.gguf: the file has changed", json.loads(body)["error"]["message"])
        self.assertEqual(lens.ask(lens.files()[0]["url"])[2], b"GGUF, and more")
        path.unlink()
        self.assertEqual(lens.ask(url)[0], 410)
        self.assertEqual(lens.files(), [])

    def test_a_file_that_may_not_be_read_is_an_error(self):
        if os.geteuid() == 0:
            self.skipTest("root may read everything")
        path = self.write("model.gguf", b"GGUF")
        lens = self.start(self.folder)
        path.chmod(0)
        status, _, body = lens.ask(lens.files()[0]["url"])
        self.assertEqual(status, 500)
        self.assertNotIn(str(self.folder), body.decode())


class Command(WithFolder):
    def test_what_is_not_there_is_said_at_the_start(self):
        self.assertIn("none.gguf", self.fails(self.folder / "none.gguf"))
        self.assertIn("no files", self.fails(self.folder))
        self.assertIn("standard input", self.fails("-"))
        os.mkfifo(self.folder / "pipe")
        self.assertIn("pipe", self.fails(self.folder / "pipe"))

    def test_only_loopback_addresses_are_listened_on(self):
        for address in ("0.0.0.0:0", "[::]:0", f"unix:{self.folder}/socket"):
            self.assertIn("on this machine alone", self.fails("--listen", address))
        self.assertFalse((self.folder / "socket").exists())
        self.assertIn("is not an address", self.fails("--listen", "here"))
        self.assertEqual(self.start("--listen", "localhost:0").ask("")[0], 200)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assertIn("another program listens", self.fails("--listen", f"{taken.getsockname()[1]}"))

    def test_every_signal_ends_it_at_once_also_while_a_file_is_sent(self):
        path = self.write("large", b"")
        os.truncate(path, 1 << 32)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            lens = self.start(path)
            with socket.create_connection((lens.host, lens.port), timeout=PATIENCE) as client:
                client.sendall(f"GET /{lens.secret}/{lens.files()[0]['url']} HTTP/1.1\r\n"
                               f"Host: localhost:{lens.port}\r\n\r\n".encode())
                self.assertTrue(client.recv(100))
                self.assertEqual(lens.end(number), 0, number)

    def test_under_nohup_a_hangup_is_ignored(self):
        lens = self.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        lens.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertEqual(lens.ask("")[0], 200)
        self.assertEqual(lens.end(), 0)

    def test_quiet_prints_the_address_alone(self):
        lens = self.start("-q")
        self.assertEqual((lens.end(), lens.text()), (0, ""))

    def test_open_starts_a_browser_with_an_address_that_works_once(self):
        program = self.write("bin/xdg-open", b'#!/bin/sh\nprintf "%s\\n" "$@" > "$OUT.new" && mv "$OUT.new" "$OUT"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        said = self.folder / "said"
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "OUT": str(said)}
        lens = self.start("--open", env=environment)
        end = time.monotonic() + PATIENCE
        while not said.exists() and time.monotonic() < end:
            time.sleep(0.01)
        address = said.read_text().strip()
        self.assertNotIn(lens.secret, address)  # others can read command lines
        path = address.removeprefix(f"http://127.0.0.1:{lens.port}")
        status, headers, _ = lens.ask(path)
        self.assertEqual((status, headers["location"]), (303, f"/{lens.secret}/"))
        self.assertEqual(lens.ask(path)[0], 404)

    def test_without_a_browser_the_address_is_still_there(self):
        lens = self.start("--open", env={**os.environ, "PATH": str(self.folder)})
        self.assertEqual(lens.ask("")[0], 200)
        self.assertEqual(lens.end(), 0)
        self.assertIn("cannot open a browser with xdg-open", lens.text())


if __name__ == "__main__":
    unittest.main()
