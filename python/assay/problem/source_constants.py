"""Integers in source text: the sizes that a problem sets, and those that a submission relies on.

A KernelBench problem sets its sizes as integers at module level (`batch_size = 16`, `input_shape =
(32768,)`), or writes them where it makes its tensors (`torch.randn(1024, 1024)`). Smaller ones are substituted in the text, so that line numbers stay. A submission may rely on the
sizes of its benchmark: by the same module-level names, by literals equal to a size, or by tiles that divide
it. `SizesOfAnswer` finds out which.
"""
from __future__ import annotations

import ast
import re
from typing import Dict, List, Optional, Set, Tuple

# Lines where a literal is a tile or a block of threads rather than a size of the problem.
TILE_WORDS = re.compile(
    r"block|tile|thread|warp|__shared__|unroll|launch_bounds|num_stages|chunk|\bB[MNK]\b|lanes?\b|<<<|cflags|"
    r"arch=", re.IGNORECASE)
LARGEST_TILE = 1024  # more threads than this no block has
SMALLEST_LITERAL = 8  # literals up to this are strides, numbers of channels and the like, and have no name
# Functions of torch whose integers, or whose tuples of integers, are a shape.
SHAPED_BY_NUMBERS = frozenset(("rand", "randn", "zeros", "ones", "empty"))
SHAPED_BY_TUPLES = SHAPED_BY_NUMBERS | {"randint", "full", "normal"}
GENERATORS = frozenset(("get_inputs", "get_init_inputs"))
VECTOR_TYPES = re.compile(r"\b(?:float4|int4|uint4|float2|half2|__half2|bfloat162|double2|longlong2)\b")


def module_integers(source: str) -> Dict[str, int]:
    """Integers assigned at module level, `NAME = 4 * 1024` and `NAME = (32, 64)` included, and the literals of
    shapes in the generators.

    An element of a tuple is called `NAME_0`, `NAME_1`, and so on; a literal, wherever it stands, `literal_1024`.
    """
    return {name: value for name, (value, _) in _integers_of_variables(source).items()}


def _integers_of_variables(source: str) -> Dict[str, Tuple[int, str]]:
    """The integers of `module_integers`, each with the variable that holds it."""
    found: Dict[str, Tuple[int, str]] = {}
    for name, value in _assignments(source):
        evaluated = _evaluate(value)
        if isinstance(evaluated, int):
            found[name] = (evaluated, name)
        elif isinstance(evaluated, tuple):
            for index, item in enumerate(evaluated):
                found[f"{name}_{index}"] = (item, name)
    for name, literal in _literal_sizes(source):
        found.setdefault(name, (literal.value, name))
    return found


def with_integers(source: str, values: Dict[str, int]) -> str:
    """`source` with the integers of `module_integers` replaced; every other character, and so every line, stays."""
    lines = source.splitlines(keepends=True)
    assigned = {name for name, _ in _assignments(source)}
    edits: List[Tuple[ast.expr, str]] = [(literal, str(values[name])) for name, literal in _literal_sizes(source)
                                         if name in values and name not in assigned]
    for name, value in _assignments(source):
        evaluated = _evaluate(value)
        if isinstance(evaluated, int) and name in values:
            edits.append((value, str(values[name])))
        elif isinstance(evaluated, tuple):
            items = [values.get(f"{name}_{index}", item) for index, item in enumerate(evaluated)]
            if items != list(evaluated):
                edits.append((value, "(" + "".join(f"{item}, " for item in items) + ")"))
    for node, text in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        first, last = node.lineno - 1, node.end_lineno - 1
        before = lines[first].encode()[: node.col_offset].decode()
        after = lines[last].encode()[node.end_col_offset:].decode()
        lines[first: last + 1] = [before + text + "\n" * (last - first) + after]
        lines = "".join(lines).splitlines(keepends=True)
    return "".join(lines)


def _assignments(source: str) -> List[Tuple[str, ast.expr]]:
    """Names assigned exactly once at module level, with their values; `height, width = 32, 64` are two of
    them.
    """
    pairs: List[Tuple[str, ast.expr]] = []
    for node in ast.parse(source).body:
        for target, value in _targets(node):
            if isinstance(target, ast.Name):
                pairs.append((target.id, value))
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs += [(item.id, part) for item, part in zip(target.elts, value.elts)
                          if isinstance(item, ast.Name) and len(target.elts) == len(value.elts)]
    names = [name for name, _ in pairs]
    return [(name, value) for name, value in pairs if names.count(name) == 1]


def _literal_sizes(source: str) -> List[Tuple[str, ast.Constant]]:
    """Literals of the generators that are sizes, with their names: those in the shapes of tensors that get_inputs
    makes, and their equals among what get_init_inputs returns.
    """
    bodies = {node.name: node for node in ast.parse(source).body
              if isinstance(node, ast.FunctionDef) and node.name in GENERATORS}
    if len(bodies) < len(GENERATORS):
        return []
    found: List[ast.Constant] = []
    for node in ast.walk(bodies["get_inputs"]):
        if isinstance(node, ast.Call):
            found += _shape_literals(node)
    sizes = {literal.value for literal in found}
    for node in ast.walk(bodies["get_init_inputs"]):
        items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
        found += [item for item in items if _is_size(item) and item.value in sizes]
    return [(f"literal_{literal.value}", literal) for literal in found]


def _shape_literals(call: ast.Call) -> List[ast.Constant]:
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function not in SHAPED_BY_TUPLES:
        return []
    given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "size")]
    found = [item for part in given if isinstance(part, (ast.Tuple, ast.List)) for item in part.elts]
    found += given if function in SHAPED_BY_NUMBERS else []
    return [item for item in found if _is_size(item)]


def _is_size(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > SMALLEST_LITERAL


def _targets(node: ast.stmt) -> List[Tuple[ast.expr, ast.expr]]:
    """What a statement assigns to, and what; nothing where it is no assignment."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    return [(node.target, node.value)] if isinstance(node, ast.AnnAssign) and node.value is not None else []


def _evaluate(node: ast.expr) -> Optional[object]:
    """An integer, or a tuple of integers, where the expression consists of literals only."""
    if isinstance(node, (ast.Tuple, ast.List)):
        items = [_evaluate(item) for item in node.elts]
        return tuple(items) if items and all(isinstance(item, int) for item in items) else None
    for part in ast.walk(node):
        if not isinstance(part, (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)):
            return None
    try:
        value = eval(compile(ast.Expression(node), "<constant>", "eval"), {"__builtins__": {}})
    except (ArithmeticError, TypeError, ValueError):
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class SizesOfAnswer:
    """What the text of a submission says about the sizes it works for; `problem` are the problem's own."""

    def __init__(self, text: str, problem: Dict[str, int], python: bool = True):
        shared: Dict[str, Tuple[int, str]] = {}
        used: Set[str] = set()
        code = text
        if python:
            shared = {name: held for name, held in _integers_of_variables(text).items() if name in problem}
            used = _names_used_by_answer(text)
            code = _without_copies(text, {variable for _, variable in shared.values()})
        # Module-level integers that the submission shares with the problem and uses in its computation.
        self.followed = [name for name, (_, variable) in shared.items() if variable in used]
        # The first of them that has another value than in the problem.
        self.contradiction = next((name for name in self.followed if shared[name][0] != problem[name]), None)
        self._literals: Dict[int, bool] = {}  # value -> whether every line that has it speaks of tiles
        for line in code.splitlines():
            line = re.sub(r"(^|\s)#(?!\s*(?:define|pragma|include)).*|//.*", " ", line)
            tile = bool(TILE_WORDS.search(line))
            for digits in re.findall(r"(?<![\w.])(\d+)(?![\w.])", line):
                value = int(digits)
                self._literals[value] = self._literals.get(value, True) and tile
        self._vectors = bool(VECTOR_TYPES.search(text))

    def relies_on(self, sizes: Dict[str, int]) -> Tuple[List[str], List[str]]:
        """The sizes that an equal literal may mean, and those of them for which it cannot be a tile."""
        literal = [name for name, size in sizes.items() if size in self._literals]
        certain = [name for name in literal if sizes[name] > LARGEST_TILE or sizes[name] % 8 != 0]
        return [name for name in literal if name in certain or not self._literals[sizes[name]]], certain

    def divisors(self) -> List[int]:
        """Numbers that sizes may have to stay multiples of: literals that can be tiles, also times a vector's
        width.
        """
        found = {value for value in self._literals if value % 8 == 0 and 8 <= value <= 4 * LARGEST_TILE}
        if self._vectors:
            found |= {4 * value for value in found if 64 <= value <= LARGEST_TILE}
        return sorted(found | {2, 4, 8, 16, 32})


def _names_used_by_answer(source: str) -> Set[str]:
    """Names read anywhere but in the generators that answers often copy from the problem."""
    used: Set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name in GENERATORS:
            continue
        used |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)
                 and isinstance(part.ctx, ast.Load)}
    return used


def _without_copies(source: str, variables: Set[str]) -> str:
    """The text without docstrings, copied generators and copied module-level sizes; lines stay lines."""
    tree = ast.parse(source)
    lines = source.splitlines()
    blank: List[ast.AST] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in GENERATORS:
            blank.append(node)
        assigned = {part.id for target, _ in _targets(node) for part in ast.walk(target)
                    if isinstance(part, ast.Name)}
        if assigned and assigned <= variables:
            blank.append(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value,
                                                     ast.Constant) and isinstance(node.value.value, str):
            blank.append(node)
    for node in blank:
        for index in range(node.lineno - 1, node.end_lineno):
            lines[index] = ""
    return "\n".join(lines)
