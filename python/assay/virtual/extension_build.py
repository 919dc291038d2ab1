"""Compiles the sources of a C++ extension against the light header, and keeps the result.

A build is a folder named by the content of everything that decides it: sources and the files they include,
flags, the light header, torch's and the compilers' versions. Two processes that build the same wait for
each other; the library appears under its name only when it is complete.

The flags are the caller's, with these differences. The GPU architecture is one whose PTX the virtual GPU
runs, and only PTX is made, which saves the assembler's time. Line numbers are always kept, because findings
name lines. The CUDA runtime is always the shared one.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from assay.virtual import extension_nvcc
from assay.virtual.runtime import Unsupported

INCLUDE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")

# CUDA C++ for sm_90 is what the virtual GPU runs; a source that asks for an architecture with features of its
# own ("sm_90a") gets the PTX of that one.
ARCHITECTURE = "90"

# What torch passes to nvcc (COMMON_NVCC_FLAGS of torch.utils.cpp_extension).
TORCH_NVCC_FLAGS = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)

# Parts of identifiers that mean 16-bit floats. Without them the toolkit's headers for those are left out.
HALF_WORDS = ("half", "float16", "fp16", "bf16", "reduced_floating")

# Names of pybind11, which torch/extension.h includes.
BINDING_WORDS = frozenset(("PYBIND11_MODULE", "py", "pybind11", "wrap_pybind_function"))

# Standard headers that torch's headers include and the light one does not, with names that need them.
STANDARD_HEADERS = {
    "atomic": "atomic",
    "chrono": "chrono",
    "deque": "deque",
    "functional": "function bind ref cref hash plus minus multiplies divides negate greater less greater_equal "
    "less_equal equal_to logical_and logical_or placeholders invoke",
    "iomanip": "setw setprecision setfill fixed scientific",
    "iostream": "cout cerr clog cin endl",
    "list": "list",
    "map": "map multimap",
    "mutex": "mutex lock_guard unique_lock scoped_lock call_once once_flag",
    "numeric": "accumulate iota inner_product partial_sum gcd lcm reduce transform_reduce inclusive_scan "
    "exclusive_scan",
    "random": "mt19937 mt19937_64 random_device uniform_real_distribution uniform_int_distribution "
    "normal_distribution",
    "set": "set multiset",
    "thread": "thread this_thread",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "variant": "variant visit monostate",
}

# Libraries whose kernels are machine code, so that the virtual GPU cannot run them.
MACHINE_CODE_LIBRARIES = "cublas|cublasLt|cudnn|cufft|cusparse|cusparseLt|cusolver|curand|nccl"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


class CompileError(Exception):
    """A compiler or the linker failed. `output` is what it wrote."""

    def __init__(self, output: str):
        super().__init__(output)
        self.output = output


class Source(NamedTuple):
    """One file to compile: a path, and the text to write there unless the file is the caller's own (None)."""

    path: str
    text: Optional[str] = None

    def in_folder(self, folder: str) -> "Source":
        """The same with its text in a folder; a file of the caller's own stays where it is."""
        return self if self.text is None else self._replace(path=os.path.join(folder, self.path))

    @property
    def is_cuda(self) -> bool:
        return self.path.endswith((".cu", ".cuh"))

    def read(self) -> str:
        if self.text is not None:
            return self.text
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()


class Build(NamedTuple):
    """What is to be built: the arguments of torch.utils.cpp_extension.load that matter to a compiler."""

    name: str
    sources: Tuple[Source, ...]
    cflags: Tuple[str, ...] = ()
    cuda_cflags: Tuple[str, ...] = ()
    ldflags: Tuple[str, ...] = ()
    include_paths: Tuple[str, ...] = ()
    with_cuda: bool = True


def identifiers(text: str) -> Set[str]:
    """The identifiers of a C++ text, those in comments left out."""
    return set(_IDENTIFIER.findall(_COMMENT.sub(" ", text)))


def included_files(source: Source, include_paths: Sequence[str]) -> Dict[str, str]:
    """The files that a source includes, and those include, beside it and in include_paths: path → text."""
    found: Dict[str, str] = {}
    waiting = [(source.read(), os.path.dirname(os.path.abspath(source.path)))]
    while waiting:
        text, folder = waiting.pop()
        for name in _INCLUDE.findall(_COMMENT.sub(" ", text)):
            for place in (folder, *include_paths):
                path = os.path.normpath(os.path.join(place, name))
                if path not in found and os.path.isfile(path):
                    included = Source(path).read()
                    found[path] = included
                    waiting.append((included, os.path.dirname(path)))
                    break
    return found


def _flag_words(flags: Iterable[str]) -> List[str]:
    """Flags one word each: torch joins them with spaces, so "-O3 -DX" in one string is two."""
    return [word for flag in flags for word in flag.split()]


def architecture(flags: Iterable[str]) -> str:
    """The architecture whose PTX is made: ARCHITECTURE unless the flags name one with a letter."""
    named = re.findall(r"(?:sm|compute)_(\d+[af])", " ".join(flags))
    return max(named, key=lambda number: int(number[:-1])) if named else ARCHITECTURE


def nvcc_flags(flags: Iterable[str]) -> List[str]:
    """The caller's flags for nvcc without what the build decides: architecture, runtime, device debugging."""
    replaced = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-cudart"}
    replaced.add("--cudart")
    dropped = {"-G", "--device-debug", "-dc", "-rdc=true", "--relocatable-device-code=true", "-c", "-shared"}
    kept: List[str] = []
    words = iter(_flag_words(flags))
    for word in words:
        option = word.split("=")[0]
        if option in replaced:
            if "=" not in word:
                next(words, None)
        elif word not in dropped and not word.startswith("-l"):
            kept.append(word)
    return kept


def link_flags(flags: Iterable[str]) -> List[str]:
    """The caller's linker flags without CUDA's libraries: the static runtime, and those of machine code."""
    unwanted = re.compile(
        rf"-l(:lib)?(cudart|cudart_static|{MACHINE_CODE_LIBRARIES})(\.a|\.so)?|-cudart.*|.*libcudart_static\.a"
    )
    return [word for word in _flag_words(flags) if not unwanted.fullmatch(word)]


def cuda_home() -> str:
    """The folder of the CUDA toolkit, by the rules of torch.utils.cpp_extension."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if named:
        return named
    nvcc = shutil.which("nvcc")
    return os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else "/usr/local/cuda"


def nvcc() -> str:
    path = os.path.join(cuda_home(), "bin", "nvcc")
    if not os.access(path, os.X_OK):
        place = os.path.dirname(path)
        raise RuntimeError(f"nvcc was not found in {place}; install the CUDA toolkit or set CUDA_HOME")
    return path


def cxx() -> str:
    return os.environ.get("CXX", "c++")


@functools.lru_cache(maxsize=None)
def header_version() -> str:
    """A digest of the light header."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(INCLUDE_FOLDER):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            digest.update(os.path.relpath(path, INCLUDE_FOLDER).encode() + b"\0")
            with open(path, "rb") as file:
                digest.update(file.read() + b"\0")
    return digest.hexdigest()


def compiler_version(compiler: str) -> str:
    """What tells two versions of a compiler apart: its path, size and time of change."""
    path = shutil.which(compiler) or compiler
    try:
        state = os.stat(path)
    except OSError:
        return path
    return f"{os.path.realpath(path)} {state.st_size} {state.st_mtime_ns}"


def cache_key(build: Build, versions: Sequence[str]) -> str:
    """The name of the folder for a build."""
    content = [
        [[source.path, source.read()] for source in build.sources],
        [sorted(included_files(source, build.include_paths).items()) for source in build.sources],
        [build.name, build.cflags, build.cuda_cflags, build.ldflags, build.include_paths, build.with_cuda],
        list(versions),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:20]


def feature_flags(mentioned: Set[str], own: Optional[Set[str]] = None) -> List[str]:
    """Macros that leave out parts of the light header that no source mentions: parsing takes the time. `own`: what the source
    that is compiled mentions, where it is known: one that binds nothing does without the header for that."""
    flags = []
    if own is not None and not own & BINDING_WORDS:
        flags.append("-DASSAY_NO_BINDING")
    if not any(word in name.lower() for name in mentioned for word in HALF_WORDS):
        flags.append("-DASSAY_NO_HALF")
    if any("blas" in name.lower() for name in mentioned):
        flags.append("-DASSAY_USES_CUBLAS")
    if "PYBIND11_MODULE" in mentioned and not any(name.startswith("TORCH_LIBRARY") for name in mentioned):
        flags.append("-DASSAY_NO_LIBRARY")
    return flags


def standard_headers(mentioned: Set[str]) -> str:
    """The text of assay_standard.inc: the headers of STANDARD_HEADERS that a source relies on."""
    needed = [name for name, words in STANDARD_HEADERS.items() if mentioned & set(words.split())]
    return "".join(f"#include <{name}>\n" for name in needed)


def compile_command(
    build: Build,
    source: Source,
    folder: str,
    target: str,
    mentioned: Set[str],
    standard: str,
    own: Optional[Set[str]] = None,
) -> List[str]:
    """The command that compiles one source."""
    # With -I: nvcc searches its own folder before those of -isystem, and the light header has a cublas_v2.h.
    folders = [f"-I{path}" for path in (*build.include_paths, folder, INCLUDE_FOLDER)]
    toolkit = ["-isystem", os.path.join(cuda_home(), "include"), "-isystem", sysconfig.get_path("include")]
    common = [f"-DTORCH_EXTENSION_NAME={build.name}", "-DTORCH_API_INCLUDE_EXTENSION_H", *folders, *toolkit]
    common += feature_flags(mentioned, own)
    if not (source.is_cuda and build.with_cuda):
        flags = with_standard(_flag_words(build.cflags), standard)
        command = [cxx(), *common, "-fPIC", "-fno-gnu-unique", *flags]
        return [*command, "-c", source.path, "-o", target]
    flags = with_standard(nvcc_flags(build.cuda_cflags), standard)
    number = architecture(build.cuda_cflags)
    device = [f"-gencode=arch=compute_{number},code=compute_{number}", "-lineinfo"]
    command = [nvcc(), *common, *TORCH_NVCC_FLAGS, *device, "-Xcompiler", "-fPIC,-fno-gnu-unique"]
    return [*command, *flags, "-c", source.path, "-o", target]


def with_standard(flags: Sequence[str], standard: str) -> List[str]:
    """Flags with a language standard: the one that they name, unless it is older than C++17 or there is none."""
    kept = [flag for flag in flags if not re.fullmatch(r"--?std=(c|gnu)\+\+(98|03|0x|11|1y|14)", flag)]
    return kept if any(flag.startswith(("-std", "--std")) for flag in kept) else [f"-std={standard}", *kept]


def link_command(build: Build, objects: Sequence[str], target: str) -> List[str]:
    libraries = os.path.join(cuda_home(), "lib64")
    found_in = [f"-L{libraries}", f"-L{os.path.join(libraries, 'stubs')}", "-lcudart"]
    return [cxx(), "-shared", *objects, "-o", target, "-Wl,-Bsymbolic", *link_flags(build.ldflags), *found_in]


def machine_code_function(library: str) -> Optional[str]:
    """A function that a library calls and that only a library of MACHINE_CODE_LIBRARIES has."""
    command = ["nm", "-D", "--undefined-only", library]
    listed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = re.search(rf"\bU ((?:{MACHINE_CODE_LIBRARIES})[A-Z]\w*)", listed.stdout)
    return found.group(1) if found else None


def _environment() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def _run(command: Sequence[str], verbose: bool) -> None:
    if verbose:
        print(" ".join(command), flush=True)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=_environment()
    )
    _finish(done.returncode, done.stdout, verbose)


def _compile_cuda(command: Sequence[str], source: Source, folder: str, verbose: bool) -> None:
    if verbose:
        print(" ".join(command), flush=True)
    _finish(*extension_nvcc.compile(command, source.path, folder, _environment()), verbose)


def _finish(status: int, output: str, verbose: bool) -> None:
    if status != 0:
        raise CompileError(output)
    if verbose and output:
        print(output, end="", flush=True)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: str, text: str) -> None:
    """Writes a file that others may be reading: it is replaced at once, and left alone when it is the same."""
    if os.path.exists(path) and Source(path).read() == text:
        return
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(file.name, path)


def build_library(build: Build, folder: str, declarations, standard: str, verbose: bool = False) -> str:
    """The path of the extension's library in `folder`, compiled unless it is there. Raises CompileError.

    `declarations`: for a set of identifiers, the texts of assay_methods.inc and assay_functions.inc.
    """
    library = os.path.join(folder, f"{build.name}.so")
    os.makedirs(folder, exist_ok=True)
    with _locked(os.path.join(folder, "lock")):
        if os.path.exists(library):
            return library
        own: Dict[str, Set[str]] = {}  # identifiers, by source
        for source in build.sources:
            if source.text is not None:
                _write(source.path, source.text)
            texts = (source.read(), *included_files(source, build.include_paths).values())
            own[source.path] = set().union(*map(identifiers, texts))
        mentioned = set().union(*own.values())
        methods, functions = declarations(mentioned)
        _write(os.path.join(folder, "assay_methods.inc"), methods)
        _write(os.path.join(folder, "assay_functions.inc"), functions)
        _write(os.path.join(folder, "assay_standard.inc"), standard_headers(mentioned))
        objects = [os.path.join(folder, f"{number}.o") for number in range(len(build.sources))]

        def compile_one(source: Source, target: str) -> None:
            command = compile_command(build, source, folder, target, mentioned, standard, own[source.path])
            if source.is_cuda and build.with_cuda:
                _compile_cuda(command, source, folder, verbose)
            else:
                _run(command, verbose)

        # Those that take longest first.
        order = sorted(zip(build.sources, objects), key=lambda pair: not pair[0].is_cuda)
        with ThreadPoolExecutor(max_workers=min(len(order), os.cpu_count() or 1)) as pool:
            for _ in pool.map(lambda pair: compile_one(*pair), order):
                pass
        unfinished = f"{library}.{os.getpid()}"
        _run(link_command(build, objects, unfinished), verbose)
        function = machine_code_function(unfinished)
        if function:
            os.remove(unfinished)
            raise Unsupported(
                f"extension {build.name} calls {function}, whose library is machine code: "
                "the virtual GPU runs PTX only"
            )
        os.replace(unfinished, library)
        for path in objects:
            os.remove(path)
    return library
