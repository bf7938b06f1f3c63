"""The rows of the serving table: `ballast serve` beside llama-server, and what HTTP costs.

Both servers read the same GGUF file and get the same requests, whose prompts are lists of tokens: nothing depends on templates
or tokenizers. All servers of a group of rows are started before its first round, and each is stopped by a signal while
another one, or the client, has its turn. A round goes through all numbers of clients, and the servers take turns at each.
"""
import contextlib, http.client, json, os, random, signal, socket, statistics, subprocess, tempfile, time
from dataclasses import dataclass

from environment import CannotRun
from load_client import Ask, BrokenStream, LoadClient, percentile, read_stream
from published_table import tables_of, verdict_cells
from report import short
from serve_models import served_llama
from storage import both, judged
from token_texts import prose

SLOTS = 16
SLOT_CONTEXT = 1280  # of llama-server, which divides its cache by slots
PREFIX = 1000
PROSE_BYTES = 200_000
FLASH_ATTENTION = ("on", "off")
CHOOSING_TURNS, CHOOSING_CLIENTS = 2, 4
START_S = 120
OURS, PEER = "ballast", "llama.cpp"
# One greedy token; its other samplers would only cost it time.
PEER_EXTRA = {"samplers": ["top_k"], "top_k": 1}

THROUGHPUT, LATENCY, FIRST_TOKEN, HTTP_OVERHEAD = 1.2, 1.0, 0.5, 0.02
PAIRS_IN_A_ROUND = 4  # of turns of `ballast benchmark` and of the server
ONE_PROMPT, ONE_STEPS, WARMUP = 128, 64, 12
STREAMS, STREAM_TOKENS, STREAM_PROMPTS = 2000, 16, 20
MOST_PARALLEL = 1024  # that `ballast serve` allows

NO_PREFIX, KNOWN_PREFIX, NEW_PREFIX = "none", f"{PREFIX:,} tokens, used before", f"{PREFIX:,} tokens, new"


@dataclass(frozen=True)
class Cell:
    """One amount of work: how many clients, requests, and tokens that are each request's own, of prompt and answer."""
    prefix: str
    clients: int
    requests: int
    prompt: int
    tokens: int  # on average


SMALL_CELLS = (*(Cell(NO_PREFIX, clients, requests, 128, 32) for clients, requests in ((1, 4), (4, 12), (16, 32), (64, 96))),
               *(Cell(KNOWN_PREFIX, clients, requests, 32, 32) for clients, requests in ((1, 4), (4, 12), (16, 32), (64, 96))),
               Cell(NEW_PREFIX, 16, 16, 32, 16))
LARGE_CELLS = (*(Cell(prefix, clients, requests, 32, tokens)
                 for prefix in (NO_PREFIX, KNOWN_PREFIX)
                 for clients, requests, tokens in ((1, 3, 16), (4, 8, 16), (16, 24, 16), (64, 64, 8))),
               Cell(NEW_PREFIX, 4, 4, 32, 16))


# ---------------------------------------------------------------- the servers


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server that runs only while it has its turn."""

    def __init__(self, name, words, extra):
        self.name, self.extra, self.port = name, extra, free_port()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([*map(str, words(self.port))], stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        self.pause()

    def wait_until_ready(self):
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.ask("GET", "/health")[0] == 200:
                    return
            time.sleep(0.05)
        self.log.seek(0)
        raise CannotRun(f"{self.name} did not start:\n{self.log.read()[-2000:].decode(errors='replace')}")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
        try:
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def tokenize(self, text):
        with self.turn():
            status, answer = self.ask("POST", "/tokenize", {"content": text})
        if status != 200:
            raise CannotRun(f"{self.name} does not tokenize: {answer}")
        return answer["tokens"]

    @contextlib.contextmanager
    def turn(self):
        os.kill(self.process.pid, signal.SIGCONT)
        try:
            yield
        finally:
            self.pause()

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def load(self, asks, clients):
        with self.turn():
            return LoadClient(self.port, asks, clients, self.extra).run()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Programs:
    def __init__(self, program, peer, threads, cache, vocabulary):
        self.program, self.peer, self.threads, self.cache, self.vocabulary = program, peer, threads, cache, vocabulary

    def ballast(self, model, *flags):
        return Server(OURS, lambda port: [self.program, "serve", model, "--listen", f"127.0.0.1:{port}", "--threads", self.threads,
                                          "--log", "none", *(flags or ("--parallel", SLOTS))], {})

    def llama_server(self, model, flash_attention):
        return Server(PEER, lambda port: [self.peer, "-m", model, "--host", "127.0.0.1", "--port", port, "-t", self.threads, "-tb",
                                          self.threads, "-np", SLOTS, "-c", SLOTS * SLOT_CONTEXT, "-fa", flash_attention],
                      PEER_EXTRA)

    def smollm2(self):
        return subprocess.run([self.program, "get", "smollm2"], check=True, capture_output=True, text=True).stdout.strip()

    def llama(self):
        return served_llama(self.cache, self.vocabulary)


# ---------------------------------------------------------------- what is asked


def lengths(count, mean):
    """So many numbers from half the mean to one and a half, which they amount to: requests join and leave at any time."""
    return [mean // 2 + i * 7919 % (mean + 1) for i in range(count)]


class Prompts:
    """Pieces of English prose; each name gives its own, the same ones for every server."""

    def __init__(self, tokens):
        self.tokens = tokens

    def piece(self, name, length):
        begin = random.Random(name).randrange(len(self.tokens) - length)
        return tuple(self.tokens[begin:begin + length])

    def prefix(self, name):
        return self.piece(f"prefix {name}", PREFIX)

    def asks(self, name, cell, prefix=()):
        return [Ask(prefix + self.piece(f"{name} {i}", cell.prompt), tokens)
                for i, tokens in enumerate(lengths(cell.requests, cell.tokens))]


@dataclass(frozen=True)
class Figures:
    """Of one turn: tokens per second, the others in milliseconds."""
    rate: float
    first_p50: float
    first_p99: float
    gap_p50: float
    gap_p99: float
    client_share: float  # of one processor


def answers_of(load, asks):
    """All of them; raises where one is not what was asked for."""
    answers = [read_stream(stream) for stream in load.streams]
    for answer, ask in zip(answers, asks, strict=True):
        if answer.tokens != ask.tokens:
            raise BrokenStream(f"{ask.tokens} tokens were asked for, and {answer.tokens} came")
        if not isinstance(ask.prompt, str) and answer.prompt_tokens != len(ask.prompt):
            raise BrokenStream(f"a prompt of {len(ask.prompt)} tokens was read as one of {answer.prompt_tokens}")
    return answers


def figures_of(load, asks):
    answers = answers_of(load, asks)
    firsts = [answer.first_piece * 1e3 for answer in answers]
    gaps = [gap * 1e3 for answer in answers for gap in answer.gaps]
    return Figures(rate=sum(answer.tokens for answer in answers) / load.wall, first_p50=percentile(firsts, 0.5),
                   first_p99=percentile(firsts, 0.99), gap_p50=percentile(gaps, 0.5), gap_p99=percentile(gaps, 0.99),
                   client_share=load.client_cpu / load.wall)


# ---------------------------------------------------------------- the rows


class ServeRow:
    """What published_table.Bench asks of a row."""
    size = 0

    def __init__(self, work, threads):
        self.work, self.threads, self.results = work, threads, {}


def summary(turns):
    """Medians of all turns, and the best."""
    def of(name, best):
        values = [getattr(turn, name) for turn in turns]
        return {"median": statistics.median(values), "best": best(values)}
    return {"rate": of("rate", max), "turns": len(turns),
            **{name: of(name, min) for name in ("first_p50", "first_p99", "gap_p50", "gap_p99", "client_share")}}


def more_throughput(row):
    ratio = row.ratio("rate")
    return judged(f"throughput at least {THROUGHPUT} x", f"{ratio:.2f} x", ratio >= THROUGHPUT)


def less_latency(row):
    ratio = row.ratio("gap_p99")
    return judged(f"p99 between tokens at most {LATENCY:.1f} x", f"{ratio:.2f} x", ratio <= LATENCY)


def earlier_first_token(row):
    ratio = row.ratio("first_p50")
    return judged(f"first token at most {FIRST_TOKEN} x", f"{ratio:.2f} x", ratio <= FIRST_TOKEN)


class Load(ServeRow):
    """So many clients at a time, who read both servers' answers."""

    def __init__(self, group, cell):
        super().__init__(f"{group.model}, {cell.clients} client{'s'[:cell.clients > 1]}, prefix: {cell.prefix}", group.threads)
        self.group, self.cell, self.turns = group, cell, {OURS: [], PEER: []}
        self.target = both(more_throughput, less_latency)
        if cell.prefix != NO_PREFIX:
            self.target = both(self.target, earlier_first_token)

    def measure(self, rounds):
        self.group.measure(rounds)

    def conclude(self):
        self.results = {name: summary(turns) for name, turns in self.turns.items()}
        self.results[PEER]["flash_attention"] = self.group.flash_attention

    def median(self, program, name):
        return self.results[program][name]["median"]

    def ratio(self, name):
        return self.median(OURS, name) / self.median(PEER, name)

    def ours(self):
        return self.median(OURS, "gap_p50")

    def verdict(self):
        return self.target(self)

    def pair(self, program, first, second):
        return f"{short(self.median(program, first))} / {short(self.median(program, second))}"

    def cells(self):
        own, peer = self.results[OURS], self.results[PEER]
        return [self.group.model, self.cell.prefix, self.cell.clients,
                f"**{own['rate']['median']:.1f}**", f"{own['rate']['best']:.1f}",
                f"{peer['rate']['median']:.1f}", f"{peer['rate']['best']:.1f}",
                *(self.pair(name, "first_p50", "first_p99") for name in (OURS, PEER)),
                *(self.pair(name, "gap_p50", "gap_p99") for name in (OURS, PEER)),
                peer["flash_attention"], *verdict_cells(self)]


class Group:
    """The rows of one model and one kind of prefix, which are measured together."""

    def __init__(self, model, make_file, cells, programs):
        self.model, self.make_file, self.programs, self.threads = model, make_file, programs, programs.threads
        self.rows = [Load(self, cell) for cell in cells]
        self.flash_attention, self.servers, self.prompts = None, [], None

    def measure(self, rounds):
        if self.rows[0].results:
            return
        try:
            self.start()
            for number in range(rounds):
                for row in self.rows:
                    self.round(row, number)
        finally:
            for server in self.servers:
                server.stop()
        for row in self.rows:
            row.conclude()

    def start(self):
        path = self.make_file()
        self.servers.append(self.programs.ballast(path))
        self.prompts = Prompts(self.servers[0].tokenize(prose(PROSE_BYTES)))
        self.servers.append(self.faster_peer(path))
        if self.rows[0].cell.prefix == KNOWN_PREFIX:
            for server in self.servers:
                self.fill_slots(server)

    def faster_peer(self, path):
        """llama-server with flash attention or without, by the best of some turns."""
        cell = min((row.cell for row in self.rows), key=lambda cell: abs(cell.clients - CHOOSING_CLIENTS))
        rates = {}
        for flash_attention in FLASH_ATTENTION:
            server = self.programs.llama_server(path, flash_attention)
            try:
                turns = [self.turn(server, cell, f"choosing {i}", self.known_prefix()) for i in range(CHOOSING_TURNS + 1)]
                rates[flash_attention] = max(turn.rate for turn in turns[1:])
            finally:
                server.stop()
        self.flash_attention = max(rates, key=rates.get)
        return self.programs.llama_server(path, self.flash_attention)

    def known_prefix(self):
        return self.prompts.prefix("") if self.rows[0].cell.prefix == KNOWN_PREFIX else ()

    def fill_slots(self, server):
        """llama-server keeps the prefix for each slot; so each slot has to have seen it."""
        full = Cell(KNOWN_PREFIX, SLOTS, SLOTS, 32, 4)
        self.turn(server, full, "filling", self.known_prefix())

    def turn(self, server, cell, name, prefix):
        asks = self.prompts.asks(f"{self.model} {name}", cell, prefix)
        return figures_of(server.load(asks, cell.clients), asks)

    def round(self, row, number):
        cell, name = row.cell, f"{row.cell.clients} {number}"
        for server in self.servers if number % 2 == 0 else reversed(self.servers):
            prefix = self.known_prefix()
            if cell.prefix == NEW_PREFIX:
                prefix = self.prompts.prefix(name)
                self.turn(server, Cell(NEW_PREFIX, 1, 1, cell.prompt, 4), f"first of {name}", prefix)
            row.turns[server.name].append(self.turn(server, cell, name, prefix))


class HttpOverhead(ServeRow):
    """One stream beside the same number of steps without a server: times are those of a token."""

    def __init__(self, model, make_file, programs):
        super().__init__(f"{model}, HTTP overhead of one stream", programs.threads)
        self.model, self.make_file, self.programs = model, make_file, programs
        self.server_ms, self.benchmark_ms = [], []

    def measure(self, rounds):
        path = self.make_file()
        server = self.programs.ballast(path)
        try:
            prompts = Prompts(server.tokenize(prose(PROSE_BYTES)))
            self.over_http(server, prompts, "warm-up")
            for number in range(rounds * PAIRS_IN_A_ROUND):
                turns = [lambda: self.server_ms.append(self.over_http(server, prompts, number)),
                         lambda: self.benchmark_ms.append(self.without(path))]
                for turn in turns if number % 2 == 0 else reversed(turns):
                    turn()
        finally:
            server.stop()
        self.results = {name: {"median_ms": statistics.median(times), "best_ms": min(times), "runs": len(times)}
                        for name, times in (("ballast serve", self.server_ms), ("ballast benchmark", self.benchmark_ms))}

    def over_http(self, server, prompts, name):
        """Milliseconds of a token behind the first."""
        asks = [Ask(prompts.piece(f"one stream {name}", ONE_PROMPT), 1 + ONE_STEPS)]
        [answer] = answers_of(server.load(asks, 1), asks)
        return sum(answer.gaps) / (answer.tokens - 1) * 1e3

    def without(self, path):
        words = [self.programs.program, "benchmark", path, "--json", "--threads", self.threads, "--sequences", 1, "--rounds", 1,
                 "--prompt-tokens", ONE_PROMPT - WARMUP, "--warmup-tokens", WARMUP, "--max-tokens", ONE_STEPS]
        done = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
        [measure] = json.loads(done.stdout)["sequences"]
        return measure["step_seconds"] * 1e3

    def ours(self):
        return self.results["ballast serve"]["median_ms"]

    def overhead(self):
        """The median of what neighbouring turns say: the machine's speed moves more than HTTP costs."""
        return statistics.median(a / b for a, b in zip(self.server_ms, self.benchmark_ms)) - 1

    def verdict(self):
        return judged(f"less than {HTTP_OVERHEAD:.0%}", f"{self.overhead():+.1%}", self.overhead() < HTTP_OVERHEAD)

    def cells(self):
        serve, benchmark = self.results.values()
        return [self.model, f"**{serve['median_ms']:.2f}**", f"{serve['best_ms']:.2f}", f"{benchmark['median_ms']:.2f}",
                f"{benchmark['best_ms']:.2f}", serve["runs"], f"{self.overhead():+.1%}", *verdict_cells(self)]


class ManyStreams(ServeRow):
    """Streams of the built-in model that are all open at once, for nothing but that each is whole and right."""

    def __init__(self, model, make_file, programs):
        super().__init__(f"{model}, {STREAMS:,} streams at a time", programs.threads)
        self.model, self.make_file, self.programs = model, make_file, programs
        self.walls, self.errors, self.client_shares = [], [], []

    def measure(self, rounds):
        server = self.programs.ballast(self.make_file(), "--parallel", MOST_PARALLEL, "--queue", STREAMS)
        try:
            prompts = Prompts(server.tokenize(prose(PROSE_BYTES // 10)))
            kinds = [Ask(prompts.piece(f"stream {i}", 8), STREAM_TOKENS) for i in range(STREAM_PROMPTS)]
            alone = [answer.text for answer in answers_of(server.load(kinds, 1), kinds)]
            for _ in range(rounds):
                load = server.load(kinds * (STREAMS // STREAM_PROMPTS), STREAMS)
                self.walls.append(load.wall)
                self.client_shares.append(load.client_cpu / load.wall)
                self.errors += errors_of(load.streams, kinds, alone)
        finally:
            server.stop()
        self.results = {OURS: {"median_ms": statistics.median(self.walls) * 1e3, "best_ms": min(self.walls) * 1e3,
                               "runs": rounds, "errors": len(self.errors), "first_errors": self.errors[:5],
                               "client_share": statistics.median(self.client_shares)}}

    def ours(self):
        return self.results[OURS]["median_ms"]

    def verdict(self):
        return judged("no error", f"{len(self.errors)} errors", not self.errors)

    def cells(self):
        result = self.results[OURS]
        return [self.model, f"{STREAMS:,}", STREAM_TOKENS, len(self.errors), f"**{result['median_ms'] / 1e3:.1f}**", f"{result['best_ms'] / 1e3:.1f}",
                f"{STREAMS * STREAM_TOKENS / result['median_ms'] * 1e3:,.0f}", *verdict_cells(self)]


def errors_of(streams, kinds, alone):
    """What is wrong with the streams, whose prompts are `kinds` in turn, with the texts that each gets alone."""
    errors = []
    for number, stream in enumerate(streams):
        ask, text = kinds[number % len(kinds)], alone[number % len(kinds)]
        try:
            answer = read_stream(stream)
        except BrokenStream as error:
            errors.append(str(error))
            continue
        if answer.tokens != ask.tokens or answer.text != text:
            errors.append(f"stream {number} got {answer.text!r}, and alone {text!r}")
    return errors


class Serving:
    def __init__(self, program, peer, vocabulary, threads, cache, default_model):
        self.program, self.peer, self.vocabulary, self.threads, self.cache = program, peer, vocabulary, threads, cache
        self.default_model = default_model

    def rows(self, wanted=lambda work: True, is_quick=False):
        """Those whose name is wanted; of the others nothing is started."""
        for threads in self.threads:
            programs = Programs(self.program, self.peer, threads, self.cache, self.vocabulary)
            smollm2 = ("SmolLM2-135M q4_1", programs.smollm2)
            singles = (HttpOverhead(*smollm2, programs), ManyStreams("built-in", lambda: self.default_model, programs))
            groups = [Group(*model, [cell for cell in cells if cell.prefix == prefix], programs)
                      for model, cells in ((smollm2, SMALL_CELLS), (("Llama 3.2 1B q4_0", programs.llama), LARGE_CELLS))
                      for prefix in (NO_PREFIX, KNOWN_PREFIX, NEW_PREFIX)]
            for group in groups:
                group.rows = [row for row in group.rows if wanted(row.work)]
                if is_quick:
                    for row in group.rows:
                        row.cell = quick(row.cell)
                yield from group.rows
            yield from (row for row in singles if wanted(row.work))


def quick(cell):
    """As few requests as there are clients."""
    return Cell(cell.prefix, cell.clients, min(cell.requests, cell.clients), cell.prompt, cell.tokens)


# ---------------------------------------------------------------- the tables

LOAD_COLUMNS = ("model", "shared prefix", "clients", "ballast, tokens/s", "best", "llama-server, tokens/s", "best",
                "first token, p50 / p99 ms: ballast", "llama-server", "between tokens, p50 / p99 ms: ballast", "llama-server",
                "flash attention", "target", "reached")
OVERHEAD_COLUMNS = ("model", "`ballast serve`, ms per token", "best", "`ballast benchmark`, ms per token", "best", "turns",
                    "overhead", "target", "reached")
STREAM_COLUMNS = ("model", "streams", "tokens of each", "errors", "seconds", "best", "tokens/s", "target", "reached")


def table(rows):
    """One table of loads, one of HTTP's cost, one of many streams."""
    return tables_of(rows, ((Load, LOAD_COLUMNS), (HttpOverhead, OVERHEAD_COLUMNS), (ManyStreams, STREAM_COLUMNS)))
