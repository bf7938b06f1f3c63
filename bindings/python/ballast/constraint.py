"""Structured output: texts that follow a JSON Schema, a grammar or a regular expression."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Union

from ballast import _core

__all__ = ["Constraint"]

_SHOWN = 60  # characters of a source


class _HasSchema(Protocol):
    """A class of pydantic's, or one that describes itself in the same way."""

    def model_json_schema(self) -> dict[str, Any]: ...


Schema = Union[str, bool, Mapping[str, Any], _HasSchema]


class Constraint:
    """What a text has to look like. ``generate(constraint=...)`` and ``chat(constraint=...)`` write nothing else.

    Compiling takes time, so make a constraint once and use it for any number of texts, models and threads. What cannot be
    enforced raises :class:`ballast.FormatError`, and what is wrong ValueError, with the name and the place.

    A text that ``max_tokens``, a full context or ``stop`` cuts off is incomplete: :meth:`accepts` tells.

    >>> answer = Constraint.of_regex("yes|no")
    >>> answer.accepts("yes"), answer.accepts("yes!")
    (True, False)
    """

    __slots__ = ("_compiled", "_maker", "_source")

    _compiled: _core.Constraint
    _maker: str
    _source: str | None

    def __init__(self) -> None:
        raise TypeError("make a constraint with of_json_object(), of_schema(), of_grammar() or of_regex()")

    @classmethod
    def of_json_object(cls) -> Constraint:
        """Any JSON object.

        >>> Constraint.of_json_object().accepts('{"a": [1, 2]}')
        True
        """
        return cls._made("of_json_object", None, _core.Constraint.of_json_object())

    @classmethod
    def of_schema(cls, schema: Schema) -> Constraint:
        """JSON that a schema accepts: its text, a dict, or a class with ``model_json_schema()``, such as one of pydantic's.

        Properties come in the order of the schema. Keywords that would change what is valid and are not supported raise
        FormatError.

        >>> ship = Constraint.of_schema({"type": "object", "properties": {"masts": {"type": "integer"}}, "required": ["masts"]})
        >>> ship.accepts('{"masts": 3}'), ship.accepts('{"masts": "three"}')
        (True, False)
        """
        text = _schema_text(schema)
        return cls._made("of_schema", text, _core.Constraint.of_schema(text))

    @classmethod
    def of_grammar(cls, gbnf: str) -> Constraint:
        """What the rule "root" of a grammar matches, in GBNF, the notation of llama.cpp.

        >>> Constraint.of_grammar('root ::= "a" root "b" | ""').accepts("aabb")
        True
        """
        return cls._made("of_grammar", gbnf, _core.Constraint.of_grammar(gbnf))

    @classmethod
    def of_regex(cls, expression: str) -> Constraint:
        """What a regular expression matches as a whole.

        >>> Constraint.of_regex("[0-9]{4}-[0-9]{2}").accepts("1815-12")
        True
        """
        return cls._made("of_regex", expression, _core.Constraint.of_regex(expression))

    def accepts(self, text: str) -> bool:
        """Whether a text is complete."""
        return self._compiled.accepts(text)

    @classmethod
    def _made(cls, maker: str, source: str | None, core: _core.Constraint) -> Constraint:
        made = object.__new__(cls)
        made._compiled, made._maker, made._source = core, maker, source
        return made

    def __reduce__(self) -> tuple[Callable[..., Constraint], tuple[str, ...]]:
        return getattr(Constraint, self._maker), () if self._source is None else (self._source,)

    def __repr__(self) -> str:
        source = self._source or ""
        shown = source if len(source) <= _SHOWN else source[: _SHOWN - 3] + "..."
        return f"Constraint.{self._maker}({'' if self._source is None else repr(shown)})"


def core_of(constraint: Constraint | None) -> _core.Constraint | None:
    if constraint is None:
        return None
    if not isinstance(constraint, Constraint):  # pyright: ignore[reportUnnecessaryIsInstance] - not everyone checks types
        raise TypeError(f"constraint: a ballast.Constraint, not {type(constraint).__name__}")
    return constraint._compiled  # pyright: ignore[reportPrivateUsage]


def _schema_text(schema: Schema) -> str:
    if isinstance(schema, str):
        return schema
    if isinstance(schema, (bool, Mapping)):
        described: Any = schema
    elif hasattr(schema, "model_json_schema"):
        described = schema.model_json_schema()
    else:
        raise TypeError(f"a schema is a str, a dict or a class with model_json_schema(), not {schema!r}")
    return json.dumps(described if isinstance(described, bool) else dict(described), ensure_ascii=False)
