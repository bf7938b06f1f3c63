"""The Rust crates that are compared with, as one program, which is built once and kept."""
import os, shutil, subprocess
from pathlib import Path

from environment import CannotRun, key_of, run_logged

CRATE = Path(__file__).resolve().parent / "rust"


def find_cargo():
    cargo = shutil.which("cargo") or str(Path.home() / ".cargo/bin/cargo")
    return cargo if os.access(cargo, os.X_OK) else None


def crate_key():
    """Names the program by its sources and the compiler, if there is one."""
    cargo = find_cargo()
    version = subprocess.run([cargo, "--version"], capture_output=True, check=True).stdout if cargo else b""
    return key_of(version, CRATE / "Cargo.toml", CRATE / "Cargo.lock", CRATE / "src/main.rs")


def build_crate(cache):
    cargo = find_cargo()
    if not cargo:
        raise CannotRun("there is no cargo, so the crates cannot be measured; install Rust, e.g. from https://rustup.rs")
    program = cache / f"bench-peers-{crate_key()}"
    if not program.exists():
        run_logged([cargo, "build", "--release", "--locked"], cache / "cargo.log", "building the Rust peers (minutes)",
                   cwd=CRATE, env={**os.environ, "CARGO_TARGET_DIR": str(cache / "cargo")})
        shutil.copy(cache / "cargo/release/bench-peers", f"{program}.new")
        os.rename(f"{program}.new", program)
    return program
