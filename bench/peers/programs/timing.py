"""What the programs share: tokens, times, and files of numbers."""
import os, tempfile, time


def some_tokens(count, vocabulary):
    """As bench/model_worker.cc has them."""
    return [i * 7919 % vocabulary for i in range(count)]


def milliseconds_of(body):
    start = time.perf_counter()
    body()
    return (time.perf_counter() - start) * 1e3


def stored(array):
    """The path of a new file with these numbers as f32; whoever reads it removes it."""
    import numpy
    handle, path = tempfile.mkstemp(prefix="ballast-peers-", suffix=".f32")
    os.close(handle)
    numpy.ascontiguousarray(array, dtype=numpy.float32).tofile(path)
    return path


def pixels_of(work):
    import numpy
    return numpy.fromfile(work["pixels"], numpy.float32).reshape(-1, 3, 224, 224)[:work["batch"]].copy()
