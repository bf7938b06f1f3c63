"""What the programs of this folder share: one JSON line for each case, which cases_serve.py reads."""

import json
import traceback


def require(condition, text):
    if not condition:
        raise AssertionError(text)


def run_cases(cases, *arguments):
    """Each of these functions is a case, called what its docstring says."""
    for case in cases:
        problem = None
        try:
            case(*arguments)
        except Exception as error:  # whatever a client makes of an answer
            problem = f"{type(error).__name__}: {error}"[:600] or traceback.format_exc()
        print(json.dumps({"case": case.__doc__, "problem": problem}), flush=True)
