"""What netcl's less common losses give: values and gradients, on inputs that are always the same.

    python netcl_losses.py > tests/data/netcl/recorded_losses.json        # inside the environment of scripts/interop
"""

import json

import numpy as np
from netcl import autograd as ag
from netcl.autograd import ops as autograd_ops
from netcl.core.device import manager
from netcl.core.tensor import Tensor
from netcl.nn.loss import weighted_box_smooth_l1_loss
from netcl.nn.margin import MarginHead, apply_margin

autograd_ops._L2N_GPU_THRESHOLD = 1 << 60  # its kernel ends the process on PoCL 3.1; NumPy computes the same
LABELS = [0, 1, 0, 2, 1, 2]


def inputs():
    rng = np.random.default_rng(7)

    def values(low, high, *shape):
        return rng.uniform(low, high, shape).astype(np.float32).round(3).astype(np.float32)

    probabilities = values(0.05, 0.95, 3, 4)
    probabilities[0, 0], probabilities[1, 1] = 0, 1  # beyond where they are clamped
    cosines = values(-0.95, 0.95, 6, 4)
    cosines[0, 0], cosines[2, 0] = -0.97, 0.6  # where ArcFace is a straight line, and where it is not
    return {
        "rows": values(-1, 1, 6, 5), "probabilities": probabilities, "targets": values(0, 1, 3, 4),
        "weights": values(0, 3, 3, 4), "cosines": cosines, "centers": values(-1, 1, 8, 5),
        "boxes": values(0.1, 0.9, 4, 4), "box_targets": values(0.1, 0.9, 4, 4),
    }


def losses(x, queue):
    """name: (the input that the gradient is of, the loss of nodes)"""
    labels = np.array(LABELS, np.int32)

    def constant(name):
        return ag.tensor(Tensor.from_host(queue, x[name]))

    def picked(node):  # one number of all logits, in which each has a weight of its own
        shape = node.value.shape
        factors = (np.arange(np.prod(shape)) % 5 + 1).reshape(shape).astype(np.float32) / 8
        return ag.sum(ag.mul(node, ag.tensor(Tensor.from_host(queue, factors))))

    def head(rows, **config):
        head = MarginHead(5, 8 // config.get("sub_centers", 1), queue=queue, **config)
        head.weight.write(x["centers"])
        return picked(head(rows, labels))

    table = {}
    for kind in ("hard", "all"):
        for distance in ("squared", "euclidean"):
            for reduction in ("mean", "sum"):
                loss = getattr(ag, f"batch_{kind}_triplet_loss")
                table[f"batch_{kind}_{distance}_{reduction}"] = (
                    "rows", lambda n, loss=loss, d=distance, r=reduction: loss(n, labels, margin=0.5, distance=d, reduction=r))
    table["weighted_bce"] = "probabilities", lambda n: ag.weighted_bce(n, constant("targets"), constant("weights"))
    table["weighted_smooth_l1"] = (
        "probabilities", lambda n: ag.weighted_smooth_l1_loss(n, constant("targets"), constant("weights"), beta=0.3))
    table["weighted_box"] = "boxes", lambda n: weighted_box_smooth_l1_loss(n, constant("box_targets"))
    table["weighted_box_told"] = "boxes", lambda n: weighted_box_smooth_l1_loss(
        n, constant("box_targets"), beta=0.2, area_ref=0.05, area_gain=1, miss_gain=3, center_gain=2, size_gain=0.5)
    for mode in ("arcface", "cosface", "sphereface"):
        table[f"margin_{mode}"] = (
            "cosines", lambda n, m=mode: picked(apply_margin(n, labels, mode=m, margin=1.5 if m == "sphereface" else 0.5, scale=16)))
        table[f"head_{mode}"] = "rows", lambda n, m=mode: head(n, mode=m)
    table["margin_arcface_easy"] = "cosines", lambda n: picked(apply_margin(n, labels, easy_margin=True, scale=16))
    table["head_sub_centers"] = "rows", lambda n: head(n, sub_centers=2)
    return table


def record(queue):
    x = inputs()
    recorded = {"labels": LABELS, **{name: array.tolist() for name, array in x.items()}}
    for name, (of, loss) in losses(x, queue).items():
        tensor = Tensor.from_host(queue, x[of])
        tape = ag.Tape()
        ag.set_current_tape(tape)
        node = ag.tensor(tensor, requires_grad=True)
        value = loss(node)
        ag.set_current_tape(None)
        tape.backward(value)
        recorded[name] = {"value": float(value.value.to_host().reshape(-1)[0]),
                          "gradient": np.asarray(node.grad.to_host(), np.float32).reshape(-1).tolist()}
    return recorded


if __name__ == "__main__":
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in record(manager.default("auto").queue).items()]
    print("{\n" + ",\n".join(lines) + "\n}")
