"""What models and tokenizers share: sizes as people write them, messages as templates take them, the time of day."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

PathLike = Union[str, "os.PathLike[str]"]
Message = Mapping[str, Any]

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?:([kmgt])(i?)b?|b)?\s*", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes of "500MB", "2GiB" or "64k".

    >>> parse_size("2GiB")
    2147483648
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 64MiB or 2GB")
    number, unit, binary = found.groups()
    factor = 1 if unit is None else (1024 if binary else 1000) ** _POWERS[unit.lower()]
    return int(float(number) * factor)


def parse_budget(budget: str | int | float | None) -> tuple[int | None, float | None]:
    """(bytes, None) of a size, (None, share) of a share such as "25%" or 0.25."""
    if budget is None:
        return None, None
    if isinstance(budget, float):
        budget = f"{budget * 100}%"
    if isinstance(budget, int):
        if budget < 0:
            raise ValueError(f"param_budget: {budget} is less than no bytes")
        return budget, None
    if budget.strip().endswith("%"):
        try:
            share = float(budget.strip()[:-1]) / 100
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ValueError(f"param_budget: {budget!r} is not a share between 0% and 100%")
        return None, share
    return parse_size(budget), None


def clock() -> list[int]:
    """The time on the wall, for chat templates that print the date."""
    now = time.localtime()
    return [now.tm_year, now.tm_mon, now.tm_mday, now.tm_hour, now.tm_min, now.tm_sec]


def chat_context(
    messages: str | Sequence[Message],
    *,
    bos_token: str,
    eos_token: str,
    add_generation_prompt: bool,
    more: Mapping[str, Any] | None = None,
) -> str:
    """The JSON that a chat template is given."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    context: dict[str, Any] = {
        "messages": [dict(message) for message in messages],
        "add_generation_prompt": add_generation_prompt,
        "bos_token": bos_token,
        "eos_token": eos_token,
    }
    if more:
        context.update(more)
    return json.dumps(context, ensure_ascii=False)


def stop_list(stop: str | Iterable[str] | None) -> list[str]:
    if stop is None:
        return []
    return [stop] if isinstance(stop, str) else list(stop)
