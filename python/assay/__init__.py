"""Assay tests GPU kernels written for PyTorch and Triton on a virtual GPU: no GPU is needed.

    import assay

    report = assay.check(softmax, reference=lambda x: torch.softmax(x, -1), shapes={"x": ("rows", "cols")})
    report.raise_for_findings()

`check` tests one function against a reference; `reward` and `reward_many` judge the text of answers to a
benchmark's problem, in a sandbox; `Contract` is the contract file as objects; `Report` is what a check says.
`pytest --assay` runs a test suite on the virtual GPU.

Importing this package imports neither torch nor Triton, and none of its own modules: every Python process on
the virtual GPU imports it when it starts.

PYTEST_DONT_REWRITE: the process of `pytest --assay` has imported this package before pytest looks at it.
"""

TYPE_CHECKING = False  # true for type checkers, which know the name
if TYPE_CHECKING:
    from assay.checking import check
    from assay.contract import (
        Case,
        Contract,
        ContractError,
        DerivedDim,
        Dim,
        Inputs,
        Kernel,
        Origin,
        Reference,
        Require,
        Scalar,
        Tensor,
        Workload,
    )
    from assay.program import AssayError
    from assay.report import Finding, FindingsError, Report, Where
    from assay.rewards import reward, reward_many

_MODULES = {
    "assay.checking": ("check",),
    "assay.contract": (
        "Case",
        "Contract",
        "ContractError",
        "DerivedDim",
        "Dim",
        "Inputs",
        "Kernel",
        "Origin",
        "Reference",
        "Require",
        "Scalar",
        "Tensor",
        "Workload",
    ),
    "assay.program": ("AssayError",),
    "assay.report": ("Finding", "FindingsError", "Report", "Where"),
    "assay.rewards": ("reward", "reward_many"),
}

__all__ = sorted(name for names in _MODULES.values() for name in names)


def __getattr__(name: str):
    import importlib

    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError("module 'assay' has no attribute %r" % name)


def __dir__():
    return sorted(list(globals()) + __all__)
