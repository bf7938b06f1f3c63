"""llama.cpp's own server, compiled from the sources in bench/llama_source.py: once, for this very processor.

It has a folder of its own: the library of the other benches, whose records name how it was built, stays as it is."""
import os, shutil, subprocess

from environment import CannotRun, key_of, machine, run_logged
from llama_source import SETTINGS, SHA256, fetch_sources, newest_clang

SERVER = "llama-server"
VOCABULARY = "ggml-vocab-llama-bpe.gguf"  # that of Llama 3, without weights
# Without the web page, which it would download.
SERVER_SETTINGS = [*(word.replace("LLAMA_BUILD_SERVER=OFF", "LLAMA_BUILD_SERVER=ON") for word in SETTINGS),
                   "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF"]


def compile_server(source, build, compilers, log):
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    variables = {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()), **os.environ, **compilers}
    run_logged(["cmake", "-S", source, "-B", build, *ninja, *SERVER_SETTINGS], log, "configuring llama-server", env=variables)
    run_logged(["cmake", "--build", build, "--target", SERVER], log, "compiling llama-server (ten minutes of two cores)",
               env=variables)


def compiled_server(cache):
    """The paths of llama-server and of Llama 3's vocabulary, which are made where they are missing.

    CMAKE_BUILD_PARALLEL_LEVEL=N in the environment compiles N files at a time."""
    compilers = newest_clang()
    if not shutil.which(compilers["CXX"]):
        raise CannotRun("there is no clang to compile llama.cpp with; run: scripts/bootstrap --llama")
    version = subprocess.run([compilers["CXX"], "--version"], capture_output=True, check=True).stdout
    made_of = (SHA256.encode(), version, " ".join(SERVER_SETTINGS).encode(), machine()["cpu"].encode())
    folder = cache / f"llama-server-{key_of(*made_of)}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        log = cache / "llama-server.log"
        source = fetch_sources(folder / "work", log)
        compile_server(source, folder / "work/build", compilers, log)
        shutil.copy(source / "models" / VOCABULARY, folder)
        (folder / "work/build/bin").rename(folder / "bin")
        shutil.rmtree(folder / "work")
        (folder / "complete").touch()
    return folder / "bin" / SERVER, folder / VOCABULARY
