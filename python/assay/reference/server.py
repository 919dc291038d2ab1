"""Answers questions about a problem in PyTorch on the CPU, one JSON object per line.

    python -m assay.reference.server

One process serves a whole check, so that torch and the problem are imported once. It is told what to evaluate first:

    {"op": "describe", "arguments": […]}   runs assay.problem.describe in a fork: what the problem's code leaves behind
                                           there does not reach the evaluations
    {"op": "open", "reference": "FILE:FUNCTION", "inputs": "FILE:FUNCTION" or "", "declared": {…}}   has no answer
    {"op": "expect", …}, {"op": "inputs", …}

Tensors travel as .npy files: inputs in float64, or int64 for integers and booleans; results in float64. Whatever the
problem prints goes to stderr; an exception in the problem is an answer, not the end of the server.
"""
import contextlib
import importlib.util
import inspect
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, TextIO, Tuple

from assay import cpu_torch  # noqa: F401  first: it prepares the import of torch

import numpy as np  # noqa: E402
import torch  # noqa: E402

from . import nan_choices, tf32  # noqa: E402
from .budget import BudgetEvaluation  # noqa: E402
from .exact import Evaluation, on_cpu  # noqa: E402
from .perturbation import MARGIN, whole_reference  # noqa: E402
from .precision import DTYPES, Precision  # noqa: E402

Tensors = Dict[str, torch.Tensor]

_SECONDS = 100  # for one request; the check gives up after 120
_MOST_SAID = 100_000  # characters of what a description prints
_MEMORY = 12 << 30  # bytes of address space beyond what the imports took


class Problem(Exception):
    """What is wrong with a reference or a request, in one line."""


def load_function(place: str) -> Callable:
    """FILE:FUNCTION, imported with the devices that it names taken for the CPU."""
    path, _, name = place.rpartition(":")
    if not path:
        raise Problem(f"`{place}` must be FILE:FUNCTION")
    file = Path(path).resolve()
    if not file.is_file():
        raise Problem(f"{path} does not exist")
    module_name = "assay_problem_" + file.stem
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise Problem(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(file.parent))
    try:
        with on_cpu():
            spec.loader.exec_module(module)
    except BaseException as error:
        raise Problem(f"{file.name} cannot be imported: {describe(error, file)}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise Problem(f"{file.name} has no function `{name}`")
    return found


def describe(error: BaseException, file: Optional[Path] = None) -> str:
    """One line: the exception, and the problem's own line that raised it."""
    text = f"{type(error).__name__}: {error}".strip().splitlines()
    line = text[0].rstrip(":") if text else type(error).__name__
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if file is not None and f.filename == str(file)]
    return f"{line} ({file.name}:{frames[-1].lineno})" if frames else line


class Server:
    def __init__(self, reference: str, inputs: Optional[str], declared: Dict[str, Any]):
        self.declared = declared
        self.file = Path(reference.rpartition(":")[0]).resolve()
        torch.backends.cudnn.allow_tf32 = False
        self.function = load_function(reference)
        self.make_inputs = load_function(inputs) if inputs else None

    # ---- requests ----

    def answer(self, request: Dict[str, Any]) -> Dict[str, Any]:
        operation = request.get("op")
        try:
            if operation == "expect":
                return self.expect(request)
            if operation == "inputs":
                return self.inputs(request)
            return {"ok": False, "error": f"unknown request `{operation}`"}
        except Problem as error:
            return {"ok": False, "error": str(error)}
        except _TimeOut:
            return {"ok": False, "error": f"the reference took longer than {_SECONDS} s"}
        except MemoryError:
            return {"ok": False, "error": "the reference needs more memory than there is for it"}
        except Exception as error:  # the problem's code may raise anything
            line = describe(error, self.file)
            if "allocate memory" in line or "not enough memory" in line:
                line = "the reference needs more memory than there is for it"
            return {"ok": False, "error": line}

    def expect(self, request: Dict[str, Any]) -> Dict[str, Any]:
        folder = Path(request["folder"])
        arrays = {name: torch.from_numpy(np.load(folder / f"{name}.npy")) for name in request["inputs"]}
        precision = self.precision(request)
        names: List[str] = request["outputs"]
        call = lambda run, given: self.call(run, given, request, names)
        run = BudgetEvaluation(precision)
        random = torch.get_rng_state()
        answer = {"ok": True, "budget": "operators"}
        try:
            outputs = call(run, arrays)
            shaped = {n: self.shaped(outputs[n], n, request) for n in names}
            results = {n: run.result(t, self.dtype("outputs", n)) for n, t in shaped.items()}
            answer["rests_on"] = run.rests_on()
        except (Problem, _TimeOut, MemoryError):
            raise
        except Exception as error:
            results = self.by_perturbation(call, arrays, precision, request, names)
            answer["budget"] = "perturbation"
            answer["rests_on"] = (
                "runs of the whole reference with its inputs moved by their rounding, since it could not be "
                f"followed operator by operator: {describe(error)}")
        if precision.tf32:
            torch.set_rng_state(random)
            shaped_outputs = lambda run: {n: self.shaped(t, n, request) for n, t in call(run, arrays).items()}
            margin = MARGIN if answer["budget"] == "perturbation" else 0.0
            results = tf32.allowed_for(results, shaped_outputs, margin)
        def exact_outputs(run: Evaluation, given: Tensors) -> Tensors:
            torch.set_rng_state(random)
            return {n: run.widened(self.shaped(t, n, request)) for n, t in call(run, given).items()}

        results = nan_choices.left_open(results, arrays, exact_outputs)
        undecided = 0
        for name, (value, bound, sigma) in results.items():
            undecided += int(torch.isinf(bound).sum())
            save(folder / f"{name}.out.npy", value.double())
            save(folder / f"{name}@bound.out.npy", bound)
            save(folder / f"{name}@sigma.out.npy", sigma)
        answer["undecided"] = undecided
        return answer

    def by_perturbation(self, call, arrays, precision, request, names):
        def outputs_of(run: Evaluation, given: Tensors) -> Tensors:
            outputs = call(run, given)
            return {n: run.widened(self.shaped(outputs[n], n, request)) for n in names}

        return whole_reference(outputs_of, arrays, {n: self.dtype("inputs", n) for n in arrays}, precision)

    def call(self, run: Evaluation, arrays: Tensors, request: Dict[str, Any], names: List[str]) -> Tensors:
        """Calls the problem's function; its outputs by name."""
        given = {n: run.input(t, self.dtype("inputs", n)) for n, t in arrays.items()}
        values = {**request.get("numbers", {}), **given}
        positional, named = self.arguments(values, names)
        with run:
            returned = self.function(*positional, **named)
        return self.by_name(returned, names, given)

    def arguments(self, values: Dict[str, Any], outputs: List[str]):
        parameters = list(inspect.signature(self.function).parameters.values())
        plain = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        anything = any(p.kind == p.VAR_KEYWORD for p in parameters)
        known = all(p.name in values or p.default is not p.empty for p in plain)
        if known and len(plain) == len([p for p in parameters if p.kind != p.VAR_KEYWORD]):
            return [], {n: v for n, v in values.items() if anything or any(p.name == n for p in plain)}
        order = [n for n in self.declared.get("args", list(values)) if n in values]
        return [values[n] for n in order if n not in outputs or n in values], {}

    def by_name(self, returned: Any, names: List[str], given: Tensors) -> Tensors:
        if returned is None:
            missing = [n for n in names if n not in given]
            if missing:
                raise Problem(f"the reference returns nothing, and `{missing[0]}` is not among its inputs")
            return {n: given[n] for n in names}
        if isinstance(returned, dict):
            missing = [n for n in names if n not in returned]
            if missing:
                raise Problem(f"the reference returns no output `{missing[0]}`")
            found = [returned[n] for n in names]
        else:
            found = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(found) != len(names):
            raise Problem(f"the reference returns {len(found)} outputs, the contract has {len(names)}")
        for name, value in zip(names, found):
            if not isinstance(value, (torch.Tensor, int, float, bool)):
                raise Problem(f"output `{name}` of the reference is a {type(value).__name__}, not a tensor")
        return {n: v if isinstance(v, torch.Tensor) else torch.tensor(v) for n, v in zip(names, found)}

    def shaped(self, t: torch.Tensor, name: str, request: Dict[str, Any]) -> torch.Tensor:
        extents = request.get("extents", {}).get(name)
        if extents is None or list(t.shape) == list(extents):
            return t
        without_ones = lambda shape: [e for e in shape if e != 1]
        if without_ones(t.shape) == without_ones(extents):
            return t.reshape(extents)
        raise Problem(f"the reference returns `{name}` with the shape {list(t.shape)}, the contract says "
                      f"{list(extents)}")

    def inputs(self, request: Dict[str, Any]) -> Dict[str, Any]:
        if self.make_inputs is None:
            raise Problem("this problem has no inputs of its own")
        folder = Path(request["folder"])
        torch.manual_seed(request["seed"])
        with on_cpu():
            made = self.make_inputs(request["dims"], request["seed"])
        if not isinstance(made, dict):
            raise Problem("the problem's inputs must be a dict of tensors by name")
        for name, t in made.items():
            if isinstance(t, torch.Tensor):
                save(folder / f"{name}.npy", t.detach())
        return {"ok": True, "names": [n for n, t in made.items() if isinstance(t, torch.Tensor)]}

    # ---- declarations ----

    def dtype(self, kind: str, name: str) -> torch.dtype:
        for group in (kind, "inputs", "outputs"):
            entry = self.declared.get(group, {}).get(name)
            if entry is not None:
                if entry["dtype"] not in DTYPES:
                    raise Problem(f"`{name}` has the unknown dtype `{entry['dtype']}`")
                return DTYPES[entry["dtype"]]
        raise Problem(f"`{name}` is not declared")

    def precision(self, request: Dict[str, Any]) -> Precision:
        tensor_cores = request.get("tensor_cores", self.declared.get("tensor_cores", False))
        # TF32 is not f32: it is allowed where the problem says so or its reference turns it on.
        cut_off = bool(self.declared.get("tf32")) or torch.backends.cuda.matmul.allow_tf32 or \
            torch.backends.cudnn.allow_tf32
        return Precision(DTYPES[self.declared.get("accumulate", "f32")], self.declared.get("math") == "fast",
                         bool(tensor_cores), cut_off)


def save(path: Path, t: torch.Tensor) -> None:
    """float64, or int64 for integers and booleans."""
    t = t.detach()
    if t.is_floating_point():
        wide = t.to(torch.float32) if t.element_size() == 1 else t
        np.save(path, wide.to(torch.float64).contiguous().numpy())
    else:
        np.save(path, t.to(torch.int64).contiguous().numpy())


class _TimeOut(Exception):
    pass


@contextlib.contextmanager
def time_limit(seconds: int):
    def over(*_):
        raise _TimeOut()

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(more: int) -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = used + more if hard == resource.RLIM_INFINITY else min(used + more, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def described(arguments: List[str]) -> Dict[str, Any]:
    """What assay.problem.describe prints and says, and how it ends, in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            os.dup2(write, 1)
            os.dup2(write, 2)
            from assay.problem import describe as program

            status = program.main(arguments)
        except BaseException:  # the fork must not go on as the server
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(status)
    os.close(write)
    try:
        with os.fdopen(read, errors="replace") as output:
            text = output.read()
    except _TimeOut:
        os.kill(child, signal.SIGKILL)
        return {"ok": False, "error": f"the problem could not be read within {_SECONDS} s"}
    finally:
        _, status = os.waitpid(child, 0)
    return {"ok": True, "status": os.waitstatus_to_exitcode(status), "output": text[-_MOST_SAID:]}


def opened(request: Dict[str, Any]) -> Tuple[Optional[Server], str]:
    """The server of a reference, or why there is none."""
    try:
        return Server(request["reference"], request.get("inputs"), request["declared"]), ""
    except (Problem, OSError, ValueError) as error:
        return None, str(error)


def serve(requests: TextIO, answers: TextIO) -> None:
    server, problem = None, "there is no reference yet"
    for line in requests:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("not an object")
        except ValueError as error:
            message = f"a request must be one JSON object per line: {error}"
            answer: Dict[str, Any] = {"ok": False, "error": message}
        else:
            if request.get("op") == "open":
                limit_memory(_MEMORY)
                server, problem = opened(request)
                continue
            with time_limit(_SECONDS):
                if request.get("op") == "describe":
                    answer = described(request["arguments"])
                else:
                    answer = server.answer(request) if server else {"ok": False, "error": problem}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> int:
    # The problem may print: only answers go to the real stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)  # two that wait for each other on a busy machine take fifty times as long
    serve(sys.stdin, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
