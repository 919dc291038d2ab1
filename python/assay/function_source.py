"""Makes a function of this process callable in another one: the process of a check has its own interpreter.

`export` writes a short Python file that finds the function again. A function at the top level of a module is
imported by name. A function of a script or a notebook, a lambda or a function inside another one cannot be
imported, and running the whole script again would start its checks again. So only the statements that the
function needs are taken from the source file (statements.py): its own definition, the imports and definitions
of the names it uses, and so on. They keep their file and their lines, so a finding names the line that the
user wrote.
"""

import ast
import inspect
import os
import pathlib
import shutil
import sys
import types
from typing import Any, Dict, Iterable, List, Optional, Tuple

from assay import statements
from assay.statements import SourceError, attribute_of, functions_at

_SIMPLE = (int, float, complex, str, bytes, bool, type(None))


def export(
    function: Any,
    parameters: Iterable[str],
    folder: pathlib.Path,
    name: str,
    scope: Dict[str, Any],
    keywords: Iterable[str] = (),
    with_imports: bool = True,
    outputs: Iterable[str] = (),
) -> str:
    """Writes `name`/assay_`name`.py to the folder and returns "name/assay_name.py:run".

    The files of each function have a folder of their own: the process of a subject sees its own folder, and not
    that of the reference.

    `run` takes the parameters by position and passes those among `keywords` by name. `scope` are the globals
    of the code that asks, in which objects are found that do not know their own names. `with_imports`: a
    function of an importable module is imported with its whole module, not taken from its source. Results
    that come as a dict are put into the order of `outputs`.
    """
    folder = folder / name
    folder.mkdir()
    finder = _finder(function, folder, scope, with_imports)
    by_name = set(keywords)
    arguments = ", ".join("%s=%s" % (one, one) if one in by_name else one for one in parameters)
    lines = [
        "# Written by assay.check: finds a function%s and calls it."
        % (" that uses triton" * uses_triton(function)),
        "import os",
        "import sys",
        "",
        "sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))] + %r" % _search_path(),
        finder,
        "",
        "",
        "def run(%s):" % ", ".join(parameters),
    ]
    if outputs:
        lines += [
            "    results = function(%s)" % arguments,
            "    return tuple(results[name] for name in %r)" % (tuple(outputs),),
        ]
    else:
        lines.append("    return function(%s)" % arguments)
    (folder / ("assay_%s.py" % name)).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "%s/assay_%s.py:run" % (name, name)


def _finder(function: Any, folder: pathlib.Path, scope: Dict[str, Any], with_imports: bool) -> str:
    """The statements that find the function and call it `function`."""
    is_nested = isinstance(function, types.FunctionType) and "<" in function.__qualname__
    imported = None if is_nested else _import_of(function)
    if imported and (with_imports or not _has_own_source(function)):
        root = _root_of(imported[0])
        found = "sys.path.insert(0, %r)\n" % root if root else ""
        return "%simport %s\n\nfunction = %s" % (found, imported[0], ".".join(imported))
    if is_nested:
        path = _source_file(function, function.__globals__, folder)
        return _load_call(
            folder,
            path,
            function.__globals__,
            line=function.__code__.co_firstlineno,
            index=_index_on_line(function, path),
            given=_closure(function),
        )
    globals_ = function.__globals__ if isinstance(function, types.FunctionType) else scope
    path = _name_in(function, globals_)
    if not path:
        raise SourceError(
            "%r cannot be found by another process; define it at the top level of a module or a script"
            % (function,)
        )
    return _load_call(folder, _source_file(function, globals_, folder), globals_, name=path)


def _load_call(folder: pathlib.Path, path: str, globals_: Dict[str, Any], **options: Any) -> str:
    shutil.copy(statements.__file__, folder / "assay_statements.py")
    package = globals_.get("__package__") or None
    options = dict(options, package=package) if package else options
    given = options.pop("given", {})
    text = "".join(", %s=%r" % item for item in options.items())
    imports = "".join(
        "import %s\n" % value.__name__ for value in given.values() if isinstance(value, types.ModuleType)
    )
    pairs = ", ".join(
        "%r: %s" % (name, value.__name__ if isinstance(value, types.ModuleType) else repr(value))
        for name, value in given.items()
    )
    return "%sfrom assay_statements import load\n\nfunction = load(%r%s%s)" % (
        imports,
        path,
        text,
        ", given={%s}" % pairs if given else "",
    )


def _root_of(name: str) -> str:
    """The folder from which a module of the user's own was imported; empty for others."""
    file = getattr(sys.modules[name], "__file__", None) or ""
    if not file or os.path.abspath(file).startswith(_installed()):
        return ""
    above = name.count(".") + (os.path.basename(file) == "__init__.py")
    return str(pathlib.Path(file).absolute().parents[above])


def _installed() -> Tuple[str, ...]:
    return (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))


def _search_path() -> List[str]:
    """The folders of this process's modules that are not part of its installation."""
    return [
        os.path.abspath(path)
        for path in sys.path
        if (not path or os.path.isdir(path)) and not os.path.abspath(path).startswith(_installed())
    ]


def _import_of(function: Any) -> Optional[List[str]]:
    """[module, attribute, …] under which an importable object is found."""
    names = [getattr(function, "__module__", None), "torch", "torch.nn.functional"]
    path = (getattr(function, "__qualname__", "") or "").split(".")
    for name in names:
        module = sys.modules.get(name or "")
        if module is None or name == "__main__":
            continue
        for attributes in (path, path[-1:]):
            if attribute_of(module, attributes) is function:
                return [name] + attributes
    return None


def _has_own_source(function: Any) -> bool:
    """Whether it is the user's own Python function, not one of an installed library."""
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return os.path.exists(file) and "site-packages" not in file and "dist-packages" not in file


def _name_in(function: Any, globals_: Dict[str, Any]) -> Optional[str]:
    """The name of an object among globals, or that of a member of one of them: "forward",
    "extension.forward"."""
    member = getattr(function, "__name__", None)
    for name, value in globals_.items():
        if value is function:
            return name
    for name, value in globals_.items():
        if (
            member
            and not name.startswith("_")
            and inspect.ismodule(value)
            and getattr(value, member, None) is function
        ):
            return "%s.%s" % (name, member)
    return None


def _source_file(function: Any, globals_: Dict[str, Any], folder: pathlib.Path) -> str:
    """The file with the source of these globals. Cells of a notebook are written to one."""
    cells = globals_.get("In")
    if isinstance(cells, list) and "get_ipython" in globals_:
        path = folder / "cells.py"
        path.write_text(
            "\n".join(
                "\n".join(line for line in str(cell).split("\n") if not line.lstrip().startswith(("%", "!")))
                for cell in cells
            )
            + "\n",
            encoding="utf-8",
        )
        return str(path)
    file = globals_.get("__file__") or ""
    if not os.path.exists(file):
        raise SourceError("the source of %r is not in a file; define it in a module or a script" % (function,))
    return os.path.abspath(file)


def _closure(function: types.FunctionType) -> Dict[str, Any]:
    """The variables of surrounding functions that it uses. Only plain values and modules can be written
    down."""
    given = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        value = cell.cell_contents
        if not isinstance(value, _SIMPLE + (types.ModuleType,)):
            raise SourceError(
                "%s uses the variable `%s` of the function around it, which another process cannot have; "
                "make it a parameter or a global" % (function.__qualname__, name)
            )
        given[name] = value
    return given


def _index_on_line(function: types.FunctionType, path: str) -> int:
    """Which of the functions that begin on its line it is. Those that look the same are the same."""
    with open(path, encoding="utf-8") as file:
        found = functions_at(ast.parse(file.read(), path), function.__code__.co_firstlineno, path)
    for index, node in enumerate(found):
        if isinstance(node, ast.Lambda) and function.__name__ == "<lambda>":
            codes = compile(ast.Expression(node), path, "eval").co_consts
            if any(
                isinstance(one, types.CodeType) and _looks(one) == _looks(function.__code__) for one in codes
            ):
                return index
        elif isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            return index
    raise SourceError(
        "%s:%d does not begin there any more; was the file changed?"
        % (path, function.__code__.co_firstlineno)
    )


def _looks(code: types.CodeType) -> tuple:
    constants = [_looks(one) if isinstance(one, types.CodeType) else one for one in code.co_consts]
    return (code.co_varnames + code.co_cellvars, sorted(code.co_names + code.co_freevars), constants)


def uses_triton(function: Any) -> bool:
    """Whether the code around a function has Triton kernels, or imports Triton."""
    values = list(getattr(function, "__globals__", {}).values())
    modules = [value.__name__ for value in values if inspect.ismodule(value)]
    return any(
        name.split(".")[0] == "triton" for name in modules + [type(value).__module__ for value in values]
    )
