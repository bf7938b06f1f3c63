"""The licences of what a wheel holds besides our own code: libraries that auditwheel bundles, and code that is compiled in.

They come from the packages that the libraries are installed from, and go into the wheel's .dist-info/licenses/third_party.
Where one refers to the Apache License 2.0 of the system, its text is our own LICENSE, one folder above."""
import base64, hashlib, zipfile
from pathlib import Path

from environment import CannotRun

FOLDER = "licenses/third_party"
# How the file of a bundled library begins, and the package with its licence.
BUNDLED = {
    "libcrypto": "libssl-dev",
    "libfmt": "libfmt-dev",
    "libhwy": "libhwy-dev",
    "libpcre2-8": "libpcre2-dev",
    "libutf8proc": "libutf8proc-dev",
}
# Compiled into the module, besides nanobind and its robin_map. Of several packages one is installed (see scripts/bootstrap).
COMPILED_IN = {"blake3": ["libblake3-dev", "librust-blake3-dev"], "toml11": ["libtoml11-dev"]}


def licence_of(*packages):
    for package in packages:
        path = Path("/usr/share/doc") / package / "copyright"
        if path.exists():
            return path.read_bytes()
    raise CannotRun(f"the licence of {' or '.join(packages)} is not installed; scripts/bootstrap installs it")


def opening_comment(header):
    """Of a C++ header: where its licence stands, if it comes without a file for that."""
    text = header.read_text()
    if not text.startswith("/*") or "*/" not in text:
        raise CannotRun(f"{header} does not begin with a comment that has its licence")
    lines = text[: text.index("*/")].removeprefix("/*").split("\n")
    return "\n".join(line.strip().lstrip("*").strip() for line in lines).strip().encode() + b"\n"


def licences_for(libraries, environment):
    """{name: text}; that of a bundled library has the name with which its file begins."""
    licences = {name: licence_of(*packages) for name, packages in COMPILED_IN.items()}
    for library in libraries:
        name = next((name for name in BUNDLED if library.startswith(name)), None)
        if name is None:
            raise CannotRun(f"{library} is bundled, but scripts/wheels/licences.py does not say what its licence is")
        licences[name] = licence_of(BUNDLED[name])
    nanobind, = environment.glob("lib/python3*/site-packages/nanobind-*.dist-info/licenses/LICENSE")
    # What nanobind compiles in, which its own licence does not mention.
    robin_map, = environment.glob("lib/python3*/site-packages/nanobind/ext/robin_map/include/tsl/robin_map.h")
    return {**licences, "nanobind": nanobind.read_bytes(), "robin_map": opening_comment(robin_map)}


def add_licences(wheel, environment):
    """Writes the wheel anew, with the licences of everything that is in it."""
    made = wheel.with_suffix(".partial")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        # auditwheel lists folders, too.
        libraries = [name.split("/", 1)[1] for name in old.namelist() if name.startswith("ballast.libs/") and not name.endswith("/")]
        record, = (entry for entry in old.infolist() if entry.filename.endswith(".dist-info/RECORD"))
        for entry in old.infolist():
            if entry is not record:
                new.writestr(entry, old.read(entry))
        lines = old.read(record).decode().splitlines()
        for name, text in sorted(licences_for(libraries, environment).items()):
            path = record.filename.replace("RECORD", f"{FOLDER}/{name}.txt")
            digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
            lines.append(f"{path},sha256={digest},{len(text)}")
            new.writestr(zipfile.ZipInfo(path, record.date_time), text, zipfile.ZIP_DEFLATED)
        new.writestr(record, "\n".join(lines) + "\n")
    made.replace(wheel)
