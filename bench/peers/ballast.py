"""Ballast's side: the programs of build/bin that take turns beside the peers."""
import json, statistics, subprocess, tempfile, time
from pathlib import Path

from .worker import Process


class Programs:
    """What was built, and the crates, which are built when they are first asked for."""

    def __init__(self, build, crate):
        self.folder, self.build_crate, self.built_crate = Path(build).resolve() / "bin", crate, None

    def __getitem__(self, name):
        return self.folder / name

    @property
    def crate(self):
        if self.built_crate is None:
            self.built_crate = self.build_crate()
        return self.built_crate


class Model(Process):
    """A loaded model; `command` is its turn."""
    setting = ""

    def __init__(self, programs, work, command, budget=0):
        words = [programs["model_worker"], work["path"], work["threads"], *([budget] if budget else [])]
        super().__init__("ballast", words)
        self.command, self.loaded = command, self.read()
        self.pause()

    def turn(self):
        return self.ask(self.command)

    def output(self, command):
        """(answer, numbers) of a command that stores numbers in a file, whose name goes to its end."""
        import numpy
        with tempfile.NamedTemporaryFile(suffix=".f32") as file:
            answer = self.ask(f"{command} {file.name}")
            return answer, numpy.fromfile(file.name, numpy.float32)


class EachTime:
    """A program that runs once for each turn: `words` gives its command line, `before` prepares it."""
    setting = ""

    def __init__(self, words, before=lambda: None, whole_process=False):
        self.words, self.before, self.whole_process = list(map(str, words)), before, whole_process
        self.last = {}

    def turn(self):
        self.before()
        start = time.perf_counter()
        done = subprocess.run(self.words, check=True, stdout=subprocess.PIPE, text=True)
        if self.whole_process:
            return {"ms": (time.perf_counter() - start) * 1e3}
        self.last = json.loads(done.stdout)
        return {"ms": statistics.median(self.last["times_ms"])}

    def output(self):
        """What the program prints beside times."""
        if not self.last:
            self.turn()
        return self.last

    def close(self):
        pass


class FirstAnswer:
    """Loads the model in a fresh process for each turn: time of loading and of the first answer."""
    setting = ""

    def __init__(self, programs, work, command):
        self.programs, self.work, self.command = programs, work, command

    def turn(self):
        model = Model(self.programs, self.work, self.command)
        try:
            return {"ms": model.loaded["load_ms"] + model.turn()["ms"]}
        finally:
            model.close()

    def close(self):
        pass
