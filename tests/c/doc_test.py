"""doc_test.py DOCUMENT ROOT LIBRARY_FOLDER MODELS: compiles and runs the programs of a document as a reader would.

A block of C begins with the name of its file. In blocks of console, what follows `$ ` is run, and what it prints must be
what is shown; `...` stands for anything."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

document, root, libraries, models = map(pathlib.Path, sys.argv[1:])
text = document.read_text(encoding="utf-8")

PKG_CONFIG = """Name: ballast-c
Description: the one of this tree
Version: 0
Cflags: -I{root}/include
Libs: -L{libraries} -lballast_c
"""


def prepare(folder):
    """The files that the document speaks of."""
    (folder / "ballast-c.pc").write_text(PKG_CONFIG.format(root=root, libraries=libraries))
    links = {"weights.safetensors": root / "tests/data/safetensors/reference.safetensors",
             "model.gptrs": root / "models/default/model.gptrs", "tokenizer.json": root / "models/default/tokenizer.json",
             "bert": models / "bert", "digits": root / "models/digits", "mobilenet_v2.gptrs": models / "mobilenet_v2.gptrs"}
    for name, target in links.items():
        (folder / name).symlink_to(target)
    for block in re.findall(r"^```c\n(.*?)^```", text, re.S | re.M):
        name = re.match(r"// ([\w.]+)", block)
        if name is None:
            sys.exit(f"{document}: this block of C does not begin with the name of its file:\n{block[:200]}")
        (folder / name[1]).write_text(block)


def matches(shown, printed):
    pattern = ".*".join(re.escape(part) for part in shown.rstrip("\n").split("..."))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.S) is not None


def sessions():
    """(command, what it prints), in order."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.S | re.M):
        for command, shown in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", block, re.M):
            yield command, shown


def main():
    commands = 0
    with tempfile.TemporaryDirectory(prefix="ballast-doc-") as name:
        folder = pathlib.Path(name)
        prepare(folder)
        # Warnings are errors, as for the other tests in C.
        environment = {**os.environ, "PKG_CONFIG_PATH": str(folder), "LD_LIBRARY_PATH": str(libraries), "LC_ALL": "C.UTF-8"}
        for command, shown in sessions():
            if command.startswith("cc "):
                command += " -pedantic -Wall -Wextra -Werror"
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, encoding="utf-8", timeout=300)
            if not matches(shown, done.stdout):
                sys.exit(f"{document}: $ {command}\nis shown with\n{shown}\nbut printed (exit status {done.returncode})\n{done.stdout}")
            commands += 1
    if commands < 10:
        sys.exit(f"{document}: its programs are gone")
    print(f"{commands} commands of {document.name} print what it shows")


main()
