"""The contract file (docs/contracts.md) as Python objects, and back.

A contract says what a kernel claims to compute. Each class is a table of the file, and each field a key with
the same name and the same default, so a contract can be read, changed and written:

    contract = Contract.load("softmax.toml")
    contract.dims["cols"] = Dim(1, 65536)
    pathlib.Path("wider.toml").write_text(contract.to_toml())

`Contract.parse(contract.to_toml()) == contract` holds for every contract. Of the comments, only those at the
top of the file are kept (`notes`). An unknown key is an error here as it is for the program; what the values
mean is checked by the program alone.
"""

import dataclasses
import difflib
import itertools
import math
import pathlib
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

Extent = Union[int, str]  # an integer expression over dims: 128, "N", "2 * N"

# The names of torch's dtypes, without "torch.", in a contract.
DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "bool": "bool",
}
FLOATS = frozenset(("f64", "f32", "f16", "bf16", "e4m3", "e5m2"))

# Names that mean something else in a formula, and names of functions and dtypes, which no dim may have.
KEYWORDS = frozenset("if then else and or not in inf nan true false stream workspace".split())
RESERVED_FOR_DIMS = KEYWORDS | frozenset(DTYPES.values()) | frozenset(
    "sum mean max min argmax argmin exp log log1p expm1 sqrt rsqrt tanh erf sigmoid sin cos abs floor pow "
    "ceil round exp2 log2 erfc softplus ceil_div sign isnan require".split()
)

MAX_I32 = 2**31 - 1


class ContractError(ValueError):
    """A contract that cannot be read. The text says which key is wrong."""


@dataclass
class Dim:
    """A range of sizes that the kernel promises to support. A constant is a plain integer instead."""

    min: int = 1
    max: int = 1
    multiple_of: int = 1
    type: str = "i32"

    @classmethod
    def between(cls, low: int, high: int, multiple_of: int = 1) -> "Union[Dim, int]":
        """A range of the type that holds it; a constant where there is only one value."""
        if low == high:
            return low
        return cls(low, high, multiple_of, "i32" if high <= MAX_I32 else "i64")


@dataclass
class DerivedDim:
    """A size that follows from others: `value` is an expression over dims. One of the usual type is a plain
    string instead."""

    value: str
    type: str = "i32"


@dataclass
class Tensor:
    dtype: str
    shape: List[Extent]
    role: str = "in"  # "in", "out" or "inout"
    values: Optional[str] = None  # "activations", "tokens(V)", …
    align: Optional[int] = None
    may_alias: Optional[str] = None
    strides: Optional[List[Extent]] = None  # in elements; row-major without gaps otherwise
    optional: Optional[bool] = None  # the pointer may be null
    buffer: Optional[str] = None  # the allocation that it is a part of
    offset: Optional[Extent] = None  # in `buffer`, in bytes
    pointers: Union[bool, str, None] = None  # the kernel gets an array of pointers; or one to each stretch of that tensor

    def __post_init__(self):
        self.shape = list(self.shape)


@dataclass
class Scalar:
    """A number that the kernel is called with: one `value`, several `values`, or any in a `range`."""

    dtype: str
    value: Optional[float] = None
    values: Optional[List[float]] = None
    range: Optional[List[float]] = None

    @classmethod
    def among(cls, dtype: str, values: Sequence[float]) -> "Scalar":
        """A scalar with one of these values."""
        numbers = [int(value) if isinstance(value, bool) else value for value in values]
        return cls(dtype, value=numbers[0]) if len(numbers) == 1 else cls(dtype, values=numbers)


@dataclass
class Kernel:
    """What is under test: one of `python` ("file.py:function"), `entry` or `global_` (the key `global`) with
    `source`."""

    args: List[str] = field(default_factory=list)
    python: Optional[str] = None
    source: Union[str, List[str], None] = None
    entry: Optional[str] = None
    global_: Optional[str] = None
    grid: Optional[List[Extent]] = None
    block: Optional[List[Extent]] = None
    shared_bytes: Optional[Extent] = None
    workspace_bytes: Optional[Extent] = None
    returns: Optional[str] = None
    flags: Optional[List[str]] = None
    arch: Optional[str] = None


@dataclass
class Reference:
    """What the kernel should compute: one of `formula`, `torch`, `python` or `cuda`."""

    formula: Optional[str] = None
    torch: Optional[str] = None
    python: Optional[str] = None
    cuda: Optional[Dict[str, str]] = None
    accumulate: Optional[str] = None
    math: Optional[str] = None


@dataclass
class Case:
    """Another formula, for calls of which `when` holds."""

    when: str
    formula: str


@dataclass
class Inputs:
    """The problem's own inputs: `torch` is "file.py:make" with make(dims, seed) -> {name: tensor}."""

    torch: Optional[str] = None


@dataclass
class Require:
    deterministic: Optional[bool] = None
    batch_invariant: Optional[List[str]] = None
    nonfinite: Optional[str] = None
    concurrent: Optional[bool] = None
    own_kernel: Optional[bool] = None
    rtol: Optional[float] = None
    atol: Optional[float] = None


@dataclass
class Workload:
    """The slot of a training step that the kernel takes (`assay train`), and what of it is what in the slot."""

    slot: Optional[str] = None
    tensors: Optional[Dict[str, str]] = None
    dims: Optional[Dict[str, Union[str, int]]] = None
    scalars: Optional[Dict[str, str]] = None


@dataclass
class Origin:
    """Where the files of a contract that a tool wrote come from; reports name these places."""

    answer: Optional[str] = None  # the path of what is checked
    function: Optional[str] = None  # "file.py:12": where the function under test is defined
    files: Optional[Dict[str, str]] = None  # copies and their originals


@dataclass
class Monitor:
    """How calls are watched in production (docs/monitor.md)."""

    every: Optional[int] = None
    elements: Optional[int] = None
    max_bytes: Optional[str] = None
    trusted: Optional[Dict[str, str]] = None  # {"source": …, "entry": …}
    on_alarm: Optional[str] = None
    arl: Optional[float] = None


@dataclass
class Contract:
    """A whole contract. Paths in it are relative to the folder of its file."""

    kernel: Kernel
    reference: Reference
    tensors: Dict[str, Tensor] = field(default_factory=dict)
    dims: Dict[str, Union[Dim, DerivedDim, int, str]] = field(default_factory=dict)
    relations: List[str] = field(default_factory=list, metadata={"elsewhere": True})  # [dims] require
    scalars: Dict[str, Scalar] = field(default_factory=dict)
    shapes: List[Dict[str, int]] = field(default_factory=list)
    inputs: Inputs = field(default_factory=Inputs)
    require: Require = field(default_factory=Require)
    case: List[Case] = field(default_factory=list)
    workload: Workload = field(default_factory=Workload)
    origin: Origin = field(default_factory=Origin)
    monitor: Monitor = field(default_factory=Monitor)
    title: Optional[str] = None
    only_listed_shapes: Optional[bool] = None
    notes: List[str] = field(default_factory=list, metadata={"comment": True})  # at the top of the file

    def input_tensors(self) -> List[Tuple[str, Tensor]]:
        """The tensors that the kernel reads."""
        return [(name, tensor) for name, tensor in self.tensors.items() if tensor.role != "out"]

    @classmethod
    def load(cls, path: Union[str, pathlib.Path]) -> "Contract":
        """Reads a contract file."""
        try:
            return cls.parse(pathlib.Path(path).read_text(encoding="utf-8"))
        except ContractError as error:
            raise ContractError("%s: %s" % (path, error)) from None

    @classmethod
    def parse(cls, text: str) -> "Contract":
        """Reads a contract from its text."""
        data = _parse_toml(text)
        for name in ("kernel", "reference"):
            if not isinstance(data.get(name), dict):
                raise ContractError("a contract needs a table [%s]" % name)
        tables = {
            "kernel": Kernel,
            "reference": Reference,
            "inputs": Inputs,
            "require": Require,
            "workload": Workload,
            "origin": Origin,
            "monitor": Monitor,
        }
        collections = {"tensors": Tensor, "scalars": Scalar}
        values: Dict[str, Any] = {}
        for key, value in data.items():
            if key in tables:
                values[key] = _object(tables[key], value, "[%s]" % key)
            elif key in collections:
                values[key] = {
                    name: _object(collections[key], table, "[%s.%s]" % (key, name))
                    for name, table in value.items()
                }
            elif key == "dims":
                values[key] = {name: _read_dim(name, dim) for name, dim in value.items() if name != "require"}
            elif key == "case":
                values[key] = [_object(Case, table, "[[case]]") for table in value]
            else:
                values[key] = value
        contract = _object(cls, values, "the contract")
        contract.notes = _comments_at_the_top(text)
        relations = data.get("dims", {}).get("require", [])
        contract.relations = [relations] if isinstance(relations, str) else list(relations)
        return contract

    def to_toml(self) -> str:
        """The text of the contract file. Keys that hold their default are left out."""
        lines = ["# " + " ".join(note.split()) for note in self.notes]
        lines += _assignments({"title": self.title, "only_listed_shapes": self.only_listed_shapes})
        sections = [_table("kernel", self.kernel)]
        if self.dims:
            sections.append(
                ["[dims]"]
                + ["%s = %s" % (_key(name), _dim(dim)) for name, dim in self.dims.items()]
                + _assignments({"require": self.relations or None})
            )
        sections += [["[[shapes]]"] + _assignments(shape) for shape in self.shapes]
        sections += [_table("tensors." + _key(name), tensor) for name, tensor in self.tensors.items()]
        sections += [_table("scalars." + _key(name), scalar) for name, scalar in self.scalars.items()]
        sections.append(_table("reference", self.reference))
        sections += [["[[case]]"] + _assignments(_changed(case)) for case in self.case]
        sections += [
            _table(name, table)
            for name, table in (
                ("inputs", self.inputs),
                ("require", self.require),
                ("workload", self.workload),
                ("origin", self.origin),
                ("monitor", self.monitor),
            )
            if table != type(table)()
        ]
        return "\n\n".join("\n".join(section) for section in ([lines] if lines else []) + sections) + "\n"


def safe_name(name: str, taken: Sequence[str] = (), dim: bool = False) -> str:
    """`name`, made fit to be a name in a contract, and none of those taken."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", name) or "value"
    if name[0].isdigit():
        name = "_" + name
    while name in (RESERVED_FOR_DIMS if dim else KEYWORDS) or name in taken:
        name += "_"
    return name


# ---- Reading ----


def _comments_at_the_top(text: str) -> List[str]:
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return [line[1:].strip() for line in lines]


def _parse_toml(text: str) -> Dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        try:
            import tomli as tomllib
        except ImportError:
            raise ContractError("reading a contract needs Python 3.11 or the package tomli") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ContractError(str(error)) from None


def _read_dim(name: str, dim: Any) -> "Union[Dim, DerivedDim, int, str]":
    if isinstance(dim, (int, str)):
        return dim
    derived = isinstance(dim, dict) and "value" in dim
    return _object(DerivedDim if derived else Dim, dim, "[dims] %s" % name)


def _object(kind, table: Any, place: str):
    """An object of a class whose fields are the keys of a table."""
    if not isinstance(table, dict):
        raise ContractError("%s is not a table" % place)
    names = {one.name.rstrip("_"): one for one in dataclasses.fields(kind) if not one.metadata}
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, 1)
            raise ContractError(
                "%s has no key `%s`%s" % (place, key, "; did you mean `%s`?" % near[0] if near else "")
            )
    for key, one in names.items():
        if (
            key not in table
            and one.default is dataclasses.MISSING
            and one.default_factory is dataclasses.MISSING
        ):
            raise ContractError("%s needs the key `%s`" % (place, key))
    return kind(**{names[key].name: value for key, value in table.items()})


# ---- Writing ----


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"%s"' % re.sub(r'[\\"\x00-\x1f\x7f]', lambda m: escapes.get(m[0], "\\u%04x" % ord(m[0])), value)


def _lines(value: str) -> str:
    """A text of several lines. The newline after the opening quotes is not part of it."""
    escaped = re.sub(
        r"[\x00-\x09\x0b-\x1f\x7f]", lambda m: "\\u%04x" % ord(m[0]), value.replace("\\", "\\\\")
    )
    return '"""\n%s"""' % escaped.replace('"', '\\"')


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _lines(value) if "\n" in value else _text(value)
    if isinstance(value, float):
        return (
            repr(value)
            if math.isfinite(value)
            else {True: "nan", False: "inf" if value > 0 else "-inf"}[value != value]
        )
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_value(item) for item in value)
    if isinstance(value, dict):
        return "{ %s }" % ", ".join("%s = %s" % (_key(name), _value(item)) for name, item in value.items())
    raise ContractError("a contract cannot hold %r" % (value,))


def _assignments(values: Dict[str, Any]) -> List[str]:
    return ["%s = %s" % (_key(name), _value(value)) for name, value in values.items() if value is not None]


def _changed(table: Any) -> Dict[str, Any]:
    """The keys of a table that do not hold their default."""
    return {
        one.name.rstrip("_"): getattr(table, one.name)
        for one in dataclasses.fields(table)
        if one.default is dataclasses.MISSING or getattr(table, one.name) != one.default
    }


def _table(name: str, table: Any) -> List[str]:
    return ["[%s]" % name] + _assignments(_changed(table))


def _dim(dim: Union[Dim, DerivedDim, int, str]) -> str:
    if isinstance(dim, (int, str)):
        return _value(dim)
    if isinstance(dim, DerivedDim):
        return _value(_changed(dim))
    return _value(dict({"min": dim.min, "max": dim.max}, **_changed(dim)))
