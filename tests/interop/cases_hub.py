"""huggingface_hub: one cache for both programs. Each downloads from the hub of tests/hub and uses what the other downloaded."""

import json
import os
import subprocess
import sys
from pathlib import Path

from harness import COMMAND_TIMEOUT_S, require

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "hub"))
from hub_server import Hub, Repository

WEIGHTS = (Path(__file__).resolve().parent.parent / "data/safetensors/reference.safetensors").read_bytes()
NAME = "org/small-model"

# A process of its own each time: the package reads its settings once, when it is imported.
CLIENT = """
import json, sys
import huggingface_hub as hub
name, what = sys.argv[1:3]
if what == "snapshot":
    said = hub.snapshot_download(name)
elif what == "file":
    said = hub.hf_hub_download(name, sys.argv[3], revision=sys.argv[4])
elif what == "local":
    said = hub.try_to_load_from_cache(name, sys.argv[3], revision=sys.argv[4])
else:
    found = hub.scan_cache_dir()
    said = {"warnings": [str(warning) for warning in found.warnings], "models": {
        repository.repo_id: {revision.commit_hash: {"files": {file.file_name: file.size_on_disk for file in revision.files},
                                                    "refs": sorted(revision.refs)} for revision in repository.revisions}
        for repository in found.repos}}
print(json.dumps(said))
"""


def small_model():
    files = {"README.md": b"# words\n", "config.json": b'{"model_type": "none"}', "tokenizer.json": b"{}",
             "1_Pooling/config.json": b"{}", "model.safetensors": WEIGHTS}
    repository = Repository(files, large=["model.safetensors"])
    repository.revisions["v1.0"] = repository.commit
    return repository


class Programs:
    def __init__(self, suite, hub, cache):
        variables = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        self.environment = {**variables, "HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(cache), "no_proxy": "*",
                            "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        self.ballast = suite.ballast.program

    def run(self, *command):
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=self.environment,
                             timeout=COMMAND_TIMEOUT_S)
        require(run.returncode == 0, run.stdout + run.stderr)
        return run.stdout

    def get(self, name, *flags):
        return json.loads(self.run(self.ballast, "get", name, "--json", *flags))

    def client(self, *words):
        return json.loads(self.run(sys.executable, "-c", CLIENT, NAME, *words))


def tree(cache):
    """Every path, with what a link points to or a file holds; locks and listings are each program's own."""
    folder = cache / "models--org--small-model"
    return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
            for path in sorted(folder.rglob("*")) if (path.is_symlink() or path.is_file()) and "trees" not in path.parts}


def run(suite):
    folders = {kind: suite.folder / kind for kind in ["theirs", "ours", "file"]}
    with Hub({NAME: small_model()}) as hub:
        with suite.case("both", "the same files, links and references in the cache"):
            theirs, ours = Programs(suite, hub, folders["theirs"]), Programs(suite, hub, folders["ours"])
            theirs.client("snapshot")
            ours.get(NAME, "--all")
            require(tree(folders["theirs"]) == tree(folders["ours"]),
                    f"{sorted(tree(folders['theirs']))} and {sorted(tree(folders['ours']))}")
        with suite.case("read", "what huggingface_hub downloaded is not downloaded again"):
            hub.requests.clear()
            said = theirs.get(NAME)
            require(said["downloaded_bytes"] == 0 and not hub.gets("/resolve/"), f"{said}, {hub.gets()}")
            require("snapshots" in theirs.run(suite.ballast.program, "inspect", NAME), "the name is not known")
        with suite.case("write", "what Ballast downloaded is not downloaded again"):
            hub.requests.clear()
            path = ours.client("snapshot")
            require(not hub.gets("/resolve/") and not hub.gets("/store/"), f"{hub.gets()}")
            require((Path(path) / "1_Pooling/config.json").read_bytes() == b"{}", path)
        with suite.case("write", "a file of a tag is found without the hub"):
            one = Programs(suite, hub, folders["file"])
            path = one.get(f"{NAME}@v1.0:config.json")["path"]
            require(one.client("local", "config.json", "v1.0") == path, path)
        with suite.case("read", "a file of a tag is found without the hub"):
            said = one.client("file", "tokenizer.json", "v1.0")
            one.environment["HF_HUB_OFFLINE"] = "1"
            require(one.get(f"{NAME}@v1.0:tokenizer.json")["path"] == said, said)
        with suite.case("write", "huggingface_hub's own look at the cache finds nothing amiss"):
            found = ours.client("scan")
            revision = found["models"][NAME]["a" * 40]
            require(not found["warnings"] and revision["refs"] == ["main"] and len(revision["files"]) == 4, f"{found}")
        with suite.case("write", "`ballast cache verify` finds every blob to be what its name says"):
            require("sound" in ours.run(suite.ballast.program, "cache", "verify"), "not sound")
