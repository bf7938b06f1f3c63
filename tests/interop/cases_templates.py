"""Chat templates of real models, as llama.cpp ships them, against what transformers made of them.

The templates are not ours to copy: they come with the source distribution of llama-cpp-python. A row names its template by
SHA-256; one that has changed upstream since it was recorded cannot be compared, and says so.
"""

import json
import subprocess

from harness import COMMAND_TIMEOUT_S, Mismatch, require, sha256

RAISED = "TemplateError: "


def context_of(conversation):
    return json.dumps({"bos_token": "<s>", "eos_token": "</s>", **conversation}, ensure_ascii=False)


def check(suite, program, path, row, conversation):
    context = suite.folder / "context.json"
    context.write_text(context_of(conversation), "utf-8")
    done = subprocess.run([program, path, context], capture_output=True, timeout=COMMAND_TIMEOUT_S)
    said = (done.stdout or done.stderr).decode()
    require(done.returncode in (0, 1), f"ended with {done.returncode}")
    if "expected" in row:
        require(done.returncode == 0, f"refused: {said}")
        if said != row["expected"]:
            at = next((i for i, (a, b) in enumerate(zip(said, row["expected"])) if a != b), min(len(said), len(row["expected"])))
            raise Mismatch(f"differs from character {at} on: {said[at:at + 40]!r} against {row['expected'][at:at + 40]!r}")
        return
    require(done.returncode == 1, f"rendered {said[:80]!r}, where transformers says {row['error']}")
    if row["error"].startswith(RAISED):
        require(said == row["error"][len(RAISED):], f"said {said!r}")


def run(suite, program, templates, data):
    rows = json.loads((data / "upstream_expected.json").read_text("utf-8"))
    conversations = json.loads((data / "conversations.json").read_text("utf-8"))
    compared = 0
    for row in rows:
        path = templates / row["template"]
        if not path.exists() or sha256(path.read_bytes()) != row["sha256"]:
            print(f"SKIP templates read {row['template']}: not the file that was recorded", flush=True)
            continue
        compared += 1
        with suite.case("read", f"{row['template']}: {row['conversation']}"):
            check(suite, program, path, row, conversations[row["conversation"]])
    with suite.case("read", f"at least half of the {len(rows)} recordings could be compared ({compared})"):
        require(compared * 2 >= len(rows), "the templates are other ones")
