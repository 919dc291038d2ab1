"""Takes a function out of a source file with the statements that it needs, and nothing else.

`function_source.export` copies this file into the folder of a check, where the function is loaded; so it uses
nothing but the standard library.
"""

import ast
import pathlib
import sys
import types
from typing import Any, Dict, List, Optional, Set


class SourceError(TypeError):
    """A function that another process cannot find. The text says how to define it instead."""


def load(
    path: str,
    name: Optional[str] = None,
    line: Optional[int] = None,
    index: int = 0,
    given: Optional[Dict[str, Any]] = None,
    package: Optional[str] = None,
) -> Any:
    """The object called `name`, or the function that begins at `line` (the one with this index, where there
    are several), from the statements of a file that it needs. `given` are variables that no statement of the
    file defines."""
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"), path)
    module = types.ModuleType("assay_function")
    module.__file__ = path
    module.__package__ = package
    module.__dict__.update(given or {})
    body = list(tree.body)
    if line is not None:
        name = "_assay_function"
        body.append(_as_global(functions_at(tree, line, path)[index], name))
    parts = (name or "").split(".")
    tree.body = _needed(body, parts[0], set(given or {}))
    sys.modules[module.__name__] = module
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), module.__dict__)
    found = attribute_of(module, parts)
    if found is None:
        raise SourceError("%s does not define `%s` at its top level" % (path, name))
    return found


def attribute_of(module: Any, path: List[str]) -> Any:
    for name in path:
        module = getattr(module, name, None)
    return module


def functions_at(tree: ast.AST, line: int, path: str) -> List[ast.AST]:
    def first_line(node):
        return min([node.lineno] + [one.lineno for one in getattr(node, "decorator_list", [])])

    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.Lambda)) and first_line(node) == line
    ]
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
    return isinstance(node, ast.If) and any(
        isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(node.test)
    )


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
        around = (
            getattr(node, "decorator_list", [])
            + arguments.defaults
            + [one for one in arguments.kw_defaults if one]
        )
        every = (
            arguments.posonlyargs
            + arguments.args
            + arguments.kwonlyargs
            + [arguments.vararg, arguments.kwarg]
        )
        around += [one.annotation for one in every if one and one.annotation]
        around += [node.returns] if getattr(node, "returns", None) else []
        local = {one.arg for one in every if one}.union(*(_bound(child) for child in body))
        local -= {name for child in ast.walk(node) if isinstance(child, ast.Global) for name in child.names}
    return (inside - local).union(*(_used(child) for child in around))
