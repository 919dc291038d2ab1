"""`assay.reward`: the verdict on the text of an answer, for training and searching kernel generators.

    report = assay.reward("problems/1_matmul.py", code)  # or SOL-ExecBench, FlashInfer-Bench, …
    score = 1.0 if report else 0.0
    print(report.reason)

The answer runs in the same sandbox as in a check: a separate process without network access, files or the
expected values, with limits on time and memory. Whatever is wrong with the answer, the result is a verdict,
never an exception: `fail` with findings or a reason, or `inconclusive` if it could not be judged. Calls are
independent of each other; make many at a time.
"""

import concurrent.futures
import json
import os
import tempfile
from typing import List, Optional, Sequence, Union

from assay import program
from assay.report import Report

SECONDS_OF_TRIALS = 10.0  # by default, for the limit of the whole call
SECONDS_BESIDE_TRIALS = 120.0  # of own time, for importing torch, reading the problem and compiling the answer


def reward(
    problem: Union[str, "os.PathLike[str]"],
    code: str,
    *,
    budget: Optional[float] = None,
    seed: Optional[int] = None,
    timeout: Optional[float] = None,
    suffix: Optional[str] = None,
) -> Report:
    """Judges the text of an answer to a problem, in a sandbox. Safe to call from many threads and processes.

    `problem` is what `assay check --problem` takes: a KernelBench file, the folder of a SOL-ExecBench
    definition. `code` is the answer's text: Python, CUDA C++ or the JSON of a solution; `suffix` (".py",
    ".cu", ".json") says which, if that is not obvious. `budget` is the number of seconds of trials (default: as
    for `check`). The whole call may take two minutes more of its own processor time, so other work on the
    machine, including other calls, does not use them up. `timeout` is an optional wall-clock limit in seconds.

    Returns a Report: `verdict`, `findings`, and `reason`, one line that says why it did not pass. Raises only
    for a problem that does not exist.
    """
    problem = os.fspath(problem)
    if not any(os.path.exists(path) for path in (problem, problem.rpartition(":")[0])):  # FILE:ROW
        raise FileNotFoundError("there is no problem %s" % problem)
    own_time = (budget or SECONDS_OF_TRIALS) + SECONDS_BESIDE_TRIALS if timeout is None else None
    suffix = suffix or _suffix(code)
    mistake = _syntax_error(code) if suffix == ".py" else ""
    if mistake:
        return Report.made_here("fail", mistake)
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        answer = os.path.join(folder, "answer" + suffix)
        with open(answer, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(code)
        arguments = ["check", answer, "--problem", os.path.abspath(problem)]
        arguments += ["--budget", "%g" % budget] if budget else []
        arguments += ["--seed", str(seed)] if seed is not None else []
        ended = program.run(arguments, timeout, folder, own_time)  # there, findings name the file as answer.py
    if ended.stopped and not (ended.report and ended.report.verdict == "fail"):
        limit = "%g s" % timeout if timeout is not None else "%g s of its own time" % (own_time or 0)
        return Report.made_here("inconclusive", "not judged within " + limit)
    if ended.report is not None and ended.status != 2:
        return ended.report
    refusal = ended.errors.strip().split("\n")[-1] or "assay check ended with status %d" % ended.status
    # "the answer defines no class ModelNew" is about the answer; the rest is about what cannot be read: the
    # problem, or the language of a solution.
    return Report.made_here("fail" if "the answer " in refusal else "inconclusive", refusal)


def reward_many(
    problem: Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]],
    codes: Sequence[str],
    *,
    jobs: Optional[int] = None,
    **options,
) -> List[Report]:
    """reward() for many answers, `jobs` at a time (as many as there are cores); reports in the order of the
    answers.

    `problem` is one problem for all answers, or a list with one for each. Other options are those of
    reward().
    """
    codes = list(codes)
    single = isinstance(problem, (str, os.PathLike))
    problems = [problem] * len(codes) if single else list(problem)
    if len(problems) != len(codes):
        raise ValueError("%d problems for %d answers" % (len(problems), len(codes)))
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda pair: reward(pair[0], pair[1], **options), zip(problems, codes)))


def _suffix(code: str) -> str:
    if code.lstrip().startswith("{"):
        try:
            json.loads(code)
            return ".json"
        except ValueError:
            pass
    is_cuda = "__global__" in code and "import torch" not in code and "import triton" not in code
    return ".cu" if is_cuda else ".py"


def _syntax_error(code: str) -> str:
    try:
        compile(code, "answer.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return "the answer is not Python: %s" % error
    return ""
