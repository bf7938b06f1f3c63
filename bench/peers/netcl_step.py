"""Times of a training step of netcl: mlp-sgd or mlp-adam, and how many steps. Prints {"times_ms": [...]}."""
import json, sys, time

import numpy as np
from netcl import autograd
from netcl.core.device import manager
from netcl.core.tensor import Tensor
from netcl.nn import Linear, ReLU, Sequential
from netcl.optim import SGD, Adam


def main():
    work, count = sys.argv[1], int(sys.argv[2])
    queue = manager.default("auto").queue
    random = np.random.default_rng(1)
    model = Sequential(Linear(queue, 784, 128), ReLU(), Linear(queue, 128, 10))
    optimizer = SGD(model.parameters(), lr=0.01) if work == "mlp-sgd" else Adam(model.parameters(), lr=1e-3)
    x = Tensor.from_host(queue, random.random((64, 784), dtype=np.float32))
    y = Tensor.from_host(queue, np.eye(10, dtype=np.float32)[random.integers(0, 10, 64)])

    def step():
        optimizer.zero_grad()
        tape = autograd.Tape()
        autograd.set_current_tape(tape)
        loss = autograd.cross_entropy(model(autograd.tensor(x)), autograd.tensor(y))
        autograd.set_current_tape(None)
        tape.backward(loss)
        optimizer.step()
        return float(loss.value.to_host().ravel()[0])

    times = []
    for i in range(count + 2):
        begin = time.perf_counter()
        step()
        if i >= 2:
            times.append((time.perf_counter() - begin) * 1e3)
    print(json.dumps({"times_ms": times}))


main()
