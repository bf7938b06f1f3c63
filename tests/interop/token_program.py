"""`interop_tokenize` with one tokenizer: many texts in one run, because large vocabularies take their time to load."""

import subprocess

from harness import Mismatch

TIMEOUT_S = 600


def ask(suite, tokenizer, lines):
    program = suite.ballast.program.rsplit("/", 1)[0] + "/interop_tokenize"
    done = subprocess.run([program, str(tokenizer)], input="\n".join(lines) + "\n", capture_output=True, encoding="utf-8",
                          timeout=TIMEOUT_S)
    answers = done.stdout.splitlines()
    if done.returncode != 0 or len(answers) != len(lines):
        raise Mismatch(f"interop_tokenize {tokenizer}: {done.stderr.strip() or f'{len(answers)} answers to {len(lines)}'}")
    return answers


def encode_all(suite, tokenizer, texts, words):
    """The ids of each text (bytes)."""
    answers = ask(suite, tokenizer, [f"{words} {text.hex() or '-'}" for text in texts])
    return [ids_of(answer) for answer in answers]


def decode_all(suite, tokenizer, lists):
    answers = ask(suite, tokenizer, [f"decode {','.join(map(str, ids)) or '-'}" for ids in lists])
    return [bytes.fromhex(answer) for answer in answers]


def ids_of(answer):
    if answer.startswith("error"):
        raise Mismatch(answer)
    return [int(word) for word in answer.split(",")] if answer else []


def same_ids(texts, expected, seen):
    for text, theirs, ours in zip(texts, expected, seen, strict=True):
        if theirs != ours:
            raise Mismatch(f"{text!a}: {theirs} there, {ours} here")
