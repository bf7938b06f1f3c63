"""Programs that stay loaded in processes of their own and take turns.

Everything that is compared runs in a process of its own, which sleeps (SIGSTOP) while it is not its turn: no thread that
waits busily, no allocator and no library of one program disturbs another.
"""
import ctypes, json, os, signal, subprocess, sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent


class WorkerFailed(Exception):
    """The text says which program failed, and how."""


def end_with_parent():
    """A process that is stopped would not notice the end of its input."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


class Process:
    """A process that answers each line with a line of JSON."""

    def __init__(self, name, words, environment={}):
        self.name = name
        self.process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment}, preexec_fn=end_with_parent)

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries print what they like
                answer = json.loads(line)
                if "failed" in answer:
                    raise WorkerFailed(f"{self.name}: {answer['failed']}")
                return answer
        raise WorkerFailed(f"{self.name} ended with {self.process.wait()}")

    def ask(self, line):
        self.resume()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerFailed(f"{self.name} ended with {self.process.wait()}") from None
        answer = self.read()
        self.pause()
        return answer

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        self.resume()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended, with a request unread
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class PeerWorker(Process):
    """A peer of peers.programs, in the Python of this process."""

    def __init__(self, peer, work, setting):
        threads = str(work["threads"])
        super().__init__(peer.name, [sys.executable, "-B", "-m", "peers.worker", peer.__module__, peer.__name__],
                         {"PYTHONPATH": str(BENCH), "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
                          "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"})
        self.setting, self.keeps = setting, getattr(peer, "keeps", None)
        try:
            self.request("open", work=work, setting=setting)
        except BaseException:
            self.close()
            raise

    def request(self, what, **values):
        return self.ask(json.dumps({"do": what, **values}))

    def turn(self):
        return self.request("turn")

    def output(self, *given):
        return self.request("output", given=given)["output"]


def serve(module, name):
    """The other end: makes the peer and does what it is asked."""
    import importlib
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    peer = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "open":
                peer = getattr(importlib.import_module(module), name)(request["work"], request["setting"])
                answer = {}
            elif request["do"] == "turn":
                answer = peer.turn()
            else:
                answer = {"output": peer.output(*request["given"])}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:])
