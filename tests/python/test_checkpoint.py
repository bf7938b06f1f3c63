"""ballast.CheckpointManager: what goes in comes back, whatever happens in between."""

from __future__ import annotations

import json
import math
import os
import random
from collections import Counter, OrderedDict, defaultdict, namedtuple
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ballast
from ballast.checkpoint import DamagedCheckpointWarning


def saved_and_restored(state: Any, folder: str = "run") -> Any:
    with ballast.CheckpointManager(folder, rng=False, sync=False) as manager:
        manager.save(1, state)
    with ballast.CheckpointManager(folder, rng=False, sync=False) as manager:
        restored = manager.restore()
    assert restored is not None
    return restored.state


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


# ---------------------------------------------------------------- what comes back


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**53,
        2**53 + 1,
        -(2**200),
        1.0,
        -0.0,
        5e-324,
        1.7976931348623157e308,
        math.inf,
        -math.inf,
        "",
        "text with \"quotes\", \n, \0 and \u20ac \U0001f600",
        b"",
        b"bytes\xff",
        bytearray(b"more"),
        1 + 2j,
        complex(math.inf, -0.0),
        [],
        {},
        (),
        [1, [2, [3]]],
        (1, (2,), [3]),
        {1, 2},
        frozenset({"a"}),
        {0: "int", "0": "text", None: 1, True + 1: 2, (1, "a"): 3, 1.5: 4},
        {"$dict": 1, "$": [2]},
        {"a.b": 1, "a": {"b": 2}},
        Counter({30: 1, 80: 2}),
        OrderedDict([("b", 1), ("a", 2)]),
        defaultdict(list, {"a": [1]}),
        defaultdict(None, {"a": 1}),
        np.float32(1.5),
        np.float64(-0.0),
        np.int8(-3),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.complex128(1 + 2j),
        ml_dtypes.bfloat16(1.5),
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:12]!a}",
)
def test_values_come_back_with_their_types(value: Any, here: Path) -> None:
    back = saved_and_restored({"value": value})["value"]
    assert type(back) is type(value) and back == value and repr(back) == repr(value)
    if isinstance(value, dict):
        assert list(back) == list(value) and [type(key) for key in back] == [type(key) for key in value]


def test_integers_too_long_to_print_come_back(here: Path) -> None:
    assert saved_and_restored([1 << 20_000, -(1 << 20_000)]) == [1 << 20_000, -(1 << 20_000)]


def test_nan_comes_back(here: Path) -> None:
    back = saved_and_restored([math.nan, np.float32("nan"), np.array([math.nan])])
    assert math.isnan(back[0]) and math.isnan(back[1]) and math.isnan(back[2][0])


def test_numpy_arrays_come_back(here: Path) -> None:
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10)[::3],
        "reversed": np.arange(4)[::-1],
        "expanded": np.broadcast_to(np.float32(2), (3, 2)),
        "big endian": np.arange(3, dtype=">i4"),
        "read-only": np.frombuffer(b"abcd", np.uint8),
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4), np.int16),
        "bool": np.array([True, False]),
        "complex64": np.array([1 + 2j], np.complex64),
        "complex128": np.array([[1 + 2j, 3]]).T,
        "bf16": np.ones(3, ml_dtypes.bfloat16),
        "fp8": np.ones(3, ml_dtypes.float8_e4m3fn),
    }
    back = saved_and_restored(arrays)
    for name, array in arrays.items():
        assert back[name].shape == array.shape and back[name].dtype == array.dtype.newbyteorder("="), name
        assert back[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes(), name
        assert back[name].flags.writeable, name
    assert back["fortran"].flags.f_contiguous


def test_an_array_that_stands_in_two_places_is_stored_once_and_is_one_again(here: Path) -> None:
    shared = np.zeros(1000)
    back = saved_and_restored({"a": shared, "b": [shared, shared[:10]]})
    assert back["a"] is back["b"][0] and back["b"][1] is not back["a"]
    files = list(here.glob("run/*.safetensors"))
    assert sum(file.stat().st_size for file in files) < 8000 + 80 + 1000


def test_unsupported_objects_are_named_with_their_place(here: Path) -> None:
    pair = namedtuple("pair", "x")
    loop: list[Any] = []
    loop.append(loop)
    with ballast.CheckpointManager("run", rng=False) as manager:
        for value, kind, message in (
            ({"a": [1, {"b": object()}]}, TypeError, r"state\['a'\]\[1\]\['b'\]: objects of type object cannot be saved"),
            ({"f": len}, TypeError, r"state\['f'\]: objects of type builtin_function_or_method"),
            (pair(1), TypeError, r"state: objects of type .*pair"),
            ({"d": defaultdict(lambda: 1)}, TypeError, r"state\['d'\]: a defaultdict"),
            (np.array(["text"]), TypeError, r"state: arrays of type <U4"),
            (np.array([object()]), TypeError, r"state: arrays of type object"),
            (np.datetime64("2026-01-01"), TypeError, r"state: NumPy scalars of type datetime64"),
            ({"t": "\udcff"}, ValueError, r"state\['t'\]: .* is not valid Unicode"),
            ({"\udcff": 1}, ValueError, r"state: .* is not valid Unicode"),
            (loop, ValueError, r"nested more than 64 levels"),
        ):
            with pytest.raises(kind, match=message):
                manager.save(1, value)
        with pytest.raises(TypeError):
            manager.save(1.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="step must be"):
            manager.save(-1)
        assert manager.steps() == []


def test_names_that_collide_are_kept_apart(here: Path) -> None:
    state = {"a.b": np.ones(1), "a": {"b": np.zeros(1)}, 0: np.ones(2), "0": np.zeros(2)}
    back = saved_and_restored(state)
    assert back["a.b"][0] == 1 and back["a"]["b"][0] == 0 and back[0][0] == 1 and back["0"][0] == 0


# ---------------------------------------------------------------- objects


def test_plain_objects_are_restored_in_place(here: Path) -> None:
    array, table, rows = np.zeros((2, 2), np.float32), {"epoch": 1}, [1, 2]
    generator, own = np.random.default_rng(5), random.Random(5)
    objects = {"array": array, "table": table, "rows": rows, "generator": generator, "own": own}
    with ballast.CheckpointManager("run", objects, sync=False) as manager:
        manager.save(7)
        expected = generator.random(), own.random(), random.random(), np.random.random()
        array += 1
        table["extra"] = 2
        rows.clear()
        restored = manager.restore()
        assert restored is not None and restored.step == 7 and restored.state is None
    assert not array.any() and table == {"epoch": 1} and rows == [1, 2]
    assert (generator.random(), own.random(), random.random(), np.random.random()) == expected


def test_what_cannot_be_restored_in_place_is_refused_at_once(here: Path) -> None:
    with pytest.raises(TypeError, match="epoch: a int cannot be restored in place"):
        ballast.CheckpointManager("run", {"epoch": 3})
    assert not Path("run").exists()


def test_objects_that_are_missing_are_named_before_anything_changes(here: Path) -> None:
    a, b = {"v": 1}, {"v": 2}
    with ballast.CheckpointManager("run", {"a": a}, sync=False) as manager:
        manager.save(1)
    a["v"] = 9
    with ballast.CheckpointManager("run", {"a": a, "b": b}, sync=False) as manager:
        with pytest.raises(ValueError, match="does not have: b"):
            manager.restore()
        assert a == {"v": 9}
        assert manager.restore(strict=False) is not None
        assert a == {"v": 1} and b == {"v": 2}
    with ballast.CheckpointManager("run", {}, sync=False) as manager, pytest.raises(ValueError, match="has besides: a"):
        manager.restore()


def test_an_array_of_another_shape_is_refused(here: Path) -> None:
    with ballast.CheckpointManager("run", {"a": np.zeros(3)}, sync=False) as manager:
        manager.save(1)
    with ballast.CheckpointManager("run", {"a": np.zeros(4)}, sync=False) as manager, pytest.raises(ValueError, match=r"\(4,\)"):
        manager.restore()


# ---------------------------------------------------------------- the folder


def test_an_empty_folder_has_nothing_to_restore(here: Path) -> None:
    with ballast.CheckpointManager(here / "new" / "run") as manager:
        assert manager.restore() is None and manager.latest() is None and manager.steps() == [] and manager.wait() is None


def test_old_checkpoints_go_and_the_kept_ones_stay(here: Path) -> None:
    with ballast.CheckpointManager("run", keep_last=2, keep_every=10, keep_best=1, metric="loss", sync=False) as manager:
        for step in range(1, 26):
            manager.save(step, {"step": step}, metrics={"loss": abs(step - 7)})
        manager.wait()
        assert manager.steps() == [7, 10, 20, 24, 25] and manager.latest() == 25
        restored = manager.restore(10)
        assert restored is not None and restored.state == {"step": 10} and restored.metrics == {"loss": 3.0}
        with pytest.raises(FileNotFoundError, match="no checkpoint of step 11"):
            manager.restore(11)


def test_tensors_that_did_not_change_are_not_written_again(here: Path) -> None:
    frozen, trained = np.random.default_rng(0).random(100_000), np.zeros(1000)
    with ballast.CheckpointManager("run", {"frozen": frozen, "trained": trained}) as manager:
        manager.save(1)
        first = manager.wait()
        trained += 1
        manager.save(2)
        second = manager.wait()
    assert first is not None and first.bytes_written > 800_000 and first.bytes_reused == 0
    assert second is not None and second.bytes_written < 50_000 and second.bytes_reused >= 800_000 and second.step == 2


def test_the_caller_may_change_its_arrays_as_soon_as_save_returns(here: Path) -> None:
    array = np.arange(2_000_000.0)
    with ballast.CheckpointManager("run", {"array": array}, sync=False) as manager:
        report = manager.save(1)
        array[:] = 0
        assert report.bytes >= array.nbytes and report.copy_seconds > 0
        manager.restore(1)
    assert array[-1] == 1_999_999


def test_a_damaged_newest_checkpoint_is_never_passed_over_in_silence(here: Path) -> None:
    with ballast.CheckpointManager("run", sync=False) as manager:
        for step in (1, 2, 3):
            manager.save(step, {"step": step, "array": np.full(10, step)})
    for manifest, step in ((Path("run/step-00000003.json"), 2), (next(Path("run").glob("step-00000002-state-*")), 1)):
        flip_last_byte(manifest) if manifest.suffix != ".json" else manifest.write_text(manifest.read_text()[:-40])
        with ballast.CheckpointManager("run", sync=False) as manager:
            with pytest.warns(DamagedCheckpointWarning, match=f"step.*{step + 1}"):
                restored = manager.restore()
            assert restored is not None and restored.step == step and restored.rejected
    with ballast.CheckpointManager("run", sync=False) as manager:
        with pytest.raises(ballast.FormatError, match="digest"):
            manager.restore(2)
        with pytest.raises(ballast.FormatError):
            manager.restore(3)
        with pytest.warns(DamagedCheckpointWarning, match="step-00000003.json"):
            assert manager.latest() == 2
    flip_last_byte(next(Path("run").glob("step-00000001-state-*")))
    with ballast.CheckpointManager("run", sync=False) as manager, pytest.raises(ballast.FormatError, match="no checkpoint is sound") as info:
        manager.restore()
    assert info.value.code == "corrupt"


def test_edited_state_is_an_error_and_executes_nothing(here: Path) -> None:
    def edited(text: str) -> None:
        """A whole manifest with a right digest, whose state another program has made."""
        core = ballast._core.open_checkpoints("edited", 0, 0, "", False, 0, True, False, 1)
        core.save(1, [], [("t", np.zeros(4, np.float32))], text, [])
        core.finish()
        core.close()

    for state in (
        {"$torch": "missing"},
        {"$torch": ["t"]},
        {"$numpy": "t", "order": [5]},
        {"$numpy": "t", "dtype": "object"},
        {"$scalar": "O", "hex": "00"},
        {"$scalar": "float32", "hex": "0"},
        {"$dtype": "load"},
        {"$device": "nowhere"},
        {"$int": "__import__"},
        {"$float": "1"},
        {"$complex": [1]},
        {"$set": [[1]]},
        {"$dict": [1]},
        {"$default": [], "factory": "eval"},
        {"$reduce": ["os.system", "true"]},
    ):
        edited(json.dumps({"python": 1, "objects": {}, "state": state}))
        with ballast.CheckpointManager("edited", rng=True) as manager, pytest.raises((ballast.FormatError, ImportError)):
            manager.restore()
    for text in ("{}", '{"python":2,"objects":{}}', '{"python":1,"objects":[]}'):
        edited(text)
        with ballast.CheckpointManager("edited") as manager, pytest.raises(ballast.FormatError, match="not saved from Python"):
            manager.restore()


def test_two_managers_of_one_folder_are_refused(here: Path) -> None:
    with ballast.CheckpointManager("run"):
        with pytest.raises(OSError, match=rf"another process \({os.getpid()}\) works in this folder"):
            ballast.CheckpointManager("run")
    ballast.CheckpointManager("run").close()


def test_options_are_checked(here: Path) -> None:
    for options in ({"keep_last": -1}, {"keep_every": -5}, {"keep_best": 1}, {"threads": -1}):
        with pytest.raises(ValueError):
            ballast.CheckpointManager("run", **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ballast.CheckpointManager("run", keep_last="3")  # type: ignore[arg-type]
    Path("file").touch()
    with pytest.raises(OSError, match="file"):
        ballast.CheckpointManager("file")
