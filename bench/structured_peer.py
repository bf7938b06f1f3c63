"""llguidance's turn, in a process of its own: structured_peer.py TOKENIZER CASE TOKENS RUNS prints what mask_bench does.

TOKENIZER is a tokenizer.json, CASE a number of structured_cases.cases(). TOKENS (JSON: a list for each text) are those of
mask_bench, so that both programs have the same tokens at the same places.
"""
import json, sys, time

import llguidance
import llguidance.numpy
import structured_cases


def grammar_of(case):
    if case.kind == "schema":
        return llguidance.LLMatcher.grammar_from_json_schema(case.form)
    if case.kind == "grammar":
        return llguidance.LLMatcher.grammar_from_lark(case.lark)
    return llguidance.LLMatcher.grammar_from_regex(case.form)


def since(start):
    return (time.perf_counter_ns() - start) / 1e3


def follow(matcher, ids, size, times):
    bitmask = llguidance.numpy.allocate_token_bitmask(1, size)
    row, address, length = bitmask[0], bitmask.ctypes.data, bitmask.nbytes
    for i in range(len(ids) + 1):
        start = time.perf_counter_ns()
        matcher.unsafe_compute_mask_ptr(address, length)
        times["mask_us"].append(since(start))
        if i == len(ids):
            break
        if not row[ids[i] // 32] >> (ids[i] % 32) & 1:
            raise RuntimeError(f"token {i} breaks llguidance's constraint: {matcher.get_error()}")
        start = time.perf_counter_ns()
        matcher.consume_token(ids[i])
        times["advance_us"].append(since(start))
    if not matcher.is_accepting():
        raise RuntimeError("the text is incomplete for llguidance")


def measure(tokenizer, case, ids, runs):
    if case.kind == "schema":
        tokenizer = tokenizer.with_slices(llguidance.LLTokenizer.json_slices())
    compiling = []
    first, later = ({"mask_us": [], "advance_us": []} for _ in range(2))
    for _ in range(runs):
        start = time.perf_counter_ns()
        matcher = llguidance.LLMatcher(tokenizer, grammar_of(case))
        compiling.append(since(start) / 1e3)
        if matcher.is_error():
            raise RuntimeError(matcher.get_error())
        follow(matcher, ids[0], tokenizer.vocab_size, first)
        matcher.reset()
        follow(matcher, ids[1], tokenizer.vocab_size, later)
    return {"compile_ms": compiling, "first": first, "later": later}


if __name__ == "__main__":
    path, number, tokens, runs = sys.argv[1:]
    case = structured_cases.cases()[int(number)]
    print(json.dumps(measure(llguidance.LLTokenizer(path), case, json.loads(tokens), int(runs))))
