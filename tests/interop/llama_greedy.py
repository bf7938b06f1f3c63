"""Continues token ids greedily with llama.cpp, in a process of its own: it aborts where it does not like a file.

    python llama_greedy.py MODEL STEPS ID,ID,...       prints the new ids as a JSON list
"""

import json
import sys

import xllamacpp


def main():
    path, steps, ids = sys.argv[1], int(sys.argv[2]), [int(word) for word in sys.argv[3].split(",")]
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 128
    params.n_parallel = 1
    params.warmup = False
    params.cpuparams.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    answer = xllamacpp.Server(params).handle_completions(
        {"prompt": ids, "n_predict": steps, "temperature": 0, "top_k": 1, "logprobs": 1, "ignore_eos": True, "cache_prompt": False})
    print(json.dumps([token["id"] for token in answer["choices"][0]["logprobs"]["content"]]))


if __name__ == "__main__":
    main()
