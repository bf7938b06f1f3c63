"""What verify, diff, hash, stats, convert, quantize and doctor give: values that show themselves well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ballast import _html
from ballast._text import bytes_text, counted, number_text, table


@dataclass(frozen=True)
class Finding:
    """Something about a file that is unusual ("note"), odd ("warning") or wrong ("error")."""

    severity: str
    code: str
    offset: int
    tensor: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.severity} [{self.code}] at byte {self.offset}: {self.message}"


@dataclass(frozen=True, repr=False)
class VerifyReport:
    """Whether a file is what it says it is. True where it is sound."""

    path: str
    format: str
    sound: bool
    findings: list[Finding]

    def __bool__(self) -> bool:
        return self.sound

    def __repr__(self) -> str:
        lines = [f"VerifyReport({self.path}: {self.format}, {'sound' if self.sound else 'not sound'})"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])

    def _repr_html_(self) -> str:
        rows = [[f.severity, f.code, str(f.offset), f.tensor or "", f.message] for f in self.findings]
        title = f"{self.path}: {self.format}, {'sound' if self.sound else 'not sound'}"
        return _html.titled(title, _html.table(["severity", "code", "offset", "tensor", "message"], rows))


@dataclass(frozen=True)
class LostTensor:
    """A tensor that a damaged file speaks of and that cannot be had."""

    name: str
    code: str
    why: str


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What is wrong with a file, why, and what can be saved of it."""

    path: str
    verdict: str
    format: str | None
    content: str | None
    what: str
    cause: str | None
    advice: str | None
    size: int
    offset: int | None
    findings: list[Finding]
    sound_tensors: int
    sound_bytes: int
    lost: list[LostTensor]
    complete: bool
    files: list[str] = field(default_factory=list[str])

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "what", self.what
        if self.cause:
            yield "cause", self.cause
        if self.advice:
            yield "advice", self.advice
        yield "can be saved", f"{counted(self.sound_tensors, 'tensor')}, {bytes_text(self.sound_bytes)}"
        if self.lost:
            yield "lost", ", ".join(tensor.name for tensor in self.lost)
        if self.files:
            yield "rescued to", ", ".join(self.files)

    def __repr__(self) -> str:
        head = f"Diagnosis({self.path}: {self.verdict}{', ' + self.format if self.format else ''})"
        return "\n".join([head, *(f"  {name}: {text}" for name, text in self._lines())])

    def _repr_html_(self) -> str:
        return _html.titled(f"{self.path}: {self.verdict}", _html.table(["", ""], [list(line) for line in self._lines()]))


@dataclass(frozen=True)
class DiffEntry:
    """How one tensor of the first archive compares with one of the second."""

    kind: str  # "same", "changed", "renamed", "transposed", "only_in_a", "only_in_b"
    name_a: str | None
    name_b: str | None
    note: str | None
    comparable: bool
    within_tolerance: bool
    differing: int
    elements: int
    max_abs: float
    max_rel: float
    max_ulp: int

    @property
    def name(self) -> str:
        """The name in the first archive, or where it is only in the second, there."""
        return self.name_a if self.name_a is not None else self.name_b or ""

    def _cells(self) -> list[str]:
        name = self.name if self.name_b in (None, self.name_a) or self.name_a is None else f"{self.name_a} = {self.name_b}"
        numbers = [f"{self.differing}/{self.elements}", number_text(self.max_abs), number_text(self.max_rel)]
        return [self.kind, name, *(numbers if self.comparable else ["", "", ""]), self.note or ""]


_DIFF_HEADER = ["", "tensor", "differing", "max abs", "max rel", ""]


@dataclass(frozen=True, repr=False)
class DiffReport:
    """How two archives compare. True where they are equal."""

    path_a: str
    path_b: str
    equal: bool
    entries: list[DiffEntry]

    def __bool__(self) -> bool:
        return self.equal

    @property
    def changes(self) -> list[DiffEntry]:
        """All entries that are not the same on both sides."""
        return [entry for entry in self.entries if entry.kind != "same"]

    def count(self, kind: str) -> int:
        return sum(entry.kind == kind for entry in self.entries)

    def _title(self) -> str:
        return f"{self.path_a} and {self.path_b}: {'equal' if self.equal else 'different'}, {self.count('same')} same"

    def _rows(self) -> list[list[str]]:
        return [entry._cells() for entry in self.changes]  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        return f"DiffReport({self._title()})\n{table(_DIFF_HEADER, self._rows())}".rstrip()

    def _repr_html_(self) -> str:
        return _html.titled(self._title(), _html.table(_DIFF_HEADER, self._rows()))


@dataclass(frozen=True)
class TensorHash:
    """Digests of one tensor."""

    name: str
    blake3: str
    sha256: str | None


@dataclass(frozen=True, repr=False)
class HashReport:
    """Digests of content: they depend on neither the order of the tensors nor the format of the file."""

    path: str
    format: str
    digest: str
    tensors: list[TensorHash]

    def __getitem__(self, name: str) -> TensorHash:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    def __str__(self) -> str:
        return self.digest

    def __repr__(self) -> str:
        return f"HashReport({self.path}: {self.digest}, {counted(len(self.tensors), 'tensor')})"

    def _repr_html_(self) -> str:
        rows = [[tensor.name, tensor.blake3] for tensor in self.tensors]
        return _html.titled(f"{self.path}: {self.digest}", _html.table(["tensor", "BLAKE3"], rows))


@dataclass(frozen=True)
class Histogram:
    """Counts between evenly spaced edges from ``low`` to ``high``, and how many lie outside."""

    low: float
    high: float
    below: int
    above: int
    counts: list[int]

    def _repr_html_(self) -> str:
        return _html.histogram_svg(self)


@dataclass(frozen=True)
class Numbers:
    """What the numbers of a tensor, or of several, look like. Minimum, maximum and moments are of the finite ones."""

    count: int
    zeros: int
    denormals: int
    nan: int
    positive_infinity: int
    negative_infinity: int
    min: float
    max: float
    mean: float
    std: float
    histogram: Histogram

    @property
    def finite(self) -> int:
        return self.count - self.nan - self.positive_infinity - self.negative_infinity


@dataclass(frozen=True)
class TensorStats:
    """Statistics of one tensor; ``numbers`` is None for types without arithmetic."""

    name: str
    type: str
    shape: tuple[int, ...]
    numbers: Numbers | None

    def _cells(self) -> list[str]:
        shape = "x".join(map(str, self.shape))
        if self.numbers is None:
            return [self.name, self.type, shape, "", "", "", "", ""]
        n = self.numbers
        odd = n.count - n.finite
        return [self.name, self.type, shape, number_text(n.min), number_text(n.max), number_text(n.mean),
                number_text(n.std), f"{odd} not finite" if odd else ""]  # fmt: skip


_STATS_HEADER = ["tensor", "type", "shape", "min", "max", "mean", "std", ""]


@dataclass(frozen=True, repr=False)
class StatsReport:
    """Statistics of the tensors of an archive."""

    path: str
    tensors: list[TensorStats]
    total: Numbers | None

    def __getitem__(self, name: str) -> TensorStats:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    def _rows(self) -> list[list[str]]:
        return [tensor._cells() for tensor in self.tensors]  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        title = f"StatsReport({self.path}: {counted(len(self.tensors), 'tensor')})"
        return f"{title}\n{table(_STATS_HEADER, self._rows())}".rstrip()

    def _repr_html_(self) -> str:
        pictures = [_html.histogram_svg(t.numbers.histogram) if t.numbers else "" for t in self.tensors]
        return _html.titled(self.path, _html.table([*_STATS_HEADER, ""], self._rows(), pictures))


@dataclass(frozen=True)
class Loss:
    """Something that the target format cannot hold; ``tensor`` is None where it is about the file."""

    tensor: str | None
    what: str


@dataclass(frozen=True, repr=False)
class ConvertReport:
    """What a conversion wrote, or with ``dry_run`` would write."""

    source: str
    destination: str
    source_format: str
    format: str
    tensors: int
    payload_bytes: int
    bytes: int
    tied: int
    tied_bytes: int
    notes: list[str]
    losses: list[Loss]
    files: list[str]

    def _title(self) -> str:
        return (f"{self.source} ({self.source_format}) to {self.destination} ({self.format}): "
                f"{counted(self.tensors, 'tensor')}, {bytes_text(self.payload_bytes)}")  # fmt: skip

    def _remarks(self) -> list[str]:
        about = [f"lost: {loss.tensor + ': ' if loss.tensor else ''}{loss.what}" for loss in self.losses]
        return [*(f"note: {note}" for note in self.notes), *about]

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}({self._title()})", *(f"  {line}" for line in self._remarks())])

    def _repr_html_(self) -> str:
        return _html.titled(self._title(), _html.table([""], [[line] for line in self._remarks()]))


@dataclass(frozen=True)
class TensorQuantization:
    """What became of one tensor. The errors are None where it was not quantised."""

    name: str
    shape: tuple[int, ...]
    from_type: str
    to_type: str
    bytes_before: int
    bytes_after: int
    note: str
    rmse: float | None
    max_abs: float | None
    relative: float | None

    def _cells(self) -> list[str]:
        errors = ["" if error is None else number_text(error) for error in (self.rmse, self.max_abs, self.relative)]
        return [self.name, "x".join(map(str, self.shape)), self.from_type, self.to_type, *errors, self.note]


_QUANTIZE_HEADER = ["tensor", "shape", "from", "to", "rmse", "max error", "relative", ""]


@dataclass(frozen=True, repr=False)
class QuantizeReport(ConvertReport):
    """What quantising a model did to each of its tensors."""

    type: str = ""
    quantized: list[TensorQuantization] = field(default_factory=list[TensorQuantization])

    @property
    def bytes_before(self) -> int:
        return sum(tensor.bytes_before for tensor in self.quantized)

    @property
    def bytes_after(self) -> int:
        return sum(tensor.bytes_after for tensor in self.quantized)

    def _rows(self) -> list[list[str]]:
        return [tensor._cells() for tensor in self.quantized]  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        sizes = f"{bytes_text(self.bytes_before)} to {bytes_text(self.bytes_after)}"
        head = f"QuantizeReport({self.source} to {self.destination}: {self.type}, {sizes})"
        return f"{head}\n{table(_QUANTIZE_HEADER, self._rows())}".rstrip()

    def _repr_html_(self) -> str:
        return _html.titled(self._title(), _html.table(_QUANTIZE_HEADER, self._rows()))
