"""llama.cpp compiled from its sources, which the source distribution of its Python package holds: once, for this very processor."""
import hashlib, os, shutil, subprocess, sys, tarfile

from environment import CannotRun, key_of, machine, run_logged

PACKAGE = "llama-cpp-python==0.3.36"
ARCHIVE = "llama_cpp_python-0.3.36.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
TOOL = "llama-batched-bench"
SETTINGS = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_BUILD_COMMON=ON",
            "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF",
            "-DLLAMA_OPENSSL=OFF", "-DLLAMA_CURL=OFF", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"]


def newest_clang():
    """gcc 12 makes a llama.cpp that dies of its first AMX instruction."""
    for version in range(30, 15, -1):
        if shutil.which(f"clang++-{version}"):
            return {"CC": f"clang-{version}", "CXX": f"clang++-{version}"}
    return {"CC": "clang", "CXX": "clang++"}


def fetch_sources(folder, log):
    run_logged([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python", "-d",
                folder, PACKAGE], log, "fetching llama.cpp's sources (77 MB)")
    archive = folder / ARCHIVE
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        raise CannotRun(f"{ARCHIVE} is not the one that was recorded")
    with tarfile.open(archive) as package:
        package.extractall(folder, filter="data")
    return folder / ARCHIVE.removesuffix(".tar.gz") / "vendor/llama.cpp"


def vocabularies(cache, names):
    """The folder with these vocabulary files of llama.cpp's sources."""
    folder = cache / f"vocabularies-{key_of(SHA256.encode(), ' '.join(names).encode())}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        source = fetch_sources(folder / "work", cache / "vocabularies.log")
        for name in names:
            shutil.copy(source / f"models/ggml-vocab-{name}.gguf", folder)
        shutil.rmtree(folder / "work")
        (folder / "complete").touch()
    return folder


def compile_tool(source, build, compilers, log):
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    variables = {"CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()), **os.environ, **compilers}
    run_logged(["cmake", "-S", source, "-B", build, *ninja, *SETTINGS], log, "configuring llama.cpp", env=variables)
    run_logged(["cmake", "--build", build, "--target", TOOL], log, "compiling llama.cpp (ten minutes of two cores)",
               env=variables)


def llama_key():
    """Names the library by its sources, settings, processor and compiler, if there is one."""
    compiler = newest_clang()["CXX"]
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout if shutil.which(compiler) else b""
    return key_of(SHA256.encode(), version, " ".join(SETTINGS).encode(), machine()["cpu"].encode())


def compiled_llama(cache):
    """The folder with the library and llama-batched-bench, which is made where it is missing.

    CMAKE_BUILD_PARALLEL_LEVEL=N in the environment compiles N files at a time."""
    compilers = newest_clang()
    if not shutil.which(compilers["CXX"]):
        raise CannotRun("there is no clang to compile llama.cpp with; run: scripts/bootstrap --llama")
    folder = cache / f"llama.cpp-{llama_key()}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        log = cache / "llama.cpp.log"
        source = fetch_sources(folder / "work", log)
        compile_tool(source, folder / "work/build", compilers, log)
        (folder / "work/build/bin").rename(folder / "bin")
        shutil.rmtree(folder / "work")
        (folder / "complete").touch()
    return folder / "bin"
