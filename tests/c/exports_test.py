"""exports_test.py NM LIBRARY HEADER LIST: the library exports the functions that the header declares, which are those of
the list, and nothing else."""
import re
import subprocess
import sys

nm, library, header, listed = sys.argv[1:]
symbols = subprocess.run([nm, "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True, check=True).stdout
# "0000 T name@@VERSION"; A: the name of the version itself.
found = {line.split()[-1].split("@")[0] for line in symbols.splitlines() if line.split()[-2] != "A"}
versions = {line.split()[-1].split("@")[-1] for line in symbols.splitlines() if line.split()[-2] != "A"}
text = re.sub(r"//[^\n]*", "", open(header, encoding="utf-8").read())
declared = set(re.findall(r"\b(ballast_\w+)\(", text))
expected = open(listed, encoding="utf-8").read().split()

problems = []
if expected != sorted(set(expected)):
    problems.append(f"{listed} is not sorted, or names something twice")
for what, names in (("the library exports", found), ("the header declares", declared)):
    problems += [f"{what} {name}, which is not in {listed}" for name in sorted(names - set(expected))]
    problems += [f"{listed} has {name}, but {what} no such function" for name in sorted(set(expected) - names)]
if any(version != "BALLAST_C_1" for version in versions):
    problems.append(f"symbols have the versions {sorted(versions)}, not BALLAST_C_1")
print("\n".join(problems) or f"{len(expected)} functions")
sys.exit(1 if problems else 0)
