"""The C interface, called by programs in Rust and in Go: what they see of files is what `ballast inspect` sees, and what
their models write is what `ballast generate` writes."""

import json
import os
import subprocess

import numpy as np
import safetensors.numpy

from harness import COMMAND_TIMEOUT_S, Mismatch, require


def run_program(program, libraries, *arguments, status=0):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, encoding="utf-8",
                          timeout=COMMAND_TIMEOUT_S, env=environment)
    if done.returncode != status:
        raise Mismatch(f"ended with {done.returncode}, not {status}: {(done.stderr or done.stdout).strip()[-600:]}")
    *lines, last = done.stdout.splitlines()
    require(last == "0 handles open", f"at the end: {last}")
    return lines


def make_file(folder):
    path = folder / "arrays.safetensors"
    generator = np.random.default_rng(7)
    arrays = {"weight": generator.standard_normal((17, 5)).astype(np.float32), "empty": np.zeros((0, 3), np.int64),
              "scalar": np.array(3, np.int32), "naïve ⚓": generator.standard_normal(9).astype(np.float16)}
    safetensors.numpy.save_file(arrays, path)
    return path, arrays


WORDS = {"float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32"}


def line_of(name, array):
    return f"{name} {WORDS[str(array.dtype)]} {list(array.shape)} {sum(array.tobytes())}"


def texts_of(ballast, model, prompts):
    texts = []
    for prompt in prompts:
        said = ballast.run("generate", model, "--prompt", prompt, "--greedy", "--max-tokens", "8", "--json").stdout
        texts.append(json.loads(said)["text"])
    return texts


def check_language(suite, program, libraries, model):
    path, arrays = make_file(suite.folder)
    with suite.case("write", "tensors of a file of the safetensors package"):
        expected = sorted(line_of(name, array) for name, array in arrays.items())
        require(sorted(run_program(program, libraries, "tensors", path)) == expected, "other tensors")
    with suite.case("write", "a file that is damaged is an error"):
        broken = suite.folder / "broken.safetensors"
        broken.write_bytes(path.read_bytes()[:-3])
        lines = run_program(program, libraries, "tensors", broken, status=1)
        require(lines[-1].startswith("error corrupt: "), f"said {lines}")
    with suite.case("write", "the doctor counts what can be saved of it"):
        require(run_program(program, libraries, "doctor", path) == ["sound safetensors, 4 of 4 tensors"], "it is sound")
        lines = run_program(program, libraries, "doctor", broken)
        require(lines == ["damaged safetensors, 3 of 4 tensors"], f"said {lines}")
    with suite.case("write", "three texts at once are what the command writes"):
        prompts = ["It is a truth", "Emma", "She was"]
        expected = texts_of(suite.ballast, model, prompts)
        seen = [json.loads(line) for line in run_program(program, libraries, "generate", model, *prompts)]
        require(seen == expected, f"{seen} and not {expected}")


def run(suite, rust, go, libraries, model):
    for language, program in (("rust", rust), ("go", go)):
        suite.peer = f"c ({language})"
        if program is None:
            print(f"SKIP c ({language}): THERE IS NO TOOLCHAIN FOR IT ON THIS MACHINE", flush=True)
            continue
        check_language(suite, program, libraries, model)
