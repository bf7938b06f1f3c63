"""The models that are compared, made once and kept in the cache; and what they amount to."""
import functools, json, os, shutil, subprocess
from pathlib import Path

from environment import cache_folder, key_of, run_logged
from llama_source import vocabularies
from random_gguf import GPT2, LLAMA_1B, Shape, kept_model

ROOT = Path(__file__).resolve().parents[2]
SMOLLM2 = "SmolLM2-135M"  # a real model, with real weights
SHAPES = {shape.name: shape for shape in (GPT2, LLAMA_1B, Shape(SMOLLM2, "llama", 49152, 8192, 576, 1536, 30, 9, 3))}
DIRECT_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0")  # random_gguf writes them; the others are quantised from bf16
BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q6_k": 6.5625, "q4_1": 5, "q4_k": 4.5, "q4_0": 4.5}
IMAGE_SIZE = 224
MOST_IMAGES = 32
EXPORT = b"1"  # another one where export() makes other files


class ModelFiles:
    def __init__(self, programs, llama):
        self.programs, self.llama, self.folder = programs, llama, cache_folder("peers")
        self.program = programs["ballast"]

    # ---------------------------------------------------------------- text

    def text(self, name, type):
        """The GGUF file of a model."""
        if name == SMOLLM2:
            done = subprocess.run([self.program, "get", "smollm2"], check=True, capture_output=True, text=True)
            return Path(done.stdout.strip())
        if type in DIRECT_TYPES:
            return kept_model(self.folder, SHAPES[name], type)
        source = kept_model(self.folder, SHAPES[name], "bf16")
        path = source.with_name(source.name.replace("-bf16-", f"-{type}-"))
        if not path.exists():
            unfinished = path.with_suffix(".unfinished.gguf")
            unfinished.unlink(missing_ok=True)
            run_logged([self.program, "quantize", source, unfinished, type, "--pure", "--no-sync"], self.folder / "quantize.log",
                       f"quantising {name} to {type}")
            os.rename(unfinished, path)
        return path

    # ---------------------------------------------------------------- images

    def image(self, network, type):
        """{"model": Ballast's file, "onnx", "ncnn", "pixels": files, "flop": of one image}."""
        folder = self.folder / f"{network}-{key_of(EXPORT, ROOT / 'tests/interop/torch_weights.py')}"
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.make_image_files(network, folder)
            (folder / "complete").touch()
        return {"model": str(folder / f"{type}.gptrs"), "onnx": str(folder / "model.onnx"), "ncnn": str(folder / "model.ncnn"),
                "pixels": str(folder / "pixels.f32"), **json.loads((folder / "amount.json").read_text())}

    def make_image_files(self, network, folder):
        """In a process of its own: exporters change what a process has set."""
        words = [os.sys.executable, "-B", __file__, network, folder]
        run_logged(words, self.folder / "images.log", f"making the files of {network}",
                   env={**os.environ, "PYTHONPATH": f"{ROOT / 'bench'}:{ROOT / 'tests/interop'}"})
        # Batch norms are folded in f32, and the result is rounded.
        run_logged([self.program, "import", folder / "f32", folder / "f32.gptrs", "--no-sync"], self.folder / "images.log",
                   f"importing {network}")
        run_logged([self.program, "convert", folder / "f32.gptrs", folder / "bf16.gptrs", "--dtype", "bf16", "--allow-half",
                    "--no-sync"], self.folder / "images.log", f"rounding {network} to bf16")
        shutil.rmtree(folder / "f32")

    # ---------------------------------------------------------------- training

    def first_weights(self, steps_of):
        """What Ballast's training begins with, as this build makes it."""
        path = self.folder / f"first-weights-{steps_of}.safetensors"
        subprocess.run([self.programs["training_bench"], steps_of, "--weights", path], check=True)
        return path

    # ---------------------------------------------------------------- tokenizers

    def vocabulary(self, name):
        return vocabularies(self.folder, ("gpt-2", "llama-bpe")) / f"ggml-vocab-{name}.gguf"

    def vocabulary_parts(self, name):
        """Its tokens, their types and merges as JSON: reading them from GGUF takes Python a quarter of a minute."""
        import gguf
        path = self.vocabulary(name).with_suffix(".json")
        if not path.exists():
            fields = gguf.GGUFReader(self.vocabulary(name)).fields
            parts = {key: fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges")}
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(parts))
            os.rename(unfinished, path)
        return path

    def text_file(self, what, size):
        """Prose or code, for tokenizers."""
        import token_texts
        path = self.folder / f"{what}-{size}.txt"
        path.write_bytes(getattr(token_texts, what)(size).encode())
        return path

    # ---------------------------------------------------------------- storage

    def storage(self, size_mib):
        """The folder with a large file, and one of 20,000 small tensors as Burnpack."""
        import numpy
        from safetensors.numpy import save_file
        folder = self.folder / f"storage-{size_mib}"
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            random = numpy.random.default_rng(1)
            save_file({f"block.{i}.weight": random.standard_normal(4 << 20, numpy.float32) for i in range(size_mib // 16)},
                      folder / "large.safetensors")
            save_file({f"layer.{i}.bias": random.standard_normal(16, numpy.float32) for i in range(20000)},
                      folder / "small.safetensors")
            run_logged([self.program, "convert", folder / "small.safetensors", folder / "small.bpk"], self.folder / "convert.log",
                       "making the files for storage")
            (folder / "complete").touch()
        return folder


# ---------------------------------------------------------------- what a piece of work amounts to


def matrices(shape):
    """Elements of all matrices of a layer, and of the embedding, which is the head too."""
    keys = shape.key_heads * shape.head()
    mlp = (3 if shape.architecture == "llama" else 2) * shape.width * shape.hidden
    return shape.layers * (2 * shape.width * shape.width + 2 * shape.width * keys + mlp), shape.vocabulary * shape.width


@functools.cache
def weight_bytes_of_step(path):
    """What decoding one token reads of a GGUF file: all tensors, but one row each of tables that only look up."""
    import gguf
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    tables = ["position_embd.weight", *(["token_embd.weight"] if "output.weight" in tensors else [])]
    return sum(int(t.n_bytes) // (int(t.shape[1]) if name in tables else 1) for name, t in tensors.items())


def guessed_weight_bytes(shape, type):
    """Of a file that need not be there."""
    return sum(matrices(shape)) * BITS[type] / 8


def cache_bytes_of_step(shape, context):
    """Keys and values that one token reads, as f16: who keeps them wider does not come nearer to the limit by it."""
    return 2 * 2 * shape.layers * shape.key_heads * shape.head() * context


def flop_of_prompt(shape, tokens):
    """Multiply-adds of a prompt, two operations each; one row of logits."""
    layers, head = matrices(shape)
    attention = shape.layers * 2 * shape.width * tokens * (tokens + 1) / 2
    return 2 * (layers * tokens + head + attention)


# ---------------------------------------------------------------- exporting images' models


def export(network, folder):
    import numpy, pnnx, torch, torch_weights
    model, _ = torch_weights.save(network, folder / "f32")
    pixels = torch_weights.images(MOST_IMAGES, IMAGE_SIZE, IMAGE_SIZE).astype(numpy.float32)
    pixels.tofile(folder / "pixels.f32")
    one = torch.from_numpy(pixels[:1].copy())
    # The older exporter: it needs no further package, and is faster by a factor of ten.
    torch.onnx.export(model, (one,), folder / "model.onnx", dynamo=False, input_names=["pixels"], output_names=["logits"],
                      dynamic_axes={"pixels": {0: "batch"}})
    pnnx.export(model, str(folder / "model.pt"), (one,), fp16=False)
    for name in ("model.pt", "model.pnnx.bin", "model.pnnx.onnx", "model.pnnx.param", "model_pnnx.py", "model_ncnn.py"):
        (folder / name).unlink(missing_ok=True)  # on the way to ncnn's files
    (folder / "amount.json").write_text(json.dumps({"flop": flop_of_image(model, one)}))


def flop_of_image(model, pixels):
    """Of convolutions and linear layers, counted while one image runs."""
    import torch
    total = 0

    def count(module, _, output):
        nonlocal total
        total += 2 * output.numel() * module.weight[0].numel()

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    with torch.inference_mode():
        model(pixels)
    for hook in hooks:
        hook.remove()
    return total


if __name__ == "__main__":
    import sys
    export(sys.argv[1], Path(sys.argv[2]))
