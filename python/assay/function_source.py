"""Makes a function of this process callable in another one: the process of a check has its own interpreter.

`export` writes a short Python file that finds the function again. A function at the top level of a module is imported by
name. A function of a script or a notebook, a lambda or a function inside another one cannot be imported, and running the
whole script again would start its checks again. So `load` takes from the source file only the statements that the function
needs: its own definition, the imports and definitions of the names it uses, and so on. They keep their file and their
lines, so a finding names the line that the user wrote.
"""

import ast
import inspect
import os
import pathlib
import sys
import types
from typing import Any, Dict, Iterable, List, Optional, Set

_SIMPLE = (int, float, complex, str, bytes, bool, type(None))


class SourceError(TypeError):
    """A function that another process cannot find. The text says how to define it instead."""


# ---- In the process that checks: writing the file ----

def export(function: Any, parameters: Iterable[str], folder: pathlib.Path, name: str, scope: Dict[str, Any],
           keywords: Iterable[str] = (), with_imports: bool = True, outputs: Iterable[str] = ()) -> str:
    """Writes `name`.py to the folder and returns "name.py:run".

    `run` takes the parameters by position and passes those among `keywords` by name. `scope` are the globals of the code
    that asks, in which objects are found that do not know their own names. `with_imports`: a function of an importable
    module is imported with its whole module, not taken from its source. Results that come as a dict are put into the order
    of `outputs`.
    """
    finder = _finder(function, folder, scope, with_imports)
    by_name = set(keywords)
    arguments = ", ".join("%s=%s" % (one, one) if one in by_name else one for one in parameters)
    lines = ["# Written by assay.check: calls the function under its own name.", "import sys", "",
             "sys.path[:0] = %r" % _search_path(), finder, "", "", "def run(%s):" % ", ".join(parameters)]
    if outputs:
        lines += ["    results = function(%s)" % arguments, "    return tuple(results[name] for name in %r)" % (tuple(outputs),)]
    else:
        lines.append("    return function(%s)" % arguments)
    (folder / (name + ".py")).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return name + ".py:run"


def _finder(function: Any, folder: pathlib.Path, scope: Dict[str, Any], with_imports: bool) -> str:
    """The statements that find the function and call it `function`."""
    is_nested = isinstance(function, types.FunctionType) and "<" in function.__qualname__
    imported = None if is_nested else _import_of(function)
    if imported and (with_imports or not _has_own_source(function)):
        return "import %s\n\nfunction = %s" % (imported[0], ".".join(imported))
    if is_nested:
        path = _source_file(function, function.__globals__, folder)
        return _load_call(path, function.__globals__, line=function.__code__.co_firstlineno,
                          index=_index_on_line(function, path), given=_closure(function))
    globals_ = function.__globals__ if isinstance(function, types.FunctionType) else scope
    path = _name_in(function, globals_)
    if not path:
        raise SourceError("%r cannot be found by another process; define it at the top level of a module or a script" % (function,))
    return _load_call(_source_file(function, globals_, folder), globals_, name=path)


def _load_call(path: str, globals_: Dict[str, Any], **options: Any) -> str:
    package = globals_.get("__package__") or None
    options = dict(options, package=package) if package else options
    given = options.pop("given", {})
    text = "".join(", %s=%r" % item for item in options.items())
    imports = "".join("import %s\n" % value.__name__ for value in given.values() if isinstance(value, types.ModuleType))
    pairs = ", ".join("%r: %s" % (name, value.__name__ if isinstance(value, types.ModuleType) else repr(value))
                      for name, value in given.items())
    return "%sfrom assay.function_source import load\n\nfunction = load(%r%s%s)" % (
        imports, path, text, ", given={%s}" % pairs if given else "")


def _search_path() -> List[str]:
    """The folders of this process's modules that are not part of its installation."""
    installed = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))
    return [os.path.abspath(path) for path in sys.path
            if (not path or os.path.isdir(path)) and not os.path.abspath(path).startswith(installed)]


def _import_of(function: Any) -> Optional[List[str]]:
    """[module, attribute, …] under which an importable object is found."""
    names = [getattr(function, "__module__", None), "torch", "torch.nn.functional"]
    path = (getattr(function, "__qualname__", "") or "").split(".")
    for name in names:
        module = sys.modules.get(name or "")
        if module is None or name == "__main__":
            continue
        for attributes in (path, path[-1:]):
            if _attribute(module, attributes) is function:
                return [name] + attributes
    return None


def _has_own_source(function: Any) -> bool:
    """Whether it is the user's own Python function, not one of an installed library."""
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return os.path.exists(file) and "site-packages" not in file and "dist-packages" not in file


def _attribute(module: Any, path: List[str]) -> Any:
    for name in path:
        module = getattr(module, name, None)
    return module


def _name_in(function: Any, globals_: Dict[str, Any]) -> Optional[str]:
    """The name of an object among globals, or that of a member of one of them: "forward", "extension.forward"."""
    member = getattr(function, "__name__", None)
    for name, value in globals_.items():
        if value is function:
            return name
    for name, value in globals_.items():
        if member and not name.startswith("_") and inspect.ismodule(value) and getattr(value, member, None) is function:
            return "%s.%s" % (name, member)
    return None


def _source_file(function: Any, globals_: Dict[str, Any], folder: pathlib.Path) -> str:
    """The file with the source of these globals. Cells of a notebook are written to one."""
    cells = globals_.get("In")
    if isinstance(cells, list) and "get_ipython" in globals_:
        path = folder / "cells.py"
        path.write_text("\n".join("\n".join(line for line in str(cell).split("\n") if not line.lstrip().startswith(("%", "!")))
                                  for cell in cells) + "\n", encoding="utf-8")
        return str(path)
    file = globals_.get("__file__") or ""
    if not os.path.exists(file):
        raise SourceError("the source of %r is in no file; define it in a module or a script" % (function,))
    return os.path.abspath(file)


def _closure(function: types.FunctionType) -> Dict[str, Any]:
    """The variables of surrounding functions that it uses. Only plain values and modules can be written down."""
    given = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        value = cell.cell_contents
        if not isinstance(value, _SIMPLE + (types.ModuleType,)):
            raise SourceError("%s uses the variable `%s` of the function around it, which cannot be passed to another process; "
                              "make it a parameter or a global" % (function.__qualname__, name))
        given[name] = value
    return given


def _index_on_line(function: types.FunctionType, path: str) -> int:
    """Which of the functions that begin on its line it is. Those that look the same are the same."""
    with open(path, encoding="utf-8") as file:
        found = _functions_at(ast.parse(file.read(), path), function.__code__.co_firstlineno, path)
    for index, node in enumerate(found):
        if isinstance(node, ast.Lambda) and function.__name__ == "<lambda>":
            codes = compile(ast.Expression(node), path, "eval").co_consts
            if any(isinstance(one, types.CodeType) and _looks(one) == _looks(function.__code__) for one in codes):
                return index
        elif isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            return index
    raise SourceError("%s:%d does not begin there any more; was the file changed?" % (path, function.__code__.co_firstlineno))


def _looks(code: types.CodeType) -> tuple:
    constants = [_looks(one) if isinstance(one, types.CodeType) else one for one in code.co_consts]
    return (code.co_varnames + code.co_cellvars, sorted(code.co_names + code.co_freevars), constants)


# ---- In the process of the check: finding the function again ----

def load(path: str, name: Optional[str] = None, line: Optional[int] = None, index: int = 0,
         given: Optional[Dict[str, Any]] = None, package: Optional[str] = None) -> Any:
    """The object called `name`, or the function that begins at `line` (the one with this index, where there are several), from
    the statements of a file that it needs. `given` are variables that no statement of the file defines."""
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"), path)
    module = types.ModuleType("assay_subject")
    module.__file__ = path
    module.__package__ = package
    module.__dict__.update(given or {})
    body = list(tree.body)
    if line is not None:
        name = "_assay_function"
        body.append(_as_global(_functions_at(tree, line, path)[index], name))
    parts = (name or "").split(".")
    tree.body = _needed(body, parts[0], set(given or {}))
    sys.modules[module.__name__] = module
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)
    found = _attribute(module, parts)
    if found is None:
        raise SourceError("%s does not define `%s` at its top level" % (path, name))
    return found


def _functions_at(tree: ast.AST, line: int, path: str) -> List[ast.AST]:
    def first_line(node):
        return min([node.lineno] + [one.lineno for one in getattr(node, "decorator_list", [])])

    found = [node for node in ast.walk(tree)
             if isinstance(node, (ast.FunctionDef, ast.Lambda)) and first_line(node) == line]
    if not found:
        raise SourceError("%s:%d: no function begins here; was the file changed?" % (path, line))
    return found


def _as_global(node: ast.AST, name: str) -> ast.stmt:
    """A statement that gives a function a global name."""
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), node)
    node.name = name
    return node


def _needed(body: List[ast.stmt], name: str, given: Set[str]) -> List[ast.stmt]:
    """The statements of a module that define a name, with those that define what they use."""
    chosen: Set[int] = set()
    wanted, known = {name}, set(given)
    while wanted - known:
        new = wanted - known
        known |= new
        for index, statement in enumerate(body):
            if index in chosen or _is_main_block(statement):
                continue
            if _bound(statement) & new or _is_star_import(statement) or _is_future(statement):
                chosen.add(index)
                wanted |= _used(statement)
    return [statement for index, statement in enumerate(body) if index in chosen]


def _is_main_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test))


def _is_star_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _bound(node: ast.AST) -> Set[str]:
    """The names that a statement binds in its own scope."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    if isinstance(node, ast.Lambda):
        return set()
    names = {node.name} if isinstance(node, ast.ExceptHandler) and node.name else set()
    return names.union(*(_bound(child) for child in ast.iter_child_nodes(node)))


def _used(node: ast.AST) -> Set[str]:
    """The names that a statement takes from the scope around it."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    children = list(ast.iter_child_nodes(node))
    if not isinstance(node, _SCOPES):
        return set().union(*(_used(child) for child in children)) if children else set()
    body = node.body if isinstance(node.body, list) else [node.body]
    inside = set().union(*(_used(child) for child in body))
    if isinstance(node, ast.ClassDef):
        around = node.decorator_list + node.bases + node.keywords
        local: Set[str] = set()
    else:
        arguments = node.args
        around = getattr(node, "decorator_list", []) + arguments.defaults + [one for one in arguments.kw_defaults if one]
        every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs + [arguments.vararg, arguments.kwarg]
        around += [one.annotation for one in every if one and one.annotation]
        around += [node.returns] if getattr(node, "returns", None) else []
        local = {one.arg for one in every if one}.union(*(_bound(child) for child in body))
        local -= {name for child in ast.walk(node) if isinstance(child, ast.Global) for name in child.names}
    return (inside - local).union(*(_used(child) for child in around))
