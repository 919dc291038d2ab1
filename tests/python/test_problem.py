"""Problems of benchmarks as contracts (assay.problem): recognition, sizes, contracts, folders, errors."""

import io
import contextlib
import json
import multiprocessing
import os
import pathlib
import shutil
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from support import needs_torch

from assay.contract import Dim
from assay.problem import ProblemError, cuda_l1, describe, kept, shrink
from assay.problem.folder import empty_contract
from assay.problem.formats import recognise
from assay.problem.layout import Layout, Specimen, expression_of
from assay.problem.source_constants import SizesOfAnswer, module_integers, with_integers

PROBLEMS = pathlib.Path(__file__).parent / "problems"


class Folders(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def described(self, answer, problem, row=None):
        return describe.describe(str(PROBLEMS / answer), str(PROBLEMS / problem), self.folder / "out", row)

    def contract(self):
        return (self.folder / "out/contract.toml").read_text()

    def loaded(self, name):
        from assay.problem.runtime.common import load_file

        return load_file(self.folder / "out" / name, "loaded_" + name.replace("/", "_").replace(".py", ""))

    def copy(self, name, **changed):
        """A copy of a fixture's folder, with keys of its JSON files changed."""
        target = self.folder / name
        shutil.copytree(PROBLEMS / name, target)
        for file, keys in changed.items():
            content = json.loads((target / file).read_text())
            content.update(keys)
            (target / file).write_text(json.dumps(content))
        return target

    def refused(self, words, answer, problem, row=None):
        with self.assertRaises(ProblemError) as raised:
            describe.describe(str(answer), str(problem), self.folder / "out", row)
        self.assertIn(words, str(raised.exception))
        self.assertNotIn("\n", str(raised.exception))


def use_many(problems, first, count):
    """What a process of a training loop does to the cache."""
    kept.MOST_KEPT, kept.SECONDS_IN_USE = 5, 0.0
    for number in range(first, first + count):
        folder = problems / f"{number:016x}"
        kept.use(folder)
        # Another process may delete it at once, since nothing is in use for long here; also while mkdir looks whether
        # what exists is a folder.
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            folder.mkdir(exist_ok=True)
            (folder / "contract.toml").write_text("")


class KeptFolders(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.problems = folder / "problems"
        self.problems.mkdir()

    def add(self, number, age):
        """A folder with a file, last used `age` seconds ago."""
        path = self.problems / f"{number:016x}"
        path.mkdir()
        (path / "contract.toml").write_text("title = 'a'")
        os.utime(path, (time.time() - age,) * 2)
        return path

    def names(self):
        return sorted(path.name for path in self.problems.iterdir())

    def test_the_oldest_go(self):
        old = [self.add(number, kept.SECONDS_IN_USE + 100 * number) for number in range(1, 5)]
        with mock.patch.object(kept, "MOST_KEPT", 3):
            kept.use(self.problems / f"{9:016x}")
        self.assertEqual(self.names(), [".lock", old[0].name, old[1].name, f"{9:016x}"])

    def test_what_was_used_lately_stays(self):
        lately = [self.add(number, kept.SECONDS_IN_USE / 2) for number in range(1, 5)]
        old = self.add(8, kept.SECONDS_IN_USE * 2)
        used_again = self.add(7, kept.SECONDS_IN_USE * 3)
        with mock.patch.object(kept, "MOST_KEPT", 1):
            kept.use(used_again)
        self.assertEqual(self.names(), [".lock"] + [path.name for path in lately] + [used_again.name])
        self.assertFalse(old.exists())

    def test_nothing_else_is_deleted(self):
        (self.problems / "notes").mkdir()
        (self.problems / (".removed-1-" + "a" * 16)).mkdir()  # left by a process that was killed
        elsewhere = self.problems.parent / "mine"
        (elsewhere / ("b" * 16)).mkdir(parents=True)
        os.utime(elsewhere / ("b" * 16), (0, 0))
        with mock.patch.object(kept, "MOST_KEPT", 0):
            kept.use(self.problems / ("c" * 16))
            kept.use(elsewhere / ("d" * 16))
        self.assertEqual(self.names(), [".lock", "c" * 16, "notes"])
        self.assertTrue((elsewhere / ("b" * 16)).exists())

    def test_many_processes(self):
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=use_many, args=(self.problems, 100 * i, 50)) for i in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        self.assertEqual([process.exitcode for process in processes], [0, 0, 0, 0])
        use_names = [name for name in self.names() if name != ".lock"]
        self.assertLessEqual(len(use_names), 5 + len(processes))  # each may have made its last again

    def test_command(self):
        """What `assay check --problem` runs tidies the cache."""
        for number in range(1, 5):
            self.add(number, 2 * kept.SECONDS_IN_USE)
        out = self.problems / ("e" * 16)
        with mock.patch.object(kept, "MOST_KEPT", 2), redirect_stderr(io.StringIO()):
            describe.main(["--answer", "none.py", "--problem", "none.py", "--out", str(out)])
        self.assertEqual(len(self.names()), 3)  # two folders and the lock


class Constants(unittest.TestCase):
    SOURCE = ("N = 4 * 1024\nshape = (32, 64)\nheight, width = 16, 8\nname = 'x'\nflag = True\n"
              "M: int = 7\nN2 = N\n")

    def test_module_integers(self):
        self.assertEqual(module_integers(self.SOURCE),
                         {"N": 4096, "shape_0": 32, "shape_1": 64, "height": 16, "width": 8, "M": 7})

    def test_a_name_assigned_twice_is_no_constant(self):
        self.assertEqual(module_integers("N = 1\nN = 2\n"), {})

    def test_with_integers(self):
        changed = with_integers(self.SOURCE, {"N": 8, "shape_1": 3, "width": 5, "M": 9})
        self.assertEqual(changed,
                         "N = 8\nshape = (32, 3, )\nheight, width = 16, 5\nname = 'x'\nflag = True\n"
                         "M: int = 9\nN2 = N\n")

    def test_lines_stay(self):
        source = "# ü\nN = (4 *\n     2)  # sizes\nx = N\n"
        self.assertEqual(with_integers(source, {"N": 6}).splitlines()[3], "x = N")

    LITERALS = ("def get_inputs():\n    x = torch.randn(1024, 3, 96).cuda()\n"
                "    return [x, torch.randint(0, 50, (1024,)), torch.full((17, 4), 12)]\n"
                "def get_init_inputs():\n    return [96, 33]\n")

    def test_literals_of_shapes_are_sizes(self):
        self.assertEqual(module_integers(self.LITERALS), {"literal_1024": 1024, "literal_96": 96, "literal_17": 17})
        self.assertEqual(with_integers(self.LITERALS, {"literal_1024": 64, "literal_96": 48}),
                         self.LITERALS.replace("1024", "64").replace("96", "48"))

    def test_literals_elsewhere_are_not(self):
        source = self.LITERALS.replace("get_inputs", "make")
        self.assertEqual(module_integers(source), {})
        self.assertEqual(with_integers(source, {"literal_1024": 64}), source)

    def test_a_literal_pins_a_size(self):
        answer = SizesOfAnswer("y = kernel(x, 4096, 512)\nblock_size = 256\n", {})
        sizes = {"rows": 4096, "tile": 256, "columns": 512, "other": 8192}
        self.assertEqual(answer.relies_on(sizes), (["rows", "columns"], ["rows"]))

    def test_literals_in_comments_and_docstrings_do_not(self):
        answer = SizesOfAnswer('"""For 4096 rows."""\n# 2048 columns\nx = 1  # 1024 * 3\n', {})
        self.assertEqual(answer.relies_on({"a": 4096, "b": 2048, "c": 3}), ([], []))

    def test_copied_sizes(self):
        source = "N = 4096\nM = 32\ndef get_inputs():\n    return N, 4096\ndef f():\n    return M\n"
        answer = SizesOfAnswer(source, {"N": 4096, "M": 64})
        self.assertEqual(answer.relies_on({"N": 4096}), ([], []))
        self.assertEqual(answer.followed, ["M"])
        self.assertEqual(answer.contradiction, "M")

    def test_divisors(self):
        self.assertEqual(SizesOfAnswer("t = 96; i = 3\n", {}).divisors(), [2, 4, 8, 16, 32, 96])
        self.assertIn(1024, SizesOfAnswer("float4* p; b = 256;", {}, python=False).divisors())


class Shrinking(unittest.TestCase):
    def test_halved(self):
        self.assertEqual(shrink.halved(4096, [2, 4, 32]), 2048)
        self.assertEqual(shrink.halved(1000, [2, 4, 8, 16]), 496)
        self.assertEqual(shrink.halved(32, [32]), 32)
        self.assertEqual(shrink.halved(4095, [2, 4]) % 2, 1)

    def shrunken(self, sizes, answer, valid=lambda sizes: True):
        def extents(sizes):
            return [list(sizes.values())]

        def work(sizes):
            elements = 1
            for size in sizes.values():
                elements *= size
            return elements if valid(sizes) else None

        return shrink.shrunken(sizes, work, extents, SizesOfAnswer(answer, {}))

    def test_divisors_are_kept(self):
        found, notes = self.shrunken({"rows": 4096, "columns": 393216}, "block = 256")
        self.assertEqual(notes, [])
        for sizes in found:
            self.assertEqual((sizes["rows"] % 256, sizes["columns"] % 256), (0, 0))
        self.assertLessEqual(found[-1]["rows"] * found[-1]["columns"], shrink.SHRUNKEN_WORK)

    def test_pinned_sizes_stay(self):
        found, notes = self.shrunken({"rows": 4096, "columns": 16384}, "n = 16384")
        self.assertEqual({sizes["columns"] for sizes in found}, {16384})
        self.assertIn("columns = 16384", notes[0])

    def test_a_literal_that_can_be_a_tile_pins_only_while_it_can_be_afforded(self):
        found, _ = self.shrunken({"rows": 1024, "columns": 1024, "depth": 512}, "n = 1024 + 512")
        self.assertTrue(found)

    def test_only_shapes_that_work(self):
        found, _ = self.shrunken({"a": 4096, "b": 4096}, "", lambda sizes: sizes["a"] == sizes["b"])
        self.assertTrue(found and all(sizes["a"] == sizes["b"] for sizes in found))

    def test_divisors_are_given_up_only_where_they_must_be(self):
        found, notes = self.shrunken({"batch": 128, "d": 512, "h": 512, "w": 512}, "block = 512")
        self.assertIn("up to 32", notes[0])
        self.assertTrue(all(sizes[name] % 32 == 0 for sizes in found for name in "dhw"))
        self.assertTrue(all(sizes["batch"] * sizes["d"] % 512 == 0 for sizes in found), found)

    def test_groups_stay_groups(self):
        found, _ = self.shrunken({"rows": 8192, "features": 8192, "num_groups": 256}, "")
        self.assertTrue(found)
        for sizes in found:
            self.assertEqual(sizes["features"] % sizes["num_groups"], 0)
            self.assertGreaterEqual(sizes["features"] // sizes["num_groups"], shrink.SMALLEST_GROUP)

    def test_nothing_to_shrink(self):
        self.assertEqual(self.shrunken({"a": 100003, "c": 1009}, "n = 100003; m = 1009"), ([], []))


class Extents(unittest.TestCase):
    def test_expressions(self):
        columns = {"H": [32, 16], "C": [8, 4]}
        self.assertEqual(expression_of([8, 4], columns), "C")
        self.assertEqual(expression_of([30, 14], columns), "H - 2")
        self.assertEqual(expression_of([96, 48], columns), "H * 3")
        self.assertEqual(expression_of([2, 1], columns), "H / 16")
        self.assertEqual(expression_of([256, 64], columns), "H * C")
        self.assertEqual(expression_of([31, 3], columns), "")

    def test_layout(self):
        def at(height):
            return Specimen({"x": ("f32", [8, height])}, {"out": ("f32", [height, height * height + 1])},
                            None, [], 0)

        contract = empty_contract("t")
        Layout([{"H": 16}, {"H": 4}], [at(16), at(4)]).fill(contract)
        self.assertEqual(contract.tensors["x"].shape, [8, "H"])
        self.assertEqual(contract.tensors["out"].shape, ["H", "out_1"])
        self.assertEqual(contract.shapes, [{"H": 16, "out_1": 257}, {"H": 4, "out_1": 17}])
        self.assertEqual(contract.dims["out_1"], Dim(17, 257))

    def test_the_witness_tells_equal_sizes_apart(self):
        def at(rows, columns):
            return Specimen({"x": ("f32", [rows, columns])}, {}, None, [], 0)

        contract = empty_contract("t")
        Layout([{"rows": 8, "columns": 8}], [at(8, 8)],
               ({"rows": 64, "columns": 32}, at(64, 32))).fill(contract)
        self.assertEqual(contract.tensors["x"].shape, ["rows", "columns"])


class SolExecBench(Folders):
    def test_contract(self):
        described = self.described("sol/solution_triton.json", "sol")
        self.assertEqual(described["format"], "sol-execbench")
        self.assertEqual(self.contract(), '''# 1 of 3 workload shapes are too large for the virtual GPU and not checked
title = "rms_norm_256"

[kernel]
args = ["x", "weight", "eps", "y"]
python = "assay_adapter.py:run"
returns = "void"

[dims]
hidden = 256
rows = { min = 1, max = 100000 }

[[shapes]]
rows = 7

[[shapes]]
rows = 512

[tensors.x]
dtype = "bf16"
shape = ["rows", "hidden"]
values = "real"

[tensors.weight]
dtype = "bf16"
shape = ["hidden"]
values = "real"

[tensors.y]
dtype = "bf16"
shape = ["rows", "hidden"]
role = "out"

[scalars.eps]
dtype = "f32"
values = [1e-05, 1e-06]

[reference]
torch = "problem/call.py:run"
accumulate = "f32"
math = "fast"

[inputs]
torch = "problem/call.py:make"

[require]
nonfinite = "warn"

[origin]
answer = "%s"
function = "answer/kernel.py:15"
''' % (PROBLEMS / "sol/solution_triton.json"))

    def test_sources_are_written_as_they_are(self):
        self.described("sol/solution_triton.json", "sol")
        solution = json.loads((PROBLEMS / "sol/solution_triton.json").read_text())
        self.assertEqual((self.folder / "out/answer/kernel.py").read_text(),
                         solution["sources"][0]["content"])
        definition = json.loads((PROBLEMS / "sol/definition.json").read_text())
        self.assertEqual((self.folder / "out/problem/reference.py").read_text(), definition["reference"])

    def test_a_pytorch_solution_needs_no_kernel(self):
        self.described("sol/solution_pytorch.json", "sol")
        self.assertIn('returns = "outputs"\n', self.contract())
        self.assertIn("own_kernel = false\n", self.contract())
        self.assertIn('args = ["x", "weight", "eps"]', self.contract())

    def test_too_large_constants_are_made_smaller(self):
        problem = self.copy("sol", **{"definition.json": {"axes": {
            "rows": {"type": "var"}, "hidden": {"type": "const", "value": 16777216}},
            "reference": "def run(x, weight, eps):\n    return x\n"}})
        described = describe.describe(str(PROBLEMS / "sol/solution_triton.json"), str(problem),
                                      self.folder / "out")
        self.assertIn("only_listed_shapes = true", self.contract())
        self.assertTrue(any("made smaller" in note for note in described["notes"]), described["notes"])

    def test_generated_integers_keep_to_listed_shapes(self):
        definition = json.loads((PROBLEMS / "sol/definition.json").read_text())
        definition["inputs"] = {"x": definition["inputs"]["x"],
                                "weight": {"shape": ["hidden"], "dtype": "int32"}}
        definition["reference"] = ("def make(axes, device):\n    return {}\n"
                                   "def run(x, weight):\n    return x\n")
        problem = self.copy("sol", **{"definition.json": {**definition, "custom_inputs_entrypoint": "make"}})
        (problem / "workload.jsonl").write_text(json.dumps(
            {"axes": {"rows": 7}, "inputs": {"x": {"type": "custom"}, "weight": {"type": "custom"}}}) + "\n")
        describe.describe(str(PROBLEMS / "sol/solution_triton.json"), str(problem), self.folder / "out")
        self.assertIn("only_listed_shapes = true", self.contract())
        self.assertIn('dtype = "i32"\nshape = ["hidden"]\nvalues = "generated"', self.contract())

    def test_refused(self):
        solution = json.loads((PROBLEMS / "sol/solution_triton.json").read_text())

        def with_spec(**spec):
            path = self.folder / "solution.json"
            path.write_text(json.dumps({**solution, "spec": {**solution["spec"], **spec}}))
            return path

        problem = PROBLEMS / "sol"
        self.refused("cute_dsl", with_spec(languages=["cute_dsl"]), problem)
        self.refused("language brainfuck is unknown", with_spec(languages=["brainfuck"]), problem)
        self.refused("FILE::FUNCTION", with_spec(entry_point="kernel.py"), problem)
        self.refused("not among its sources", with_spec(entry_point="other.py::run"), problem)
        self.refused("does not exist", self.folder / "none.json", problem)
        (self.folder / "broken.json").write_text("{")
        self.refused("not valid JSON, line 1", self.folder / "broken.json", problem)
        solution["sources"][0]["path"] = "../kernel.py"
        self.refused("without `..`", with_spec(entry_point="../kernel.py::run"), problem)

    def test_a_missing_workload_file(self):
        problem = self.copy("sol")
        (problem / "workload.jsonl").write_text(json.dumps({"axes": {"rows": 7}, "inputs": {
            "x": {"type": "safetensors", "path": "blob/x.safetensors", "tensor_key": "x"},
            "eps": {"type": "scalar", "value": 1}}}))
        self.refused("blob/x.safetensors is not below", PROBLEMS / "sol/solution_triton.json", problem)
        (problem / "workload.jsonl").unlink()
        self.refused("has no workload.jsonl", PROBLEMS / "sol/solution_triton.json", problem)

    def test_a_type_that_contracts_lack(self):
        definition = json.loads((PROBLEMS / "sol/definition.json").read_text())
        definition["inputs"]["x"]["dtype"] = "float4_e2m1fn_x2"
        problem = self.copy("sol", **{"definition.json": definition})
        self.refused("float4_e2m1fn_x2", PROBLEMS / "sol/solution_triton.json", problem)

    def test_a_reference_in_triton(self):
        reference = "import triton\n\n\ndef run(x, weight, eps):\n    return x\n"
        problem = self.copy("sol", **{"definition.json": {"reference": reference}})
        self.refused("written in Triton", PROBLEMS / "sol/solution_triton.json", problem)

    @needs_torch
    def test_reference_and_inputs(self):
        import torch

        self.described("sol/solution_pytorch.json", "sol")
        call = self.loaded("problem/call.py")
        made = call.make({"rows": 7, "hidden": 256}, 3)
        self.assertEqual({name: (tuple(value.shape), value.dtype) for name, value in made.items()},
                         {"x": ((7, 256), torch.bfloat16), "weight": ((256,), torch.bfloat16)})
        self.assertTrue(torch.equal(made["x"], call.make({"rows": 7, "hidden": 256}, 3)["x"]))
        self.assertFalse(torch.equal(made["x"], call.make({"rows": 7, "hidden": 256}, 4)["x"]))
        (expected,) = call.run(made["x"], made["weight"], 1e-6)
        sys.modules.pop("kernel", None)
        (answer,) = self.loaded("assay_adapter.py").run(made["x"], made["weight"], 1e-6)
        self.assertTrue(torch.equal(expected, answer))


class FlashInferBench(Folders):
    def test_constraints(self):
        described = self.described("flashinfer/solution.json", "flashinfer/definitions/gemm_64.json")
        self.assertEqual(described["format"], "flashinfer-bench")
        self.assertIn("M = { min = 16, max = 32, multiple_of = 16 }", self.contract())
        self.assertIn('shape = ["M + 1"]\nvalues = "integers(-1024, 1023)"', self.contract())
        self.assertNotIn("len", self.contract())

    def test_tvm_ffi_is_refused(self):
        solution = json.loads((PROBLEMS / "flashinfer/solution.json").read_text())
        del solution["spec"]["binding"]
        (self.folder / "solution.json").write_text(json.dumps(solution))
        self.refused('set spec.binding to "torch"', self.folder / "solution.json",
                     PROBLEMS / "flashinfer/definitions/gemm_64.json")


class KernelBench(Folders):
    def test_refused(self):
        problem = PROBLEMS / "kernelbench/problem.py"
        (self.folder / "answer.py").write_text("class Other: pass\n")
        self.refused("no class ModelNew", self.folder / "answer.py", problem)
        (self.folder / "answer.py").write_text("class ModelNew(:\n")
        self.refused("the answer is not valid Python, line 1", self.folder / "answer.py", problem)
        (self.folder / "problem.py").write_text("x = 1\n")
        self.refused("not a problem of a known benchmark", self.folder / "answer.py", self.folder / "problem.py")
        self.refused("contains no problem", self.folder / "answer.py", self.folder)
        self.refused("does not exist", self.folder / "answer.py", self.folder / "none")

    @needs_torch
    def test_contract(self):
        described = self.described("kernelbench/answer.py", "kernelbench/problem.py")
        self.assertEqual(described["format"], "kernelbench")
        self.assertEqual(self.contract(), '''# the benchmark's own shape is not checked: 738,414,602 elements and multiply-adds are too many for the virtual GPU; the shapes below keep divisors that the answer may rely on
title = "problem"
only_listed_shapes = true

[kernel]
args = ["x", "targets", "batch_size", "features"]
python = "assay_adapter.py:run"
returns = "outputs"

[dims]
batch_size = { min = 64, max = 256 }
features = { min = 64, max = 256 }

[[shapes]]
batch_size = 256
features = 256

[[shapes]]
batch_size = 64
features = 64

[tensors.x]
dtype = "f32"
shape = ["batch_size", "features"]
values = "positive"

[tensors.targets]
dtype = "i64"
shape = ["batch_size"]
values = "index(10)"

[tensors.out0]
dtype = "f32"
shape = ["batch_size"]
role = "out"

[tensors.out1]
dtype = "f32"
shape = ["batch_size", 10]
role = "out"

[tensors.out2]
dtype = "i64"
shape = ["batch_size"]
role = "out"

[reference]
torch = "problem/call.py:run"
accumulate = "f32"
math = "standard"

[inputs]
torch = "problem/call.py:make"

[require]
nonfinite = "warn"

[origin]
answer = "%s"
function = "answer/shape0/answer.py:15"
files = { "answer/shape0/answer.py" = "%s", "answer/shape1/answer.py" = "%s" }
''' % ((PROBLEMS / "kernelbench/answer.py",) * 3))

    @needs_torch
    def test_sizes_that_the_answer_uses_by_name_follow(self):
        self.described("kernelbench/answer.py", "kernelbench/problem.py")
        text = (self.folder / "out/answer/shape0/answer.py").read_text()
        self.assertIn("\nfeatures = 256\n", text)
        self.assertIn("batch_size = 4096", text)
        self.assertEqual((self.folder / "out/problem/problem.py").read_text(),
                         (PROBLEMS / "kernelbench/problem.py").read_text())

    @needs_torch
    def test_reference_and_inputs(self):
        import torch

        self.described("kernelbench/answer.py", "kernelbench/problem.py")
        call = self.loaded("problem/call.py")
        dims = {"batch_size": 64, "features": 64}
        made = call.make(dims, 5)
        outputs = call.run(made["x"], made["targets"], **dims)
        self.assertEqual([tuple(output.shape) for output in outputs], [(64,), (64, 10), (64,)])
        torch.manual_seed(42)
        linear = torch.nn.Linear(64, 10)
        self.assertTrue(torch.equal(outputs[1], torch.relu(linear(made["x"]))))

    @needs_torch
    def test_triton_products_may_use_tf32(self):
        answer = (PROBLEMS / "cuda_l1/rows.jsonl").read_text().splitlines()[0]
        row = json.loads(answer)
        (self.folder / "problem.py").write_text(row["ref_code"])
        for call, allowed in (("tl.dot(a, b)", True), ('tl.dot(a, b, input_precision="ieee")', False)):
            (self.folder / "answer.py").write_text(row["custom_code"] + f"\ndef kernel(a, b):\n    return {call}\n")
            out = self.folder / "out"
            described = describe.describe(str(self.folder / "answer.py"), str(self.folder / "problem.py"), out)
            self.assertEqual("allow_tf32 = True" in (out / "problem/call.py").read_text(), allowed)
            self.assertEqual(any("TF32" in note for note in described["notes"]), allowed)

    @needs_torch
    def test_a_random_reference_is_refused(self):
        source = (PROBLEMS / "kernelbench/problem.py").read_text().replace("torch.log(x.sum(-1))",
                                                                           "nn.functional.dropout(x)")
        (self.folder / "problem.py").write_text(source)
        self.refused("different results for the same inputs", PROBLEMS / "kernelbench/answer.py",
                     self.folder / "problem.py")

    @needs_torch
    def test_a_size_that_the_answer_relies_on_stays(self):
        answer = (PROBLEMS / "kernelbench/answer.py").read_text().replace("assert size == features",
                                                                          "assert size == 16384")
        (self.folder / "answer.py").write_text(answer)
        describe.describe(str(self.folder / "answer.py"), str(PROBLEMS / "kernelbench/problem.py"),
                          self.folder / "out")
        self.assertIn('shape = ["batch_size", 16384]', self.contract())

    @needs_torch
    def test_device_cuda_in_the_problem(self):
        source = (PROBLEMS / "kernelbench/problem.py").read_text().replace("4096", "8").replace("16384", "32")
        source = source.replace("torch.rand(batch_size, features)",
                                "torch.rand(batch_size, features, device='cuda').cuda()")
        (self.folder / "problem.py").write_text(source)
        (self.folder / "answer.py").write_text("class ModelNew: pass\n")
        describe.describe(str(self.folder / "answer.py"), str(self.folder / "problem.py"),
                          self.folder / "out")
        self.assertEqual(self.loaded("problem/call.py").make({}, 1)["x"].device.type, "cpu")


class RobustKBench(Folders):
    @needs_torch
    def test_forward(self):
        import torch

        described = self.described("robust_kbench/forward.cu", "robust_kbench")
        self.assertEqual(described["format"], "robust-kbench")
        self.assertIn('args = ["x", "weight", "batch_size"]', self.contract())
        self.assertIn("[[shapes]]\nbatch_size = 8\n\n[[shapes]]\nbatch_size = 2\n", self.contract())
        self.assertIn("2 of 4 settings are too large", self.contract())
        self.assertIn('[tensors.weight]\ndtype = "f32"\nshape = [512]', self.contract())
        call = self.loaded("problem/call.py")
        made = call.make({"batch_size": 2}, 1)
        (output,) = call.run(made["x"], made["weight"], 2)
        self.assertTrue(torch.equal(output, made["x"] * made["weight"] * 3.0))

    @needs_torch
    def test_backward(self):
        import torch

        self.described("robust_kbench/backward.cu", "robust_kbench")
        self.assertIn('args = ["grad_output", "x", "weight", "batch_size"]', self.contract())
        self.assertIn('[tensors.grad_weight]\ndtype = "f32"\nshape = [512]\nrole = "out"', self.contract())
        call = self.loaded("problem/call.py")
        made = call.make({"batch_size": 2}, 1)
        grad_x, grad_weight = call.run(made["grad_output"], made["x"], made["weight"], 2)
        self.assertTrue(torch.allclose(grad_x, made["grad_output"] * made["weight"] * 3.0))
        self.assertTrue(torch.allclose(grad_weight, (made["grad_output"] * made["x"] * 3.0).sum(0)))

    def test_refused(self):
        self.refused("is not a CUDA file", PROBLEMS / "kernelbench/answer.py", PROBLEMS / "robust_kbench")


class CudaL1(Folders):
    ROWS = PROBLEMS / "cuda_l1/rows.jsonl"

    def test_rows(self):
        self.assertEqual(cuda_l1.row(self.ROWS, "1").title, "level 1 task 1")
        self.assertEqual(cuda_l1.row(self.ROWS, "2/7").title, "level 2 task 7")
        self.assertEqual(recognise(f"{self.ROWS}:2", str(self.ROWS)).format, "cuda-l1")

    def test_levels(self):
        rows = [json.loads(line) for line in self.ROWS.read_text().splitlines()]
        path = self.folder / "levels.json"
        path.write_text(json.dumps({"1": [{"task_id": 1, "ref_code": rows[0]["ref_code"],
                                           "custom_code": "x = 1"}]}, indent=2))
        self.assertEqual(cuda_l1.row(path, "1/1").answer, "x = 1")

    def test_refused(self):
        self.refused("has 2 problems; name one", self.ROWS, self.ROWS)
        self.refused("has no row 3", self.ROWS, self.ROWS, "3")
        self.refused("has no answer", self.ROWS, self.ROWS, "2")
        (self.folder / "other.jsonl").write_text('{"a": 1}\n')
        self.refused("not a CUDA-L1 file", self.ROWS, self.folder / "other.jsonl", "1")

    @needs_torch
    def test_contract(self):
        described = self.described("cuda_l1/rows.jsonl", "cuda_l1/rows.jsonl", "1")
        self.assertEqual(described["format"], "cuda-l1")
        self.assertIn('title = "level 1 task 1"', self.contract())
        self.assertIn("shape = [8, 32]", self.contract())

    @needs_torch
    def test_folder(self):
        pair = cuda_l1.row(self.ROWS, "1")
        folder = self.folder / "1/1"
        folder.mkdir(parents=True)
        (folder / "ref_code.py").write_text(pair.problem)
        (folder / "custom_code.py").write_text(pair.answer)
        described = describe.describe(str(folder / "custom_code.py"), str(folder), self.folder / "out")
        self.assertEqual(described["format"], "cuda-l1")


class CommandLine(Folders):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = describe.main(["--out", str(self.folder / "out"), *map(str, arguments)])
        return status, out.getvalue(), err.getvalue()

    def test_success(self):
        status, out, err = self.run_main("--answer", PROBLEMS / "sol/solution_triton.json", "--problem",
                                         PROBLEMS / "sol")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(json.loads(out)["contract"], str(self.folder / "out/contract.toml"))

    def test_failure(self):
        status, out, err = self.run_main("--answer", PROBLEMS / "sol/solution_triton.json", "--problem",
                                         self.folder / "none")
        self.assertEqual((status, out, err), (2, "", f"the problem {self.folder}/none does not exist\n"))


if __name__ == "__main__":
    unittest.main()
