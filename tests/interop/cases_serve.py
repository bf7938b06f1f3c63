"""`ballast serve` and the clients that people use it with: curl, and the packages of tests/interop/serve."""

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import serve_models
from harness import COMMAND_TIMEOUT_S, require

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent / "serve"
PAGES = ("README.md", "docs/serve.md")
ADDRESS = "http://127.0.0.1:8080"  # of the examples
CLIENTS_TIMEOUT_S = 600
# Those of the clients, which call them by these names; so do the examples.
CHAT, TOOLS, WORDS = "smollm2", "tools", "words"


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
    done = subprocess.run([*map(str, command), url, CHAT, TOOLS, WORDS], capture_output=True, encoding="utf-8",
                          timeout=CLIENTS_TIMEOUT_S)
    lines = done.stdout.splitlines()
    with suite.case("both", f"the {what} clients ran to their end"):
        require(done.returncode == 0 and lines, (done.stderr or done.stdout)[-600:])
    for line in lines:
        result = json.loads(line)
        with suite.case("both", result["case"]):
            require(result["problem"] is None, result["problem"])


def examples(page, python):
    """What a page tells users to send: commands of curl, and programs in Python. Name and command line of each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for number, command in enumerate(re.findall(r"^ *\$ (curl (?:.*\\\n)*.*)$", text, re.MULTILINE), 1):
        yield f"{page}: example {number} with curl", ["bash", "-c", command]
    for number, program in enumerate(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL), 1):
        if ADDRESS in program:
            yield f"{page}: example {number} with openai", [str(python), "-B", "-c", program]


def run_examples(suite, url, python):
    """Word for word, but for the port."""
    for page in PAGES:
        found = list(examples(page, python))
        with suite.case("both", f"{page} has examples for curl and openai"):
            require({command[0] for _, command in found} == {"bash", str(python)}, f"{[name for name, _ in found]}")
        for name, command in found:
            with suite.case("both", name):
                sent = [word.replace(ADDRESS, url) for word in command]
                done = subprocess.run(sent, capture_output=True, encoding="utf-8", timeout=COMMAND_TIMEOUT_S)
                require(done.returncode == 0 and '"error"' not in done.stdout, f"{done.stdout} {done.stderr}")
                require("Paris" in done.stdout or "France" not in sent[-1], f"no Paris in {done.stdout}")


def run(suite, python, node_folder):
    suite.ballast.run("get", CHAT)
    caller = serve_models.write_caller(suite.folder / TOOLS)
    embedder = serve_models.write_embedder(suite.folder / WORDS)
    with server(suite.ballast, CHAT, "--model", f"{TOOLS}={caller}", "--model", f"{WORDS}={embedder}") as url:
        run_examples(suite, url, python)
        clients(suite, "Python", [python, "-B", FOLDER / "clients.py"], url)
        clients(suite, "Node", ["node", node_folder / "clients.mjs"], url)
