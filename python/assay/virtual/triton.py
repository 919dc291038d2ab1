"""Stock Triton on the virtual GPU.

Triton's front end, compiler, launcher and driver run unchanged up to the last stage: where ptxas would make machine code,
the PTX goes to the driver, which is Assay's. Kernels are compiled for the architecture that the virtual GPU presents,
without what it does not run: `tl.dot` becomes mma instead of wgmma, tensor descriptors become pointers instead of TMA.

Nothing is timed. The autotuner runs every configuration once, each from the same state of its tensors, and takes the
first one that runs; `triton.testing.do_bench` runs its function once and returns a fixed time.

`tl.device_assert` is compiled in, as with TRITON_DEBUG=1. The tensors of a launch are labelled with the names of the
kernel's arguments.

Triton's `tl.exp`, `tl.log` and `/` are approximate on a GPU: a contract for a Triton kernel says `math = "fast"`.
"""

import contextlib
import contextvars
import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

MILLISECONDS = 1.0  # the answer to every question for a time
# One element of a tensor may be held by several threads, which all load it and of which one stores it: the race check
# has to know. Compilers ignore a pragma that they do not know.
THREADS_HOLD_COPIES = "assay_threads_hold_copies"
_COPY_ON_DEVICE = 3  # cudaMemcpyDeviceToDevice

# The configuration that the autotuner runs now, as part of the kernel's name.
_configuration: "contextvars.ContextVar[str]" = contextvars.ContextVar("configuration", default="")


def install() -> None:
    """Prepares Triton, which has just been imported. A second call does nothing."""
    import triton
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.backends.nvidia.driver import CudaLauncher
    from triton.runtime import autotuner, jit

    if getattr(CUDABackend, "assay_installed", False):
        return
    CUDABackend.assay_installed = True
    os.environ["DISABLE_MMA_V3"] = "1"  # no wgmma
    triton.knobs.build.impl = build_launcher
    _hand_on_ptx(CUDABackend)
    _compile_assertions(CUDABackend)
    _name_files_in_keys(getattr(jit, "JITCallable", jit.JITFunction))
    _label_arguments(CudaLauncher)
    _check_configurations(autotuner.Autotuner)
    _do_not_time(triton.testing)


# ---- the compiler ----


def _hand_on_ptx(backend: type) -> None:
    make_ttir = backend.make_ttir

    def pointers_for_descriptors(module: Any, metadata: Dict[str, Any], options: Any, capability: int) -> Any:
        _say_once("Triton kernels use mma instead of wgmma, and pointers instead of TMA: the virtual GPU does not run those")
        return make_ttir(module, metadata, options, min(capability, 89))  # the last one without TMA

    def make_cubin(self: Any, source: str, metadata: Dict[str, Any], options: Any, capability: int) -> bytes:
        name = metadata["name"]
        suffix = _configuration.get()
        if suffix:
            metadata["name"] = name + suffix
            source = re.sub(r"\b%s\b" % re.escape(name), name + suffix, source)
        source = re.sub(r"(?m)^\{$", '{\n\t.pragma "%s";' % THREADS_HOLD_COPIES, source, count=1)
        return lines_of_inline_assembly(source).encode() + b"\0"

    backend.make_ttir = staticmethod(pointers_for_descriptors)
    backend.make_cubin = make_cubin
    backend.hash = lambda self: "assay-%s" % self.target.arch


def lines_of_inline_assembly(ptx: str) -> str:
    """The PTX without the `.loc` lines inside inline assembly.

    LLVM counts the lines of a multi-line string there, from the line of the call; the Python line is the one before."""
    inside = False
    kept = []
    for line in ptx.splitlines():
        if "// begin inline asm" in line:
            inside = True
        elif "// end inline asm" in line:
            inside = False
        elif inside and line.lstrip().startswith(".loc"):
            continue
        kept.append(line)
    return "\n".join(kept) + "\n"


def _compile_assertions(backend: type) -> None:
    """Compiles `tl.device_assert` in. Triton's own assertions about integer overflow stay with debug=True."""
    parse_options = backend.parse_options

    def with_assertions(self: Any, options: Dict[str, Any]) -> Any:
        if not options.get("debug"):
            options = dict({"sanitize_overflow": False}, **options)
            options["debug"] = True
        return parse_options(self, options)

    backend.parse_options = with_assertions


def _name_files_in_keys(function: type) -> None:
    """Triton's cache tells kernels apart by their text and line, not by their file, which the PTX names."""
    key = function.cache_key.fget

    def key_with_file(self: Any) -> str:
        return "%s-%s" % (key(self), getattr(self.fn, "__code__", self).__class__ and _file_of(self))

    function.cache_key = property(key_with_file)


def _file_of(function: Any) -> str:
    code = getattr(function.fn, "__code__", None)
    return os.path.abspath(code.co_filename) if code else ""


def build_launcher(name: str, source: str, folder: str, library_folders: List[str], include_folders: List[str],
                   libraries: List[str]) -> str:
    """Compiles the C source of Triton's driver or of a launcher into an extension module; returns its path.

    The compiler runs outside the virtual GPU. The driver's functions are not linked: this process has them loaded."""
    language, variable, names = ("c", "CC", ("gcc", "clang", "cc"))
    if not source.endswith(".c"):
        language, variable, names = ("c++", "CXX", ("g++", "clang++", "c++"))
    compiler = os.environ.get(variable) or next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        raise RuntimeError("assay: Triton compiles its launcher with a %s compiler: install gcc, or name one in %s"
                           % (language.upper(), variable))
    python = sysconfig.get_paths("posix_prefix")["include"]
    if not os.path.exists(os.path.join(python, "Python.h")):
        raise RuntimeError("assay: Triton compiles its launcher with Python's headers: install the package that has %s"
                           % os.path.join(python, "Python.h"))
    output = os.path.join(folder, name + sysconfig.get_config_var("EXT_SUFFIX"))
    command = compiler.split() + [source, "-O1", "-shared", "-fPIC", "-w", "-o", output]
    command += ["-I" + path for path in include_folders + [folder, python] if path]
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError("assay: %s did not compile Triton's launcher:\n%s"
                           % (compiler, done.stdout.decode(errors="replace")))
    return output


# ---- launches ----


def _label_arguments(launcher: type) -> None:
    make, launch = launcher.__init__, launcher.__call__

    @functools.wraps(make)
    def with_names(self: Any, source: Any, metadata: Any) -> None:
        make(self, source, metadata)
        self.assay_names = list(getattr(getattr(source, "fn", None), "arg_names", []))

    @functools.wraps(launch)
    def labelled(self: Any, *everything: Any) -> None:
        names = self.assay_names
        if names:
            for name, value in zip(names, everything[-len(names):]):
                for storage in _storages(value):
                    _label(storage, name)
        launch(self, *everything)

    launcher.__init__, launcher.__call__ = with_names, labelled


def _label(storage: Any, name: str) -> None:
    _runtime().assay_label(ctypes.c_void_p(storage.data_ptr()), name.encode())


def _storages(value: Any) -> Iterator[Any]:
    """The storages on the device that an argument of a kernel names: of a tensor, a descriptor or a tuple of them."""
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _storages(part)
    elif hasattr(value, "untyped_storage"):
        if value.is_cuda and value.untyped_storage().nbytes():
            yield value.untyped_storage()
    elif hasattr(value, "base"):
        yield from _storages(value.base)


# ---- autotuning and timing ----


def _check_configurations(autotuner: type) -> None:
    bench = autotuner._bench

    @functools.wraps(bench)
    def check(self: Any, *arguments: Any, config: Any, **options: Any) -> Any:
        self.__dict__["do_bench"] = _run_once  # in place of a cached property
        named = dict(zip(self.arg_names, arguments))
        named.update(options)
        token = _configuration.set(_suffix_of(config))
        try:
            with _restored(named):
                return bench(self, *arguments, config=config, **options)
        finally:
            _configuration.reset(token)

    autotuner._bench = check


def _suffix_of(config: Any) -> str:
    """The configuration as the end of a kernel's name: __BLOCK_64_num_warps_8."""
    values = ["%s_%s" % (name, value) for name, value in config.all_kwargs().items() if value is not None]
    return "__" + re.sub(r"[^A-Za-z0-9_]", "_", "_".join(values))


@contextlib.contextmanager
def _restored(arguments: Dict[str, Any]) -> Iterator[None]:
    """Whatever runs inside finds the tensors as they are now, and leaves them so: bytes and what is undefined of them."""
    storages = {storage.data_ptr(): storage for value in arguments.values() for storage in _storages(value)}
    copies: List[Tuple[int, int, ctypes.c_void_p]] = []
    _synchronise()
    try:
        for address, storage in storages.items():
            copy = ctypes.c_void_p()
            _call("cudaMalloc", ctypes.byref(copy), ctypes.c_size_t(storage.nbytes()))
            copies.append((address, storage.nbytes(), copy))
            _copy(copy.value, address, storage.nbytes())
        yield
        _synchronise()
        for address, size, copy in copies:
            _copy(address, copy.value, size)
    finally:
        for _, _, copy in copies:
            _call("cudaFree", copy)


def _run_once(function: Callable[[], Any], *_: Any, quantiles: Optional[List[float]] = None, return_mode: str = "mean",
              **__: Any) -> Any:
    """In place of triton.testing.do_bench: runs the function once and returns a fixed time in its form."""
    _say_once("nothing is timed on the virtual GPU: a benchmark runs once and answers %g ms" % MILLISECONDS)
    function()
    _synchronise()
    if quantiles is not None:
        return MILLISECONDS if len(quantiles) == 1 else [MILLISECONDS for _ in quantiles]
    return [MILLISECONDS] if return_mode == "all" else MILLISECONDS


def _do_not_time(testing: Any) -> None:
    testing.do_bench = _run_once
    testing.do_bench_cudagraph = _run_once


# ---- the runtime ----


@functools.lru_cache(maxsize=None)
def _runtime() -> Any:
    return ctypes.CDLL(None)


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_runtime(), name)(*arguments)
    if status != 0:
        raise RuntimeError("assay: %s failed with status %d" % (name, status))


def _copy(to: int, source: int, size: int) -> None:
    _call("cudaMemcpy", ctypes.c_void_p(to), ctypes.c_void_p(source), ctypes.c_size_t(size), _COPY_ON_DEVICE)


def _synchronise() -> None:
    _call("cudaDeviceSynchronize")


@functools.lru_cache(maxsize=None)
def _say_once(text: str) -> None:
    print("assay: " + text, file=sys.stderr)
