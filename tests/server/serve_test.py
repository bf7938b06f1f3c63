#!/usr/bin/env python3
"""`ballast serve` as a program, over real sockets. Usage: serve_test.py BALLAST [unittest arguments]"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import unittest

from served import BALLAST, ROOT, KEY, PATIENCE, Server, WithModel, receive_all, wait_until  # it reads BALLAST from sys.argv


def question(**more):
    return {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0,
            **more}


def events_of(body):
    return [line[len(b"data: "):] for line in body.split(b"\n") if line.startswith(b"data: ")]


class Answers(WithModel):
    def test_health_needs_nothing(self):
        status, headers, body = self.server.ask("GET", "/health")
        self.assertEqual((status, json.loads(body)), (200, {"status": "ok"}))
        self.assertRegex(headers["x-request-id"], "^req_[0-9a-f]+$")
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.assertNotIn("access-control-allow-origin", headers)

    def test_models_are_listed(self):
        status, _, body = self.server.ask("GET", "/v1/models")
        self.assertEqual(status, 200)
        self.assertEqual([model["id"] for model in json.loads(body)["data"]], ["tiny"])

    def test_a_question_is_answered(self):
        status, _, body = self.server.ask("POST", "/v1/chat/completions", question())
        answer = json.loads(body)
        self.assertEqual(status, 200, body)
        self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")
        self.assertLessEqual(answer["usage"]["completion_tokens"], 8)

    def test_a_stream_has_the_text_of_the_whole_answer(self):
        whole = json.loads(self.server.ask("POST", "/v1/chat/completions", question())[2])
        status, headers, body = self.server.ask("POST", "/v1/chat/completions", question(stream=True))
        self.assertEqual(status, 200, body)
        self.assertEqual(headers["transfer-encoding"], "chunked")
        self.assertTrue(headers["content-type"].startswith("text/event-stream"))
        events = events_of(body)
        self.assertEqual(events[-1], b"[DONE]")
        deltas = [choice["delta"] for event in events[:-1] for choice in json.loads(event)["choices"]]
        self.assertEqual("".join(delta.get("content") or "" for delta in deltas),
                         whole["choices"][0]["message"]["content"])

    def test_a_connection_is_used_again_also_after_a_stream(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        sockets = set()
        for stream in (False, True, False):
            connection.request("POST", "/v1/chat/completions", json.dumps(question(stream=stream)))
            sockets.add(connection.sock.getsockname())
            self.assertEqual(connection.getresponse().read()[:1], b"d" if stream else b"{")
        self.assertEqual(len(sockets), 1)

    def test_what_is_not_there_is_404_and_what_cannot_be_done_405(self):
        for method, path, expected in [("GET", "/nothing", 404), ("GET", "/v1/chat/completions", 405),
                                       ("POST", "/health", 405), ("PUT", "/v1/models", 405)]:
            status, _, body = self.server.ask(method, path, {} if method == "POST" else None)
            self.assertEqual(status, expected, path)
            self.assertIn("message", json.loads(body)["error"])
        self.assertEqual(self.server.ask("GET", "/../../etc/passwd")[0], 404)

    def test_the_page_is_there_where_the_program_was_built_with_one(self):
        status, headers, body = self.server.ask("GET", "/")
        index = ROOT / "apps/ballast/server/page/index.html"
        if not index.exists():
            self.assertEqual((status, headers["content-type"]), (404, "application/json"))
            return
        self.assertEqual((status, body), (200, index.read_bytes()))
        self.assertIn("script-src 'self'", headers["content-security-policy"])
        self.assertEqual(self.server.ask("GET", "/", headers={"If-None-Match": headers["etag"]})[0], 304)

    def test_head_and_options(self):
        status, headers, body = self.server.ask("HEAD", "/health")
        self.assertEqual((status, body, headers["content-length"]), (200, b"", "15"))
        status, headers, _ = self.server.ask("OPTIONS", "/v1/models")
        self.assertEqual(status, 204)
        self.assertIn("POST", headers["allow"])

    def test_requests_sent_ahead_are_answered_in_order(self):
        one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        body = json.dumps(question()).encode()
        chat = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        missing = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        answers = self.server.raw(one + chat + missing + last)
        self.assertEqual(re.findall(rb"HTTP/1\.1 (\d+) ", answers), [b"200", b"200", b"404", b"200"])

    def test_a_body_may_be_asked_for(self):
        body = json.dumps(question()).encode()
        with self.server.connect() as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                           b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
            self.assertEqual(client.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            client.sendall(body)
            self.assertTrue(receive_all(client).startswith(b"HTTP/1.1 200 "))

    def test_the_log_has_no_prompts(self):
        secret = "a text that is nobody's business"
        self.server.ask("POST", "/v1/chat/completions", question(messages=[{"role": "user", "content": secret}]))
        wait_until(lambda: re.search(r"^POST /v1/chat/completions 200 [\d.]+ ms req_", self.server.text(), re.M),
                   "a line in the log")
        self.assertNotIn("nobody", self.server.text())


class Rules(WithModel):
    arguments = ("--allow-host", "chat.example", "--cors", "https://page.example", "--max-body", "20000",
                 "--header-timeout", "0.5", "--body-timeout", "0.5", "--max-headers", "4000")

    def test_a_name_that_was_rebound_is_refused_everywhere(self):
        for path in ("/health", "/v1/models", "/metrics", "/nothing"):
            self.assertEqual(self.server.ask("GET", path, headers={"Host": "evil.example"})[0], 403)
        for host in ("chat.example", "localhost:1", "127.0.0.1", "[::1]:8080"):
            self.assertEqual(self.server.ask("GET", "/health", headers={"Host": host})[0], 200)

    def test_pages_of_other_origins_are_refused_unless_listed(self):
        headers = {"Origin": "https://evil.example", "Content-Type": "application/json"}
        self.assertEqual(self.server.ask("POST", "/v1/chat/completions", question(), headers)[0], 403)
        headers["Origin"] = "https://page.example"
        status, answered, _ = self.server.ask("POST", "/v1/chat/completions", question(), headers)
        self.assertEqual((status, answered["access-control-allow-origin"]), (200, "https://page.example"))
        headers["Content-Type"] = "text/plain"
        self.assertEqual(self.server.ask("POST", "/v1/chat/completions", question(), headers)[0], 415)
        status, answered, _ = self.server.ask("OPTIONS", "/v1/chat/completions", headers={
            "Origin": "https://page.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,x-stainless-os"})
        self.assertEqual((status, answered["access-control-allow-headers"]), (204, "authorization, x-stainless-os"))

    def test_a_body_that_is_too_large_is_refused_however_it_is_sent(self):
        status, _, body = self.server.ask("POST", "/v1/chat/completions", question(user="x" * 30000))
        self.assertEqual(status, 413)
        self.assertEqual(json.loads(body)["error"]["code"], "request_too_large")
        chunks = b"".join(b"3e8\r\n" + b"x" * 1000 + b"\r\n" for _ in range(30))
        answer = self.server.raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                                 b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), answer[:100])

    def test_headers_that_are_too_large_are_refused(self):
        answer = self.server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 5000 + b"\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 431 "), answer[:100])

    def test_compressed_bodies_are_refused(self):
        headers = {"Content-Encoding": "gzip"}
        self.assertEqual(self.server.ask("POST", "/v1/chat/completions", question(), headers)[0], 415)

    def test_slow_heads_and_bodies_are_given_up(self):
        with self.server.connect() as silent:
            self.assertEqual(receive_all(silent), b"")
        with self.server.connect() as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\nHo")
            self.assertTrue(receive_all(slow).startswith(b"HTTP/1.1 408 "))
        with self.server.connect() as slow:
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            self.assertTrue(receive_all(slow).startswith(b"HTTP/1.1 408 "))

    def test_a_socket_whose_client_stopped_sending_still_gets_its_answer(self):
        with self.server.connect() as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            self.assertTrue(receive_all(client).startswith(b"HTTP/1.1 200 "))

    def test_a_request_cut_at_any_byte_harms_nobody(self):
        body = json.dumps(question()).encode()
        request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        for size in range(len(request)):
            with self.server.connect() as client:
                client.sendall(request[:size])
                if size % 2:
                    client.shutdown(socket.SHUT_WR)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)

    def test_garbage_is_a_bad_request(self):
        for garbage in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"\0" * 100, b"GET\r\n\r\n",
                        b"GET / HTTP/9.9\r\n\r\n", bytes(range(256)) * 10,
                        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n\r\n",
                        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n"):
            answer = self.server.raw(garbage)
            self.assertRegex(answer[:13], rb"^HTTP/1\.1 4[01][03] ", garbage)
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)

    def test_bodies_that_are_no_json_are_bad_requests(self):
        for body in (b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 10000, b'{"messages":' * 1000):
            answer = self.server.raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                     b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), (body[:20], answer[:200]))


class Keys(WithModel):
    arguments = None

    def test_everything_but_health_asks_for_a_key(self):
        server = self.start(str(self.model), "--api-key-file", str(self.keys))
        for path in ("/v1/models", "/metrics", "/props", "/nothing", "//health"):
            status, headers, _ = server.ask("GET", path)
            self.assertEqual((status, headers["www-authenticate"]), (401, "Bearer"), path)
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        for headers in ({"Authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
            self.assertEqual(server.ask("GET", "/v1/models", headers=headers)[0], 200)
        for headers in ({"Authorization": f"Bearer {KEY}x"}, {"x-api-key": ""}, {"Authorization": KEY}):
            self.assertEqual(server.ask("GET", "/v1/models", headers=headers)[0], 401)
        wait_until(lambda: "key=alice" in server.text(), "the key's name in the log")
        self.assertNotIn(KEY, server.text())

    def test_a_key_of_the_environment(self):
        server = self.start(environment={"BALLAST_API_KEY": KEY})
        self.assertEqual(server.ask("GET", "/v1/models")[0], 401)
        self.assertEqual(server.ask("GET", "/v1/models", headers={"x-api-key": KEY})[0], 200)

    def test_keys_are_read_again_on_sighup(self):
        keys = self.folder / "changing"
        keys.write_text(f"alice:{KEY}\n")
        server = self.start(str(self.model), "--api-key-file", str(keys))
        self.assertIn("can be read by other users", server.text())
        keys.write_text("bob:sk-another-key-0123456789\n")
        server.process.send_signal(signal.SIGHUP)
        new = {"x-api-key": "sk-another-key-0123456789"}
        wait_until(lambda: server.ask("GET", "/v1/models", headers=new)[0] == 200, "the new key")
        self.assertEqual(server.ask("GET", "/v1/models", headers={"x-api-key": KEY})[0], 401)
        keys.write_text("")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "stay as they were" in server.text(), "a complaint")
        self.assertEqual(server.ask("GET", "/v1/models", headers=new)[0], 200)
        self.assertEqual(server.ask("POST", "/v1/chat/completions", question(), new)[0], 200)

    def test_other_machines_are_let_in_only_with_keys_or_when_asked_for(self):
        refused = Server(str(self.model), "--listen", "0.0.0.0:0")
        self.assertEqual(refused.end(), 2)
        self.assertIn("--api-key-file", refused.text())
        self.assertIn("--listen 0.0.0.0:0:", refused.text())
        for arguments in (("--no-auth",), ("--api-key-file", str(self.keys))):
            server = self.start(str(self.model), "--listen", "0.0.0.0:0", *arguments)
            self.assertEqual(server.ask("GET", "/health")[0], 200)
        both = Server(str(self.model), "--no-auth", environment={"BALLAST_API_KEY": KEY})
        self.assertEqual(both.end(), 2)


class Clients(WithModel):
    """The built-in model, which writes longer texts."""

    arguments = None

    def start_long(self, *arguments):
        return self.start("--no-preload", *arguments)

    @staticmethod
    def begin_stream(server, client):
        body = json.dumps({"prompt": "It was", "max_tokens": 240, "stream": True, "ignore_eos": True}).encode()
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" %
                       (len(body), body))
        received = b""
        while b"data: " not in received:
            part = client.recv(65536)
            if not part:
                raise AssertionError(received)
            received += part
        return received

    def test_one_that_leaves_frees_its_sequence(self):
        server = self.start_long("--parallel", "2")
        self.assertEqual(server.ask("GET", "/metrics")[0], 200)
        left = 0
        for _ in range(50):  # one may have been answered to its end meanwhile
            with server.connect() as client:
                self.begin_stream(server, client)
            wait_until(lambda: server.metric("ballast_sequences_running") == 0, "no sequence runs")
            left = server.metric("ballast_sequences_cancelled_total")
            if left:
                break
        self.assertGreater(left, 0)
        self.assertEqual(server.metric("ballast_sequences_waiting"), 0)

    def test_many_that_connect_ask_and_leave(self):
        server = self.start_long("--parallel", "4")
        body = json.dumps({"prompt": "It was", "max_tokens": 200, "stream": True}).encode()
        request = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" %
                   (len(body), body))
        for number in range(200):
            with server.connect() as client:
                if number % 4 == 0:
                    continue
                client.sendall(request)
                if number % 4 == 1:
                    client.recv(1)
        wait_until(lambda: server.metric("ballast_sequences_running") + server.metric("ballast_sequences_waiting") == 0,
                   "all sequences end")
        self.assertEqual(server.ask("GET", "/health")[0], 200)
        descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        self.assertLess(descriptors, 40)
        self.assertEqual(server.end(), 0)

    def test_sigterm_lets_running_answers_finish(self):
        server = self.start_long()
        with server.connect() as client:
            received = self.begin_stream(server, client)
            server.process.send_signal(signal.SIGTERM)
            received += receive_all(client)
        self.assertTrue(received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), received[-200:])
        self.assertEqual(server.process.wait(PATIENCE), 0, server.text())
        self.assertIn("stopping", server.text())

    def test_sigint_of_an_idle_server_ends_it_although_clients_are_connected(self):
        server = self.start_long()
        with server.connect() as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(1000)
            self.assertEqual(server.end(signal.SIGINT), 0)

    def test_kill_leaves_nothing_that_stops_the_next_one(self):
        path = self.folder / "ballast.sock"
        for _ in range(2):
            server = self.start("--listen", f"unix:{path}", "--listen", "127.0.0.1:0")
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(PATIENCE)
                client.connect(str(path))
                client.sendall(b"GET /health HTTP/1.1\r\nHost: any.name\r\nConnection: close\r\n\r\n")
                self.assertTrue(receive_all(client).startswith(b"HTTP/1.1 200 "))
            server.end(signal.SIGKILL)
        server = self.start("--listen", f"unix:{path}")
        self.assertEqual(server.end(), 0)
        self.assertFalse(path.exists())

    def test_a_socket_of_a_service_manager_is_taken_over(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(str(self.folder / "notify"))
        manager.settimeout(PATIENCE)
        # LISTEN_PID is the pid of the server itself, so a shell sets it and becomes the server.
        process = subprocess.Popen(["/bin/sh", "-c", f'exec 3<&{listener.fileno()}; LISTEN_PID=$$ exec "$0" serve --no-preload',
                                    BALLAST], pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL,
                                   env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": str(self.folder / "notify")})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(manager.recv(100), b"READY=1")
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("GET", "/health")
        self.assertEqual(connection.getresponse().status, 200)
        process.terminate()
        self.assertEqual(manager.recv(100), b"STOPPING=1")
        self.assertEqual(process.wait(PATIENCE), 0)


class Starting(WithModel):
    arguments = None

    def fails(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.end, signal.SIGKILL)
        self.assertIsNone(server.address, server.text())
        self.assertEqual(server.process.wait(PATIENCE), 2, server.text())
        return server.text()

    def test_errors_show_at_the_start(self):
        broken = self.folder / "broken.gguf"
        broken.write_bytes(self.model.read_bytes()[:2000])
        self.assertIn("missing.gguf", self.fails(str(self.folder / "missing.gguf")))
        of_broken = self.fails(str(broken))
        self.assertIn("could not be loaded", of_broken)
        self.assertNotIn("log says why", of_broken)
        self.assertIn("the smallest that works has", self.fails(str(self.model), "--kv-cache-budget", "1KiB"))
        self.assertIn("no-port", self.fails(str(self.model), "--listen", "no-port"))
        self.assertIn('there is no backend "none"', self.fails(str(self.model), "--no-preload", "--backend", "none"))
        self.assertIn("--model NAME=PATH", self.fails("--model", "x"))
        self.assertIn('there is no model "other"', self.fails(str(self.model), "--alias", "a=other"))
        self.assertIn("not an origin", self.fails(str(self.model), "--cors", "chat.example"))
        self.assertIn("every page", self.fails(str(self.model), "--cors", "*"))
        self.assertIn("without scheme and port", self.fails(str(self.model), "--allow-host", "http://a"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.assertIn("another program", self.fails(str(self.model), "--listen", str(port)))

    def test_models_have_names_and_aliases(self):
        server = self.start("--model", f"a={self.model}", "--model", f"b={self.model}", "--alias", "gpt-4o=b")
        names = [model["id"] for model in json.loads(server.ask("GET", "/v1/models")[2])["data"]]
        self.assertLessEqual({"a", "b"}, set(names))
        for name in ("a", "b", "gpt-4o"):
            self.assertEqual(server.ask("POST", "/v1/chat/completions", question(model=name))[0], 200)
        self.assertEqual(server.ask("POST", "/v1/chat/completions", question(model="c"))[0], 404)
        self.assertIn("b (also gpt-4o)", server.text())

    @staticmethod
    def free_port():
        with socket.create_server(("127.0.0.1", 0)) as server:
            return server.getsockname()[1]

    def begin_loading(self, *arguments):
        """A server that has much to load, and its first answer."""
        number = self.port = self.free_port()
        for i in range(60):
            arguments += ("--model", f"m{i}={self.model}")
        process = subprocess.Popen([BALLAST, "serve", "--listen", str(number), *arguments], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def health():
            connection = http.client.HTTPConnection("127.0.0.1", number, timeout=PATIENCE)
            try:
                connection.request("GET", "/health")
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except OSError:
                return None
            finally:
                connection.close()
        wait_until(health, "an answer")
        return process, health

    def test_health_says_that_models_are_loading(self):
        process, health = self.begin_loading()
        seen = []
        wait_until(lambda: seen.append(health()) or seen[-1] == (200, {"status": "ok"}), "all are loaded")
        self.assertEqual(set(map(str, seen[:-1])), {str((503, {"status": "loading"}))})
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_clients_that_keep_a_model_busy_do_not_end_a_server_that_is_loading(self):
        process, health = self.begin_loading("--parallel", "1", "--queue", "1")
        statuses = set()
        is_over = threading.Event()

        def keep_busy():
            while not is_over.is_set():
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
                try:
                    connection.request("POST", "/v1/completions",
                                       json.dumps({"model": "m59", "prompt": "It was", "max_tokens": 200}))
                    answer = connection.getresponse()
                    answer.read()
                    statuses.add(answer.status)
                except (OSError, http.client.HTTPException):
                    pass  # the server has ended, which is told below
                finally:
                    connection.close()
        clients = [threading.Thread(target=keep_busy) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            wait_until(lambda: process.poll() is not None or health() == (200, {"status": "ok"}), "all are loaded")
        finally:
            is_over.set()
            for client in clients:
                client.join()
        self.assertIsNone(process.poll(), "the server has ended")
        self.assertLessEqual(statuses, {200, 429})
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_sigterm_ends_a_server_that_is_loading(self):
        process, health = self.begin_loading()
        self.assertEqual(health()[0], 503)
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_quiet_servers_say_nothing(self):
        number = self.free_port()
        process = subprocess.Popen([BALLAST, "serve", "-q", "--listen", str(number)], stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def answers():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", number, timeout=PATIENCE)
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
            except OSError:
                return False
            finally:
                connection.close()
        wait_until(answers, "the server answers")
        process.terminate()
        self.assertEqual(process.communicate(timeout=PATIENCE)[1], b"")
        self.assertEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
