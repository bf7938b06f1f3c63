"""Streams of answers from a server of OpenAI's API, and when each piece of them arrived.

One thread, plain sockets and the standard library: client and server share the machine, so while a load runs the client only
notes what came when, and reads it afterwards.
"""
import json, math, resource, selectors, socket, time
from dataclasses import dataclass, field

EVENT = b"data: "
DONE = b"[DONE]"
READ_BYTES = 1 << 16
SILENCE_S = 120  # after which a load is given up


class BrokenStream(Exception):
    """What is wrong with an answer."""


@dataclass(frozen=True)
class Ask:
    """One request: its prompt, as tokens or as text, and how many more tokens are wanted."""
    prompt: tuple | str
    tokens: int


@dataclass
class Stream:
    """One answer: when it was asked for, and what arrived when."""
    asked: float
    arrivals: list = field(default_factory=list)  # (time, bytes)
    error: str = ""

    def head_and_events(self):
        """The answer's first line, and the moment and text of each event."""
        received = b"".join(data for _, data in self.arrivals)
        head, _, _ = received.partition(b"\r\n\r\n")
        return head.split(b"\r\n")[0].decode("latin-1"), events_of(self.arrivals)


@dataclass
class Answer:
    """A stream that was read: times in seconds."""
    first_piece: float  # after the request
    end: float          # a moment
    gaps: list          # between two pieces
    prompt_tokens: int
    tokens: int
    text: str


# ---------------------------------------------------------------- reading what arrived


def events_of(arrivals):
    """(moment, data) of each event. Framing by chunks is left out of account: its lines are not those of events."""
    events, rest = [], b""
    for moment, data in arrivals:
        *lines, rest = (rest + data).split(b"\n")
        events += [(moment, line[len(EVENT):].rstrip(b"\r")) for line in lines if line.startswith(EVENT)]
    return events


def read_stream(stream):
    """The answer; raises BrokenStream for one that failed or is not whole."""
    if stream.error:
        raise BrokenStream(stream.error)
    status, events = stream.head_and_events()
    if not status.startswith("HTTP/1.1 200"):
        raise BrokenStream(status or "the connection was closed without an answer")
    if not events or events[-1][1] != DONE:
        raise BrokenStream("the stream was cut")
    pieces, texts, usage = [], [], None
    for moment, data in events[:-1]:
        message = json.loads(data)
        if "error" in message:
            raise BrokenStream(str(message["error"]))
        usage = message.get("usage") or usage
        text = "".join(choice["text"] for choice in message["choices"])
        if text:
            pieces.append(moment)
            texts.append(text)
    if usage is None:
        raise BrokenStream("the stream does not say how many tokens it has")
    if not pieces:
        raise BrokenStream("the stream has no text")
    return Answer(first_piece=pieces[0] - stream.asked, end=events[-1][0], gaps=[b - a for a, b in zip(pieces, pieces[1:])],
                  prompt_tokens=usage["prompt_tokens"], tokens=usage["completion_tokens"], text="".join(texts))


def percentile(values, share):
    """The least value that so large a share of all does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


# ---------------------------------------------------------------- asking


def request_bytes(port, ask, extra):
    body = json.dumps({"prompt": ask.prompt, "max_tokens": ask.tokens, "temperature": 0, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}, **extra}).encode()
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n")
    return head.encode() + body


def allow_open_files(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


@dataclass
class Load:
    """What came of a load: its streams, how long it took, and the processor time that this client used."""
    streams: list
    wall: float
    client_cpu: float


class LoadClient:
    """So many clients at a time, each of which asks again as soon as it has an answer, until everything was asked."""

    def __init__(self, port, asks, clients, extra=None):
        self.port = port
        self.requests = [request_bytes(port, ask, extra or {}) for ask in asks]
        self.clients = clients
        self.selector = selectors.DefaultSelector()
        self.streams, self.open = [], 0

    def run(self):
        allow_open_files(self.clients + 64)
        begin, cpu = time.perf_counter(), time.process_time()
        while len(self.streams) < min(self.clients, len(self.requests)):
            self.ask_next()
        while self.open:
            ready = self.selector.select(SILENCE_S)
            if not ready:
                raise BrokenStream(f"nothing came for {SILENCE_S} s, and {self.open} streams are open")
            for key, _ in ready:
                key.data(key.fileobj)
        self.selector.close()
        return Load(self.streams, time.perf_counter() - begin, time.process_time() - cpu)

    def ask_next(self):
        if len(self.streams) == len(self.requests):
            return
        request = self.requests[len(self.streams)]
        connection = socket.socket()
        connection.setblocking(False)
        stream = Stream(asked=time.perf_counter())
        self.streams.append(stream)
        self.open += 1
        connection.connect_ex(("127.0.0.1", self.port))
        self.selector.register(connection, selectors.EVENT_WRITE, lambda s: self.write(s, stream, request))

    def write(self, connection, stream, request):
        try:
            sent = connection.send(request)
        except OSError as error:
            return self.close(connection, stream, f"sending the request: {error}")
        if sent < len(request):
            self.selector.modify(connection, selectors.EVENT_WRITE, lambda s: self.write(s, stream, request[sent:]))
        else:
            self.selector.modify(connection, selectors.EVENT_READ, lambda s: self.read(s, stream))

    def read(self, connection, stream):
        try:
            data = connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            return self.close(connection, stream, f"reading the answer: {error}")
        if data:
            stream.arrivals.append((time.perf_counter(), data))
        else:
            self.close(connection, stream)

    def close(self, connection, stream, error=""):
        stream.error = error
        self.selector.unregister(connection)
        connection.close()
        self.open -= 1
        self.ask_next()
