"""Makes train.txt and held.txt from the six novels of Jane Austen (public domain).

usage: make_corpus.py FOLDER_OF_THE_UNPACKED_PACKAGE OUT_FOLDER

The novels come from Debian's package r-cran-janeaustenr (Project Gutenberg's texts):
  apt-get download r-cran-janeaustenr && dpkg -x r-cran-janeaustenr_*.deb austen && pip install rdata
Paragraphs become lines, chapters are joined by <|endoftext|>; every twentieth chapter of a book is held out.
"""
import gzip, re, struct, sys, zlib

import rdata


def unserialize(data):
    return rdata.conversion.convert(rdata.parser.parse_data(data))


def read_books(folder):
    """R keeps the variables of a package in one file, each compressed, and their places in another."""
    base = f"{folder}/usr/lib/R/site-library/janeaustenr/data/Rdata"
    index = open(base + ".rdx", "rb").read()
    places = unserialize(zlib.decompress(index) if index[:1] == b"x" else gzip.decompress(index))["variables"]
    database = open(base + ".rdb", "rb").read()
    for name, (offset, length) in places.items():
        yield name, "\n".join(map(str, unserialize(zlib.decompress(database[int(offset) + 4:int(offset) + int(length)]))))


def chapters_of(text):
    text = text.replace("_", "").replace("--", "\u2014")
    for part in re.split(r"\n(?=(?:CHAPTER|Chapter|VOLUME)\b[^\n]*\n)", text)[1:]:
        paragraphs = (re.sub(r"\s+", " ", p).strip() for p in re.split(r"\n\s*\n", part))
        lines = [p for p in paragraphs if p and not re.match(r"(?i)^(chapter|volume|finis|the end)\b", p)]
        if sum(map(len, lines)) > 2000:
            yield "\n".join(lines)


def main(folder, out):
    kept, held = [], []
    for _, text in read_books(folder):
        for i, chapter in enumerate(chapters_of(text)):
            (held if i % 20 == 10 else kept).append(chapter)
    for name, chapters in (("train", kept), ("held", held)):
        with open(f"{out}/{name}.txt", "w", encoding="utf-8") as file:
            file.write("<|endoftext|>".join(chapters))


main(*sys.argv[1:])
