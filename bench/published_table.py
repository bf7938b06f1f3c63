"""A script that measures rows in rounds: options, the environment of the peers, and the table in docs/."""
import argparse, json, os, sys
from pathlib import Path

from environment import CannotRun, cache_folder, enter_environment, machine, replace_between

ROOT = Path(__file__).resolve().parent.parent
IDLE_LOAD = 0.5


class Bench:
    """One such script. `rows(options, program)` gives the rows, `table(rows)` is their text, `prepare()` makes what else is
    measured, `threads` are the default. `quick` says what --quick leaves out; empty: there is no such option."""

    def __init__(self, name, description, program, cache, requirements, rows, table, prepare, threads, quick="", **environment):
        self.name, self.description, self.rows, self.table, self.prepare = name, description, rows, table, prepare
        self.threads, self.quick = list(threads), quick
        self.program, self.cache, self.requirements, self.environment = program, cache, ROOT / requirements, environment
        self.script = f"bench_{name}"

    def say(self, text):
        print(f"{self.script}: {text}", file=sys.stderr)

    def parse_options(self):
        parser = argparse.ArgumentParser(description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--rounds", type=int, default=5, help="turns of everyone in each row (default 5)")
        parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=self.threads,
                            help=f"numbers of threads (default {','.join(map(str, self.threads))})")
        parser.add_argument("--only", help="only rows whose name contains this")
        parser.add_argument("--build", default=str(ROOT / "build"), help="where Ballast was built (default: build)")
        parser.add_argument("--publish", action="store_true", help="put the table into docs/")
        if self.quick:
            parser.add_argument("--quick", action="store_true", help=self.quick)
        options = parser.parse_args()
        if options.publish and (options.rounds < 5 or options.only or (self.quick and options.quick)):
            raise CannotRun("what is published has all rows, of at least 5 rounds")
        return options

    def measure(self, options, program):
        import report
        measured = []
        for row in self.rows(options, program):
            if options.only and options.only.lower() not in row.work.lower():
                continue
            row.measure(options.rounds)
            measured.append(row)
            text, reached, met = row.verdict()
            self.say(f"{row.work}, {row.threads} threads: {report.short(row.ours())} ms"
                     + (f"; {text}: {'met' if met else 'MISSED'}, {reached}" if text else ""))
        return measured

    def write(self, options, load, rows):
        import report
        text = self.table(rows)
        output = Path(options.build) / "bench"
        output.mkdir(exist_ok=True)
        (output / f"{self.name}.md").write_text(text)
        (output / f"{self.name}.json").write_text(json.dumps(
            {"machine": machine(), "load_before": load, "peers": self.requirements.read_text().splitlines(),
             "rounds": options.rounds, "rows": [report.as_json(row) for row in rows]}, indent=1) + "\n")
        if options.publish:
            replace_between(ROOT / "docs/performance.md", f"<!-- table: scripts/{self.script} --publish -->\n",
                            "<!-- end of table -->\n", text)
        print(text)

    def run(self):
        options = self.parse_options()
        program = Path(options.build) / "bin" / self.program
        if not os.access(program, os.X_OK):
            raise CannotRun(f"there is no program {program}; run: make {self.script.replace('_', '-')}")
        enter_environment(cache_folder(self.cache), self.requirements, **self.environment)
        self.prepare()
        load = os.getloadavg()[0]
        if load > IDLE_LOAD and options.publish:
            raise CannotRun(f"the load is {load:.2f}: times of a busy machine are not for publishing")
        if load > IDLE_LOAD:
            self.say(f"others are using this machine (load {load:.1f}): the figures will be wrong")
        self.write(options, load, self.measure(options, program.resolve()))

    def main(self):
        try:
            self.run()
        except CannotRun as error:
            sys.exit(f"{self.script}: {error}")


def verdict_cells(row):
    text, reached, met = row.verdict()
    return [text, f"{'met' if met else '**missed**'}: {reached}"]


def lines_of(columns, rows):
    if not rows:
        return []
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (columns, *(row.cells() for row in rows))]
    return [lines[0], "|---" * len(columns) + "|", *lines[1:]]


def tables_of(rows, kinds):
    """A table for each kind of rows that there are; `kinds` are pairs of a class and its columns."""
    parts = (lines_of(columns, [row for row in rows if isinstance(row, kind)]) for kind, columns in kinds)
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"
