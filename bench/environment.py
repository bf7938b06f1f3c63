"""The Python environments and caches of the scripts, made once and kept outside the tree."""
import hashlib, json, os, platform, shutil, subprocess, sys
from pathlib import Path


class CannotRun(Exception):
    """The text says what is missing."""


def cache_folder(name):
    base = os.environ.get("BALLAST_CACHE")
    if not base:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ballast"
    folder = Path(base) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key_of(*parts):
    """Names a thing by what it is made from, so that a change makes a new one and nothing stale is ever used."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.read_bytes())
    return digest.hexdigest()[:16]


def run_logged(words, log, what, **options):
    print(f"{Path(sys.argv[0]).name}: {what}", file=sys.stderr)
    with open(log, "wb") as output:
        if subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, **options).returncode != 0:
            raise CannotRun(f"{what} failed; see {log}")


def pins(requirements):
    """What these files name; comments and the order of lines install nothing."""
    lines = (line.split(" #", 1)[0].strip() for file in requirements for line in file.read_text().splitlines())
    return sorted({line for line in lines if line and not line.startswith("#")})


def environment_folder(cache, version, requirements, from_source, variables):
    """Named by all that makes an environment what it is."""
    made_of = json.dumps([version, pins(requirements), sorted(from_source), variables], sort_keys=True)
    return cache / f"venv-{key_of(made_of.encode())}"


def make_environment(cache, *requirements, python=sys.executable, from_source=(), variables={}):
    """The folder of an environment of this Python with the packages of these files, which is made first where it is missing.

    Those of `from_source` are compiled, with these environment variables."""
    version = subprocess.check_output([python, "-c", "import sys; print(sys.version, end='')"], text=True)
    venv = environment_folder(cache, version, requirements, from_source, variables)
    if not (venv / "complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        run_logged([python, "-m", "venv", venv], cache / "venv.log", "making the Python environment")
        sources = [word for name in from_source for word in ("--no-binary", name)]
        files = [word for file in requirements for word in ("-r", file)]
        # Bytecode is written for what is imported, not for gigabytes of packages.
        run_logged([venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary", ":all:",
                    *sources, *files],
                   cache / "venv.log", f"installing what {' and '.join(file.name for file in requirements)} names",
                   env={**os.environ, **variables})
        (venv / "complete").touch()
    return venv


def enter_environment(cache, *requirements, from_source=(), variables={}):
    """Goes on in the Python that has the packages."""
    if Path(sys.prefix) == environment_folder(cache, sys.version, requirements, from_source, variables):
        return
    if sys.version_info < (3, 11):
        raise CannotRun("the pinned NumPy needs Python 3.11 or newer")
    venv = make_environment(cache, *requirements, from_source=from_source, variables=variables)
    os.execv(venv / "bin/python", [str(venv / "bin/python"), "-B", *sys.argv])


def machine():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "cores": os.cpu_count(), "system": platform.release()}


def replace_between(page, begin, end, text):
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + text + end + rest.split(end, 1)[1])
