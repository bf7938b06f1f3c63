#!/usr/bin/env python3
"""Everyone gets the answer that they get alone: clients with fixed seeds come, leave, come back and disturb each other.

usage: load_test.py BALLAST MODEL [--clients N] [--rounds N] [--cancel N] [--streams N] [--instrumented]

Every client asks for a text of its own, several times, at random moments, and leaves some of its answers in the middle. What
it gets must be what a single client got before, to the byte. Then N clients connect, ask and leave at once: the server must
have nothing left of them, and must not have grown, unless it is instrumented by a sanitizer, which keeps what is freed. At
last N streams are open at once, each of which must be whole.
"""
import argparse, http.client, json, random, re, signal, subprocess, sys, threading, time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from load_client import Ask, BrokenStream, LoadClient, read_stream

PROMPTS = ["It is a truth", "Emma", "She was", "The house", "In the morning", "Nothing", "Mr. Darcy", "A letter"]
WAIT_S = 300  # for anything; nothing here is meant to take long


class Server:
    def __init__(self, program, model, queue):
        self.process = subprocess.Popen([program, "serve", model, "--listen", "127.0.0.1:0", "--queue", str(queue)],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                break
        else:
            sys.exit("load_test: the server did not start")
        self.port = int(found.group(1))
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def running(self):
        """Texts that the server computes or keeps in line, by its own counters."""
        counts = re.findall(r"^ballast_sequences_(?:running|waiting)(?:\{[^}]*\})? (\d+)", self.get("/metrics"), re.M)
        if len(counts) != 2:
            raise AssertionError(f"/metrics does not say what is running: {counts}")
        return sum(map(int, counts))

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)


def body_of(number, tokens):
    """What client `number` asks for: always the same, of greedy and of sampled texts."""
    sampling = {"temperature": 0} if number % 4 == 0 else {"temperature": 1, "top_p": 0.9, "seed": number}
    return json.dumps({"prompt": PROMPTS[number % len(PROMPTS)], "max_tokens": tokens, "stream": number % 2 == 0, **sampling})


def text_of(response, streamed, leave_after=None):
    """The text of an answer, or None where the client leaves after some pieces."""
    if response.status != 200:
        raise AssertionError(f"status {response.status}: {response.read()[:300]}")
    if not streamed:
        return json.loads(response.read())["choices"][0]["text"]
    pieces = []
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            return "".join(pieces)
        data = json.loads(line[6:])
        pieces += [choice["text"] for choice in data["choices"]]
        if leave_after is not None and len(pieces) >= leave_after:
            return None
    raise AssertionError("the stream was cut")


def ask(server, number, tokens, leave_after=None):
    connection = server.connect()
    try:
        connection.request("POST", "/v1/completions", body_of(number, tokens), {"Content-Type": "application/json"})
        return text_of(connection.getresponse(), number % 2 == 0, leave_after)
    finally:
        connection.close()


def client(server, number, alone, rounds, problems):
    moments = random.Random(number)
    try:
        for _ in range(rounds):
            time.sleep(moments.random() / 10)
            if number % 2 == 0 and moments.random() < 0.4:
                ask(server, number, 24, leave_after=moments.randrange(1, 6))
            text = ask(server, number, 24)
            if text != alone[number]:
                problems.append(f"client {number} got {text!r}, and alone {alone[number]!r}")
    except Exception as error:
        problems.append(f"client {number}: {type(error).__name__}: {error}")


def check_same_answers(server, clients, rounds):
    alone = [ask(server, number, 24) for number in range(clients)]
    if len(set(alone)) < clients // 2:
        return ["the clients' texts hardly differ: this would not see a mix-up"]
    problems = []
    threads = [threading.Thread(target=client, args=(server, number, alone, rounds, problems)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


def leave_at_once(server, times, seed):
    moments = random.Random(seed)
    for number in range(times):
        connection = server.connect()
        connection.request("POST", "/v1/completions", body_of(number, 200), {"Content-Type": "application/json"})
        if moments.random() < 0.5:
            time.sleep(moments.random() / 200)
        connection.close()


def wait_until_idle(server):
    end = time.monotonic() + WAIT_S
    while server.running() > 0:
        if time.monotonic() > end:
            return [f"{server.running()} texts are left of clients that have gone"]
        time.sleep(0.05)
    return []


def check_cancelling(server, times, instrumented):
    leave_at_once(server, times // 4, 1)  # what the server keeps for later is made now
    problems = wait_until_idle(server)
    before = server.memory_kib()
    leave_at_once(server, times, 2)
    problems += wait_until_idle(server)
    grown = server.memory_kib() - before
    if grown > 32 * 1024 and not instrumented:
        problems.append(f"the server grew by {grown} KiB over {times} clients that left")
    return problems


def check_streams(server, count):
    """So many at once, of which most wait for their turn: nobody is refused, cut short or given another's text."""
    asks = [Ask(prompt, 16) for prompt in PROMPTS]
    alone = [read_stream(stream) for stream in LoadClient(server.port, asks, 1).run().streams]
    problems = []
    for number, stream in enumerate(LoadClient(server.port, asks * -(-count // len(asks)), count).run().streams):
        try:
            answer, expected = read_stream(stream), alone[number % len(asks)]
        except BrokenStream as error:
            problems.append(f"stream {number} of {count}: {error}")
            continue
        if (answer.text, answer.tokens) != (expected.text, expected.tokens):
            problems.append(f"stream {number} of {count} got {answer.text!r}, and alone {expected.text!r}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ballast")
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cancel", type=int, default=100)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--instrumented", action="store_true")
    options = parser.parse_args()
    server = Server(options.ballast, options.model, queue=max(1000, options.streams))
    try:
        problems = check_same_answers(server, options.clients, options.rounds)
        problems += check_cancelling(server, options.cancel, options.instrumented)
        problems += check_streams(server, options.streams)
        status = server.stop()
        if status != 0:
            problems.append(f"the server ended with {status}")
    finally:
        server.process.kill()
    print("\n".join(problems) or f"{options.clients} clients, {options.rounds} rounds, {options.cancel} that left, "
                               f"{options.streams} streams: as alone")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
