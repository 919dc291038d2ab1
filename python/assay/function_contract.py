"""From a call of `assay.check` to a contract.

A `FunctionCall` finds out what each parameter of a function is (a tensor, a scalar, a dim, an output), gives
the dims that shapes name their ranges, and finds the shapes and dtypes of the outputs: it calls the reference
with three small shapes on the meta device and looks for an expression over dims that gives each extent.
"""

import inspect
import numbers
import pathlib
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from assay import function_source
from assay.contract import DTYPES, Contract, Dim, Inputs, Kernel, Origin, Reference, Scalar, Tensor
from assay.program import AssayError

DEFAULT_RANGE = Dim(1, 4096)  # of a dim that is named in a shape and not described in `dims`

# What torch also calls them.
ALIASES = {"double": "float64", "float": "float32", "half": "float16"}

_NAME = r"[A-Za-z_]\w*(?!\w*\()"  # of a dim, not of a function

DimLike = Union[int, Dim, range, Tuple[int, ...]]
ShapeLike = Sequence[Union[int, str]]


class _Output(NamedTuple):
    shape: Tuple[int, ...]
    dtype: str


class FunctionCall:
    """What one call of assay.check says about a function."""

    def __init__(self, function, reference, inputs, shapes, dtypes, dims, outputs, scalars, values, scope):
        self.function, self.reference, self.scope = function, reference, scope
        self.shapes, self.dtypes, self.outputs = shapes, dtypes, outputs
        self.given_dims, self.given_scalars, self.values = dims, scalars, values
        self.make = inputs if callable(inputs) else None
        self.title: Optional[str] = None
        self.name = getattr(function, "__name__", type(function).__name__)
        self.parameters, self.keywords = self._parameters(inputs)
        self.examples = self._examples(inputs)
        self.tensors: Dict[str, Tensor] = {}
        self.scalars: Dict[str, Scalar] = {}
        self.args = [name for name in self.parameters if self._describe(name)]
        self.updated = [name for name, tensor in self.tensors.items() if tensor.role != "in"]
        self.dims = self._dims()
        self._refuse_unknown_names()
        # What follows a parameter that keeps its default is passed by name.
        skipped = [index for index, name in enumerate(self.parameters) if name not in self.args]
        self.keywords += self.parameters[skipped[0] + 1 :] if skipped else []

    def contract(self, folder: pathlib.Path) -> Contract:
        """The contract; the Python files that it refers to are written to the folder."""
        outputs, keys = self._expected_outputs()
        returns_nothing = not outputs or any(name in outputs for name in self.args)
        contract = Contract(
            kernel=Kernel(args=self.args, returns="void" if returns_nothing else None),
            reference=Reference(),
            tensors={**self.tensors, **outputs},
            dims=self.dims,
            scalars=self.scalars,
            title=self.title or self.name,
        )
        export = function_source.export
        contract.origin = self._origin()
        contract.kernel.python = export(
            self.function, self.args, folder, "subject", self.scope, keywords=self.keywords
        )
        passed = [name for name in self.args if name not in outputs]
        contract.reference.torch = self._export_reference(folder, passed, keys)
        if self.make:
            made = export(self.make, ["dims", "seed"], folder, "inputs", self.scope, with_imports=False)
            contract.inputs = Inputs(torch=made)
        return contract

    def _origin(self) -> Origin:
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        if code is None or not pathlib.Path(code.co_filename).is_file():  # of an extension, or of a notebook
            return Origin()
        path = str(pathlib.Path(code.co_filename).absolute())
        return Origin(answer=path, function="%s:%d" % (path, code.co_firstlineno))

    # What the parameters are.

    def _parameters(self, inputs) -> Tuple[List[str], List[str]]:
        try:
            parameters = list(inspect.signature(self.function).parameters.values())
        except (TypeError, ValueError):  # a function of a C++ extension
            names = list(inputs) if isinstance(inputs, Mapping) else list(self.shapes)
            if not names:
                raise AssayError(
                    "the parameters of %s cannot be read; name them in shapes= or inputs=" % self.name
                ) from None
            names += [
                name for name in list(self.given_scalars) + list(self.outputs or {}) if name not in names
            ]
            return names, []
        if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
            named = list(inputs) if isinstance(inputs, Mapping) else list(self.shapes)
            parameters = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
            if not parameters:
                return named, []
        return [one.name for one in parameters], [
            one.name for one in parameters if one.kind == one.KEYWORD_ONLY
        ]

    def _examples(self, inputs) -> Dict[str, Any]:
        if inputs is None or callable(inputs):
            return {}
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(self.parameters):
                raise AssayError(
                    "%s has %d parameters, but inputs= has %d"
                    % (self.name, len(self.parameters), len(inputs))
                )
            inputs = dict(zip(self.parameters, inputs))
        for name in inputs:
            if name not in self.parameters:
                raise AssayError(
                    "%s has no parameter `%s`; it has %s" % (self.name, name, ", ".join(self.parameters))
                )
        return dict(inputs)

    def _describe(self, name: str) -> bool:
        """Finds out what a parameter is. False: it keeps its default."""
        example = self.examples.get(name)
        if self.outputs and name in self.outputs:
            return True
        if name in self.given_scalars or isinstance(example, Scalar) or _is_number(example):
            self.scalars[name] = _scalar(self.given_scalars.get(name, example))
        elif isinstance(example, Tensor):
            self.tensors[name] = example
        elif name in self.shapes or hasattr(example, "shape"):
            self.tensors[name] = self._tensor(name, example)
        elif name not in self.given_dims:
            if self._has_default(name):
                return False
            raise AssayError(
                "nothing is known of the parameter `%s` of %s; give its extents in shapes=, an example in "
                "inputs=, or its value in scalars=" % (name, self.name)
            )
        return True

    def _has_default(self, name: str) -> bool:
        return inspect.signature(self.function).parameters[name].default is not inspect.Parameter.empty

    def _tensor(self, name: str, example: Any) -> Tensor:
        shape = self.shapes.get(name)
        if shape is None:
            shape = [int(extent) for extent in example.shape]
        elif example is not None and len(shape) != len(example.shape):
            raise AssayError(
                "shapes= gives `%s` %d extents, but the example has %d"
                % (name, len(shape), len(example.shape))
            )
        dtype = self.dtypes.get(name) if isinstance(self.dtypes, Mapping) else self.dtypes
        dtype = dtype_name(dtype if dtype is not None else getattr(example, "dtype", "f32"))
        return Tensor(dtype, list(shape), values=self.values.get(name) or _values_of(example, dtype))

    def _dims(self) -> Dict[str, Union[Dim, int]]:
        dims = {name: _dim(name, given) for name, given in self.given_dims.items()}
        described = [tensor.shape for tensor in self.tensors.values()]
        described += [one.shape if isinstance(one, Tensor) else one for one in (self.outputs or {}).values()]
        for shape in described:
            for extent in shape:
                for word in re.findall(_NAME, str(extent)):
                    dims.setdefault(word, DEFAULT_RANGE)
        return dims

    def _refuse_unknown_names(self) -> None:
        dtypes = self.dtypes if isinstance(self.dtypes, Mapping) else {}
        for option, names in (
            ("shapes", self.shapes),
            ("dtypes", dtypes),
            ("scalars", self.given_scalars),
            ("values", self.values),
        ):
            for name in names:
                if name not in self.parameters:
                    raise AssayError(
                        "%s= names `%s`, but %s has the parameters %s"
                        % (option, name, self.name, ", ".join(self.parameters))
                    )

    # The outputs.

    def _expected_outputs(self) -> Tuple[Dict[str, Tensor], List[str]]:
        """The output tensors, and the keys of a reference that returns a dict."""
        if self.outputs and all(isinstance(one, Tensor) for one in self.outputs.values()):
            return {
                name: Tensor(one.dtype, one.shape, "out", one.values, one.align, one.may_alias)
                for name, one in self.outputs.items()
            }, []
        if self.updated and not self.outputs:
            return {}, []
        samples = [self._call_reference(values) for values in self._samples()]
        keys = list(samples[0]) if isinstance(samples[0], dict) else []
        results = [_outputs_of(sample) for sample in samples]
        names = list(
            self.outputs
            or keys
            or (
                ["out"]
                if len(results[0]) == 1 and "out" not in self.parameters
                else ["out%d" % i for i in range(len(results[0]))]
            )
        )
        if len(names) != len(results[0]):
            raise AssayError(
                "outputs= names %d tensors, but the reference returns %d" % (len(names), len(results[0]))
            )
        tensors = {}
        for index, name in enumerate(names):
            shape = (self.outputs or {}).get(name)
            if shape is None:
                shape = [
                    self._extent(name, axis, [result[index].shape[axis] for result in results])
                    for axis in range(len(results[0][index].shape))
                ]
            tensors[name] = (
                shape if isinstance(shape, Tensor) else Tensor(results[0][index].dtype, list(shape), "out")
            )
        return tensors, keys

    def _samples(self) -> List[Dict[str, int]]:
        """Three small shapes in which no two dims are equal, as far as their ranges allow."""
        samples = []
        for step in range(3):
            sample = {}
            for index, (name, dim) in enumerate(self.dims.items()):
                if isinstance(dim, int):
                    sample[name] = dim
                else:
                    first = -(-dim.min // dim.multiple_of) * dim.multiple_of
                    wished = first + dim.multiple_of * (3 + 5 * step + 7 * index + step * index)
                    sample[name] = min(wished, dim.max // dim.multiple_of * dim.multiple_of)
            samples.append(sample)
        return samples

    def _call_reference(self, dims: Dict[str, int]) -> Any:
        import torch

        arguments: Dict[str, Any] = {}
        for name in self.args:
            if name in self.tensors:
                tensor = self.tensors[name]
                arguments[name] = (
                    [evaluate(extent, dims) for extent in tensor.shape],
                    _torch_dtype(torch, tensor.dtype),
                )
            elif name in self.scalars:
                arguments[name] = _one_value(self.scalars[name])
            elif name in dims:
                arguments[name] = dims[name]
        problem: Exception = RuntimeError("")
        for device in ("meta", "cpu"):  # what reads values does not work on meta
            tensors = {
                name: (
                    torch.zeros(given[0], dtype=given[1], device=device)
                    if isinstance(given, tuple)
                    else given
                )
                for name, given in arguments.items()
            }
            positional, named = self._reference_arguments(tensors)
            try:
                with torch.no_grad():
                    return self.reference(*positional, **named)
            except Exception as error:  # the user's function may raise anything
                problem = error
        raise AssayError(
            "the reference cannot be called with these shapes and dtypes: %s: %s"
            % (type(problem).__name__, problem)
        ) from problem

    def _reference_arguments(self, values: Mapping[str, Any]) -> Tuple[List[Any], Dict[str, Any]]:
        named = self._reference_names(list(values), self.dims)
        if named is None:
            return list(values.values()), {}
        return [], {name: values[name] if name in values else self.dims[name] for name in named}

    def _reference_names(self, passed: Sequence[str], dims: Mapping[str, Any]) -> Optional[List[str]]:
        """The parameters of the reference that are passed by name; None: everything by position."""
        try:
            parameters = inspect.signature(self.reference).parameters.values()
        except (TypeError, ValueError):
            return None
        if any(one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY) for one in parameters):
            return None
        known = [one.name for one in parameters if one.name in passed or one.name in dims]
        required = [
            one.name for one in parameters if one.default is one.empty and one.kind != one.VAR_KEYWORD
        ]
        return known if set(required) <= set(known) else None

    def _export_reference(self, folder: pathlib.Path, passed: List[str], keys: List[str]) -> str:
        named = self._reference_names(passed, self.dims)
        return function_source.export(
            self.reference,
            passed if named is None else named,
            folder,
            "reference",
            self.scope,
            keywords=named or [],
            with_imports=False,
            outputs=keys,
        )

    def _extent(self, name: str, axis: int, seen: List[int]) -> Union[int, str]:
        """An expression over dims that gives an extent of an output in every sample."""
        if len(set(seen)) == 1:
            return seen[0]
        samples = self._samples()
        extents = list(self.dims) + [
            str(extent) for tensor in self.tensors.values() for extent in tensor.shape
        ]
        words = list(dict.fromkeys(extents))
        numbers_ = [word for word in words if word.isdigit()] + ["1", "2", "3", "4", "8"]
        pairs = [(a, b) for a in words for b in words + numbers_]
        candidates = words + [
            form % pair
            for form in ("%s * %s", "%s + %s", "%s - %s", "%s / %s", "ceil_div(%s, %s)")
            for pair in pairs
        ]
        for candidate in candidates:
            try:
                if all(evaluate(candidate, sample) == extent for sample, extent in zip(samples, seen)):
                    return candidate
            except ZeroDivisionError:
                pass
        raise AssayError(
            'extent %d of the output `%s` follows from no known dim (%s); state it: outputs={"%s": (…)}'
            % (axis, name, ", ".join(str(extent) for extent in seen), name)
        )


# ---- Small conversions ----


def dtype_name(dtype: Any) -> str:
    """The contract's name of a dtype: of torch.bfloat16, "bfloat16" or "bf16"."""
    name = str(dtype).replace("torch.", "")
    name = ALIASES.get(name, name)
    if name in DTYPES.values():
        return name
    if name in DTYPES:
        return DTYPES[name]
    raise AssayError(
        "there is no dtype %s in a contract; there are %s" % (name, ", ".join(DTYPES.values()))
    )


def _torch_dtype(torch: Any, name: str) -> Any:
    return getattr(torch, next(key for key, value in DTYPES.items() if value == name))


def evaluate(extent: Union[int, str], dims: Mapping[str, int]) -> int:
    """The value of an integer expression of a contract."""
    text = re.sub(r"(?<!/)/(?!/)", "//", str(extent))
    if not re.fullmatch(r"[\w\s+\-*/%(),]*", text):
        raise AssayError("`%s` is not an integer expression over dims" % extent)
    names = dict(dims, ceil_div=lambda a, b: -(-a // b), min=min, max=max)
    try:
        return int(eval(text, {"__builtins__": {}}, names))
    except (NameError, SyntaxError, TypeError) as error:
        raise AssayError("`%s` is not an integer expression over dims: %s" % (extent, error)) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number)


def _scalar(given: Any) -> Scalar:
    if isinstance(given, Scalar):
        return given
    several = list(given) if isinstance(given, (list, tuple)) else [given]
    if not several or not all(_is_number(one) for one in several):
        raise AssayError("a scalar is a number, a list of numbers or an assay.Scalar, not %r" % (given,))
    dtype = "i64" if all(isinstance(one, int) for one in several) else "f64"
    several = [one if dtype == "i64" else float(one) for one in several]
    return Scalar.among(dtype, several)


def _one_value(scalar: Scalar) -> float:
    return scalar.value if scalar.value is not None else (scalar.values or scalar.range or [1.0])[0]


def _dim(name: str, given: DimLike) -> Union[Dim, int]:
    if isinstance(given, (int, Dim)):
        return given
    if isinstance(given, range) and len(given) > 0 and given.step > 0 and given.start % given.step == 0:
        return Dim.between(given[0], given[-1], given.step)
    if isinstance(given, tuple) and len(given) in (2, 3) and all(isinstance(one, int) for one in given):
        return Dim.between(*given)
    raise AssayError(
        "dims[%r] is (min, max), (min, max, multiple_of), a number, or a range that starts at a multiple of "
        "its step; not %r" % (name, given)
    )


def _values_of(example: Any, dtype: str) -> Optional[str]:
    """Bounds of the integers in an example."""
    if dtype[0] not in "iu" or example is None or not hasattr(example, "min") or 0 in tuple(example.shape):
        return None
    return "integers(%d, %d)" % (int(example.min()), int(example.max()))


def _outputs_of(result: Any) -> List[_Output]:
    tensors = (
        list(result.values())
        if isinstance(result, dict)
        else list(result) if isinstance(result, (list, tuple)) else [result]
    )
    if not tensors or not all(hasattr(one, "shape") and hasattr(one, "dtype") for one in tensors):
        raise AssayError(
            "the reference returns %s; it should return a tensor, a tuple or a dict of tensors"
            % type(result).__name__
        )
    return [_Output(tuple(int(extent) for extent in one.shape), dtype_name(one.dtype)) for one in tensors]
