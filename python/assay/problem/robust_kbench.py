"""robust-kbench: a folder with `func_forward.py` and `config_forward.json`; the answer is a `.cu` with
`forward`.

The task's function gets inputs and parameters as arguments, and so does the kernel: all of them are tensors
of the contract. The settings of the configuration are the shapes that the problem promises: its single ones,
then its multiple ones. Where they are too large for the virtual GPU, the integers in them are halved as for
KernelBench. For a backward kernel (`func_backward.py`, `config_backward.json`, `backward`), the gradient of
the output is one more input and the outputs are the gradients of those inputs and parameters that require
one.
"""
from __future__ import annotations

import ast
import inspect
import itertools
import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from assay.contract import Contract, safe_name
from assay.problem import ProblemError
from assay.problem.definitions import line_in_cpp
from assay.problem.folder import Folder, empty_contract
from assay.problem.layout import Layout, Specimen
from assay.problem.shrink import OWN_SHAPE_WORK, SHRUNKEN_WORK, Sizes, shrunken
from assay.problem.source_constants import SizesOfAnswer

Setting = Dict[str, Any]
MOST_SHAPES = 4


def is_task(folder: Path) -> bool:
    return (folder / "func_forward.py").is_file() or (folder / "func_backward.py").is_file()


def describe(task: Path, answer: Path, folder: Folder, function: str = "") -> Contract:
    """Writes the folder of a task and an answer and returns its contract."""
    if answer.suffix not in (".cu", ".cpp"):
        raise ProblemError(f"{answer} is not a CUDA file; a robust-kbench answer is a .cu file with a "
                           "PYBIND11_MODULE")
    cuda = answer.read_text(encoding="utf-8")
    direction = _direction(task, cuda, function)
    file = task / f"func_{direction}.py"
    source = file.read_text(encoding="utf-8")
    settings = _settings(task, direction)
    notes: List[str] = []
    listed = _shapes(source, direction, settings, SizesOfAnswer(cuda, {}, python=False), notes)
    contract, names = _contract(task.name + " " + direction, source, listed)
    contract.notes = notes
    contract.reference.math = "fast"
    notes.append('math = "fast": robust-kbench compiles with --use_fast_math')
    _write(folder, source, cuda, direction, contract, names, listed)
    line = line_in_cpp(cuda, direction)
    if line:
        contract.origin.function = f"answer/kernel.cu:{line}"
    return contract


def _direction(task: Path, cuda: str, function: str) -> str:
    """Forward or backward: what the answer binds, where the task has both."""
    if function:
        return "backward" if function == "func_backward.py" else "forward"
    backward = '"backward"' in cuda and '"forward"' not in cuda
    direction = "backward" if backward else "forward"
    if not (task / f"func_{direction}.py").is_file():
        raise ProblemError(f"the answer binds `{direction}`, but {task} has no func_{direction}.py")
    return direction


def _settings(task: Path, direction: str) -> List[Setting]:
    """The settings of the configuration, the single ones first; {"init": ..., "input": ...} each."""
    path = task / f"config_{direction}.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except json.JSONDecodeError as error:
        raise ProblemError(f"{path} is not valid JSON, line {error.lineno}: {error.msg}") from error
    found: List[Setting] = []
    for kind in ("single", "multi"):
        parts = [config.get(f"{kind}_{part}_configs") or [{}] for part in ("init", "input", "shared")]
        for initial, inputs, shared in itertools.product(*parts):
            setting = {"init": {**initial, **shared}, "input": {**inputs, **shared}}
            if setting not in found:
                found.append(setting)
    return found


def _integers(setting: Setting) -> Sizes:
    return {key: value for part in ("init", "input") for key, value in setting[part].items()
            if isinstance(value, int) and not isinstance(value, bool)}


def _with(setting: Setting, sizes: Sizes) -> Setting:
    return {part: {key: sizes.get(key, value) for key, value in setting[part].items()}
            for part in ("init", "input")}


def _shapes(source: str, direction: str, settings: List[Setting], answer: SizesOfAnswer,
            notes: List[str]) -> List[Tuple[Setting, Specimen]]:
    first_error: List[str] = []
    module = _module(source)

    def specimen(setting: Setting) -> Optional[Specimen]:
        try:
            return _specimen(module, direction, setting)
        except ProblemError:
            raise
        except Exception as error:  # whatever the task's code raises at a setting that it cannot have
            first_error.append(f"{type(error).__name__}: {error}".splitlines()[0])
            return None

    listed: List[Tuple[Setting, Specimen]] = []
    too_large = 0
    works = [(setting, found) for setting in (_complete(module, setting) for setting in settings)
             for found in [specimen(setting)] if found]
    if not works:
        raise ProblemError(f"the task's function fails at all of its settings: {first_error[0]}")
    for setting, found in works:
        known = [_integers(other) for other, _ in listed]
        if found.work <= OWN_SHAPE_WORK and len(listed) < MOST_SHAPES and _integers(setting) not in known:
            listed.append((setting, found))
        too_large += found.work > OWN_SHAPE_WORK
    if not listed or min(found.work for _, found in listed) > SHRUNKEN_WORK:
        setting, found = works[0]
        own = _integers(setting)

        def at(sizes: Sizes) -> Optional[Specimen]:
            return specimen(_with(setting, sizes))

        found_sizes, given_up = shrunken(own, lambda sizes: getattr(at(sizes), "work", None),
                                         lambda sizes: at(sizes).extents(), answer)
        listed += [(_with(setting, sizes), specimen(_with(setting, sizes))) for sizes in found_sizes]
        notes += given_up
    if not listed:
        raise ProblemError("the task is too large for the virtual GPU and cannot be made smaller: sizes are "
                           "literals in the task or in the answer")
    if too_large:
        notes.append(f"{too_large} of {len(works)} settings are too large for the virtual GPU and not "
                     "checked")
    return [item for item in listed if set(item[1].inputs) == set(listed[0][1].inputs)]


def _module(source: str):
    from assay.problem import measure

    try:
        return measure.namespace(source, "task")
    except Exception as error:
        raise ProblemError("the task's Python file cannot be executed: "
                           f"{type(error).__name__}: {error}") from error


def _complete(module: Any, setting: Setting) -> Setting:
    """The setting with the defaults of Model and get_inputs, without keys that they do not take."""
    complete = {}
    for part, function in (("init", module.Model.__init__), ("input", module.get_inputs)):
        parameters = {name: parameter for name, parameter in inspect.signature(function).parameters.items()
                      if name != "self"}
        values = {name: parameter.default for name, parameter in parameters.items()
                  if isinstance(parameter.default, (int, float, str, bool))}
        values.update({key: value for key, value in setting[part].items() if key in parameters})
        complete[part] = values
    return complete


def _specimen(module: Any, direction: str, setting: Setting) -> Specimen:
    import torch

    from assay.problem import measure
    from assay.problem.runtime import common, robust_kbench

    with torch.device("meta"), common.CudaAs("meta"):
        arguments = robust_kbench.arguments_of(module, setting)
    outputs, work = measure.on_meta(module.forward_fn, arguments)
    if direction == "forward":
        return measure.specimen(robust_kbench.parameters_of(module, arguments), arguments, outputs, [], work)
    wanted = robust_kbench.differentiated(arguments)
    parameters = robust_kbench.parameters_of(module, arguments)
    grads = [arguments[index] for index in wanted]
    names = [f"grad_{parameters[index]}" for index in wanted]
    return measure.specimen(["grad_output", *parameters], [outputs[0], *arguments], grads, wanted, 3 * work,
                            names)


def _contract(title: str, source: str,
              listed: List[Tuple[Setting, Specimen]]) -> Tuple[Contract, Dict[str, str]]:
    first = listed[0][1]
    tensors = [*first.inputs, *first.outputs]
    sizes = [_integers(setting) for setting, _ in listed]
    varying = [name for name in sizes[0] if len({item.get(name) for item in sizes}) > 1]
    names: Dict[str, str] = {}
    for name in varying:
        names[name] = safe_name(name, tensors + list(names.values()), dim=True)
    columns = [{names[name]: item[name] for name in varying} for item in sizes]
    contract = empty_contract(title)
    contract.only_listed_shapes = True
    Layout(columns, [found for _, found in listed]).fill(contract)
    contract.kernel.args = list(first.inputs) + list(names.values())
    _settle_values(contract, _module(source), min(listed, key=lambda item: item[1].work))
    return contract, names


def _settle_values(contract: Contract, module: Any, smallest: Tuple[Setting, Specimen]) -> None:
    from assay.problem import values
    from assay.problem.runtime import robust_kbench

    setting, found = smallest
    task = robust_kbench.Task(module, list(found.inputs), found.pattern, found.initial)
    values.settle(contract, lambda tensors: task.run([tensors[name] for name in found.inputs]),
                  lambda seed: task.make(setting, seed))


def _write(folder: Folder, source: str, cuda: str, direction: str, contract: Contract, names: Dict[str, str],
           listed: List[Tuple[Setting, Specimen]]) -> None:
    inputs = [name for name, _ in contract.input_tensors()]
    parameters, tensors = ", ".join(contract.kernel.args), ", ".join(inputs)
    dims = "".join(f"{dim}, " for dim in names.values())
    settings = "".join(f"    {tuple(_integers(setting)[name] for name in names)!r}: {setting!r},\n"
                       for setting, _ in listed)
    patterns = "".join(f"    {tuple(_integers(setting)[name] for name in names)!r}: {found.pattern!r},\n"
                       for setting, found in listed)
    ranks = [len(shape) for _, shape in listed[0][1].outputs.values()]
    wanted = listed[0][1].initial  # the arguments to differentiate by
    of_dims = "(" + "".join(f"dims[{dim!r}], " for dim in names.values()) + ")"
    folder.write("problem/task.py", source)
    folder.write("problem/call.py", f'''"""Calls the task's function and generators as robust-kbench does."""
from pathlib import Path

from assay.problem.runtime.common import load_file
from assay.problem.runtime.robust_kbench import Task

TASK = load_file(Path(__file__).with_name("task.py"), "task")
SETTINGS = {{
{settings}}}
ARGUMENTS = {{
{patterns}}}


def run({parameters}):
    return Task(TASK, {inputs!r}, ARGUMENTS[({dims})], {wanted!r}).run([{tensors}])


def make(dims, seed):
    sizes = {of_dims}
    return Task(TASK, {inputs!r}, ARGUMENTS[sizes], {wanted!r}).make(SETTINGS[sizes], seed)
''')
    folder.write("answer/kernel.cu", cuda)
    if direction == "backward":
        folder.write("answer/autograd.py", _autograd_part(source))
    folder.write("assay_adapter.py", f'''"""Calls the answer's {direction} as robust-kbench does."""
from pathlib import Path

from assay.problem.runtime.robust_kbench import Answer

ARGUMENTS = {{
{patterns}}}
ANSWER = Answer(Path(__file__).parent / "answer", {direction!r}, {inputs!r}, {ranks!r})


def run({parameters}):
    return ANSWER.run([{tensors}], ARGUMENTS[({dims})])
''')


def _autograd_part(source: str) -> str:
    """The task's AutogradFunction, which calls the kernel, with what it needs."""
    tree = ast.parse(source)
    lines = source.splitlines()
    for node in tree.body:
        if getattr(node, "name", "") in ("Model", "get_inputs"):
            for index in range(node.lineno - 1, node.end_lineno):
                lines[index] = ""
    return "\n".join(lines) + "\n"
