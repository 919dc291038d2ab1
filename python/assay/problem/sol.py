"""SOL-ExecBench and FlashInfer-Bench: `definition.json`, workloads, and a solution as JSON.

The definition promises more than its workloads try: an axis of type `var` may have any value, so it becomes a
range from 1 to the largest value of a workload, and multiples or equalities that `constraints` and the
reference's assertions state are kept. Constant axes stay as they are; only where even the smallest shape is
too large for the virtual GPU are they made smaller, if neither the reference nor the solution has them as
literals. Inputs that only the problem can generate (custom generators, files, integers with a meaning)
restrict the check to shapes that the workloads list.

SOL-ExecBench has `languages` and binds C++ through torch; FlashInfer-Bench has one `language` and binds
through tvm-ffi unless `binding` says torch. The definition's `reference` is called as it is.
"""
from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Dict, List, Tuple, Union

from assay.contract import DTYPES, FLOATS, Contract, Dim, Scalar, Tensor, safe_name
from assay.problem import ProblemError
from assay.problem.definitions import line_in_cpp, line_in_python
from assay.problem.folder import Folder, empty_contract
from assay.problem.kernelbench import FAST_MATH, TF32_LINES, TF32_NOTE, TF32_PRODUCT
from assay.problem.layout import without_constants
from assay.problem.shrink import OWN_SHAPE_WORK, Sizes, shrunken
from assay.problem.sol_problem import Problem
from assay.problem.sol_values import find_file, values_of
from assay.problem.source_constants import SizesOfAnswer

CPP_LANGUAGES = frozenset(("cuda_cpp", "cuda", "cpp"))
PYTHON_LANGUAGES = frozenset(("pytorch", "python", "triton"))
REFUSED = {
    "cutlass": "CUTLASS kernels need tensor-core instructions that the virtual GPU does not execute",
    "cute_dsl": "CuTe DSL compiles to machine code that the virtual GPU cannot execute",
    "cutile": "cuTile compiles to machine code that the virtual GPU cannot execute",
    "cudnn": "cuDNN is machine code that the virtual GPU cannot execute",
    "cudnn_frontend": "cuDNN is machine code that the virtual GPU cannot execute",
    "cublas": "cuBLAS is machine code that the virtual GPU cannot execute",
    "tilelang": "TileLang compiles to machine code that the virtual GPU cannot execute",
}
DEFAULT_CUDA_FLAGS = ["-O3", "--use_fast_math"]
MOST_SHAPES = 3


def describe(path: Path, solution: Dict[str, Any], folder: Folder) -> Contract:
    """Writes the folder of a problem and a solution and returns its contract."""
    problem = Problem(path)
    _check_solution(problem, solution)
    spec, sources = solution["spec"], solution["sources"]
    languages = _languages(spec)
    names = _names(problem)
    contract = empty_contract(problem.definition.get("name") or path.stem)
    contract.notes = problem.notes
    answer = SizesOfAnswer("\n".join(source["content"] for source in sources) + "\n" + problem.reference, {},
                           python=False)
    _dims(problem, answer, names, contract)
    _tensors(problem, names, contract)
    _scalars(problem, names, contract)
    inputs = [names[name] for name in problem.definition["inputs"]]
    outputs = [names[name] for name in problem.definition["outputs"]]
    in_place = spec.get("destination_passing_style", True)
    contract.kernel.args = inputs + (outputs if in_place else [])
    contract.kernel.returns = "void" if in_place else "outputs"
    text = json.dumps(solution)
    cpp = bool(languages & CPP_LANGUAGES)
    flags = _flags(spec, cpp)
    if "triton" in languages or "--use_fast_math" in flags["cuda_cflags"] or FAST_MATH.search(text):
        contract.reference.math = "fast"
    if not languages - {"pytorch", "python"}:
        contract.require.own_kernel = False
    _write(folder, problem, solution, contract, names, cpp, flags)
    return contract


def _check_solution(problem: Problem, solution: Dict[str, Any]) -> None:
    named, name = solution.get("definition"), problem.definition.get("name")
    if named and name and named != name:
        problem.notes.append(f"the solution says that it is for {named}; the problem is {name}")
    for workload in problem.workloads:
        for given in workload.get("inputs", {}).values():
            if given.get("type") == "safetensors" and find_file(problem.file.parent, given["path"]) is None:
                raise ProblemError(f"the workload's file {given['path']} is not below {problem.file.parent}; "
                                   "download it there")


def _languages(spec: Dict[str, Any]) -> frozenset:
    named = spec.get("languages") or [spec.get("language")]
    languages = frozenset(str(name).lower() for name in named)
    for name in languages:
        if name in REFUSED:
            raise ProblemError(f"the solution's language is {name}: {REFUSED[name]}; solutions in CUDA C++, "
                               "Triton and PyTorch can be checked")
        if name not in CPP_LANGUAGES | PYTHON_LANGUAGES:
            raise ProblemError(f"the solution's language {name} is unknown; use one of "
                               f"{', '.join(sorted(CPP_LANGUAGES | PYTHON_LANGUAGES))}")
    binding = spec.get("binding") or ("torch" if "languages" in spec else "tvm-ffi")
    if languages & CPP_LANGUAGES and binding != "torch":
        raise ProblemError(f"the solution's binding is {binding}; only torch's can be loaded: set "
                           'spec.binding to "torch"')
    if "::" not in spec.get("entry_point", ""):
        raise ProblemError("the solution's entry_point must be FILE::FUNCTION")
    return languages


def _flags(spec: Dict[str, Any], cpp: bool) -> Dict[str, List[str]]:
    options = spec.get("compile_options")
    if not cpp or options is None:
        return {"cuda_cflags": [], "cflags": [], "ld_flags": []}
    return {"cuda_cflags": options.get("cuda_cflags", DEFAULT_CUDA_FLAGS),
            "cflags": options.get("cflags", []),
            "ld_flags": options.get("ld_flags", ["-lcuda"])}


def _names(problem: Problem) -> Dict[str, str]:
    """Axes, inputs and outputs, with the names that they have in the contract."""
    names: Dict[str, str] = {}
    for name in [*problem.definition["inputs"], *problem.definition["outputs"]]:
        names[name] = safe_name(name, list(names.values()))
    for name in problem.definition["axes"]:
        names[name] = safe_name(name, list(names.values()), dim=True)
    return names


def _dims(problem: Problem, answer: SizesOfAnswer, names: Dict[str, str], contract: Contract) -> None:
    """Sets dims, shapes and only_listed_shapes."""
    tried: List[Sizes] = []
    for workload in problem.workloads:
        sizes = {name: int(workload["axes"][name]) for name in problem.variable
                 if name in workload.get("axes", {})}
        if len(sizes) == len(problem.variable) and sizes not in tried:
            tried.append(sizes)
    if problem.variable and not tried:
        raise ProblemError("no workload gives a value to every axis of type var")
    affordable = sorted((sizes for sizes in tried if problem.work(sizes) <= OWN_SHAPE_WORK), key=problem.work)
    only_listed = _only_listed(problem)
    if not affordable:
        smallest = min(tried, key=problem.work) if tried else {}
        affordable, only_listed = _shrunken(problem, answer, smallest, only_listed)
    left_out = len(tried) - len([sizes for sizes in tried if sizes in affordable])
    if left_out > 0:
        problem.notes.append(f"{left_out} of {len(tried)} workload shapes are too large for the virtual GPU "
                             "and not checked")
    if only_listed:
        problem.notes.append("only listed shapes are checked: " + only_listed)
    contract.only_listed_shapes = True if only_listed else None
    constant = {name: value for name, value in problem.constant.items()}
    listed = [{**constant, **sizes} for sizes in affordable[:MOST_SHAPES]] or [constant]
    for name in [*problem.constant, *problem.variable]:
        values = [sizes[name] for sizes in listed]
        low, high = min(values), max(values)
        multiple = 1
        if name in problem.variable and not only_listed:
            multiple = problem.multiples.get(name, 1)
            low, high = min(low, multiple), max([high] + [sizes[name] for sizes in tried])
        contract.dims[names[name]] = Dim.between(low, high, multiple)
    shapes = [{names[name]: value for name, value in sizes.items()} for sizes in listed]
    contract.shapes = without_constants(shapes, contract)


def _only_listed(problem: Problem) -> str:
    """Why the workloads' shapes are all that may be checked; empty where ranges may be."""
    if problem.open_constraints:
        return f"the problem states {problem.open_constraints[0]}, which a range cannot express"
    for name, spec in problem.definition["inputs"].items():
        kinds = {workload.get("inputs", {}).get(name, {}).get("type", "random")
                 for workload in problem.workloads}
        if "safetensors" in kinds:
            return f"{name} comes from a file"
        if spec["shape"] is not None and "custom" in kinds and DTYPES[spec["dtype"]] not in FLOATS:
            return f"{name} is generated by the problem, and its values depend on the shape"
    return ""


def _shrunken(problem: Problem, answer: SizesOfAnswer, sizes: Sizes, only_listed: str) -> Tuple[List[Sizes],
                                                                                                str]:
    """Smaller shapes where no workload can be afforded: var axes first, then constants."""
    if problem.variable and not only_listed:
        least = {name: min(sizes[name], problem.multiples.get(name, 1)) for name in problem.variable}
        if problem.work(least) <= OWN_SHAPE_WORK:
            return _between(problem, least, sizes), ""
    every = {**problem.constant, **sizes}

    found: List[Sizes] = []
    if not only_listed:
        found, given_up = shrunken(every, problem.work, lambda sizes: list(problem.extents(sizes).values()),
                                   answer)
        problem.notes += given_up
    if not found:
        raise ProblemError("the problem's smallest workload is too large for the virtual GPU "
                           f"({problem.work(sizes):,} elements and multiply-adds); add a smaller workload")
    changed = [f"{name} = {found[0][name]} instead of {value}" for name, value in problem.constant.items()
               if found[0][name] != value]
    problem.notes.append("made smaller for the virtual GPU: " + ", ".join(changed))
    return found, "constants were made smaller"


def _between(problem: Problem, least: Sizes, sizes: Sizes) -> List[Sizes]:
    """Shapes from the least upwards, as long as they can be afforded."""
    found, current = [least], least
    while len(found) < 4:
        current = {name: min(sizes[name], 2 * value + problem.multiples.get(name, 1)) for name,
                   value in current.items()}
        if problem.work(current) > OWN_SHAPE_WORK or current in found:
            break
        found.append(current)
    return found


def _tensors(problem: Problem, names: Dict[str, str], contract: Contract) -> None:
    derived = {name: _contract_expression(problem, name, names) for name in problem.derived}
    for role, part in (("in", "inputs"), ("out", "outputs")):
        for name, spec in problem.definition[part].items():
            if spec["shape"] is None and role == "in":
                continue
            shape: List[Union[str, int]] = []
            for axis in spec["shape"] or []:
                shape.append(int(axis) if axis.isdigit() else derived.get(axis) or names[axis])
            tensor = Tensor(DTYPES[spec["dtype"]], shape, role)
            kinds = [workload.get("inputs", {}).get(name, {}).get("type", "random")
                     for workload in problem.workloads]
            if role == "in":
                tensor.values = values_of(name, spec, kinds)
            contract.tensors[names[name]] = tensor


def _contract_expression(problem: Problem, axis: str, names: Dict[str, str]) -> str:
    """The expression of a derived axis in the contract's language."""
    tree = ast.parse(problem.derived[axis], mode="eval").body

    def text(node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return str(node.value)
        if isinstance(node, ast.Name):
            derived = node.id in problem.derived
            return f"({_contract_expression(problem, node.id, names)})" if derived else names[node.id]
        signs = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "/", ast.Mod: "%"}
        if isinstance(node, ast.BinOp) and type(node.op) in signs:
            return f"({text(node.left)} {signs[type(node.op)]} {text(node.right)})"
        raise ProblemError(f"the axis {axis} = {problem.derived[axis]} cannot be expressed in a contract")

    written = text(tree)
    return written[1:-1] if isinstance(tree, ast.BinOp) else written


def _scalars(problem: Problem, names: Dict[str, str], contract: Contract) -> None:
    for name, spec in problem.definition["inputs"].items():
        if spec["shape"] is not None:
            continue
        inputs = [workload.get("inputs", {}).get(name, {}) for workload in problem.workloads]
        values = []
        for given in inputs:
            if given.get("type") == "scalar" and given["value"] not in values:
                values.append(given["value"])
        if not values:
            raise ProblemError(f"no workload gives the scalar {name} a value; add "
                               '{"type": "scalar", "value": ...} to one')
        contract.scalars[names[name]] = Scalar.among(DTYPES[spec["dtype"]], values)


def _write(folder: Folder, problem: Problem, solution: Dict[str, Any], contract: Contract,
           names: Dict[str, str], cpp: bool,
           flags: Dict[str, List[str]]) -> None:
    definition = problem.definition
    inputs = [names[name] for name in definition["inputs"]]
    outputs = {name: spec["dtype"] for name, spec in definition["outputs"].items()}
    folder.write("problem/definition.json", json.dumps(definition, indent=1))
    folder.write("problem/reference.py", problem.reference)
    axes = {name: names[name] for name in definition["axes"] if names[name] in contract.dims}
    renamed = {name: names[name] for name in definition["inputs"]}
    sources = "\n".join(source["content"] for source in solution["sources"])
    tf32 = TF32_LINES if TF32_PRODUCT.search(sources) else ""
    if tf32:
        contract.notes.append(TF32_NOTE)
    files = str(problem.file.parent.resolve())
    folder.write("problem/call.py", f'''"""Calls the reference and its generators as the benchmark does."""
from pathlib import Path

from assay.problem.runtime.sol import Problem
{tf32}
# The names of axes and inputs in the contract, axes that follow from others, workloads with their inputs.
AXES = {axes!r}
INPUTS = {renamed!r}
DERIVED = {problem.derived!r}
WORKLOADS = {_workload_table(problem)!r}
PROBLEM = Problem(Path(__file__).parent, AXES, INPUTS, DERIVED, WORKLOADS, {files!r})


def run({", ".join(inputs)}):
    return PROBLEM.run([{", ".join(inputs)}])


def make(dims, seed):
    return PROBLEM.make(dims, seed)
''')
    for source in solution["sources"]:
        folder.write(f"answer/{source['path']}", source["content"])
    file, function = solution["spec"]["entry_point"].split("::", 1)
    if file not in [source["path"] for source in solution["sources"]]:
        raise ProblemError(f"the solution's entry_point names {file}, which is not among its sources")
    text = next(source["content"] for source in solution["sources"] if source["path"] == file)
    line = line_in_cpp(text, function) if cpp else line_in_python(text, function)
    if line:
        contract.origin.function = f"answer/{file}:{line}"
    loader = "cpp_function" if cpp else "python_function"
    options = f", {flags!r}" if cpp else ""
    head = f'''"""Calls the solution's entry point as the benchmark does."""
from pathlib import Path

from assay.problem.runtime.sol import {loader}, returned

FUNCTION = {loader}(Path(__file__).parent / "answer", {file!r}, {function!r}{options})

'''
    parameters = ", ".join(contract.kernel.args)
    if contract.kernel.returns == "void":
        folder.write("assay_adapter.py", head.replace(", returned", "") + f'''
def run({parameters}):
    FUNCTION({parameters})
''')
    else:
        folder.write("assay_adapter.py", head + f'''
def run({parameters}):
    return returned(FUNCTION({parameters}), {outputs!r})
''')


def _workload_table(problem: Problem) -> List[Dict[str, Any]]:
    """Workloads whose inputs are more than random numbers: axes, scalars, files."""
    table = []
    for workload in problem.workloads:
        inputs = {name: given for name, given in workload.get("inputs", {}).items()
                  if given.get("type") != "random"}
        table.append({"axes": workload.get("axes", {}), "inputs": inputs})
    return table
