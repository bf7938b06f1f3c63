"""Folders with another Debian in them: libraries to compile against, and systems to try a wheel on.

All of them lie in the cache and are made once. Mounts are made in a mount namespace of their own, which ends with the
program that runs in it, however that ends."""
import os, shutil, subprocess
from pathlib import Path

from environment import CannotRun, run_logged

LIBRARIES = ["libfmt-dev", "zlib1g-dev", "libssl-dev", "libpcre2-dev", "libutf8proc-dev", "libhwy-dev", "libtoml11-dev"]
NAMESPACE = ["unshare", "--mount", "--propagation", "private"]
QEMU = "qemu-aarch64-static"
# What the kernel is told: a file that begins like this is an arm64 program, and this interpreter runs it. "F" opens the
# interpreter now, so that it need not exist in the folder that becomes the root.
BINFMT = Path("/proc/sys/fs/binfmt_misc")
ARM64_PROGRAM = (r":ballast-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
                 r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{qemu}:F")


def need(programs, cache):
    """Installs the packages of the programs that are missing: {program: package}."""
    missing = [package for program, package in programs.items() if not shutil.which(program)]
    if missing:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise CannotRun(f"these packages are missing: {' '.join(missing)}")
        run_logged(["sh", "-c", 'apt-get update -q; apt-get install -y -q --no-install-recommends "$@"', "sh", *missing],
                   cache / "apt.log", f"installing {' '.join(missing)}", env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def debootstrap(folder, suite, arch, packages, cache, *options):
    """A folder that the caller renames when it is complete; what an earlier run left of one is removed."""
    if os.geteuid() != 0:
        raise CannotRun("debootstrap needs root: run this as root or with sudo")
    need({"debootstrap": "debootstrap", "unshare": "util-linux"}, cache)
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    run_logged([*NAMESPACE, "debootstrap", "--variant=minbase", f"--arch={arch}", f"--include={','.join(packages)}",
                *options, suite, partial], cache / f"{folder.name}.log", f"fetching {suite} for {arch}")
    return partial


def unpacked(folder, suite, arch, packages, cache):
    """Packages of another architecture, unpacked and not configured: that would run all their scripts under QEMU."""
    if not folder.exists():
        partial = debootstrap(folder, suite, arch, packages, cache, "--foreign")
        for package in sorted((partial / "var/cache/apt/archives").glob("*.deb")):
            subprocess.run(["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink', "sh",
                            package, partial], check=True)
            package.unlink()
        if (partial / "proc").is_symlink():  # debootstrap's own help for systems that it will not start
            (partial / "proc").unlink()
            (partial / "proc").mkdir()
        partial.rename(folder)
    return folder


def libraries_for_arm64(cache, suite="bookworm"):
    """Headers and libraries to compile against."""
    return unpacked(cache / f"libraries-{suite}-arm64", suite, "arm64", LIBRARIES, cache)


def system(cache, suite, arch, foreign):
    """A bare system with Python and nothing else."""
    folder = cache / f"system-{suite}-{arch}"
    packages = ["python3", "python3-venv"]
    if foreign:
        return unpacked(folder, suite, arch, packages, cache)
    if not folder.exists():
        debootstrap(folder, suite, arch, packages, cache).rename(folder)
    return folder


class Emulation:
    """Lets the kernel run arm64 programs with QEMU while it lasts, where that is not set up already."""

    def __init__(self, cache):
        self.cache = cache
        self.entry = None
        self.mounted = False

    def __enter__(self):
        need({QEMU: "qemu-user-static"}, self.cache)
        if not (BINFMT / "register").exists():
            subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=True)
            self.mounted = True
        if not (BINFMT / "qemu-aarch64").exists() and not (BINFMT / "ballast-aarch64").exists():
            (BINFMT / "register").write_text(ARM64_PROGRAM.format(qemu=shutil.which(QEMU)))
            self.entry = BINFMT / "ballast-aarch64"

    def __exit__(self, *_):
        if self.entry:
            self.entry.write_text("-1")
        if self.mounted:
            subprocess.run(["umount", BINFMT], check=True)
