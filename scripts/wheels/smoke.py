"""What an installed wheel must do where only Python, NumPy and ml_dtypes are installed.

usage: smoke.py MODEL, in an empty folder; MODEL is a language model with its tokenizer. Uses plain assertions because
there is no pytest either."""
import base64, hashlib, importlib.metadata, os, platform, shutil, sys, threading

import ballast
import ml_dtypes
import numpy as np

MODULE = os.path.dirname(ballast.__file__)


def check_there_is_no_compiler():
    assert not any(map(shutil.which, ("cc", "gcc", "c++", "g++", "clang", "ld"))), "this system is not bare"


def check_every_library_of_ours_comes_from_the_wheel():
    ballast.save("loaded.npz", {"w": np.zeros(1)})
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if ".so" in line}
    for name in ("libfmt", "libhwy", "libpcre2", "libutf8proc", "libcrypto"):
        places = [path for path in loaded if os.path.basename(path).startswith(name)]
        ours = [path for path in places if os.path.dirname(path) == MODULE.rstrip("/") + ".libs"]
        assert ours, f"{name} of the wheel is not in use: {places}"


def check_the_licence_of_everything_in_the_wheel_is_in_it():
    files = {file.stem: file for file in importlib.metadata.files("ballast") if file.parent.name == "third_party"}
    bundled = os.listdir(MODULE.rstrip("/") + ".libs")
    without = [library for library in bundled if not any(library.startswith(name) for name in files)]
    assert bundled and not without, f"no licence: {without}"
    assert {"blake3", "nanobind", "robin_map", "toml11"} <= set(files), sorted(files)
    for file in files.values():
        text = file.read_binary()
        assert b"opyright" in text and len(text) == file.size, file
        assert base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=") == file.hash.value, file


def check_saving_opening_and_slicing():
    weight = np.arange(1024 * 64, dtype=np.float32).reshape(1024, 64)
    half = weight[:4].astype(ml_dtypes.bfloat16)
    ballast.save("model.safetensors", {"weight": weight, "half": half}, metadata={"step": "7"})
    with ballast.open("model.safetensors") as file:
        assert file.format == "safetensors" and file.metadata == {"step": "7"}
        assert sorted(file) == ["half", "weight"]
        assert file["weight"].shape == (1024, 64)
        np.testing.assert_array_equal(file["weight"][100:200:7, 3:5], weight[100:200:7, 3:5])
        np.testing.assert_array_equal(np.asarray(file["weight"]), weight)
        assert file["half"].dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(np.asarray(file["half"]), half)


def check_converting_and_the_tools():
    source = {"w": np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)}
    ballast.save("model.npz", source)
    for name in ("copy.safetensors", "copy.gguf", "copy.bpk"):
        ballast.convert("model.npz", name)
        assert ballast.verify(name).sound, name
        np.testing.assert_array_equal(np.asarray(ballast.open(name)["w"]), source["w"])
        assert ballast.diff("model.npz", name, rtol=0).equal, name
    ballast.convert("model.npz", "half.safetensors", dtype="bf16")
    assert ballast.hash("model.npz").digest != ballast.hash("half.safetensors").digest
    small = ballast.quantize("model.npz", "small.gguf", "q8_0")
    assert (small.bytes_before, small.bytes_after) == (65536, 17408)
    assert ballast.stats("small.gguf")["w"].numbers.count == 64 * 256
    assert "w" in ballast.stats("small.gguf")._repr_html_()


def check_complex_numbers_are_compared():
    """By their magnitude: of the functions of the C library, this one is bound to an old version."""
    ballast.save("a.npz", {"z": np.full(100, 3 + 4j)})
    ballast.save("b.npz", {"z": np.full(100, 3 + 4.5j)})
    assert ballast.diff("a.npz", "a.npz").equal
    assert not ballast.diff("a.npz", "b.npz").equal


def check_damage_is_an_exception():
    ballast.save("whole.safetensors", {"a": np.ones(100), "b": np.ones(100)})
    with open("whole.safetensors", "rb") as whole, open("cut.safetensors", "wb") as cut:
        cut.write(whole.read()[:-80])
    for path, error in (("cut.safetensors", ballast.FormatError), ("missing.npz", FileNotFoundError)):
        try:
            ballast.open(path)
        except error as caught:
            assert path in str(caught)
        else:
            raise AssertionError(f"{path} was opened")
    assert ballast.doctor("cut.safetensors", rescue="rescued.safetensors").verdict == "damaged"
    assert list(ballast.open("rescued.safetensors")) == ["a"]


def check_a_model_continues_a_text():
    with ballast.load(sys.argv[1]) as model:
        text = model.generate("It is a truth", max_tokens=12, temperature=0).text
    assert text == " in the world, and I am sure I shall not", text


def check_threads():
    """They wait for each other inside the module, whose condition variables come from another library than elsewhere."""
    ballast.save("shared.npz", {f"w{i}": np.full(1000, i, np.float32) for i in range(50)})
    archive = ballast.open("shared.npz")
    sums, failures = [], []

    def work(number):
        try:
            sums.append(sum(float(archive[name][:].sum()) for name in archive))
            ballast.convert("shared.npz", f"out{number}.gguf")
            assert ballast.verify(f"out{number}.gguf").sound
        except Exception as error:  # a thread's exception would be lost
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert sums == [sum(range(50)) * 1000.0] * 8


def main():
    checks = [value for name, value in globals().items() if name.startswith("check_")]
    for check in checks:
        check()
        print(f"  {check.__name__[6:].replace('_', ' ')}")
    print(f"{len(checks)} passed, 0 failed: ballast {ballast.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
          f"{platform.machine()}, {' '.join(platform.libc_ver())}")


main()
