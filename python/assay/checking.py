"""`assay.check`: one function against its reference, on the virtual GPU.

The call becomes a contract (docs/contracts.md) in its own folder: contract.toml, and short Python files that
locate the function, the reference and the inputs. `assay check` does the rest in separate processes, so the
function cannot disturb this one, and `assay replay` can repeat a finding later.
"""

import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any, Callable, List, Mapping, Optional, Sequence, Union

from assay import program
from assay.contract import Require
from assay.function_contract import DimLike, FunctionCall, ShapeLike
from assay.function_source import uses_triton
from assay.program import AssayError
from assay.report import Report


def check(
    function: Union[Callable, str, "os.PathLike[str]"],
    *,
    reference: Optional[Callable] = None,
    inputs: Union[Mapping[str, Any], Sequence[Any], Callable, None] = None,
    shapes: Optional[Mapping[str, ShapeLike]] = None,
    dtypes: Any = None,
    dims: Optional[Mapping[str, DimLike]] = None,
    outputs: Optional[Mapping[str, Any]] = None,
    scalars: Optional[Mapping[str, Any]] = None,
    values: Optional[Mapping[str, str]] = None,
    workloads: Sequence[Mapping[str, int]] = (),
    accumulate: str = "f32",
    math: Optional[str] = None,
    require: Union[Require, Mapping[str, Any], None] = None,
    problem: Optional[str] = None,
    title: Optional[str] = None,
    budget: Optional[float] = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
) -> Report:
    """Checks a function on CUDA tensors against a reference in PyTorch. Needs no GPU.

    The function is called with CUDA tensors on the virtual GPU, in a separate process. It may launch Triton
    kernels, belong to a C++ extension, or be any Python function on tensors. Assay tries edge cases and odd
    sizes, adversarial and realistic values, repeated and overlapping calls, and reports wrong results,
    illegal accesses, races and more. There is no tolerance to choose: how far a result may be from the
    reference follows from the reference's operators and the dtypes.

    The shortest form names the extents of each input. Every name is a dim that the function promises to
    support:

    >>> report = assay.check(softmax, reference=lambda x: torch.softmax(x, -1),
    ...                      shapes={"x": ("rows", "cols")}, dtypes="bf16",
    ...                      dims={"rows": (1, 4096), "cols": range(8, 8193, 8)})
    >>> report.raise_for_findings()

    With example tensors, shapes and dtypes are taken from them. Name the extents that may vary in `shapes`:

    >>> assay.check(layer_norm, reference=torch_layer_norm, inputs=(x, weight, bias, 1e-5))
    >>> assay.check(layer_norm, reference=torch_layer_norm, inputs=(x, weight, bias, 1e-5),
    ...             shapes={"x": ("rows", 128)}, dims={"rows": (1, 512)})

    Parameters
    ----------
    function
        The function under test. It returns its outputs, or writes to those of its parameters that `outputs`
        names. A path checks a file instead: a contract (*.toml), or with `problem=` an answer to a
        benchmark's problem.
    reference
        A function in PyTorch that returns the exact outputs. It is evaluated in float64 on the CPU. It gets
        the arguments that its parameters name, otherwise all inputs by position.
    inputs
        Example tensors and numbers, by parameter name or in the order of the parameters. Of integer tensors,
        the smallest and the largest value of the example bound what is tried. Or a function make(dims, seed)
        that returns {name: tensor}, for inputs that only you can generate; its inputs are tried beside
        Assay's own.
    shapes
        {parameter: extents}: numbers, names of dims, or expressions such as "2 * N" and "ceil_div(N, 32)".
    dtypes
        One dtype for all inputs or {parameter: dtype}: torch.bfloat16 or "bf16". The default is float32.
    dims
        {dim: (min, max)}, (min, max, multiple_of), a range, or a number for a constant. A dim that is not
        listed may be anything from 1 to 4096.
    outputs
        {name: extents} or {name: assay.Tensor}, in the order in which they are returned. By default they are
        found by calling the reference on the meta device. Names of parameters are outputs that the function
        writes in place.
    scalars
        {parameter: number}, a list of numbers to try, or an assay.Scalar.
    values
        {parameter: values}: what legal inputs look like, "activations", "tokens(V)", "real(0, 1)";
        docs/contracts.md.
    workloads
        Shapes that must be among those checked: [{"rows": 4096, "cols": 1024}].
    accumulate, math, require
        As in a contract: the precision of sums, "standard" or "fast" functions (the default of Triton
        functions, whose exp and division are approximate), and what else is required, such as
        {"deterministic": True}.
    budget
        Seconds of trials. By default 8, and those that a pass does not require end 14 s after the start of the check,
        compiling included.
    seed
        Equal seeds plan equal trials.
    timeout
        Seconds after which the whole check is stopped, compiling included. The report then says what was
        found until then.

    Returns
    -------
    Report
        It is true if the verdict is `pass`. Raises AssayError if the check cannot be started, with the
        reason.
    """
    options = ["--budget", "%g" % budget] if budget is not None else []
    options += ["--seed", str(seed)] if seed is not None else []
    if isinstance(function, (str, os.PathLike)):
        if reference or inputs or shapes:
            raise AssayError("a contract or an answer in a file has its own reference, inputs and shapes")
        return _run(
            [os.fspath(function)] + (["--problem", os.fspath(problem)] if problem else []) + options, timeout
        )
    if not callable(function):
        raise AssayError("%r is neither a function nor the path of a contract" % (function,))
    if type(function).__module__.startswith("triton."):
        raise AssayError(
            "%s is a Triton kernel; check the Python function that launches it"
            % getattr(function, "__name__", "this")
        )
    if not callable(reference):
        raise AssayError("a check needs a reference: a function in PyTorch that computes the same")
    call = FunctionCall(
        function,
        reference,
        inputs,
        shapes or {},
        dtypes,
        dims or {},
        outputs,
        scalars or {},
        values or {},
        sys._getframe(1).f_globals,
    )
    call.title = title
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        contract = call.contract(pathlib.Path(folder))
        contract.shapes = [dict(one) for one in workloads]
        contract.reference.accumulate = accumulate
        contract.reference.math = math or ("fast" if uses_triton(function) else None)
        contract.require = require if isinstance(require, Require) else Require(**dict(require or {}))
        pathlib.Path(folder, "contract.toml").write_text(contract.to_toml(), encoding="utf-8")
        kept = _keep(pathlib.Path(folder))
    return _run([str(kept / "contract.toml")] + options, timeout)


def _run(arguments: List[str], timeout: Optional[float]) -> Report:
    ended = program.run(["check"] + arguments, timeout)
    if ended.report is not None and ended.status != 2:
        return ended.report
    if ended.stopped:
        return Report.made_here("inconclusive", "the check was stopped after %g s" % (timeout or 0))
    raise AssayError(ended.errors.strip() or "assay check ended with status %d" % ended.status)


def _keep(folder: pathlib.Path) -> pathlib.Path:
    """Moves a contract's folder to the cache, under a name made from its content, so that findings can be
    replayed."""
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.rglob("*") if file.is_file()):
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes() + b"\0")
    cache = (
        pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        / "assay"
        / "functions"
    )
    kept = cache / digest.hexdigest()[:24]
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        copy = pathlib.Path(tempfile.mkdtemp(dir=cache))
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        try:
            copy.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(copy, ignore_errors=True)
    return kept
