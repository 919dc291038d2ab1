"""Stock Triton on the virtual GPU.

Triton's front end, compiler, launcher and driver run unchanged up to the last stage: where ptxas would make machine code,
the PTX goes to the driver, which is Assay's. Kernels are compiled for the architecture that the virtual GPU presents,
without what it does not run: `tl.dot` becomes mma instead of wgmma, tensor descriptors become pointers instead of TMA.

Nothing is timed. The autotuner runs every configuration once, each from the same state of its tensors, and takes the
first that runs; the kernel's name in findings says which configuration it was. `triton.testing.do_bench` runs its function
once and returns a fixed time; reports of `triton.testing.perf_report` are left out.

`tl.device_assert` is compiled in, as with TRITON_DEBUG=1.

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
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from . import runtime

MILLISECONDS = 1.0  # the answer to every question for a time
VERSION_OF_PREPARED_PTX = 1  # of prepare_ptx(): what it made of a kernel is cached
LAST_WITHOUT_TMA = 89
ANY_DIRECTION = 4  # cudaMemcpyDefault
NOT_SUPPORTED = "operation not supported"  # CUDA's words
# One element of a tensor may be held by several threads, which all load it and of which one stores it: the race check
# has to know. Compilers ignore a pragma that they do not know.
THREADS_HOLD_COPIES = "assay_threads_hold_copies"

# The configuration that the autotuner runs now, as the end of the kernel's name.
_configuration: "contextvars.ContextVar[str]" = contextvars.ContextVar("configuration", default="")
# The names and values of the arguments of the kernel that is launched now.
_launched: "contextvars.ContextVar[Tuple[Any, ...]]" = contextvars.ContextVar("launched", default=((), ()))


def install() -> None:
    """Prepares Triton, which has been imported. A second call does nothing."""
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
    _tell_files_apart(getattr(jit, "JITCallable", jit.JITFunction))
    _remember_arguments(CudaLauncher)
    _check_configurations(autotuner.Autotuner)
    _do_not_time(triton.testing)


# ---- the compiler ----


def _hand_on_ptx(backend: type) -> None:
    make_ttir = backend.make_ttir

    def make_ttir_without_tma(module: Any, metadata: Dict[str, Any], options: Any, capability: int) -> Any:
        return make_ttir(module, metadata, options, min(capability, LAST_WITHOUT_TMA))

    def make_cubin(self: Any, source: str, metadata: Dict[str, Any], options: Any, capability: int) -> bytes:
        name = metadata["name"]
        metadata["name"] = name + _configuration.get()
        return prepare_ptx(source, name, metadata["name"]).encode() + b"\0"

    backend.make_ttir = staticmethod(make_ttir_without_tma)
    backend.make_cubin = make_cubin
    backend.hash = lambda self: "assay-%d-%s" % (VERSION_OF_PREPARED_PTX, self.target.arch)  # Triton's own asks ptxas


def prepare_ptx(source: str, name: str, new_name: str) -> str:
    """The PTX of a kernel as the virtual GPU should see it, with the kernel's new name."""
    source = re.sub(r"\b%s\b" % re.escape(name), new_name, source)
    source = re.sub(r"(?m)^\{$", '{\n\t.pragma "%s";' % THREADS_HOLD_COPIES, source, count=1)
    return _without_lines_of_assembly(source)


def _without_lines_of_assembly(ptx: str) -> str:
    """Leaves out the `.loc` lines inside inline assembly: LLVM counts the lines of a string there as if they followed the
    line of the call. The `.loc` above is the call's."""
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
    """Compiles `tl.device_assert` in. Triton's own assertions about integer overflow come with debug=True only."""
    parse_options = backend.parse_options

    def parse_with_assertions(self: Any, options: Dict[str, Any]) -> Any:
        if not options.get("debug"):
            options = dict(options, debug=True, sanitize_overflow=options.get("sanitize_overflow", False))
        return parse_options(self, options)

    backend.parse_options = parse_with_assertions


def _tell_files_apart(function: type) -> None:
    """Triton's cache tells kernels apart by their text and line. The PTX names the file, too."""
    cache_key = function.cache_key.fget

    def key_with_file(self: Any) -> str:
        code = getattr(self.fn, "__code__", None)
        return "%s-%s" % (cache_key(self), os.path.abspath(code.co_filename) if code else "")

    function.cache_key = property(key_with_file)


def build_launcher(name: str, source: str, folder: str, library_folders: List[str], include_folders: List[str],
                   libraries: List[str]) -> str:
    """Compiles the C source of Triton's driver or of a launcher to an extension module and returns its path.

    The compiler runs outside the virtual GPU. The functions of the driver are not linked: this process has them loaded."""
    variable, compilers = ("CC", ("gcc", "clang", "cc")) if source.endswith(".c") else ("CXX", ("g++", "clang++", "c++"))
    compiler = os.environ.get(variable) or next(filter(None, map(shutil.which, compilers)), None)
    if compiler is None:
        raise RuntimeError("Triton compiles its launcher with the host's compiler: install gcc, or name one in %s" % variable)
    headers = sysconfig.get_paths("posix_prefix")["include"]
    if not os.path.exists(os.path.join(headers, "Python.h")):
        raise RuntimeError("Triton compiles its launcher with Python's headers, and %s/Python.h is missing: install the "
                           "development package of this Python" % headers)
    output = os.path.join(folder, name + sysconfig.get_config_var("EXT_SUFFIX"))
    command = compiler.split() + [source, "-O1", "-shared", "-fPIC", "-w", "-o", output]
    command += ["-I" + path for path in include_folders + [folder, headers] if path]
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError("%s cannot compile Triton's launcher:\n%s" % (compiler, done.stdout.decode(errors="replace")))
    return output


# ---- launches ----


def _remember_arguments(launcher: type) -> None:
    make, launch = launcher.__init__, launcher.__call__

    @functools.wraps(make)
    def make_with_names(self: Any, source: Any, metadata: Any) -> None:
        make(self, source, metadata)
        _say_once("the virtual GPU runs Triton kernels with mma instead of wgmma, and pointers instead of TMA")
        self.assay_name = metadata.name
        self.assay_arguments = tuple(getattr(getattr(source, "fn", None), "arg_names", ()))

    @functools.wraps(launch)
    def launch_with_names(self: Any, *everything: Any) -> None:
        names = self.assay_arguments
        token = _launched.set((names, everything[len(everything) - len(names):]))
        try:
            launch(self, *everything)
        except RuntimeError as error:
            if NOT_SUPPORTED not in str(error):
                raise
            raise runtime.Unsupported("the virtual GPU cannot run the Triton kernel `%s`: the line above that begins with "
                                      "`assay: kernel` says why" % self.assay_name) from None
        finally:
            _launched.reset(token)

    launcher.__init__, launcher.__call__ = make_with_names, launch_with_names


def argument_names() -> Dict[int, str]:
    """Of the Triton kernel that is launched now: where the memory of its tensors starts, and the names of its arguments."""
    return {storage.data_ptr(): name for name, value in zip(*_launched.get()) for storage in _storages(value)}


def _storages(value: Any) -> Iterator[Any]:
    """The memory on the device that an argument of a kernel stands for: a tensor, a descriptor, a tuple of them."""
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
        named = dict(zip(self.arg_names, arguments), **options)
        is_first = not hasattr(self, "assay_changing")
        if is_first:
            self.assay_changing = set()

        def run(kernel: Callable[[], None], quantiles: Any = None) -> List[float]:
            kernel()
            if is_first:
                self.assay_changing = _changed_again(kernel, named)
                _report_changing(self.base_fn.__name__, self.assay_changing)
            return _time(quantiles)

        self.__dict__["do_bench"] = run  # over a cached property
        token = _configuration.set(name_of(config))
        try:
            with _restored({name: value for name, value in named.items() if name not in self.assay_changing}):
                return bench(self, *arguments, config=config, **options)
        finally:
            _configuration.reset(token)

    autotuner._bench = check


def name_of(config: Any) -> str:
    """A configuration as the end of a kernel's name: __BLOCK_64_num_warps_8."""
    values = ["%s_%s" % item for item in config.all_kwargs().items() if item[1] is not None and item != ("num_ctas", 1)]
    return "__" + re.sub(r"[^A-Za-z0-9_]", "_", "_".join(values))


@contextlib.contextmanager
def _restored(arguments: Dict[str, Any]) -> Iterator[None]:
    """Afterwards the tensors are as they were before: their bytes, and which of these nothing has written."""
    sizes = {storage.data_ptr(): storage.nbytes() for value in arguments.values() for storage in _storages(value)}
    copies: Dict[int, int] = {}
    _synchronise()
    try:
        for address, size in sizes.items():
            copies[address] = _allocate(size)
            _copy(copies[address], address, size)
        yield
        _synchronise()
        for address, copy in copies.items():
            _copy(address, copy, sizes[address])
    finally:
        for copy in copies.values():
            runtime.check(runtime.library().cudaFree(ctypes.c_void_p(copy)))


def _changed_again(kernel: Callable[[], None], arguments: Dict[str, Any]) -> Set[str]:
    """The tensors that a second run of a kernel leaves different from the first: sums that go on, updates in place.

    Autotuning on a GPU runs the kernel many times, so these hold something else than one run's result, unless the author
    has named them in reset_to_zero or restore_value."""
    first = {name: _bytes_of(value) for name, value in arguments.items()}
    kernel()
    return {name for name, value in arguments.items() if _bytes_of(value) != first[name]}


def _report_changing(kernel: str, names: Set[str]) -> None:
    for name in sorted(names):
        _say_once("autotuning runs `%s` many times, and every run changes `%s` further: its first result is wrong; name it "
                  "in reset_to_zero or restore_value" % (kernel, name))


def _bytes_of(value: Any) -> List[bytes]:
    _synchronise()
    contents = []
    for storage in _storages(value):
        host = ctypes.create_string_buffer(storage.nbytes())
        _copy(ctypes.addressof(host), storage.data_ptr(), storage.nbytes())
        contents.append(host.raw)
    return contents


def do_bench(fn: Callable[[], Any], warmup: Any = None, rep: Any = None, grad_to_none: Any = None,
             quantiles: Optional[List[float]] = None, return_mode: str = "mean") -> Any:
    """In place of triton.testing.do_bench: runs the function once."""
    fn()
    _synchronise()
    return _time(quantiles, return_mode)


def _time(quantiles: Optional[List[float]] = None, return_mode: str = "mean") -> Any:
    """A fixed time in the form of do_bench's answer."""
    _say_once("nothing is timed on the virtual GPU: a benchmark runs its function once and gets %g ms" % MILLISECONDS)
    if quantiles is not None:
        return MILLISECONDS if len(quantiles) == 1 else [MILLISECONDS for _ in quantiles]
    return [MILLISECONDS] if return_mode == "all" else MILLISECONDS


def _do_not_time(testing: Any) -> None:
    def leave_out(self: Any, *arguments: Any, **options: Any) -> None:
        _say_once("performance reports are left out: nothing is timed on the virtual GPU")

    testing.do_bench = testing.do_bench_cudagraph = do_bench
    testing.Mark.run = leave_out


# ---- the runtime ----


def _allocate(size: int) -> int:
    memory = ctypes.c_void_p()
    runtime.check(runtime.library().cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)))
    return memory.value or 0


def _copy(to: int, start: int, size: int) -> None:
    copied = runtime.library().cudaMemcpy(ctypes.c_void_p(to), ctypes.c_void_p(start), ctypes.c_size_t(size), ANY_DIRECTION)
    runtime.check(copied)


def _synchronise() -> None:
    runtime.check(runtime.library().cudaDeviceSynchronize())


@functools.lru_cache(maxsize=None)
def _say_once(text: str) -> None:
    print("assay: " + text, file=sys.stderr)
