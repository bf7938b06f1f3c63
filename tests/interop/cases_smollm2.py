"""SmolLM2-135M-Instruct (q4_1): tokens and continuations against what was recorded of llama.cpp, and of f32 arithmetic on
the same weights. The model is fetched with `ballast get`."""

import json
from pathlib import Path

from harness import require

STEPS = 32
# Where the two best logits are nearer than this, f32 itself may go either way.
DECIDED = 0.01
# Of a logit, between two ways to sum in f32 through 30 layers.
LOGIT_TOLERANCE = 2e-3


def equal_prefix(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def decided_steps(gaps):
    """How many steps f32 decides before the first that hangs on rounding."""
    return next((i for i, gap in enumerate(gaps) if gap <= DECIDED), len(gaps))


class Model:
    def __init__(self, ballast):
        self.ballast = ballast
        self.path = ballast.run("get", "smollm2").stdout.strip()

    def tokens(self, text):
        said = self.ballast.run("tokenize", self.path, "--text", text, "--ids").stdout.strip()
        return [int(word) for word in said.split(",")]

    def greedy(self, ids, numerics):
        run = self.ballast.run("generate", self.path, "--tokens", ",".join(map(str, ids)), "--greedy", "--ignore-eos",
                               "--max-tokens", STEPS, "--numerics", numerics, "--json")
        return json.loads(run.stdout)["tokens"]

    def best_logits(self, ids, numerics):
        run = self.ballast.run("forward", self.path, "--tokens", ",".join(map(str, ids)), "--numerics", numerics, "--json")
        return {row["index"]: row["logit"] for row in json.loads(run.stdout)["rows"][0]["top"]}


def exact(suite, model, prompts):
    for prompt in prompts:
        f32 = prompt["f32"]
        steps = decided_steps(f32["gaps"])
        with suite.case("read", f"{prompt['kind']}: {steps} of {STEPS} tokens as f32 arithmetic, with --numerics exact"):
            seen = model.greedy(prompt["ids"], "exact")
            same = equal_prefix(seen, f32["greedy"])
            require(same >= steps, f"parts at step {same}: {seen[same:same + 4]}, not {f32['greedy'][same:same + 4]}")
            logits = model.best_logits(prompt["ids"], "exact")
            for index, logit in f32["top5"]:
                require(index in logits and abs(logits[index] - logit) <= LOGIT_TOLERANCE,
                        f"logit of {index} is {logits.get(index)}, not {logit}")


def nearer_than_llama_cpp(suite, model, prompts):
    """Default numerics: the sum of tokens that agree with f32, and the distance of the best logits."""
    ours = theirs = whole_ours = whole_theirs = whole_llama = 0
    our_distance = their_distance = 0.0
    for prompt in prompts:
        f32, llama = prompt["f32"], prompt["llama_cpp"]
        seen, logits = model.greedy(prompt["ids"], "fast"), model.best_logits(prompt["ids"], "fast")
        ours += equal_prefix(seen, f32["greedy"])
        theirs += equal_prefix(llama["greedy"], f32["greedy"])
        whole_ours += seen == f32["greedy"]
        whole_theirs += llama["greedy"] == f32["greedy"]
        whole_llama += seen == llama["greedy"]
        recorded = dict(map(tuple, llama["top5"]))
        for index, logit in f32["top5"]:
            if index in recorded and index in logits:
                our_distance += abs(logits[index] - logit)
                their_distance += abs(recorded[index] - logit)
    count = len(prompts)
    print(f"     of {count} runs: {whole_ours} agree with f32 to the end (llama.cpp: {whole_theirs}), {whole_llama} with llama.cpp; "
          f"tokens before the first difference from f32: {ours} of {count * STEPS} (llama.cpp: {theirs}); distance of the best "
          f"logits: {our_distance / their_distance:.2f} of llama.cpp's")
    with suite.case("both", "the default numerics are nearer to f32 than llama.cpp's"):
        require(ours > theirs and our_distance < their_distance, f"{ours} tokens against {theirs}")


def run(suite):
    recorded = json.loads((Path(__file__).parent / "smollm2.json").read_text("utf-8"))
    model = Model(suite.ballast)
    for prompt in recorded["prompts"]:
        with suite.case("read", f"{prompt['kind']}: the same {len(prompt['ids'])} tokens"):
            require(model.tokens(prompt["prompt"]) == prompt["ids"], f"{model.tokens(prompt['prompt'])}")
    exact(suite, model, recorded["prompts"])
    nearer_than_llama_cpp(suite, model, recorded["prompts"])
