"""Structured output: what a constraint demands is what models write, and validators agree."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
from program import MODELS, run_json

import ballast
from ballast import Constraint

DEFAULT = MODELS / "default"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["kind", "proud"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
}


@pytest.fixture(scope="module")
def model():
    with ballast.load(DEFAULT, chat_template=TEMPLATE) as opened:
        yield opened


# ---------------------------------------------------------------- constraints


def test_says_which_texts_are_complete():
    assert Constraint.of_json_object().accepts(' {"a": [1, {"b": null}]}')
    assert not Constraint.of_json_object().accepts("[1]")
    person = Constraint.of_schema(PERSON)
    assert person.accepts('{"name": "Emma", "age": 21, "tags": ["kind"]}')
    assert not person.accepts('{"name": "Emma", "age": 21}')
    assert not person.accepts('{"name": "Emma", "age": 21, "tags": [')
    assert Constraint.of_grammar('root ::= "ä"+').accepts("ää")
    assert Constraint.of_regex("(yes|no)!*").accepts("no!!")


class Ship:
    """Describes itself like one of pydantic's classes."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {"type": "object", "properties": {"masts": {"type": "integer"}}, "required": ["masts"]}


@pytest.mark.parametrize("schema", [Ship, Ship.model_json_schema(), json.dumps(Ship.model_json_schema())])
def test_a_schema_is_a_text_a_dict_or_a_class_that_has_one(schema):
    constraint = Constraint.of_schema(schema)
    assert constraint.accepts('{"masts": 3}')
    assert not constraint.accepts('{"masts": 3.5}')


def test_true_is_a_schema_that_accepts_anything():
    assert Constraint.of_schema(True).accepts("[null]")


@pytest.mark.parametrize(
    ("make", "source", "error", "message"),
    [
        (Constraint.of_schema, {"properties": {"a": {"not": {}}}}, ballast.FormatError, "/properties/a/not"),
        (Constraint.of_schema, {"type": "objekt"}, ValueError, "objekt"),
        (Constraint.of_schema, '{"type"', ValueError, "schema"),
        (Constraint.of_schema, 7, TypeError, "model_json_schema"),
        (Constraint.of_grammar, "root ::= x", ValueError, "x"),
        (Constraint.of_grammar, b"root", TypeError, None),
        (Constraint.of_regex, "(", ValueError, "not closed"),
        (Constraint.of_regex, r"a\b", ballast.FormatError, None),
        (Constraint.of_regex, "\ud800", UnicodeEncodeError, None),
    ],
)
def test_what_cannot_be_enforced_is_said(make, source, error, message):
    with pytest.raises(error, match=message):
        make(source)


def test_what_is_not_supported_has_a_code():
    with pytest.raises(ballast.FormatError) as caught:
        Constraint.of_schema({"multipleOf": 3})
    assert caught.value.code == "unsupported"


def test_shows_what_it_was_made_from():
    assert repr(Constraint.of_json_object()) == "Constraint.of_json_object()"
    assert repr(Constraint.of_regex("yes|no")) == "Constraint.of_regex('yes|no')"
    assert repr(Constraint.of_schema({"const": 7})) == "Constraint.of_schema('{\"const\": 7}')"
    assert len(repr(Constraint.of_schema(PERSON))) < 100
    with pytest.raises(TypeError, match="of_schema"):
        Constraint()


@pytest.mark.parametrize("made", [Constraint.of_json_object(), Constraint.of_schema(PERSON), Constraint.of_regex("a+")])
def test_goes_to_other_processes(made):
    copy = pickle.loads(pickle.dumps(made))
    assert repr(copy) == repr(made)
    for text in ("a", "{}", '{"name": "", "age": 1, "tags": []}'):
        assert copy.accepts(text) == made.accepts(text)


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_writes_what_the_command_writes(model, tmp_path, seed):
    (tmp_path / "person.json").write_text(json.dumps(PERSON))
    told = run_json(
        "generate", DEFAULT / "model.gptrs", "--prompt", "Emma was", "--json-schema", tmp_path / "person.json",
        "--temperature", 1, "--seed", seed, "--max-tokens", 200,
    )  # fmt: skip
    constraint = Constraint.of_schema(PERSON)
    generation = model.generate("Emma was", constraint=constraint, temperature=1, seed=seed, max_tokens=200)
    assert generation.text == told["text"]
    assert generation.finish_reason == "stop"
    assert constraint.accepts(generation.text)
    jsonschema.validate(json.loads(generation.text), PERSON)


def test_a_text_that_is_cut_off_is_not_complete(model):
    constraint = Constraint.of_json_object()
    generation = model.generate("Emma was", constraint=constraint, max_tokens=1)
    assert generation.text
    assert generation.finish_reason == "length"
    assert not constraint.accepts(generation.text)


def test_answers_have_the_form_too(model):
    answer = model.chat("Is it so?", constraint=Constraint.of_regex("yes|no"), temperature=1)
    assert answer.text in ("yes", "no")
    assert answer.finish_reason == "stop"


def test_tasks_write_what_each_writes_alone(model):
    constraint = Constraint.of_schema(PERSON)
    options = {"constraint": constraint, "temperature": 1, "max_tokens": 120}
    alone = [model.generate("Emma", seed=seed, **options).text for seed in range(6)]

    async def write(seed):
        return "".join([piece async for piece in model.generate("Emma", seed=seed, **options)])

    async def answer():
        return "".join([piece async for piece in model.chat("Well?", constraint=Constraint.of_regex("yes|no"))])

    async def write_all():
        return await asyncio.gather(*(write(seed) for seed in range(6)), answer())

    *together, answered = asyncio.run(write_all())
    assert together == alone
    assert answered in ("yes", "no")


def test_threads_share_a_constraint(model):
    constraint = Constraint.of_schema(PERSON)
    options = {"constraint": constraint, "temperature": 1, "max_tokens": 120}
    alone = [model.generate("Emma", seed=seed, **options).text for seed in range(8)]
    gate = threading.Barrier(8)

    def write(seed):
        gate.wait()
        return model.generate("Emma", seed=seed, **options).text

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(write, range(8))) == alone


def test_a_text_that_must_not_end_cannot_be_constrained(model):
    with pytest.raises(ValueError, match="ignore_eos"):
        model.generate("Emma", constraint=Constraint.of_json_object(), ignore_eos=True)
    comma = model.tokenizer.encode(",").ids
    options = {"constraint": Constraint.of_regex("yes|no"), "ignore_eos": True, "stop_token_ids": comma}
    assert model.generate("Emma", **options).text in ("yes", "no")


def test_a_text_is_no_constraint(model):
    for write in (model.generate, model.chat):
        with pytest.raises(TypeError, match="Constraint"):
            write("Emma", constraint="yes|no")


def test_batches_may_have_a_constraint():
    written = ballast.batch.generate(["It is", "She"], DEFAULT, constraint=Constraint.of_regex("yes|no"))
    assert set(written) <= {"yes", "no"} and len(written) == 2


# ---------------------------------------------------------------- random schemas


class RandomSchema:
    """Draws schemas of the keywords that docs/structured.md lists."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def make(self) -> Any:
        schema = self.value(0)
        links = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/list"}]}
        chain = {"type": "object", "properties": {"v": self.scalar(), "next": links}, "required": ["v"]}
        return {**schema, "$defs": {"leaf": self.scalar(), "list": chain}}

    def value(self, depth: int) -> dict[str, Any]:
        if depth >= 3:
            return self.scalar()
        kinds = [self.object, self.object, self.array, self.any_of, self.reference, self.map, lambda _: self.scalar()]
        return self.random.choice(kinds)(depth)

    def scalar(self) -> dict[str, Any]:
        plain: list[dict[str, Any]] = [
            {"type": "boolean"},
            {"type": "null"},
            {"type": "number"},
            {"const": {"a": [1, "é"]}},
            {"enum": [1, "1", None, True, [], {}]},
            {"type": ["integer", "null", "string"], "maxLength": 12},
        ]
        return self.random.choice([*plain, self.integer(), self.integer(), self.string(), self.string()])

    def integer(self) -> dict[str, Any]:
        low = self.random.randint(-2000, 2000)
        bounds: list[dict[str, Any]] = [
            {},
            {"minimum": low},
            {"exclusiveMaximum": low},
            {"minimum": low, "maximum": low + self.random.randint(0, 300)},
            {"exclusiveMinimum": low, "exclusiveMaximum": low + 2},
        ]
        kind = "integer" if self.random.random() < 0.7 else "number"
        return {"type": kind, **self.random.choice(bounds)}

    def string(self) -> dict[str, Any]:
        least = self.random.randint(0, 3)
        kinds: list[dict[str, Any]] = [
            {"maxLength": 20},
            {"minLength": least, "maxLength": least + self.random.randint(0, 30)},
            {"pattern": "^[a-z]{2,5}(-[0-9]+)?$"},
            {"pattern": "^(red|green|gr[uü]n)$"},
            {"format": "date"},
            {"format": "time"},
            {"format": "date-time"},
            {"format": "uuid"},
            {"format": "ipv4"},
            {"format": "email"},
        ]
        return {"type": "string", **self.random.choice(kinds)}

    def object(self, depth: int) -> dict[str, Any]:
        names = [f"{self.random.choice(['name', 'id', 'é', 'a b', 'q'])}{i}" for i in range(self.random.randint(0, 4))]
        properties = {name: self.value(depth + 1) for name in names}
        required = [name for name in names if self.random.random() < 0.5]
        closed = {"additionalProperties": False} if self.random.random() < 0.7 else {}
        return {"type": "object", "properties": properties, "required": required, **closed}

    def array(self, depth: int) -> dict[str, Any]:
        least = self.random.randint(0, 2)
        bounds = {"minItems": least, "maxItems": least + self.random.randint(0, 3)}
        if self.random.random() < 0.3:
            bounds["prefixItems"] = [self.scalar(), self.scalar()]
        return {"type": "array", "items": self.value(depth + 1), **bounds}

    def any_of(self, depth: int) -> dict[str, Any]:
        return {"anyOf": [self.value(depth + 1), self.value(depth + 1)]}

    def reference(self, _: int) -> dict[str, Any]:
        return {"$ref": "#/$defs/" + self.random.choice(["leaf", "list"])}

    def map(self, _: int) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.scalar()}

    # Schemas that apply together. Some contradict themselves, which is an error.

    def make_combined(self) -> Any:
        kind = self.random.choice(list(PIECES))
        definitions = {name: self.random.choice(pieces) for name, pieces in PIECES.items()}
        return {**self.together(kind, 0), "$defs": definitions}

    def together(self, kind: str, depth: int) -> dict[str, Any]:
        own = self.random.choice(PIECES[kind])
        both = [self.piece(kind, depth), self.piece(kind, depth)]
        reference = {"$ref": f"#/$defs/{kind}"}
        forms: list[dict[str, Any]] = [
            {"allOf": both},
            {"allOf": [reference, {"description": "q"}]},
            {**own, "allOf": both},
            {**own, "anyOf": both},
            {**own, "oneOf": EXCLUSIVE[kind]},
            {**own, **reference},
            {"allOf": both, "anyOf": [self.piece(kind, depth), {"type": "null"}]},
        ]
        return self.random.choice(forms)

    def piece(self, kind: str, depth: int) -> Any:
        if depth >= 2 or self.random.random() < 0.4:
            return self.random.choice(PIECES[kind])
        nested = self.together(kind, depth + 1)
        if kind == "object" and self.random.random() < 0.3:
            inner = {name: self.together(self.random.choice(list(PIECES)), depth + 1) for name in ("a", "c")}
            return {"type": "object", "properties": inner, "required": ["a"]}
        return self.random.choice([nested, nested, {"$ref": f"#/$defs/{kind}"}, True, {"title": "t"}])


# Schemas of one kind of values, which say little enough to have values in common.
PIECES: dict[str, list[dict[str, Any]]] = {
    "number": [
        {"type": "integer"},
        {"minimum": 2},
        {"maximum": 7},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 8},
        {"type": ["integer", "string"], "minimum": 0, "maxLength": 3},
        {"enum": [1, 2, 3, 4, 2.5, "x", None]},
        {"enum": [3, 4, 9], "maximum": 6},
        {"type": "integer", "nullable": True},
    ],
    "text": [
        {"type": "string"},
        {"minLength": 2},
        {"type": "string", "maxLength": 6},
        {"enum": ["red", "green", "grün", "", 7]},
        {"type": ["string", "null"]},
        {"type": "string", "pattern": "^[a-z]{2,5}$"},
        {"type": "string", "nullable": True, "enum": ["red", "blue", None]},
        {"const": "red"},
    ],
    "list": [
        {"type": "array"},
        {"items": {"type": "integer"}, "maxItems": 4},
        {"type": "array", "items": {"minimum": 3}, "minItems": 1},
        {"prefixItems": [{"type": "integer"}, {"type": "integer"}]},
        {"prefixItems": [{"minimum": 1}], "items": {"type": "number"}},
    ],
    "object": [
        {"type": "object", "properties": {"k": {"type": "string"}, "a": {"minimum": 1}}},
        {"properties": {"k": {"enum": ["x", "y"]}, "b": {"maxLength": 4}}, "required": ["k"]},
        {"type": "object", "properties": {"a": {"type": "integer"}, "k": True}, "additionalProperties": False},
        {"type": "object", "required": ["b"]},
        {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
    ],
}
# Two of each kind that no value satisfies at once.
EXCLUSIVE: dict[str, list[dict[str, Any]]] = {
    "number": [{"type": "integer", "maximum": 2}, {"type": "integer", "minimum": 3}],
    "text": [{"enum": ["red", "green"]}, {"type": "string", "minLength": 6}],
    "list": [{"type": "array", "maxItems": 1}, {"type": "array", "minItems": 2}],
    "object": [{"type": "object", "properties": {"k": {"const": name}}, "required": ["k"]} for name in ("x", "y")],
}


def as_standard_schema(schema: Any) -> Any:
    """For a validator that knows no `nullable`, and takes keywords that it does not know for annotations."""
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    known = {"title", "description", "$defs", "$ref", "type", "enum", "const", "properties", "required", "items"}
    known |= {"additionalProperties", "prefixItems", "minItems", "maxItems", "minLength", "maxLength", "pattern"}
    known |= {"format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf", "oneOf", "allOf"}
    if schema.pop("nullable", False) and "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        schema["type"] = sorted({*names, "null"})
    assert set(schema) <= known, f"the test does not know what {set(schema) - known} mean"
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            schema[keyword] = as_standard_schema(schema[keyword])
    for keyword in ("properties", "$defs"):
        if keyword in schema:
            schema[keyword] = {name: as_standard_schema(value) for name, value in schema[keyword].items()}
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if keyword in schema:
            schema[keyword] = [as_standard_schema(value) for value in schema[keyword]]
    return schema


def formats() -> jsonschema.FormatChecker:
    """The validator's own checks; it has none of times without another package."""
    import datetime

    checker = jsonschema.FormatChecker(["date", "uuid", "ipv4", "email"])
    for name, kind in (("time", datetime.time), ("date-time", datetime.datetime)):

        def has_zone(value, kind=kind):
            return not isinstance(value, str) or kind.fromisoformat(value).tzinfo is not None

        checker.checks(name, raises=ValueError)(has_zone)
    return checker


def compiled(seeds: range, make: Callable[[RandomSchema], Any]) -> Iterator[tuple[int, Any, Constraint]]:
    """Schemas that contradict themselves, or cannot be enforced, say so."""
    for seed in seeds:
        schema = make(RandomSchema(seed))
        try:
            constraint = Constraint.of_schema(schema)
        except (ValueError, ballast.FormatError) as error:
            assert str(error).startswith("schema: "), schema
            continue
        yield seed, schema, constraint


def check_texts_of_random_schemas(model: ballast.Model, seeds: range, make: Callable[[RandomSchema], Any]) -> int:
    """Every text that is complete is valid. How many there were."""
    complete = 0
    for first in range(seeds.start, seeds.stop, 32):
        some = list(compiled(range(first, min(first + 32, seeds.stop)), make))
        # A model at such a temperature knows hardly more than a die.
        texts = [
            model.generate("It was", constraint=constraint, temperature=1 + seed % 3, seed=seed, max_tokens=240)
            for seed, _, constraint in some
        ]
        with ThreadPoolExecutor(max(len(texts), 1)) as pool:
            written = list(pool.map(lambda generation: generation.text, texts))
        for (_, schema, constraint), generation, text in zip(some, texts, written):
            assert constraint.accepts(text) == (generation.finish_reason == "stop"), (schema, text)
            if generation.finish_reason != "stop":
                assert generation.finish_reason in ("length", "context_full")
                continue
            complete += 1
            validator = jsonschema.Draft202012Validator(as_standard_schema(schema), format_checker=formats())
            problems = [problem.message for problem in validator.iter_errors(json.loads(text))]
            assert not problems, (schema, text, problems)
    return complete


def test_every_text_of_a_random_schema_is_valid(model):
    """BALLAST_TESTS_SCHEMAS=3000 takes longer."""
    schemas = int(os.environ.get("BALLAST_TESTS_SCHEMAS", "96"))
    assert check_texts_of_random_schemas(model, range(schemas), RandomSchema.make) > schemas * 2 // 3


def test_every_text_of_random_schemas_that_apply_together_is_valid(model):
    schemas = int(os.environ.get("BALLAST_TESTS_SCHEMAS", "192"))
    assert check_texts_of_random_schemas(model, range(schemas), RandomSchema.make_combined) > schemas // 3
