"""torch.utils.cpp_extension.load and load_inline on the virtual GPU.

Compiling against torch's own headers takes minutes. Here a source is compiled against a light header
(include/, described in docs/extension-header.md) in seconds; it has the names that nearly all extensions
use. When a name is missing, torch's own machinery and headers build the extension instead, in the same
process, with flags that suit the virtual GPU. An error in the source itself is shown once, as the compiler
wrote it.

    extension_build.py       flags, cache, compilers
    extension_operators.py   declarations of the ATen operators that a source mentions
    extension_calls.py       what the compiled extension calls back into
"""

import ctypes
import difflib
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from assay.virtual import extension_build
from assay.virtual.extension_build import Build, CompileError, Source

MODULE = "torch.utils.cpp_extension"

# The language of a source that names none: C++17 compiles faster than torch's own default, which is tried next.
STANDARD, NEWER_STANDARD = "c++17", "c++20"

_loaded: Dict[str, types.ModuleType] = {}  # by library: a library can be bound to one module only


def install() -> None:
    """Replaces load and load_inline of torch.utils.cpp_extension, now or when it is imported."""
    if MODULE in sys.modules:
        _replace(sys.modules[MODULE])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Finds torch.utils.cpp_extension as Python would, and changes it after the import."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_replace(module):
                run(module)
                _replace(module)

            spec.loader.exec_module = run_and_replace
        return spec


def _replace(module: types.ModuleType) -> None:
    if hasattr(module.load, "torch_function"):
        return
    for ours, theirs in ((load, module.load), (load_inline, module.load_inline)):
        ours.torch_function = ours.__wrapped__ = theirs  # the latter for inspect.signature
    module.load, module.load_inline = load, load_inline
    module._get_cuda_arch_flags = _architecture_flags
    module.BuildExtension.build_extensions = _announced(module.BuildExtension.build_extensions)


def _announced(build_extensions: Callable[[Any], None]) -> Callable[[Any], None]:
    """setuptools' builds are torch's own: what they make must work without Assay, too. So the light header is not used."""

    @functools.wraps(build_extensions)
    def announce_and_build(command: Any) -> None:
        print(
            "assay: setuptools compiles with PyTorch's own headers, which takes minutes; "
            "torch.utils.cpp_extension.load takes seconds",
            file=sys.stderr,
            flush=True,
        )
        build_extensions(command)

    return announce_and_build


def _architecture_flags(cflags: Optional[Sequence[str]] = None) -> List[str]:
    """Replaces torch's choice of architectures: PTX that the virtual GPU runs, also for setuptools builds."""
    number = extension_build.architecture([*(cflags or ()), os.environ.get("TORCH_CUDA_ARCH_LIST", "")])
    return [f"-gencode=arch=compute_{number},code=compute_{number}", "-lineinfo"]


def _list(value: Union[None, str, Sequence[str]]) -> List[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _given(function: Callable, arguments: Sequence[Any], named: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a call of torch's function, by name, with its defaults."""
    bound = inspect.signature(function).bind(*arguments, **named)
    bound.apply_defaults()
    return dict(bound.arguments)


def load(*arguments: Any, **named: Any):
    """torch.utils.cpp_extension.load with the light header."""
    given = _given(load.torch_function, arguments, named)
    paths = [os.path.abspath(path) for path in _list(given["sources"])]
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise FileNotFoundError(f"extension {given['name']}: {missing[0]} does not exist")

    def with_torch(folder: str):
        return load.torch_function(**{**given, "sources": paths, **_torch_arguments(folder, given)})

    build = _build([Source(path) for path in paths], given)
    if given["is_standalone"] or any(path.endswith(".sycl") for path in paths):
        return with_torch(_folder(build, given["build_directory"], "torch"))
    return _load(build, given, with_torch)


def load_inline(*arguments: Any, **named: Any):
    """torch.utils.cpp_extension.load_inline with the light header.

    The lines of a source that stand in the caller's file keep that file's name and numbers, so that compiler
    errors and findings point there.
    """
    given = _given(load_inline.torch_function, arguments, named)
    if _list(given.get("sycl_sources")):
        raise ValueError(f"extension {given['name']}: SYCL sources cannot run on the virtual GPU")
    caller = _caller_file()
    cpp = _placed(_list(given["cpp_sources"]), caller, "main.cpp")
    cuda = _placed(_list(given["cuda_sources"]), caller, "cuda.cu")
    heads = {"main.cpp": ["torch/extension.h"], "cuda.cu": ["torch/types.h", "cuda.h", "cuda_runtime.h"]}

    def source(file: str, texts: List[str], rest: List[str]) -> Source:
        head = [] if given.get("no_implicit_headers") else [f"#include <{header}>" for header in heads[file]]
        return Source(file, "\n".join([*head, *texts, *rest]))

    sources = [source("main.cpp", cpp, _bindings(given["functions"], given["with_pytorch_error_handling"]))]
    if cuda:
        sources.append(source("cuda.cu", cuda, []))

    def with_torch(folder: str):
        texts = {"cpp_sources": cpp, "cuda_sources": cuda or None}
        return load_inline.torch_function(**{**given, **texts, **_torch_arguments(folder, given)})

    return _load(_build(sources, given), given, with_torch)


def _bindings(functions: Union[None, str, Sequence[str], Dict[str, str]], wrapped: bool) -> List[str]:
    """The PYBIND11_MODULE that load_inline writes for `functions`."""
    if functions is None:
        return []
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, (list, tuple)):
        functions = {function: function for function in functions}
    elif not isinstance(functions, dict):
        raise ValueError(f"Expected 'functions' to be a list or dict, but was {type(functions)}")
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for function, text in functions.items():
        value = f"torch::wrap_pybind_function({function})" if wrapped else function
        lines.append(f'm.def("{function}", {value}, "{text}");')
    return [*lines, "}"]


def _caller_file() -> Optional[str]:
    """The file that calls load_inline: the nearest frame outside this package and torch."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and not name.startswith(("torch.", "importlib")):
            path = frame.f_code.co_filename
            return os.path.abspath(path) if os.path.isfile(path) else None
        frame = frame.f_back
    return None


# Of a source that was put together from parts, the share of its lines that must stand in the caller's file for those
# lines to be taken for the same: braces and includes stand everywhere.
SHARE_THAT_STANDS_THERE = 0.5


def _placed(texts: Sequence[str], caller: Optional[str], own_file: str) -> List[str]:
    """Each text with #line directives that name its places in the caller's file, as far as it stands there."""
    try:
        with open(caller or "", encoding="utf-8") as file:
            written = file.read()
    except (OSError, UnicodeDecodeError):
        return list(texts)
    if '"' in caller or "\\" in caller:
        return list(texts)
    placed = []
    for text in texts:
        if text.strip() and written.count(text) == 1:
            line = written.count("\n", 0, written.index(text)) + 1
            placed.append(f'#line {line} "{caller}"\n{text}')
        else:
            placed.append(_placed_by_lines(text, written, caller))
    if any("#line" in text for text in placed):
        placed.append(f'#line 1 "end of {own_file}"')
    return placed


def _placed_by_lines(text: str, written: str, caller: str) -> str:
    """A text that was put together (replaced, formatted, concatenated), with a #line wherever its lines and those of
    the caller's file part or meet. Lines that stand nowhere belong to the line in whose place they are.
    """
    ours = text.split("\n")
    theirs, compared = ([line.replace("\\\\", "\\") for line in whole.split("\n")] for whole in (written, text))
    steps = difflib.SequenceMatcher(None, theirs, compared, autojunk=False).get_opcodes()
    same = sum(sum(1 for line in ours[low:high] if line.strip())
               for step, _, _, low, high in steps if step == "equal")
    if same < SHARE_THAT_STANDS_THERE * max(1, sum(1 for line in ours if line.strip())):
        return text
    lines: List[str] = []

    def add(line: str, number: int) -> None:
        if not lines or not lines[-1].endswith("\\"):  # a directive must not end up within a macro
            lines.append(f'#line {number} "{caller}"')
        lines.append(line)

    for step, from_low, from_high, low, high in steps:
        if step == "equal" or (from_low > 0 and from_high - from_low == high - low):  # the same lines, or changed
            add(ours[low], from_low + 1)
            lines += ours[low + 1 : high]
        elif from_low == 0:  # before anything of the caller's file: from elsewhere
            lines += ours[low:high]
        else:
            for line in ours[low:high]:
                add(line, from_low + 1 if step == "replace" else from_low)
    return "\n".join(lines)


def _build(sources: List[Source], given: Dict[str, Any]) -> Build:
    if not re.fullmatch(r"[A-Za-z_]\w*", given["name"]):
        raise ValueError(f"extension {given['name']!r}: the name must be a Python identifier")
    with_cuda = given["with_cuda"]
    return Build(
        given["name"],
        tuple(sources),
        tuple(_list(given["extra_cflags"])),
        tuple(_list(given["extra_cuda_cflags"])),
        tuple(_list(given["extra_ldflags"])),
        tuple(os.path.abspath(path) for path in _list(given["extra_include_paths"])),
        any(source.is_cuda for source in sources) if with_cuda is None else with_cuda,
    )


def _folder(build: Build, build_directory: Optional[str], header: str) -> str:
    """The folder of this build, in the caller's folder, TORCH_EXTENSIONS_DIR or the user's cache."""
    import torch

    root = build_directory or os.environ.get("TORCH_EXTENSIONS_DIR")
    if not root:
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        root = os.path.join(cache, "assay", "extensions")
    compilers = [extension_build.compiler_version(extension_build.cxx())]
    if build.with_cuda:
        compilers.append(extension_build.compiler_version(extension_build.nvcc()))
    versions = [header, extension_build.header_version(), str(torch.__version__), *compilers]
    return os.path.join(os.path.abspath(root), f"{build.name}-{extension_build.cache_key(build, versions)}")


def _load(build: Build, given: Dict[str, Any], with_torch: Callable[[str], Any]):
    from assay.virtual.extension_operators import installed_declarations

    build_directory, is_python_module = given["build_directory"], given["is_python_module"]
    folder = _folder(build, build_directory, "light")
    placed = build._replace(sources=tuple(source.in_folder(folder) for source in build.sources))
    torch_folder = _folder(build, build_directory, "torch")
    if os.path.exists(os.path.join(torch_folder, f"{build.name}.so")):
        return _load_with_torch(with_torch, torch_folder)
    for standard in (STANDARD, NEWER_STANDARD):
        try:
            library = extension_build.build_library(placed, folder, installed_declarations, standard, given["verbose"])
            return _bind(build.name, library, is_python_module)
        except CompileError as error:
            output = error.output
        if _names_standard(build) or not _may_be_newer_language(output):
            break
    missing = missing_name(output)
    if missing is None:
        raise RuntimeError(f"Error building extension '{build.name}': {output}") from None
    print(
        f"assay: {missing} is not in the light header; "
        "compiling with PyTorch's own headers, which takes minutes",
        file=sys.stderr,
        flush=True,
    )
    return _load_with_torch(with_torch, torch_folder)


def _names_standard(build: Build) -> bool:
    return any("-std=" in flag for flag in (*build.cflags, *build.cuda_cflags))


def _load_with_torch(with_torch, folder: str):
    os.makedirs(folder, exist_ok=True)
    preload = os.environ.pop("LD_PRELOAD", None)  # no compiler must load the virtual GPU
    try:
        return with_torch(folder)
    finally:
        if preload is not None:
            os.environ["LD_PRELOAD"] = preload


def _torch_arguments(folder: str, given: Dict[str, Any]) -> Dict[str, Any]:
    """What torch's own functions get instead: flags that suit the virtual GPU.

    A language standard is left to torch: its headers need a newer one than many sources name.
    """

    def without_standard(flags: List[str]) -> List[str]:
        return [flag for flag in flags if not flag.startswith(("-std=", "--std="))]

    instead = dict(
        build_directory=folder,
        extra_cflags=without_standard(_list(given["extra_cflags"])),
        extra_cuda_cflags=without_standard(extension_build.nvcc_flags(_list(given["extra_cuda_cflags"]))),
        extra_ldflags=extension_build.link_flags(_list(given["extra_ldflags"])),
    )
    return dict(instead, use_pch=False) if "use_pch" in given else instead


# nvcc's error about an unknown namespace, which it only points to.
_UNNAMED = 'name followed by "::" must be a class or namespace name'

# What compilers say about a name that a header does not have; the group is the name. First nvcc, then GCC.
_MISSING = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:namespace|class|struct) \"[^\"]+\" has no (?:actual )?member (?:class )?\"(\w+)\"",
        r"identifier \"(\w+)\" is undefined",
        _UNNAMED + r": \"(?:\w+::)*(\w+)\"",
        r"fatal error: (\S+\.\w+): No such file",
        r"cannot open source file \"([^\"]+)\"",
        r"'(\w+)' is not a member of",
        r"'[^']+' has no member named '(\w+)'",
        r"'(\w+)' in (?:namespace|class) '[^']+' does not name",
        r"'(\w+)' (?:was not declared in this scope|has not been declared|does not name a type)",
        r"undefined reference to [`'](?:\w+::)*(\w+)",
    )
)
# Two PYBIND11_MODULE: the source has one, and load_inline writes another for `functions`.
_SECOND_MODULE = re.compile(r"assay_module_(?:added|body)")
# Words of torch's interface, and of the standard library, of which torch's headers bring more.
_TORCH_WORD = re.compile(
    r"\b(?:at|c10|torch|caffe2|py|pybind11|std|ATen|(?:AT|TORCH|C10)_\w+)\b|Tensor|assay/light"
)


def _errors(output: str) -> List[str]:
    """The messages of the errors in a compiler's or linker's output, without places and suggestions."""
    errors = []
    lines = output.replace("‘", "'").replace("’", "'").splitlines()
    for number, line in enumerate(lines):
        place, error, message = line.partition("error:")
        if error:
            message = re.sub(r"; did you mean .*|\(did you mean .*", "", message)
            if _UNNAMED in message:
                message += _qualified_name(*(lines + ["", ""])[number + 1 : number + 3])
            types = [later for later in lines[number + 1 : number + 6] if "argument types are" in later]
            message += types[0] if types and "no instance of" in message else ""
            errors.append(("fatal error:" if place.endswith("fatal ") else "") + message)
        elif "undefined reference" in line:
            errors.append(line[line.index("undefined reference") :])
    return errors


def _qualified_name(source: str, marks: str) -> str:
    """The name above nvcc's caret, with what stands before it: ': "torch::nn"'."""
    name = re.match(r"\w*", source[marks.find("^") :]).group()
    before = re.search(r"[\w:]*$", source[: marks.find("^")]).group()
    return f': "{before}{name}"'


def _may_be_newer_language(output: str) -> bool:
    """Whether errors can come from a language that is too old: not if all are about the source's own names."""
    return missing_name(output) is not None or any(
        not any(pattern.search(message) for pattern in _MISSING) for message in _errors(output)
    )


def missing_name(output: str) -> Optional[str]:
    """The name that an error is about if torch's own headers may have it; None for the source's own errors."""
    errors = [message for message in _errors(output) if not _SECOND_MODULE.search(message)]
    for message in errors:
        for pattern in _MISSING:
            found = pattern.search(message)
            if found and (_TORCH_WORD.search(message) or "." in found.group(1)):
                return found.group(1)
    if any(_TORCH_WORD.search(message) for message in errors):
        return "something that the source uses"
    return None


def _bind(name: str, library: str, is_python_module: bool):
    """Loads a library and lets it add its functions to a module."""
    if library in _loaded:
        return _loaded[library] if is_python_module else library
    module = types.ModuleType(name)
    module.__file__ = library
    try:
        loaded = ctypes.PyDLL(library)
    except OSError as error:
        raise ImportError(str(error)) from None
    if hasattr(loaded, f"PyInit_{name}"):
        spec = importlib.util.spec_from_file_location(name, library)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    elif hasattr(loaded, "assay_bind"):
        from assay.virtual.extension_calls import Callbacks

        loaded.assay_bind.argtypes = [ctypes.py_object, ctypes.py_object]
        loaded.assay_bind(module, Callbacks)
    elif is_python_module:
        raise ImportError(f"dynamic module does not define module export function (PyInit_{name})")
    _loaded[library] = module
    return module if is_python_module else library
