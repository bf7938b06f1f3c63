"""The Rust crates that are compared with, as one program, which is built once and kept."""
import os, shutil, subprocess
from pathlib import Path

from environment import CannotRun, key_of, run_logged

CRATE = Path(__file__).resolve().parent / "rust"


def build_crate(cache):
    cargo = shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
    if not os.access(cargo, os.X_OK):
        raise CannotRun("there is no cargo, so the crates cannot be measured; install Rust, e.g. from https://rustup.rs")
    key = key_of(subprocess.run([cargo, "--version"], capture_output=True, check=True).stdout, CRATE / "Cargo.toml",
                 CRATE / "Cargo.lock", CRATE / "src/main.rs")
    program = cache / f"bench-peers-{key}"
    if not program.exists():
        run_logged([cargo, "build", "--release", "--locked"], cache / "cargo.log", "building the Rust peers (minutes)",
                   cwd=CRATE, env={**os.environ, "CARGO_TARGET_DIR": str(cache / "cargo")})
        shutil.copy(cache / "cargo/release/bench-peers", f"{program}.new")
        os.rename(f"{program}.new", program)
    return program
