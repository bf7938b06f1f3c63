"""The parts of scripts/bench_serve that need no model: reading streams, figures, verdicts and tables; and the client against a
server of a few lines."""

import json
import pathlib
import socket
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/interop")]
import serve
from load_client import Ask, BrokenStream, Load, LoadClient, Stream, events_of, percentile, read_stream

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(message):
    data = message if isinstance(message, str) else json.dumps(message)
    return f"data: {data}\n\n".encode()


def piece(text):
    return event({"choices": [{"index": 0, "text": text}]})


def usage(prompt, tokens):
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})


def stream(*arrivals, asked=0.0):
    return Stream(asked, list(arrivals))


def whole(times, asked=0.0, prompt=3, text="a"):
    """A stream with a piece at each of these moments, and its end with the last."""
    pieces = [(time, piece(text)) for time in times]
    return stream((times[0], HEAD), *pieces, (times[-1], usage(prompt, len(times)) + event("[DONE]")), asked=asked)


class Percentile(unittest.TestCase):
    def test_is_the_least_value_that_the_share_does_not_exceed(self):
        values = list(range(100, 0, -1))
        self.assertEqual([percentile(values, share) for share in (0, 0.5, 0.99, 1)], [1, 50, 99, 100])

    def test_of_one_value_is_that_value(self):
        self.assertEqual([percentile([7], share) for share in (0.5, 0.99)], [7, 7])

    def test_of_few_values_does_not_leave_out_the_largest(self):
        self.assertEqual(percentile([1, 2, 3, 400], 0.99), 400)


class Streams(unittest.TestCase):
    def refuses(self, broken, why):
        with self.assertRaises(BrokenStream) as caught:
            read_stream(broken)
        self.assertIn(why, str(caught.exception))

    def test_finds_events_that_arrive_cut_in_two_and_several_at_a_time(self):
        arrivals = [(1, b"data: a\n"), (2, b"\ndata"), (3, b": b\n\ndata: c\r\n\r\n")]
        self.assertEqual(events_of(arrivals), [(1, b"a"), (3, b"b"), (3, b"c")])

    def test_leaves_the_framing_by_chunks_out(self):
        self.assertEqual(events_of([(1, b"9\r\ndata: a\n\n\r\n0\r\n\r\n")]), [(1, b"a")])

    def test_measures_from_the_request_to_the_first_text_and_between_texts(self):
        answer = read_stream(stream((1, HEAD + piece("")), (2, piece("a")), (2.5, piece("b")), (4, piece("")),
                                    (5, usage(3, 4) + event("[DONE]")), asked=0.5))
        self.assertEqual((answer.first_piece, answer.gaps, answer.end), (1.5, [0.5], 5))
        self.assertEqual((answer.prompt_tokens, answer.tokens, answer.text), (3, 4, "ab"))

    def test_refuses_a_stream_that_ends_early(self):
        self.refuses(stream((1, HEAD + piece("a"))), "was cut")

    def test_refuses_a_status_other_than_200(self):
        self.refuses(stream((1, b"HTTP/1.1 429 Too Many Requests\r\n\r\n{}")), "429")

    def test_refuses_a_connection_that_says_nothing(self):
        self.refuses(stream(), "without an answer")

    def test_refuses_a_failed_connection_an_error_within_the_stream_and_one_without_usage_or_text(self):
        self.refuses(Stream(0, [], "reading the answer: reset"), "reset")
        self.refuses(stream((1, HEAD + event({"error": {"message": "out of memory"}}) + event("[DONE]"))), "out of memory")
        self.refuses(stream((1, HEAD + piece("a") + event("[DONE]"))), "how many tokens")
        self.refuses(stream((1, HEAD + usage(1, 0) + event("[DONE]"))), "no text")


class FewLines:
    """A server that answers each connection with the same bytes."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(1 << 16)
                head, body = request.split(b"\r\n\r\n", 1)
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                while len(body) < size:
                    body += connection.recv(1 << 16)
                self.requests.append(json.loads(body))
                connection.sendall(self.answer)


class Client(unittest.TestCase):
    def run_against(self, answer, asks, clients):
        server = FewLines(answer)
        self.addCleanup(server.listener.close)
        return LoadClient(server.port, asks, clients, {"top_k": 1}).run(), server

    def test_asks_everything_once_however_many_clients_there_are(self):
        for clients in (1, 3, 50):
            asks = [Ask((1, 2, number), 2) for number in range(10)]
            load, server = self.run_against(HEAD + piece("a") + piece("b") + usage(3, 2) + event("[DONE]"), asks, clients)
            self.assertEqual([read_stream(s).text for s in load.streams], ["ab"] * 10)
            self.assertCountEqual([request["prompt"][2] for request in server.requests], range(10))
            self.assertEqual(server.requests[0]["top_k"], 1)

    def test_sends_a_prompt_that_does_not_fit_into_the_socket_at_once(self):
        asks = [Ask("x" * (8 << 20), 1)]
        load, server = self.run_against(HEAD + piece("a") + usage(1, 1) + event("[DONE]"), asks, 1)
        read_stream(load.streams[0])
        self.assertEqual(len(server.requests[0]["prompt"]), 8 << 20)

    def test_reports_a_server_that_is_not_there(self):
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        [broken] = LoadClient(port, [Ask((1,), 1)], 1).run().streams
        with self.assertRaises(BrokenStream):
            read_stream(broken)


class Asking(unittest.TestCase):
    CELL = serve.Cell(serve.NO_PREFIX, 4, 33, 5, 16)

    def test_lengths_differ_and_have_the_mean_that_was_asked_for(self):
        lengths = serve.lengths(17, 16)
        self.assertEqual((min(lengths), max(lengths), sum(lengths)), (8, 24, 17 * 16))

    def test_prompts_are_the_same_for_the_same_name_and_differ_otherwise(self):
        prompts = serve.Prompts(list(range(100_000)))
        first = prompts.asks("a", self.CELL)
        self.assertEqual(first, prompts.asks("a", self.CELL))
        self.assertEqual(len({ask.prompt for ask in first + prompts.asks("b", self.CELL)}), 66)

    def test_a_prefix_comes_before_the_part_that_is_each_requests_own(self):
        prompts = serve.Prompts(list(range(100_000)))
        prefix = prompts.prefix("x")
        for ask in prompts.asks("a", self.CELL, prefix):
            self.assertEqual((len(ask.prompt), ask.prompt[:serve.PREFIX]), (serve.PREFIX + 5, prefix))

    def test_a_quick_run_has_as_many_requests_as_clients(self):
        self.assertEqual(serve.quick(self.CELL), serve.Cell(serve.NO_PREFIX, 4, 4, 5, 16))

    def test_every_cell_keeps_all_clients_busy_and_fits_into_a_slot(self):
        for cell in serve.SMALL_CELLS + serve.LARGE_CELLS:
            self.assertGreaterEqual(cell.requests, cell.clients)
            self.assertLess(serve.PREFIX + cell.prompt + 2 * cell.tokens, serve.SLOT_CONTEXT)


class FiguresOfATurn(unittest.TestCase):
    ASKS = [Ask((1, 2, 3), 3), Ask((4, 5, 6), 3)]

    def test_are_in_milliseconds_and_count_all_tokens(self):
        load = Load([whole([1, 1.1, 1.3]), whole([2, 2.1, 2.2], asked=1)], wall=2.0, client_cpu=0.5)
        figures = serve.figures_of(load, self.ASKS)
        self.assertEqual((figures.rate, figures.client_share), (3, 0.25))
        self.assertEqual([round(value) for value in (figures.first_p50, figures.first_p99, figures.gap_p50, figures.gap_p99)],
                         [1000, 1000, 100, 200])

    def test_are_refused_where_tokens_or_prompts_are_not_those_that_were_asked_for(self):
        for short in (whole([1, 2]), whole([1, 2, 3], prompt=4)):
            with self.assertRaises(BrokenStream):
                serve.figures_of(Load([whole([1, 2, 3]), short], 1, 0), self.ASKS)


def turn(rate=10.0, first=100.0, gap=20.0):
    return serve.Figures(rate, first, 2 * first, gap / 2, gap, 0.01)


def concluded(cell, ours, peers):
    group = serve.Group("M", None, [cell], serve.Programs(None, None, 2, None, None))
    group.flash_attention = "off"
    row = group.rows[0]
    row.turns = {serve.OURS: ours, serve.PEER: peers}
    row.conclude()
    return row


class Verdicts(unittest.TestCase):
    PLAIN, SHARED = (serve.Cell(prefix, 4, 8, 32, 16) for prefix in (serve.NO_PREFIX, serve.KNOWN_PREFIX))

    def test_medians_decide(self):
        row = concluded(self.PLAIN, [turn(rate=9), turn(rate=12), turn(rate=30)], [turn(rate=10)] * 3)
        self.assertEqual((row.ratio("rate"), row.verdict()[2]), (1.2, True))

    def test_throughput_and_latency_must_both_be_met(self):
        for ours, met in ((turn(12, gap=20), True), (turn(11.9, gap=20), False), (turn(12, gap=20.1), False)):
            self.assertEqual(concluded(self.PLAIN, [ours], [turn()]).verdict()[2], met)

    def test_the_first_token_counts_only_with_a_shared_prefix(self):
        late, early = turn(12, first=51), turn(12, first=50)
        self.assertTrue(concluded(self.PLAIN, [late], [turn()]).verdict()[2])
        self.assertFalse(concluded(self.SHARED, [late], [turn()]).verdict()[2])
        self.assertTrue(concluded(self.SHARED, [early], [turn()]).verdict()[2])

    def test_overhead_is_the_median_of_pairs(self):
        row = serve.HttpOverhead("M", None, serve.Programs(None, None, 2, None, None))
        row.server_ms, row.benchmark_ms = [10.1, 20.2, 50], [10, 20, 10]
        self.assertAlmostEqual(row.overhead(), 0.01)
        self.assertTrue(row.verdict()[2])

    def test_a_stream_that_is_cut_or_has_anothers_text_is_an_error(self):
        kinds = [Ask("x", 2), Ask("y", 2)]
        good = [whole([1, 2], text=text) for text in "xy"]
        self.assertEqual(serve.errors_of(good * 2, kinds, ["xx", "yy"]), [])
        bad = [good[1], stream((1, HEAD + piece("x")))]
        self.assertEqual(len(serve.errors_of(good + bad, kinds, ["xx", "yy"])), 2)


class Tables(unittest.TestCase):
    def test_every_line_has_a_cell_for_every_column(self):
        load = concluded(Verdicts.SHARED, [turn(rate=9)], [turn()])
        overhead = serve.HttpOverhead("M", None, load.group.programs)
        overhead.server_ms = overhead.benchmark_ms = [10.0]
        overhead.results = {name: {"median_ms": 10, "best_ms": 9, "runs": 1} for name in ("serve", "benchmark")}
        streams = serve.ManyStreams("M", None, load.group.programs)
        streams.results = {serve.OURS: {"median_ms": 2000, "best_ms": 1000, "runs": 1}}
        text = serve.table([load, overhead, streams])
        for part in text.strip().split("\n\n"):
            self.assertEqual(len({line.count("|") for line in part.splitlines()}), 1, part)
        self.assertEqual(text.count("**missed**"), 1)
        self.assertIn("0.90 x", text)

    def test_kinds_of_rows_that_were_not_measured_have_no_table(self):
        self.assertNotIn("\n\n", serve.table([concluded(Verdicts.PLAIN, [turn()], [turn()])]))


class Selecting(unittest.TestCase):
    def rows(self, *arguments):
        return list(serve.Serving("b", "p", "v", [2], None, "m").rows(*arguments))

    def test_all_rows_have_different_names(self):
        names = [row.work for row in self.rows()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), len(serve.SMALL_CELLS) + len(serve.LARGE_CELLS) + 2)

    def test_a_group_measures_only_the_rows_that_are_wanted(self):
        rows = self.rows(lambda work: "SmolLM2" in work and " 16 clients, prefix: none" in work)
        self.assertEqual([row.work for row in rows], ["SmolLM2-135M q4_1, 16 clients, prefix: none"])
        self.assertEqual(rows[0].group.rows, rows)


if __name__ == "__main__":
    unittest.main()
