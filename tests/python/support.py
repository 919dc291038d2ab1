"""What the tests of the Python package share: the program under test, and decorators for what may be missing
here.

    ASSAY_PROGRAM=build/release/bin/assay python3 -m unittest discover -s tests/python

Without ASSAY_PROGRAM the program of build/release is used. Tests that need torch, Triton, nvcc or pytest are
skipped where those are not installed; unittest's last line counts them.
"""

import importlib.util
import os
import pathlib
import shutil
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("ASSAY_PROGRAM") or ROOT / "build/release/bin/assay")
LIBRARIES = PROGRAM.parent.parent / "lib"
NVCC = shutil.which(
    "nvcc",
    path=os.pathsep.join(
        [os.environ.get("PATH", ""), os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    ),
)

os.environ["ASSAY_PROGRAM"] = str(PROGRAM)
if str(ROOT / "python") not in sys.path:
    sys.path.insert(0, str(ROOT / "python"))


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _torch_has_cuda() -> bool:
    """Whether torch was built for CUDA, without the seconds that importing it takes."""
    found = importlib.util.find_spec("torch")
    if not found or not found.origin:
        return False
    version = pathlib.Path(found.origin).with_name("version.py")
    return version.exists() and "cuda: Optional[str] = None" not in version.read_text()


needs_torch = unittest.skipUnless(is_installed("torch"), "torch is not installed")
needs_torch_cuda = unittest.skipUnless(_torch_has_cuda(), "torch for CUDA is not installed")
needs_triton = unittest.skipUnless(_torch_has_cuda() and is_installed("triton"), "triton is not installed")
needs_nvcc = unittest.skipUnless(NVCC, "nvcc was not found")
needs_pytest = unittest.skipUnless(is_installed("pytest"), "pytest is not installed")
needs_program = unittest.skipUnless(PROGRAM.exists(), "%s has not been built" % PROGRAM)
