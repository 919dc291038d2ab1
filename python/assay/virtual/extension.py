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
import importlib.machinery
import importlib.util
import inspect
import os
import re
import sys
import types
from typing import Any, Dict, List, Optional, Sequence, Union

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
    load.torch_function, load_inline.torch_function = module.load, module.load_inline
    module.load, module.load_inline = load, load_inline
    module._get_cuda_arch_flags = _architecture_flags


def _architecture_flags(cflags: Optional[Sequence[str]] = None) -> List[str]:
    """Replaces torch's choice of architectures: PTX that the virtual GPU runs, also for setuptools builds."""
    number = extension_build.architecture([*(cflags or ()), os.environ.get("TORCH_CUDA_ARCH_LIST", "")])
    return [f"-gencode=arch=compute_{number},code=compute_{number}", "-lineinfo"]


def _list(value: Union[None, str, Sequence[str]]) -> List[str]:
    return [value] if isinstance(value, str) else list(value or ())


def load(
    name: str,
    sources: Union[str, Sequence[str]],
    extra_cflags: Optional[Sequence[str]] = None,
    extra_cuda_cflags: Optional[Sequence[str]] = None,
    extra_sycl_cflags: Optional[Sequence[str]] = None,
    extra_ldflags: Optional[Sequence[str]] = None,
    extra_include_paths: Optional[Sequence[str]] = None,
    build_directory: Optional[str] = None,
    verbose: bool = False,
    with_cuda: Optional[bool] = None,
    with_sycl: Optional[bool] = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    **others: Any,
):
    """torch.utils.cpp_extension.load with the light header."""
    paths = [os.path.abspath(path) for path in _list(sources)]
    missing = [path for path in paths if not os.path.isfile(path)]
    if missing:
        raise FileNotFoundError(f"extension {name}: {missing[0]} does not exist")

    common = dict(verbose=verbose, with_cuda=with_cuda, is_python_module=is_python_module, **others)

    def with_torch(folder: str):
        return load.torch_function(
            name,
            paths,
            is_standalone=is_standalone,
            **_torch_arguments(folder, extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths),
            **common,
        )

    flags = (extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths)
    build = _build(name, [Source(path) for path in paths], *flags, with_cuda)
    if is_standalone or any(path.endswith(".sycl") for path in paths):
        return with_torch(_folder(build, build_directory, "torch"))
    return _load(build, build_directory, verbose, is_python_module, with_torch)


def load_inline(
    name: str,
    cpp_sources: Union[str, Sequence[str]] = (),
    cuda_sources: Union[None, str, Sequence[str]] = None,
    sycl_sources: Union[None, str, Sequence[str]] = None,
    functions: Union[None, str, Sequence[str], Dict[str, str]] = None,
    extra_cflags: Optional[Sequence[str]] = None,
    extra_cuda_cflags: Optional[Sequence[str]] = None,
    extra_sycl_cflags: Optional[Sequence[str]] = None,
    extra_ldflags: Optional[Sequence[str]] = None,
    extra_include_paths: Optional[Sequence[str]] = None,
    build_directory: Optional[str] = None,
    verbose: bool = False,
    with_cuda: Optional[bool] = None,
    with_sycl: Optional[bool] = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    **others: Any,
):
    """torch.utils.cpp_extension.load_inline with the light header.

    The lines of a source that stands in the caller's file as it is keep that file's name and numbers, so that
    compiler errors and findings point there.
    """
    cpp, cuda = _list(cpp_sources), _list(cuda_sources)
    if _list(sycl_sources):
        raise ValueError(f"extension {name}: SYCL sources cannot run on the virtual GPU")
    caller = _caller_file()
    bindings = _bindings(functions, with_pytorch_error_handling)
    heads = {"main.cpp": ["torch/extension.h"], "cuda.cu": ["torch/types.h", "cuda.h", "cuda_runtime.h"]}

    def source(file: str, texts: List[str], rest: List[str]) -> Source:
        head = [] if no_implicit_headers else [f"#include <{header}>" for header in heads[file]]
        return Source(file, "\n".join([*head, *_placed(texts, caller, file), *rest]))

    sources = [source("main.cpp", cpp, bindings)]
    if cuda:
        sources.append(source("cuda.cu", cuda, []))
    common = dict(verbose=verbose, with_cuda=with_cuda, is_python_module=is_python_module, **others)

    def with_torch(folder: str):
        return load_inline.torch_function(
            name,
            cpp,
            cuda or None,
            functions=functions,
            with_pytorch_error_handling=with_pytorch_error_handling,
            no_implicit_headers=no_implicit_headers,
            **_torch_arguments(folder, extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths),
            **common,
        )

    flags = (extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths)
    build = _build(name, sources, *flags, with_cuda)
    return _load(build, build_directory, verbose, is_python_module, with_torch)


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


def _placed(texts: Sequence[str], caller: Optional[str], own_file: str) -> List[str]:
    """Each text with a #line in front that names its place in the caller's file, if it stands there once."""
    try:
        with open(caller or "", encoding="utf-8") as file:
            written = file.read()
    except (OSError, UnicodeDecodeError):
        written = ""
    placed = []
    for text in texts:
        if text.strip() and written.count(text) == 1 and '"' not in caller and "\\" not in caller:
            line = written.count("\n", 0, written.index(text)) + 1
            placed.append(f'#line {line} "{caller}"\n{text}')
        else:
            placed.append(text)
    if any(text.startswith("#line") for text in placed):
        placed.append(f'#line 1 "end of {own_file}"')
    return placed


def _build(name, sources, cflags, cuda_cflags, ldflags, include_paths, with_cuda) -> Build:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"extension {name!r}: the name must be a Python identifier")
    return Build(
        name,
        tuple(sources),
        tuple(_list(cflags)),
        tuple(_list(cuda_cflags)),
        tuple(_list(ldflags)),
        tuple(os.path.abspath(path) for path in _list(include_paths)),
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


def _load(build: Build, build_directory: Optional[str], verbose: bool, is_python_module: bool, with_torch):
    from assay.virtual.extension_operators import installed_declarations

    folder = _folder(build, build_directory, "light")
    placed = build._replace(sources=tuple(source.in_folder(folder) for source in build.sources))
    torch_folder = _folder(build, build_directory, "torch")
    if os.path.exists(os.path.join(torch_folder, f"{build.name}.so")):
        return _load_with_torch(with_torch, torch_folder)
    for standard in (STANDARD, NEWER_STANDARD):
        try:
            library = extension_build.build_library(placed, folder, installed_declarations, standard, verbose)
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


def _torch_arguments(folder, cflags, cuda_cflags, ldflags, include_paths) -> Dict[str, Any]:
    """Arguments for torch's own functions, with the flags that suit the virtual GPU.

    A language standard is left to torch: its headers need a newer one than many sources name.
    """

    def without_standard(flags: List[str]) -> List[str]:
        return [flag for flag in flags if not flag.startswith(("-std=", "--std="))]

    return dict(
        build_directory=folder,
        extra_cflags=without_standard(_list(cflags)),
        extra_cuda_cflags=without_standard(extension_build.nvcc_flags(_list(cuda_cflags))),
        extra_ldflags=extension_build.link_flags(_list(ldflags)),
        extra_include_paths=include_paths,
    )


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
    errors = _errors(output)
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
