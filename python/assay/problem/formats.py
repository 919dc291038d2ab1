"""Which benchmark a problem and a submission belong to, found out from their content."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from assay.contract import Contract
from assay.problem import ProblemError, cuda_l1, kernelbench, robust_kbench, sol, sol_problem
from assay.problem.folder import Folder

KNOWN = ("SOL-ExecBench or FlashInfer-Bench (a folder with definition.json), KernelBench (a Python file with "
         "Model), robust-kbench (a folder with func_forward.py) and CUDA-L1 (a .json or .jsonl file with "
         "ref_code) are known")

PYTHON_COPIES = "answer/**/answer.py"


@dataclass
class Submission:
    """A recognised pair of problem and submission; `describe` writes its folder."""
    format: str
    describe: Callable[[Folder], Contract]
    answer: Path  # the file that was named
    copies: str = ""  # the pattern of files in the folder that are this file, line for line


def recognise(answer: str, problem: str, row: Optional[str] = None) -> Submission:
    """The format of a problem and a submission. Raises ProblemError where there is none."""
    problem, problem_row = _split_row(problem)
    answer, answer_row = _split_row(answer)
    path = Path(problem)
    if not path.exists():
        raise ProblemError(f"the problem {problem} does not exist")
    if not Path(answer).exists():
        raise ProblemError(f"the submission {answer} does not exist")
    row = row or answer_row or problem_row
    if sol_problem.find_definition(path):
        return _sol(path, Path(answer))
    if path.is_dir():
        return _folder(path, Path(answer))
    if path.suffix in (".json", ".jsonl"):
        code = cuda_l1.row(path, row)
        own = Path(answer).resolve() != path.resolve()
        if own:
            code.answer = _text(Path(answer))
        return Submission("cuda-l1", lambda folder: cuda_l1.describe(code, folder), Path(answer),
                          PYTHON_COPIES if own else "")
    if path.name in ("func_forward.py", "func_backward.py"):
        return _folder(path.parent, Path(answer), path.name)
    source = _text(path)
    if path.suffix == ".py" and kernelbench.is_problem(source):
        answer_text = _text(Path(answer))
        return Submission("kernelbench",
                          lambda folder: kernelbench.describe(source, answer_text, path.stem, folder),
                          Path(answer), PYTHON_COPIES)
    raise ProblemError(f"{path} is not a problem of a known benchmark: {KNOWN}")


def _sol(problem: Path, answer: Path) -> Submission:
    solution = _json(answer)
    if not isinstance(solution, dict) or "spec" not in solution or "sources" not in solution:
        raise ProblemError(f"{answer} is not a solution: expected a JSON object with `spec` and `sources` "
                           "for this problem")
    name = "flashinfer-bench" if "language" in solution["spec"] else "sol-execbench"
    return Submission(name, lambda folder: sol.describe(problem, solution, folder), answer)


def _folder(problem: Path, answer: Path, function: str = "") -> Submission:
    if robust_kbench.is_task(problem):
        return Submission("robust-kbench",
                          lambda folder: robust_kbench.describe(problem, answer, folder, function), answer,
                          "answer/kernel.cu")
    pair = cuda_l1.pair_in(problem)
    if pair:
        own = answer.resolve() != problem.resolve()
        if own:
            pair.answer = _text(answer)
        return Submission("cuda-l1", lambda folder: cuda_l1.describe(pair, folder),
                          answer if own else problem / "custom_code.py", PYTHON_COPIES)
    raise ProblemError(f"{problem} contains no problem of a known benchmark: {KNOWN}")


def _split_row(path: str):
    """`FILE.jsonl:ROW` as the file and the row."""
    if not Path(path).exists() and ":" in path:
        file, row = path.rsplit(":", 1)
        if Path(file).exists():
            return file, row
    return path, None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path} cannot be read as text: {error}") from error


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ProblemError(f"{path} is not valid JSON, line {error.lineno}: {error.msg}") from error
