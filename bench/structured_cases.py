"""What scripts/bench_structured measures: forms, and two texts for each that both programs accept."""
import json, random
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    name: str
    kind: str         # schema, grammar (GBNF) or regex
    form: str
    texts: tuple      # the first one, and a later one
    lark: str = ""    # the grammar as llguidance writes it


def schema_case(name, schema, make_value):
    return Case(name, "schema", json.dumps(schema), tuple(json.dumps(make_value(turn), ensure_ascii=False) for turn in range(2)))


def record(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False, **more}


STRING, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
WORDS = ("harbour lantern copper meadow quarrel silver timber voyage winter yellow anchor biscuit candle drawer engine feather "
         "garden hollow island jacket kettle ladder market needle orchard pepper ribbon saddle tunnel velvet").split()


def sentence(seed, count):
    words = random.Random(seed).choices(WORDS, k=count)
    return " ".join(words).capitalize() + "."


def person():
    schema = record({"name": {"type": "string", "maxLength": 60}, "code": {"type": "string", "maxLength": 12},
                     "age": {"type": "integer", "minimum": 0, "maximum": 120},
                     "tags": {"type": "array", "items": {"enum": ["kind", "proud", "patient"]}, "maxItems": 3}})
    people = ({"name": "Emma Woodhouse of Hartfield", "code": "lantern-27", "age": 21, "tags": ["kind", "proud"]},
              {"name": "George Knightley", "code": "copper", "age": 37, "tags": ["patient", "kind", "proud"]})
    return schema_case("a person: bounded strings and numbers", schema, people.__getitem__)


def invoice():
    item = record({"article": STRING, "quantity": WHOLE, "price": NUMBER, "discount": {"anyOf": [NUMBER, {"type": "null"}]}})
    address = record({"street": STRING, "city": STRING, "country": {"enum": ["AT", "DE", "FR", "GB", "US"]}})
    schema = record({"number": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{6}$"},
                     "date": {"type": "string", "format": "date"}, "customer": record({"name": STRING, "address": address}),
                     "items": {"type": "array", "items": item, "minItems": 1}, "paid": {"type": "boolean"}, "note": STRING})

    def made(turn):
        items = [{"article": sentence(turn * 50 + i, 4), "quantity": i * 3 + 1, "price": 19.5 * (i + 1 + turn),
                  "discount": None if (i + turn) % 2 else 0.25} for i in range(6)]
        return {"number": f"RE-20{turn}117", "date": f"2026-03-{14 + turn}",
                "customer": {"name": ("Jane Fairfax", "Harriet Smith")[turn], "address": {
                    "street": f"{12 + turn} Mill Lane", "city": "Highbury", "country": ("GB", "FR")[turn]}},
                "items": items, "paid": turn == 1, "note": sentence(turn * 50 + 7, 40)}
    return schema_case("an invoice: nested records in a list", schema, made)


def tree():
    node = record({"title": STRING, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}})
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}

    def made(depth, seed):
        children = [] if depth == 0 else [made(depth - 1, seed * 2 + i) for i in (1, 2)]
        return {"title": sentence(seed, 3), "children": children}
    return schema_case("a tree: a schema that contains itself", schema, lambda turn: made(3, turn * 50))


def wide():
    properties = {f"{WORDS[i % 30]}_{i}": (STRING, WHOLE, NUMBER, {"type": "boolean"})[i % 4] for i in range(80)}

    def made(turn):
        values = lambda i: (sentence(turn * 100 + i, 2), i * 37 + turn, (i + turn) / 8, (i + turn) % 8 == 3)
        return {name: values(i)[i % 4] for i, name in enumerate(properties)}
    return schema_case("80 properties", record(properties), made)


def free():
    def made(turn):
        return {"title": ("Größe — 大きさ", "Länge — 長さ")[turn], "text": sentence(turn * 50 + 3, 60),
                "list": [1, 2.5 + turn, None, True, {"deep": [[[]], {"er": "\\ \"quoted\" \n"}]}],
                "map": {word: {"length": len(word)} for word in WORDS[turn * 12:turn * 12 + 12]}}
    return schema_case("any JSON object", {"type": "object"}, made)


def choice():
    texts = [sentence(seed, 12) for seed in range(1000)]
    quoted = [json.dumps(text) for text in texts]
    return Case("one of 1,000 long texts", "grammar", "root ::= " + " | ".join(quoted), (texts[617], texts[42]),
                lark="start: " + " | ".join(quoted))


def regex():
    expression = r"([A-Z][a-z]+( [a-z]+){2,30}\.\n){3,}Reference: [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

    def made(turn):
        lines = "".join(sentence(turn * 50 + i, 9) + "\n" for i in range(8))
        return lines + f"Reference: {turn}f8fad5b-d9cb-469f-a165-70867728950e"
    return Case("a regular expression", "regex", expression, (made(0), made(1)))


def cases():
    return [make() for make in (person, invoice, tree, wide, free, choice, regex)]
