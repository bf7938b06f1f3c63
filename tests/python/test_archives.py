"""Opening files of weights, and tensors that are read when they are asked for."""

from __future__ import annotations

import gc
import io
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ballast


@pytest.fixture
def model(here: Path) -> Path:
    path = here / "model.safetensors"
    tensors = {
        "head.weight": np.arange(24, dtype=np.float32).reshape(4, 6),
        "head.bias": np.arange(4, dtype=ml_dtypes.bfloat16),
        "empty": np.zeros((0, 3), np.int8),
        "scalar": np.array(7, np.uint16),
    }
    ballast.save(path, tensors, metadata={"step": "12"})
    return path


class TestTheMapping:
    def test_behaves_like_any_mapping(self, model: Path) -> None:
        with ballast.open(model) as file:
            assert isinstance(file, Mapping)
            assert set(file) == {"head.weight", "head.bias", "empty", "scalar"} == set(file.keys())
            assert len(file) == 4 and "head.bias" in file and "head" not in file and 3 not in file
            assert {name: tensor.shape for name, tensor in file.items()}["empty"] == (0, 3)
            assert file.get("nothing") is None and file.get("nothing", 5) == 5

    def test_says_what_the_file_is(self, model: Path) -> None:
        with ballast.open(model) as file:
            assert (file.format, file.metadata, file.config) == ("safetensors", {"step": "12"}, None)
            assert file.path == str(model) and file.stored_bytes == model.stat().st_size
            assert repr(file) == f"<ballast.Archive {model}: safetensors, 4 tensors, 106 bytes>"
            assert repr(file["head.bias"]) == '<ballast.Tensor "head.bias" bf16 [4]>'

    def test_a_mistyped_name_is_told_the_nearest(self, model: Path) -> None:
        with ballast.open(model) as file, pytest.raises(KeyError, match='did you mean "head.weight"'):
            file["haed.weight"]

    def test_a_model_folder_has_its_config(self, data: Path) -> None:
        with ballast.open(data / "hf" / "llama_plain") as file:
            assert file.config["model_type"] == "llama"


class TestWhatCanBeOpened:
    def test_a_path_as_text(self, model: Path) -> None:
        assert len(ballast.open(str(model))) == 4

    def test_bytes_and_memoryviews(self, model: Path) -> None:
        content = model.read_bytes()
        for source in (content, bytearray(content), memoryview(content)):
            assert ballast.open(source)["head.weight"][3, 5] == 23

    def test_a_file_object(self, model: Path) -> None:
        with open(model, "rb") as source:
            assert ballast.open(source)["head.weight"][1].tolist() == [6, 7, 8, 9, 10, 11]

    def test_a_file_object_of_another_kind_is_read_lazily(self, model: Path) -> None:
        reads: list[int] = []

        class Counting(io.BytesIO):
            def read(self, size: int | None = -1, /) -> bytes:
                reads.append(size or 0)
                return super().read(size)

        file = ballast.open(Counting(model.read_bytes()))
        reads.clear()
        assert file["head.weight"][1:2, :].tolist() == [[6, 7, 8, 9, 10, 11]]
        assert sum(reads) <= 24 * 4

    def test_fsspec(self, model: Path) -> None:
        fsspec = pytest.importorskip("fsspec")
        with fsspec.open(f"file://{model}", "rb") as source:
            assert ballast.open(source)["scalar"].numpy() == 7

    def test_a_url(self, model: Path) -> None:
        from http.server import HTTPServer, SimpleHTTPRequestHandler

        class Quiet(SimpleHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = HTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with ballast.open(f"http://127.0.0.1:{server.server_port}/model.safetensors") as file:
                assert file["head.weight"][2, :2].tolist() == [12, 13]
        finally:
            server.shutdown()
            server.server_close()

    def test_a_model_in_the_cache_of_huggingface_hub(self, model: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = here / "hub" / "models--org--tiny"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("abc")
        (folder / "snapshots" / "abc").mkdir(parents=True)
        os.link(model, folder / "snapshots" / "abc" / "model.safetensors")
        monkeypatch.setenv("HF_HUB_CACHE", str(here / "hub"))
        assert len(ballast.open("org/tiny")) == 4
        with pytest.raises(FileNotFoundError):
            ballast.open("org/other")

    def test_nothing_else(self) -> None:
        with pytest.raises(TypeError, match="give a path, bytes or a file object"):
            ballast.open(17)
        with pytest.raises(ValueError, match="mode must be"):
            ballast.open("x", mode="w")


class TestArrays:
    def test_are_views_of_the_file_that_keep_it(self, model: Path) -> None:
        file = ballast.open(model)
        array = file["head.weight"].numpy()
        file.close()
        del file
        gc.collect()
        model.unlink()
        assert array.sum() == 276 and not array.flags.writeable and not array.flags.owndata

    def test_share_the_memory_of_the_mapping(self, model: Path) -> None:
        with ballast.open(model) as file:
            assert np.shares_memory(file["head.weight"].numpy(), np.asarray(file["head.weight"]))

    def test_may_be_written_to_in_mode_c_and_the_file_stays(self, model: Path) -> None:
        before = model.read_bytes()
        with ballast.open(model, mode="c") as file:
            file["head.weight"].numpy()[0, 0] = 99
            assert file["head.weight"][0, 0] == 99
        assert model.read_bytes() == before

    def test_have_memory_of_their_own_where_asked(self, model: Path) -> None:
        with ballast.open(model) as file:
            copy = file["head.weight"].numpy(copy=True)
            copy[:] = 0
            assert file["head.weight"][3, 5] == 23

    def test_of_everything_at_once(self, model: Path) -> None:
        with ballast.open(model) as file:
            for copy in (False, True):
                arrays = file.arrays(copy=copy)
                assert arrays["head.bias"].dtype == ml_dtypes.bfloat16
                assert arrays["scalar"].shape == () and arrays["empty"].shape == (0, 3)
                assert all(array.flags.writeable == copy for array in arrays.values() if array.size)
            assert list(file.arrays(["scalar"])) == ["scalar"]

    def test_follow_the_array_protocol(self, model: Path) -> None:
        with ballast.open(model) as file:
            tensor = file["head.weight"]
            assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
            assert np.array(tensor, copy=True).flags.writeable
            assert np.add(tensor, 1)[0, 0] == 1
            with pytest.raises(ValueError, match="without a copy"):
                np.asarray(tensor, dtype=np.float16, copy=False)


class TestSlices:
    keys: tuple[Any, ...] = (
        0, -1, slice(1, 3), (slice(None), 2), (..., 1), (slice(None, None, 2), slice(4, 1)), (1, 2), ..., (),
        slice(None, None, -1), [0, 2], (None, 1), np.array([True, False, True, False]), slice(2, 100),
    )  # fmt: skip

    @pytest.mark.parametrize("key", keys, ids=repr)
    @pytest.mark.parametrize("mode", ["r", "read"])
    def test_are_numpys(self, model: Path, key: Any, mode: str) -> None:
        whole = np.arange(24, dtype=np.float32).reshape(4, 6)
        with ballast.open(model, mode=mode) as file:
            np.testing.assert_array_equal(file["head.weight"][key], whole[key])

    @pytest.mark.parametrize("mode", ["r", "read"])
    def test_beyond_the_end_are_index_errors(self, model: Path, mode: str) -> None:
        with ballast.open(model, mode=mode) as file:
            for key in (4, -5, (0, 6), (0, 0, 0)):
                with pytest.raises(IndexError):
                    file["head.weight"][key]

    def test_of_quantised_blocks_are_numbers(self, data: Path) -> None:
        with ballast.open(data / "blocks" / "q8_0.safetensors") as file:
            assert len(file) > 0
        with ballast.open(data / "gguf" / "quant" / sorted(os.listdir(data / "gguf" / "quant"))[0]) as file:
            for tensor in file.values():
                assert tensor.numpy().shape == tensor.shape


class TestClosing:
    def test_makes_everything_a_clear_error(self, model: Path) -> None:
        file = ballast.open(model)
        tensor = file["head.weight"]
        with file:
            pass
        assert file.closed
        for use in (lambda: tensor[0], lambda: file["head.bias"], lambda: len(file), lambda: tensor.shape, lambda: file.metadata):
            with pytest.raises(ValueError, match="is closed"):
                use()
        assert "closed" in repr(file) and "closed" in repr(tensor)
        file.close()

    def test_leaves_no_descriptors(self, model: Path) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10_000):
            with ballast.open(model) as file:
                file["scalar"].numpy()
        assert len(os.listdir("/proc/self/fd")) == before


class TestDlpack:
    def test_goes_out_without_a_copy(self, model: Path) -> None:
        with ballast.open(model) as file:
            array = np.from_dlpack(file["head.weight"])
            assert array.tolist() == file["head.weight"].numpy().tolist()
            assert np.shares_memory(array, file["head.weight"].numpy()) and not array.flags.writeable

    def test_to_those_who_know_no_read_only_memory_is_a_copy(self, model: Path) -> None:
        with ballast.open(model) as file:
            assert "dltensor" in repr(file["head.weight"].__dlpack__())
            with pytest.raises(BufferError, match="without a copy"):
                file["head.weight"].__dlpack__(copy=False)
        with ballast.open(model, mode="c") as file:
            file["head.weight"].__dlpack__(copy=False)

    def test_keeps_the_file(self, model: Path) -> None:
        array = np.from_dlpack(ballast.open(model)["head.weight"])
        gc.collect()
        assert array.sum() == 276


class TestThreads:
    def test_may_share_an_archive(self, model: Path) -> None:
        failures: list[BaseException] = []
        with ballast.open(model, mode="read") as file:

            def work() -> None:
                try:
                    for _ in range(200):
                        assert file["head.weight"][2].sum() == 87
                except BaseException as error:  # noqa: BLE001
                    failures.append(error)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not failures

    def test_one_may_close_it_while_others_read(self, model: Path) -> None:
        file = ballast.open(model)
        ended: list[type[BaseException]] = []

        def work() -> None:
            try:
                while True:
                    file["head.weight"].numpy().sum()
            except ValueError as error:
                ended.append(type(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        file.close()
        for thread in threads:
            thread.join()
        assert ended == [ValueError] * 4

    def test_a_forked_child_reads_on(self, model: Path) -> None:
        file = ballast.open(model)
        child = os.fork()
        if child == 0:
            os._exit(0 if file["head.weight"].numpy().sum() == 276 else 1)
        assert os.waitpid(child, 0)[1] == 0
