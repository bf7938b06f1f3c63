"""`ballast serve` and the clients that people use it with: curl, and the packages of tests/interop/serve."""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from harness import COMMAND_TIMEOUT_S, require

FOLDER = Path(__file__).parent / "serve"
MODEL = "smollm2"


@contextlib.contextmanager
def server(ballast, *arguments):
    """The address of a server that is told to stop at the end, and must then end with 0."""
    process = subprocess.Popen([ballast.program, "serve", *arguments, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            found = re.search(r"http://[0-9.]+:\d+", line)
            if found:
                break
        else:
            raise AssertionError(f"the server did not start: {''.join(said)}")
        with open(os.devnull, "wb") as nowhere, subprocess.Popen(["cat"], stdin=process.stderr, stdout=nowhere):
            yield found.group()
            process.send_signal(signal.SIGTERM)
            require(process.wait(COMMAND_TIMEOUT_S) == 0, f"the server ended with {process.returncode}")
    finally:
        process.kill()
        process.wait()


def clients(suite, what, command, url):
    """The cases of a program of clients, one JSON line each."""
    done = subprocess.run([*map(str, command), url, MODEL], capture_output=True, encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
    lines = done.stdout.splitlines()
    with suite.case("both", f"the {what} clients ran to their end"):
        require(done.returncode == 0 and lines, (done.stderr or done.stdout)[-600:])
    for line in lines:
        result = json.loads(line)
        with suite.case("both", result["case"]):
            require(result["problem"] is None, result["problem"])


def curl(suite, url):
    with suite.case("both", "curl: the example of README.md"):
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 16}
        done = subprocess.run(["curl", "-sS", "--fail-with-body", f"{url}/v1/chat/completions", "-d", json.dumps(body)],
                              capture_output=True, encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
        require(done.returncode == 0, f"{done.stdout} {done.stderr}")
        require(json.loads(done.stdout)["choices"][0]["message"]["content"], done.stdout)


def run(suite, python, node_folder):
    suite.ballast.run("get", MODEL)
    with server(suite.ballast, MODEL) as url:
        curl(suite, url)
        clients(suite, "Python", [python, "-B", FOLDER / "clients.py"], url)
        clients(suite, "Node", ["node", node_folder / "clients.mjs"], url)
