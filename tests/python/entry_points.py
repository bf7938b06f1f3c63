"""Everything that takes a file, tried on files that lie: run as a program, so that a crash is one and not ours.

usage: entry_points.py ENTRY,ENTRY,... FILE...

Prints a line of JSON for each call before the next begins: file, entry, and what came back or what was raised.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ballast


def digests(source: Any) -> dict[str, str]:
    """All that can be asked of an archive."""
    with ballast.open(source) as file:
        repr(file), file._repr_html_(), file.metadata, file.config, file.tied
        found: dict[str, str] = {}
        for name, tensor in file.items():
            array = tensor.numpy()
            tensor[..., :1] if tensor.ndim else tensor[()]
            repr(tensor), tensor._repr_html_(), tensor.raw()
            found[name] = hashlib.sha256(array.tobytes()).hexdigest()
        return found


def open_bytes(path: str) -> Any:
    return digests(Path(path).read_bytes())


def open_object(path: str) -> Any:
    return digests(io.BytesIO(Path(path).read_bytes()))


def load(path: str) -> Any:
    with ballast.load(path, threads=1) as model:
        return model.generate("1", max_tokens=2).token_ids


def tokenizer(path: str) -> Any:
    opened = ballast.Tokenizer(path)
    encoding = opened.encode("ab, 12   ")
    assert len(encoding.offsets) == len(encoding.ids)
    opened.decode(encoding.ids)
    return opened.encode("ab").ids


def gguf(path: str) -> Any:
    from ballast.gguf import GGUFReader

    reader = GGUFReader(path)
    for field in reader.fields.values():
        field.contents()
    return sum(tensor.data.nbytes for tensor in reader.tensors)


def torch(path: str) -> Any:
    import ballast.torch

    return type(ballast.torch.load(path)).__name__


def safetensors(path: str) -> Any:
    from ballast.safetensors.numpy import load_file

    return len(load_file(path))


def netcl(path: str) -> Any:
    import ballast.netcl

    return type(ballast.netcl.load_model(path)).__name__


def llama(path: str) -> Any:
    from ballast.llama import Llama

    model = Llama(path, n_threads=1)
    try:
        return model.create_completion("1", max_tokens=2)["object"]
    finally:
        model.close()


def transformers(path: str) -> Any:
    from ballast.transformers import AutoModelForCausalLM, AutoTokenizer

    AutoTokenizer.from_pretrained(path)
    return type(AutoModelForCausalLM.from_pretrained(path)).__name__


def verify(path: str) -> Any:
    report = ballast.verify(path, content=True)
    repr(report), report._repr_html_()
    return report.sound


def doctor(path: str) -> Any:
    report = ballast.doctor(path)
    repr(report), report._repr_html_()
    return report.verdict


def convert(path: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return ballast.convert(path, f"{folder}/out.npz", allow_lossy=True, sync=False).tensors


def stats(path: str) -> Any:
    return len(repr(ballast.stats(path))) > 0


ENTRIES: dict[str, Callable[[str], Any]] = {
    "open": digests, "open_bytes": open_bytes, "open_object": open_object, "load": load, "tokenizer": tokenizer,
    "gguf": gguf, "torch": torch, "safetensors": safetensors, "netcl": netcl, "llama": llama,
    "transformers": transformers, "verify": verify, "doctor": doctor, "convert": convert, "stats": stats,
}  # fmt: skip


def available() -> list[str]:
    return [name for name in ENTRIES if name != "torch" or importlib.util.find_spec("torch") is not None]


def main() -> None:
    warnings.simplefilter("ignore")
    names, files = sys.argv[1].split(","), sys.argv[2:]
    for path in files:
        for name in names:
            row: dict[str, Any] = {"file": Path(path).name, "entry": name}
            try:
                row["value"] = ENTRIES[name](path)
            except Exception as error:  # noqa: BLE001 - which one it is decides the test
                row["raised"] = type(error).__name__
                row["families"] = [kind.__name__ for kind in type(error).__mro__]
                row["message"] = str(error)
            print(json.dumps(row, default=str), flush=True)


if __name__ == "__main__":
    main()
