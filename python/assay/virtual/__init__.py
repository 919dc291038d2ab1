"""Python programs on the virtual GPU.

`assay run -- python script.py` starts Python with Assay's libcudart and libcuda preloaded and this package on its path;
the package's sitecustomize then calls enable(). That imports neither torch nor triton: it waits for the program to
import them, and installs the part of this package that makes them work right after.

    part        after the import of   what it does
    aten        torch                 computes ATen's operators on the CPU
    names       torch                 names tensors in findings by the variables that hold them
    extension   torch                 builds C++ extensions against Assay's light header
    inductor    torch                 runs what torch.compile generates
    triton      triton                hands kernels to the virtual GPU as PTX

Each part is a module with one function install(), which may be called more than once.
"""

from __future__ import annotations

import os
import sys

# Nothing else is imported here: every Python program pays for it, also one without torch.

PARTS: dict[str, tuple[str, ...]] = {
    "torch": ("aten", "names", "extension", "inductor"),
    "triton": ("triton",),
}

# Where the value of LD_PRELOAD is kept for Python programs that this one starts.
PRELOAD_VARIABLE = "ASSAY_PRELOAD"


def enable() -> None:
    """Makes this process, and every Python process that it starts, run on the virtual GPU."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    _keep_preload_from_other_programs()
    sys.meta_path.insert(0, _Finder())
    for name in PARTS:
        if name in sys.modules:
            install_parts(name)


def install_parts(name: str) -> None:
    """Installs what belongs to a module that has been imported."""
    import importlib

    problem = _problem_with(sys.modules[name])
    if problem:
        sys.stderr.write(f"assay: {problem}\n")
        return
    for part in PARTS[name]:
        importlib.import_module(f"{__name__}.{part}").install()


def _problem_with(module) -> str:
    """Why a module cannot run on the virtual GPU; empty where it can."""
    import ctypes

    if not hasattr(ctypes.CDLL(None), "assay_fetch"):
        return "this process was not started for the virtual GPU; start it with `assay run -- python ...`"
    if module.__name__ != "torch":
        return ""
    version = module.version.cuda
    if version is None:
        return f"PyTorch {module.__version__} was built without CUDA: nothing runs on the virtual GPU"
    if not version.startswith("13."):
        return f"PyTorch {module.__version__} was built for CUDA {version}; the virtual GPU needs one for CUDA 13"
    return ""


def _keep_preload_from_other_programs() -> None:
    """Compilers and other tools that the program starts must not load the runtime library.

    So LD_PRELOAD leaves the environment once this process has it. A Python that this one starts finds its value in
    another variable and starts again with it.
    """
    preload = os.environ.pop("LD_PRELOAD", None)
    if preload is not None:
        os.environ[PRELOAD_VARIABLE] = preload
    elif PRELOAD_VARIABLE in os.environ and not _has_runtime():
        command = _command_line()
        environment = dict(os.environ, LD_PRELOAD=os.environ[PRELOAD_VARIABLE])
        os.execve(sys.executable, [sys.executable] + command[1:], environment)


def _has_runtime() -> bool:
    with open("/proc/self/maps") as maps:
        return any("/libcudart.so.13" in line for line in maps)


def _command_line() -> list[str]:
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


class _Finder:
    """Finds torch and triton as Python would, and installs their parts after the import."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in PARTS:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Loads a module with its own loader, then installs its parts."""

    def __init__(self, loader: object) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__loader__ = module.__spec__.loader = self._loader  # what the module expects to see
        self._loader.exec_module(module)
        install_parts(module.__name__)
