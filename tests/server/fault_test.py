#!/usr/bin/env python3
"""`ballast serve` under attack and under load: floods, slow and vanishing clients, signals, a system that denies much.

usage: fault_test.py BALLAST [--long] [--instrumented] [unittest arguments]

Nothing here depends on speed: tests wait for what must come, and check what is left. --long repeats each fault more often;
--instrumented is for a program with sanitizers, which keep freed memory and have threads of their own.
"""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest

LONG, INSTRUMENTED = "--long" in sys.argv, "--instrumented" in sys.argv
sys.argv = [argument for argument in sys.argv if argument not in ("--long", "--instrumented")]

from served import BALLAST, PATIENCE, ROOT, Server, WithModel, receive_all, wait_until  # it reads BALLAST from sys.argv

RECORDED = ROOT / "tests/data/openai/requests.json"
PROMPT = {"prompt": "It was", "max_tokens": 60, "temperature": 0, "ignore_eos": True}


def request(path, body, *, more=b""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s" % (path.encode(), more, len(data), data)


def chunked(path, body):
    data = json.dumps(body).encode()
    parts = [data[at:at + 20] for at in range(0, len(data), 20)]
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % path.encode() +
            b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\nX-After: 1\r\n\r\n")


def break_off(client):
    """Ends a connection without a goodbye: the server sees a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def memory_kib(server):
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1])


def threads_of(server):
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def descriptors_of(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


class Load:
    """Clients that ask for the same text again and again until they are told to stop, or the server is gone."""

    def __init__(self, port, clients, stream):
        self.port, self.stream = port, stream
        self.stopping = threading.Event()
        self.texts, self.refused, self.lost, self.cut, self.wrong = [], 0, 0, 0, []
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopping.is_set():
            try:
                self.ask()
            except (OSError, http.client.HTTPException):
                self.lost += 1
                return
            except Exception as error:  # what a client could not make sense of
                self.wrong.append(repr(error))
                return

    def ask(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request("POST", "/v1/completions", json.dumps({**PROMPT, "stream": self.stream}))
            answer = connection.getresponse()
            try:
                body = answer.read()
            except (OSError, http.client.HTTPException):
                self.cut += 1
                raise
        if answer.status in (429, 503):
            self.refused += 1
            return
        if answer.status != 200:
            raise ValueError(f"status {answer.status}: {body[:200]}")
        if not self.stream:
            self.texts.append(json.loads(body)["choices"][0]["text"])
            return
        events = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
        if events[-1] != b"[DONE]":
            raise ValueError(f"a stream without its end: {body[-200:]}")
        self.texts.append("".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"]))

    def end(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE)


class WithLoad(WithModel):
    arguments = None

    def start_long(self, *arguments):
        """A server of the built-in model, which writes longer texts."""
        return self.start("--log", "none", *arguments)

    def nothing_is_left(self, server):
        wait_until(lambda: server.metric("ballast_sequences_running") + server.metric("ballast_sequences_waiting") == 0,
                   "all sequences end")
        self.assertEqual(server.metric("ballast_kv_cache_pages_in_use"), 0)


class BadClients(WithLoad):
    def test_any_byte_of_a_request_may_be_its_last(self):
        server = self.start_long("--queue", "1000")
        requests = [request("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "stream": True}),
                    chunked("/v1/completions", {"prompt": "It was", "max_tokens": 50, "stream": True}),
                    request("/v1/messages", {"max_tokens": 5, "messages": [{"role": "user", "content": "a"}]},
                            more=b"x-api-key: none\r\nanthropic-version: 2023-06-01\r\n"),
                    request("/api/generate", {"model": "default", "prompt": "a", "options": {"num_predict": 50}})]
        if LONG:
            recorded = [case for case in json.loads(RECORDED.read_text()) if case["method"] == "POST"]
            requests += [request(case["path"], case["body"]) for case in recorded]
        for one in requests:
            for size in range(len(one) + 1):
                client = server.connect()
                client.sendall(one[:size])
                if size % 3 == 0:
                    client.shutdown(socket.SHUT_WR)
                (break_off if size % 3 == 1 else socket.socket.close)(client)
        self.nothing_is_left(server)
        wait_until(lambda: descriptors_of(server) < 40, "all connections are closed")

    def test_headers_and_bodies_that_come_byte_by_byte_are_ended_and_stop_nobody(self):
        server = self.start_long("--header-timeout", "0.5", "--body-timeout", "0.5")
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
        slow = [server.connect() for _ in range(400 if LONG else 60)]
        for number, client in enumerate(slow):
            client.sendall(head + (b"X: " if number % 2 else b"Content-Length: 100000\r\n\r\n"))
        answers = {}
        while len(answers) < len(slow):
            for client in slow:
                if client in answers:
                    continue
                with contextlib.suppress(OSError):
                    client.sendall(b"x")
                client.setblocking(False)
                try:
                    answers[client] = client.recv(100)
                except BlockingIOError:
                    pass
                except OSError:
                    answers[client] = b"HTTP/1.1 408 "  # it was closed, and what it said is lost
                client.setblocking(True)
            self.assertEqual(server.ask("POST", "/v1/completions", {**PROMPT, "max_tokens": 1})[0], 200)
        for client, answer in answers.items():
            self.assertTrue(answer.startswith(b"HTTP/1.1 408 "), answer)
            client.close()

    def test_a_flood_of_connections_leaves_those_that_are_there_alone(self):
        server = self.start_long("--max-connections", "50")
        kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self.addCleanup(kept.close)

        def answered():
            kept.request("GET", "/health")
            response = kept.getresponse()
            response.read()
            return response.status

        self.assertEqual(answered(), 200)
        for _ in range(10 if LONG else 2):
            flood = [server.connect() for _ in range(400)]
            self.assertEqual(flood[-1].recv(100), b"")  # closed without a word
            self.assertEqual(answered(), 200)
            self.assertLess(descriptors_of(server), 50 + 64 + 40)
            for client in flood:
                client.close()
        wait_until(lambda: descriptors_of(server) < 40, "all connections are closed")
        self.assertEqual(server.ask("GET", "/health")[0], 200)

    def test_a_flood_of_requests_is_told_to_come_back(self):
        server = self.start_long("--parallel", "1", "--queue", "4")
        clients = [server.connect() for _ in range(400 if LONG else 80)]
        for client in clients:
            client.sendall(request("/v1/completions", {"prompt": "It was", "max_tokens": 200, "ignore_eos": True,
                                                       "stream": True}))
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        statuses = []
        for client in clients:
            head = b""
            while b"\r\n\r\n" not in head:
                part = client.recv(65536)
                self.assertTrue(part, head)
                head += part
            statuses.append(int(head[9:12]))
            if statuses[-1] == 429:
                self.assertIn(b"\r\nretry-after: ", head.lower())
        self.assertLessEqual(set(statuses), {200, 429})
        self.assertIn(200, statuses)
        for client in clients:
            break_off(client)
        self.nothing_is_left(server)
        self.assertEqual(server.ask("POST", "/v1/completions", {**PROMPT, "max_tokens": 1})[0], 200)

    def test_a_thousand_idle_and_streaming_connections_cost_memory_only(self):
        count = 4000 if LONG else 1000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < count + 200:
            self.skipTest(f"only {hard} open files are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200) if soft != resource.RLIM_INFINITY else soft, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        server = self.start_long("--queue", "1000")
        self.assertEqual(server.ask("POST", "/v1/completions", PROMPT)[0], 200)
        threads, before = threads_of(server), memory_kib(server)
        clients = [server.connect() for _ in range(count)]
        streaming = clients[:100]
        for client in streaming:
            client.sendall(request("/v1/completions", {**PROMPT, "stream": True}))
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        for client in streaming:
            received = b""
            while not received.endswith(b"\r\n0\r\n\r\n"):
                part = client.recv(65536)
                self.assertTrue(part, received[-200:])
                received += part
        self.assertEqual(threads_of(server), threads)
        if not INSTRUMENTED:
            self.assertLess(memory_kib(server) - before, 16 * count + 64 * 1024)
        for client in clients:
            client.close()
        wait_until(lambda: descriptors_of(server) < 40, "all connections are closed")

    def test_memory_stays_flat_while_clients_connect_ask_and_leave(self):
        server = self.start_long("--queue", "1000")
        moments = random.Random(7)

        def leave(times):
            for number in range(times):
                client = server.connect()
                one = request("/v1/completions", {"prompt": "It was", "max_tokens": 200, "stream": number % 2 == 0})
                client.sendall(one if number % 4 else one[:moments.randrange(len(one))])
                if number % 8 == 2:  # a stream
                    client.recv(1)
                (break_off if number % 3 == 0 else socket.socket.close)(client)
            self.nothing_is_left(server)

        leave(200)  # what is kept for later is made now
        before = memory_kib(server)
        leave(10_000 if LONG else 600)
        if not INSTRUMENTED:
            self.assertLess(memory_kib(server) - before, 16 * 1024)
        wait_until(lambda: descriptors_of(server) < 40, "all connections are closed")


class Signals(WithLoad):
    def start_again(self, port, path):
        """On the same addresses at once: nothing of the one before stands in the way."""
        server = self.start_long("--listen", f"127.0.0.1:{port}", "--listen", f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(path))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: any.name\r\nConnection: close\r\n\r\n")
            self.assertTrue(receive_all(client).startswith(b"HTTP/1.1 200 "))
        return server

    def test_sigterm_under_load_finishes_what_was_begun_and_the_next_one_starts_at_once(self):
        path, port = self.folder / "term.sock", 0
        for _ in range(5 if LONG else 2):
            server = self.start_again(port, path)
            port = server.port
            loads = [Load(port, 4, stream) for stream in (False, True)]
            wait_until(lambda: all(load.texts for load in loads), "answers")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(PATIENCE), 0, server.text())
            for load in loads:
                load.end()
                self.assertEqual((load.wrong, load.cut), ([], 0))  # answers that were begun came to their ends
                self.assertEqual(len(set(load.texts)), 1)
            self.assertFalse(path.exists())

    def test_kill_under_load_leaves_nothing_that_stops_the_next_one(self):
        path, port = self.folder / "kill.sock", 0
        for _ in range(10 if LONG else 3):
            server = self.start_again(port, path)
            port = server.port
            loads = [Load(port, 4, stream) for stream in (False, True)]
            wait_until(lambda: all(load.texts for load in loads), "answers")
            server.end(signal.SIGKILL)
            for load in loads:
                load.end()
                self.assertEqual(len(set(load.texts)), 1)
        server = self.start_again(port, path)
        self.assertEqual(server.end(), 0)

    def test_sighup_under_load_changes_no_answer(self):
        server = self.start_long("--queue", "1000")
        loads = [Load(server.port, 3, stream) for stream in (False, True)]
        for round in range(20 if LONG else 4):
            server.process.send_signal(signal.SIGHUP)
            counts = [len(load.texts) for load in loads]
            wait_until(lambda: all(len(load.texts) > count for load, count in zip(loads, counts)), "more answers")
        for load in loads:
            load.end()
            self.assertEqual((load.wrong, load.lost, load.refused), ([], 0, 0))
        self.assertEqual(len({text for load in loads for text in load.texts}), 1)
        self.nothing_is_left(server)
        self.assertEqual(server.end(), 0)


class Confinement(WithLoad):
    """As the systemd unit of docs/serve.md runs it: a file system that is read-only, no network, no rights, and the socket
    from outside."""

    def test_a_read_only_system_without_network_and_rights_is_enough(self):
        confine = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--ipc", "/bin/sh", "-c"]
        if not shutil.which("unshare") or not shutil.which("setpriv") or subprocess.run(
                [*confine, "mount -o remount,bind,ro /"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this system lets nobody make a namespace")
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        refused = self.folder / "must-not-be-written"
        script = (f"mount -o remount,bind,ro / && ! touch {refused} 2>/dev/null && exec 3<&{listener.fileno()} && "
                  'LISTEN_FDS=1 LISTEN_PID=$$ exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$0" serve "$1" '
                  "--log none")
        process = subprocess.Popen([*confine, script, BALLAST, str(self.model)], pass_fds=[listener.fileno()],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   cwd="/", env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=PATIENCE)
        self.addCleanup(connection.close)
        body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "response_format":
                           {"type": "json_object"}})
        connection.request("POST", "/v1/chat/completions", body)
        response = connection.getresponse()
        self.assertEqual(response.status, 200, response.read())
        response.read()
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0, process.stderr.read())
        self.assertFalse(refused.exists())


if __name__ == "__main__":
    unittest.main()
