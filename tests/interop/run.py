"""Checks the program against the real NumPy, safetensors, gguf-py, netcl, Burn, tiktoken, tokenizers, SentencePiece,
huggingface_hub and llama.cpp's vocabularies, calls the C interface from Rust and Go, and asks a server with the clients
of OpenAI, LangChain, Ollama and Anthropic. Started by scripts/interop, which builds the peers.

Prints one line a case, `ok|FAIL <peer> <direction> <what>`: direction "read" is their file and our reader, "write" our
file and their reader. The last line is `N passed, M failed`; the exit status is 1 when anything failed or could not run.
"""

import argparse
import importlib
import importlib.metadata
import sys
import tempfile
import time
from pathlib import Path

from harness import Ballast, Suite

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = Path(__file__).resolve().parent.parent / "data" / "templates"
PEERS = ("numpy", "safetensors", "gguf", "netcl", "burn", "tiktoken", "tokenizers", "sentencepiece", "llama", "templates",
         "hub", "smollm2", "c", "serve")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ballast", required=True, type=Path, help="the program to check")
    parser.add_argument("--burn-newest", required=True, type=Path)
    parser.add_argument("--burn-0.20", required=True, type=Path, dest="burn_old")
    parser.add_argument("--gpt2", required=True, type=Path, help="folder of GPT-2's vocab.json and merges.txt")
    parser.add_argument("--llama", required=True, type=Path, help="folder of llama.cpp's vocabularies and chat templates")
    parser.add_argument("--render-template", required=True, type=Path, help="the program that renders one")
    parser.add_argument("--c-rust", type=Path, help="the program in Rust that calls the C interface")
    parser.add_argument("--c-go", help="the one in Go; empty: there is no Go here")
    parser.add_argument("--libraries", type=Path, help="folder of libballast_c.so")
    parser.add_argument("--clients-python", type=Path, help="the Python that has the clients of tests/interop/serve")
    parser.add_argument("--clients-node", type=Path, help="a folder with those for Node and clients.mjs")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this one (may be repeated)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the files there")
    parser.add_argument("--verbose", action="store_true", help="show where an unexpected error came from")
    return parser.parse_args()


def versions():
    packages = ("numpy", "safetensors", "gguf", "netcl", "pyopencl", "tiktoken", "tokenizers", "sentencepiece",
                "huggingface-hub")
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def run_all(options, folder):
    ballast = Ballast(options.ballast.resolve())
    results = []
    for peer in options.peer or PEERS:
        begin = time.monotonic()
        suite = Suite(peer, ballast, folder / peer, results, options.verbose)
        extra = {"burn": (options.burn_newest, options.burn_old), "tiktoken": (options.gpt2,),
                 "llama": (options.llama,),
                 "c": (options.c_rust, options.c_go or None, options.libraries, ROOT / "models/default/model.gptrs"),
                 "serve": (options.clients_python, options.clients_node),
                 "templates": (options.render_template, options.llama / "templates", RECORDINGS)}.get(peer, ())
        # A peer that cannot even start (no OpenCL device, a broken package) is a failed case, not a skipped one.
        with suite.case("both", f"the {peer} cases ran to their end"):
            importlib.import_module(f"cases_{peer}").run(suite, *extra)
            suite.peer = peer
        print(f"---- {peer}: {time.monotonic() - begin:.1f} s", flush=True)
    return results


def main():
    options = arguments()
    print(f"interop: {versions()}", flush=True)
    if options.keep:
        results = run_all(options, options.keep)
    else:
        with tempfile.TemporaryDirectory(prefix="ballast-interop-") as folder:
            results = run_all(options, Path(folder))
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
