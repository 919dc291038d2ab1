"""Benchmark problems as contracts.

A benchmark states a problem in its own format: SOL-ExecBench and FlashInfer-Bench as JSON, KernelBench and
CUDA-L1 as a Python file with a `Model`, robust-kbench as a folder with a function and its settings. This
package turns a problem and a submission to it into a folder that `assay check` can read:

    FOLDER/contract.toml    dims, tensors, shapes, and where the rest is
    FOLDER/assay_adapter.py `run`: calls the submission as the benchmark does
    FOLDER/answer/          the submission's files, unchanged
    FOLDER/problem/         the problem's own code and generators, unchanged, and `call.py`, which calls them

The submission is only read here, never executed. The problem's code is trusted: it runs on the `meta` device
and on the CPU to find out which shapes work and what its inputs look like.
"""


class ProblemError(Exception):
    """A problem or a submission that cannot be used. Its text is one line that says what to do."""
