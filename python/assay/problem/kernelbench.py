"""KernelBench: a Python file with `Model`, `get_inputs` and `get_init_inputs`; the answer is a file with
`ModelNew`.

The problem promises one shape. It is the first one listed where the virtual GPU can afford it; then come
smaller ones, found by halving the module-level integers of the problem and the literals in the shapes of its
inputs (`shrink`). Sizes that the answer uses
by the same module-level name are set in the answer, too; sizes that it has as literals are not touched.
"""
from __future__ import annotations

import ast
import inspect
import re
from typing import Any, Dict, List, Optional, Tuple

from assay.contract import Contract, safe_name
from assay.problem import ProblemError
from assay.problem.definitions import line_in_python
from assay.problem.folder import Folder, empty_contract
from assay.problem.layout import Layout, Specimen
from assay.problem.shrink import OWN_SHAPE_WORK, SHRUNKEN_WORK, Sizes, shrunken
from assay.problem.source_constants import SizesOfAnswer, module_integers, with_integers

# Texts that show that the answer uses the fast versions of exp, log, division and the like.
FAST_MATH = re.compile(
    r"use_fast_math|__(?:exp|log|log2|powf?|sin|cos|tan|tanh|fdivide)f?\b|__frcp_|__frsqrt|\.approx|"
    r"\bimport triton\b|\bfrom triton\b")
# Triton multiplies float32 matrices in TF32 unless the call says otherwise.
TF32_PRODUCT = re.compile(r"\btl\.dot\((?![^\n]*(?:input_precision|allow_tf32\s*=\s*False))")
TF32_NOTE = "float32 products may be rounded to TF32: tl.dot does so unless told otherwise"
TF32_LINES = """
import torch

torch.backends.cuda.matmul.allow_tf32 = True  # tl.dot in the answer rounds float32 to TF32
"""


def is_problem(source: str) -> bool:
    """Whether a Python text defines what a KernelBench problem consists of."""
    return {"Model", "get_inputs", "get_init_inputs"} <= _top_level(source, "the problem")


def is_answer(source: str) -> bool:
    return "ModelNew" in _top_level(source, "the answer")


def _top_level(source: str, what: str) -> set:
    return {node.name for node in parse(source, what).body
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))}


def parse(source: str, what: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise ProblemError(f"{what} is not valid Python{line}: {getattr(error, 'msg', error)}") from error


def describe(problem: str, answer: str, title: str, folder: Folder) -> Contract:
    """Writes the folder of a KernelBench problem and answer, given as texts, and returns its contract."""
    if not is_problem(problem):
        raise ProblemError("the problem lacks Model, get_inputs or get_init_inputs; it is not a KernelBench "
                           "problem")
    if not is_answer(answer):
        raise ProblemError("the answer defines no class ModelNew; the module that replaces Model must have that name")
    own = module_integers(problem)
    sizes_of_answer = SizesOfAnswer(answer, own)
    notes: List[str] = []
    full, listed = _shapes(problem, own, sizes_of_answer, notes)
    changed = [name for name in own if any(sizes[name] != own[name] for sizes, _ in listed)]
    contract, pattern, dim_names = _contract(title, problem, changed, listed, (own, full))
    contract.notes = notes
    if FAST_MATH.search(answer):
        contract.reference.math = "fast"
        notes.append('math = "fast": the answer uses Triton or fast versions of functions')
    tf32 = TF32_LINES if TF32_PRODUCT.search(answer) else ""
    if tf32:
        notes.append(TF32_NOTE)
    file = _write(folder, problem, answer, contract, pattern, dim_names, listed, sizes_of_answer, tf32)
    contract.origin.function = f"{file}:{line_in_python(answer, 'ModelNew.forward')}"
    return contract


def _shapes(problem: str, own: Sizes, answer: SizesOfAnswer,
            notes: List[str]) -> Tuple[Specimen, List[Tuple[Sizes, Specimen]]]:
    """What a pass on the meta device says about the benchmark's sizes, and about those to check."""
    known: Dict[Tuple[Tuple[str, int], ...], Optional[Specimen]] = {}
    first_error: List[str] = []

    def specimen(sizes: Sizes) -> Optional[Specimen]:
        key = tuple(sorted(sizes.items()))
        if key not in known:
            try:
                known[key] = _specimen(with_integers(problem, sizes))
            except ProblemError:
                raise
            except Exception as error:  # whatever the problem's code raises at sizes that it cannot have
                first_error.append(f"{type(error).__name__}: {error}".splitlines()[0])
                known[key] = None
        return known[key]

    def work(sizes: Sizes) -> Optional[int]:
        found = specimen(sizes)
        return found.work if found else None

    def extents(sizes: Sizes) -> List[List[int]]:
        return specimen(sizes).extents()

    full = specimen(own)
    if full is None:
        raise ProblemError(f"the problem's forward pass fails at its own shape: {first_error[0]}")
    listed = [(dict(own), full)] if full.work <= OWN_SHAPE_WORK else []
    if full.work > SHRUNKEN_WORK:
        if answer.contradiction:
            notes.append(f"no smaller shapes: the answer sets {answer.contradiction} to another value than "
                         "the problem")
        else:
            found, given_up = shrunken(own, work, extents, answer)
            listed += [(sizes, specimen(sizes)) for sizes in found]
            notes += given_up
    if not listed:
        raise ProblemError("the problem is too large for the virtual GPU "
                           f"({full.work:,} elements and multiply-adds) and cannot be made smaller: sizes "
                           "are literals in Model or in the answer; use module-level integers")
    if full.work > OWN_SHAPE_WORK:
        notes.append(f"the benchmark's own shape is not checked: {full.work:,} elements and multiply-adds "
                     "are too many for the virtual GPU; the shapes below keep divisors that the answer may "
                     "rely on")
    return full, listed


def _contract(title: str, problem: str, changed: List[str], listed: List[Tuple[Sizes, Specimen]],
              own: Tuple[Sizes, Specimen]) -> Tuple[Contract, Any, Dict[str, str]]:
    specimen = min((found for _, found in listed), key=lambda found: found.work)
    inputs = list(specimen.inputs)
    dim_names: Dict[str, str] = {}
    for name in changed:
        dim_names[name] = safe_name(name, inputs + list(specimen.outputs) + list(dim_names.values()),
                                    dim=True)

    def dims(sizes: Sizes) -> Dict[str, int]:
        return {dim_names[name]: sizes[name] for name in changed}

    layout = Layout([dims(sizes) for sizes, _ in listed], [found for _, found in listed],
                    (dims(own[0]), own[1]))
    contract = empty_contract(title)
    contract.only_listed_shapes = True
    layout.fill(contract)
    contract.kernel.args = inputs + list(dim_names.values())
    smallest = min(listed, key=lambda item: item[1].work)
    _settle_values(contract, with_integers(problem, smallest[0]), specimen.pattern,
                   _index_bound(problem, dim_names))
    return contract, specimen.pattern, dim_names


def _specimen(source: str) -> Specimen:
    """The problem's tensors and work, from a forward pass on the meta device."""
    import torch

    from assay.problem import measure
    from assay.problem.runtime import common

    module = measure.namespace(source)
    initial = measure.plain(module.get_init_inputs(), "the arguments of get_init_inputs")
    with torch.device("meta"), common.CudaAs("meta"):
        model = module.Model(*initial)
        arguments = list(module.get_inputs())
    parameters = list(inspect.signature(model.forward).parameters)
    if len(parameters) < len(arguments):  # forward(*inputs)
        parameters = [f"x{number}" for number in range(len(arguments))]
    outputs, work = measure.on_meta(model, arguments)
    work += sum(parameter.numel() for parameter in model.parameters())
    return measure.specimen(parameters, arguments, outputs, initial, work)


def _settle_values(contract: Contract, source: str, pattern: Any, index_bound: Optional[str]) -> None:
    import torch

    from assay.problem import measure, values
    from assay.problem.runtime import common, kernelbench

    module = measure.namespace(source)
    with common.plain_torch():
        model = kernelbench.build(module)

    def run(tensors):
        with torch.no_grad(), common.CudaAs("cpu"):
            return common.tensors_in(model(*common.filled(pattern, tensors)))

    def make(seed):
        found = {}
        common.set_seed(seed)
        with common.plain_torch():
            inputs = list(module.get_inputs())
        common.template(inputs, iter(name for name, _ in contract.input_tensors()), found)
        return found

    values.settle(contract, run, make, index_bound)


def _index_bound(problem: str, dim_names: Dict[str, str]) -> Optional[str]:
    """The bound of the generator's only torch.randint(0, BOUND, ...), as an expression of the contract."""
    generator = next(node for node in ast.parse(problem).body
                     if isinstance(node, ast.FunctionDef) and node.name == "get_inputs")
    calls = [node for node in ast.walk(generator)
             if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("randint")]
    if len(calls) != 1 or len(calls[0].args) < 2:
        return None
    low, high = calls[0].args[:2]
    if not (isinstance(low, ast.Constant) and low.value == 0):
        return None
    if isinstance(high, ast.Constant) and isinstance(high.value, int):
        return str(high.value)
    if isinstance(high, ast.Name):
        own = module_integers(problem)
        return dim_names.get(high.id) or (str(own[high.id]) if high.id in own else None)
    return None


def _write(folder: Folder, problem: str, answer: str, contract: Contract, pattern: Any,
           dim_names: Dict[str, str],
           listed: List[Tuple[Sizes, Specimen]], sizes_of_answer: SizesOfAnswer, tf32: str) -> str:
    """Returns the file of the answer at the first listed shape."""
    inputs = [name for name, _ in contract.input_tensors()]
    tensors, parameters = ", ".join(inputs), ", ".join(contract.kernel.args)
    sizes_text = "{" + ", ".join(f"{name!r}: {dim}" for name, dim in dim_names.items()) + "}"
    dims_text = "{" + ", ".join(f"{name!r}: dims[{dim!r}]" for name, dim in dim_names.items()) + "}"
    folder.write("problem/problem.py", problem)
    folder.write("problem/call.py", f'''"""Calls the problem's Model and get_inputs as KernelBench does."""
from pathlib import Path

from assay.problem.runtime.kernelbench import Problem
{tf32}
PROBLEM = Problem(Path(__file__).with_name("problem.py"), {inputs!r}, {pattern!r})


def run({parameters}):
    return PROBLEM.run([{tensors}], {sizes_text})


def make(dims, seed):
    return PROBLEM.make({dims_text}, seed)
''')
    cases = []
    for number, (sizes, found) in enumerate(listed):
        overridden = {name: sizes[name] for name in sizes_of_answer.followed if name in dim_names}
        text = with_integers(answer, overridden)
        file = "answer/answer.py" if text == answer else f"answer/shape{number}/answer.py"
        folder.write(file, text)
        cases.append(({name: sizes[name] for name in dim_names}, found.initial, file))
    table = "".join(f"    {case!r},\n" for case in cases)
    folder.write("assay_adapter.py", f'''"""Calls the answer's ModelNew as KernelBench does."""
from pathlib import Path

from assay.problem.runtime.kernelbench import Answer

# Sizes, arguments of ModelNew, and the file that defines it.
CASES = [
{table}]
ANSWER = Answer(Path(__file__).parent, {inputs!r}, {pattern!r}, CASES)


def run({parameters}):
    return ANSWER.run([{tensors}], {sizes_text})
''')
    return cases[0][2]
