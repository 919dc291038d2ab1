"""C++ declarations of the ATen operators that an extension mentions, made from torch's own schemas.

torch's C++ interface has some 2,500 operators, and a source uses two or three. The light header therefore
declares none: for the identifiers of a source, `declarations` writes the members of at::Tensor and the
functions of namespace at with the overloads, argument types and defaults that torch's schemas give them. So
a call resolves to the same overload as with torch's headers, in the torch version that is installed. Each
declaration hands its arguments to assay::Call (include/assay/light/tensor.h), which names the overload;
extension_calls.py runs it.

    aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor

becomes, as a member,

    Tensor sum(OptionalIntArrayRef dim, bool keepdim = false,
               std::optional<ScalarType> dtype = std::nullopt) const {
      return assay::Call("sum.dim_IntList")(*this)(dim)(keepdim)(dtype).result<Tensor>();
    }
"""

import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

# Members and functions that tensor.h and options.h write out themselves.
OWN_METHODS = frozenset(
    """
    size sizes stride strides dim numel storage_offset itemsize element_size nbytes dtype type device
    options layout is_contiguous is_complex is_floating_point is_signed is_pinned is_same data_ptr data
    item contiguous to toType cpu cuda index index_put_ get_device is_alias_of requires_grad grad print
    defined is_sparse is_cuda is_cpu is_meta is_quantized is_non_overlapping_and_dense variable_data
    tensor_data set_requires_grad
    """.split()
)
OWN_FUNCTIONS = frozenset(
    "from_blob tensor scalar_tensor device layout dtype item index index_put_ to size stride".split()
)

# Arguments that have a default in the schema and none in C++, where two overloads would be ambiguous
# (cpp_no_default_args of torch's native_functions.yaml).
NO_CPP_DEFAULT = {
    "arange.start_step": ("step",),
    "all.dims": ("dim",),
    "any.dims": ("dim",),
    **{name: ("min",) for name in ("clamp", "clamp_", "clip", "clip_")},
    **{f"conv{dims}d.padding": ("bias", "stride", "padding") for dims in (1, 2, 3)},
    **{name: ("unbiased",) for name in ("std", "var", "std_mean", "var_mean")},
    **{f"{name}.dim": ("unbiased",) for name in ("std", "var", "std_mean", "var_mean")},
    "stft": ("hop_length", "win_length", "window", "normalized"),
    "linalg_pinv.atol_rtol_float": ("atol", "rtol"),
    "linalg_matrix_rank.atol_rtol_float": ("atol", "rtol"),
}

# The arguments that C++ takes together as TensorOptions.
OPTIONS = ("dtype", "layout", "device", "pin_memory")

VALUE_TYPES = {
    "int": "int64_t",
    "SymInt": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "std::string_view",
    "ScalarType": "ScalarType",
    "Layout": "Layout",
    "Device": "Device",
    "MemoryFormat": "MemoryFormat",
}


class Argument(NamedTuple):
    type: str
    name: str
    default: Optional[str] = None
    mutable: bool = False


class Schema(NamedTuple):
    name: str  # "sum"
    overload: str  # "dim_IntList", or "" for the default
    arguments: Tuple[Argument, ...]
    returns: Tuple[str, ...]  # types, without alias marks

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name


def parse_schema(text: str) -> Schema:
    """The parts of a schema as torch prints it."""
    head, _, rest = text.partition("(")
    name, _, overload = head.split("::")[-1].partition(".")
    inside, returned = _matching(rest)
    required = NO_CPP_DEFAULT.get(f"{name}.{overload}" if overload else name, ())
    arguments = tuple(_argument(part, required) for part in _split(inside) if part != "*")
    returned = returned.partition("->")[2].strip()
    parts = _split(returned[1:-1]) if returned.startswith("(") else [returned]
    return Schema(name, overload, arguments, tuple(_plain_type(part)[0] for part in parts))


def _matching(text: str) -> Tuple[str, str]:
    """Splits behind an opening bracket: what is inside it, and what follows the closing one."""
    depth = 1
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return text[:at], text[at + 1 :]
    raise ValueError(f"unbalanced brackets in schema: {text}")


def _split(text: str) -> List[str]:
    """Splits at the commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _plain_type(text: str) -> Tuple[str, bool]:
    """A type without its alias mark and the name behind it: "Tensor(a!) values" is ("Tensor", True)."""
    marked = re.match(r"(\w+)\(([^)]*)\)(.*)", text)
    if marked:
        return (marked.group(1) + marked.group(3).split(" ")[0], "!" in marked.group(2))
    return text.split(" ")[0], False


def _argument(text: str, required: Tuple[str, ...]) -> Argument:
    declaration, equals, default = text.partition("=")
    kind, mutable = _plain_type(declaration)
    name = declaration.split(" ")[-1]
    return Argument(kind, name, default if equals and name not in required else None, mutable)


def cpp_type(kind: str) -> Optional[str]:
    """The C++ type of an argument, or None where the light header has none."""
    if kind == "Tensor":
        return "const Tensor&"
    if kind == "Tensor?":
        return "const std::optional<Tensor>&"
    if kind == "Tensor[]":
        return "TensorList"
    if kind == "Scalar":
        return "const Scalar&"
    if kind == "Scalar?":
        return "const std::optional<Scalar>&"
    if re.fullmatch(r"(int|SymInt)\[\d*\]", kind):
        return "IntArrayRef"
    if re.fullmatch(r"(int|SymInt)\[\d*\]\?", kind):
        return "OptionalIntArrayRef"
    if kind == "float[]":
        return "ArrayRef<double>"
    if kind == "float[]?":
        return "OptionalArrayRef<double>"
    if kind in VALUE_TYPES:
        return VALUE_TYPES[kind]
    if kind.endswith("?") and kind[:-1] in VALUE_TYPES:
        return f"std::optional<{VALUE_TYPES[kind[:-1]]}>"
    return None


def cpp_default(kind: str, default: str) -> str:
    """A default of a schema as C++."""
    if default == "None":
        return "std::nullopt" if kind != "Tensor?" else "{}"
    if default in ("True", "False"):
        return default.lower()
    if default == "contiguous_format":
        return "MemoryFormat::Contiguous"
    if kind.startswith("MemoryFormat") and default.isdigit():
        return f"static_cast<MemoryFormat>({default})"
    if default.startswith("["):
        return "{" + default[1:-1] + "}"
    return default


def cpp_result(returns: Tuple[str, ...]) -> Optional[str]:
    if returns == ("",) or not returns:
        return "void"
    names = []
    for kind in returns:
        if kind == "Tensor[]":
            names.append("std::vector<Tensor>")
        elif kind in ("Tensor", "Scalar"):
            names.append(kind)
        elif kind in VALUE_TYPES and kind != "str":
            names.append(VALUE_TYPES[kind])
        else:
            return None
    return names[0] if len(names) == 1 else f"std::tuple<{', '.join(names)}>"


def _parameters(arguments: Iterable[Argument]) -> Optional[List[Tuple[str, str]]]:
    """(declaration, name) for each C++ parameter. The four arguments of OPTIONS are one."""
    arguments = list(arguments)
    names = tuple(argument.name for argument in arguments)
    parameters: List[Tuple[str, str]] = []
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        if names[at : at + 4] == OPTIONS:
            optional = all(given.default is not None for given in arguments[at : at + 4])
            parameters.append(("const TensorOptions& options" + (" = {}" if optional else ""), "options"))
            at += 4
            continue
        kind = "Tensor&" if argument.mutable and argument.type == "Tensor" else cpp_type(argument.type)
        if kind is None or (argument.mutable and argument.type != "Tensor"):
            return None
        name = argument.name + "_"  # never a keyword, never the name of a type
        default = "" if argument.default is None else f" = {cpp_default(argument.type, argument.default)}"
        parameters.append((f"{kind} {name}{default}", name))
        at += 1
    return parameters


def _body(schema: Schema, changed: Optional[str], values: List[str], result: str) -> str:
    call = f'assay::Call("{schema.full_name}")' + "".join(f"({value})" for value in values)
    return f"return {call}.into({changed});" if changed else f"return {call}.result<{result}>();"


def _is_out(schema: Schema) -> bool:
    return any(argument.mutable and argument.name != "self" for argument in schema.arguments)


def _changes_self(schema: Schema) -> bool:
    return bool(schema.arguments) and schema.arguments[0].mutable and schema.arguments[0].name == "self"


def method_declaration(schema: Schema) -> Optional[str]:
    """The member of at::Tensor for an operator with an argument `self`, or None where there is none."""
    if _is_out(schema) or ("Tensor", "self") not in [argument[:2] for argument in schema.arguments]:
        return None
    others = [argument for argument in schema.arguments if argument.name != "self"]
    parameters, result = _parameters(others), cpp_result(schema.returns)
    if parameters is None or result is None:
        return None
    values = [name for _, name in parameters]
    values.insert([argument.name for argument in schema.arguments].index("self"), "*this")
    changed = "const_cast<Tensor&>(*this)" if _changes_self(schema) else None
    declared = "Tensor&" if changed else result
    return (
        f"{declared} {schema.name}({', '.join(text for text, _ in parameters)}) const "
        f"{{ {_body(schema, changed, values, result)} }}"
    )


def function_declaration(schema: Schema) -> Optional[str]:
    """The function of namespace at. One with an argument `out` is called NAME_out and takes it first."""
    out = [argument for argument in schema.arguments if argument.mutable and argument.name != "self"]
    if len(out) > 1:
        return None
    rest = [argument for argument in schema.arguments if argument not in out]
    parameters, result = _parameters(rest), cpp_result(schema.returns)
    if parameters is None or result is None:
        return None
    values = [name for _, name in parameters] + [argument.name + "_" for argument in out]
    declared = [text for text, _ in parameters]
    if out:
        declared.insert(0, f"Tensor& {out[0].name}_")
    changed = out[0].name + "_" if out else "self_" if _changes_self(schema) else None
    name = schema.name + ("_out" if out else "")
    return (
        f"inline {'Tensor&' if changed else result} {name}({', '.join(declared)}) "
        f"{{ {_body(schema, changed, values, result)} }}"
    )


def declarations(schemas: Iterable[Schema], methods: Iterable[str]) -> Tuple[str, str]:
    """The texts of assay_methods.inc and assay_functions.inc. `methods`: the operators that are members."""
    methods = frozenset(methods) - OWN_METHODS
    members, functions = [], []
    for schema in schemas:
        member = method_declaration(schema) if schema.name in methods else None
        function = function_declaration(schema) if schema.name not in OWN_FUNCTIONS else None
        members += [member] if member else []
        functions += [function] if function else []
    return "".join(line + "\n" for line in members), "".join(line + "\n" for line in functions)


def installed_schemas(identifiers: Iterable[str]) -> List[Schema]:
    """The schemas of the installed torch for the operators among `identifiers`."""
    import torch

    overloads: Dict[str, List[str]] = {}
    for full_name in torch._C._dispatch_get_all_op_names():
        if full_name.startswith("aten::"):
            name, _, overload = full_name[len("aten::") :].partition(".")
            overloads.setdefault(name, []).append(overload)
    found = []
    for identifier in sorted(set(identifiers)):
        wants_out = identifier.endswith("_out")
        name = identifier[: -len("_out")] if wants_out else identifier
        for overload in sorted(overloads.get(name, ())):
            schema = parse_schema(str(torch._C._get_schema(f"aten::{name}", overload)))
            if _is_out(schema) == wants_out:
                found.append(schema)
    return found


def installed_declarations(identifiers: Iterable[str]) -> Tuple[str, str]:
    """The declarations for the installed torch of the operators among `identifiers`."""
    import torch

    schemas = installed_schemas(identifiers)
    return declarations(schemas, {schema.name for schema in schemas if hasattr(torch.Tensor, schema.name)})
