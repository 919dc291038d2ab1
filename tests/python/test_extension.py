"""C++ extensions on the virtual GPU: assay.virtual.extension and the light torch header.

Most tests need neither torch nor nvcc: flags, cache, declarations from schemas, what a compiler's error is
about, and the header itself with the host compiler. TestOnVirtualGpu builds extensions and calls them, each in a
Python process of its own.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support
from assay.virtual import extension, extension_build, extension_nvcc, extension_operators
from assay.virtual.extension_build import Build, Source

CUDA_INCLUDE = pathlib.Path(extension_build.cuda_home()) / "include"
CXX = shutil.which(extension_build.cxx())
needs_cuda_headers = unittest.skipUnless(
    CXX and (CUDA_INCLUDE / "cuda_runtime.h").exists(), "a C++ compiler or the headers of CUDA were not found"
)
needs_virtual_gpu = unittest.skipUnless(
    (support.LIBRARIES / "libcuda.so.1").exists(), "libcuda.so.1 has not been built"
)


class TestFlags(unittest.TestCase):
    def test_nvcc_flags_lose_architecture_and_runtime(self):
        given = ["-O3", "-arch=sm_80", "-gencode", "arch=compute_75,code=sm_75", "--use_fast_math -DX=1", "-G"]
        given += ["-cudart", "static", "-cudart=static", "-lcublas", "-Xcompiler", "-march=native"]
        kept = ["-O3", "--use_fast_math", "-DX=1", "-Xcompiler", "-march=native"]
        self.assertEqual(extension_build.nvcc_flags(given), kept)

    def test_architecture_is_the_default_unless_one_with_features_is_named(self):
        plain = ["-arch=sm_120", "-gencode=arch=compute_80,code=sm_80"]
        self.assertEqual(extension_build.architecture(plain), "90")
        self.assertEqual(extension_build.architecture(["-gencode=arch=compute_90a,code=sm_90a"]), "90a")

    def test_link_flags_lose_the_static_runtime_and_libraries_of_machine_code(self):
        static = ["-lcudart_static", "-l:libcudart_static.a", "/a/libcudart_static.a"]
        given = [*static, "-lcublas", "-L/x -lm", "-lcuda"]
        self.assertEqual(extension_build.link_flags(given), ["-L/x", "-lm", "-lcuda"])


    def test_a_standard_is_named_unless_the_caller_names_a_recent_one(self):
        self.assertEqual(extension_build.with_standard(["-O2"], "c++17"), ["-std=c++17", "-O2"])
        self.assertEqual(extension_build.with_standard(["-std=c++14"], "c++17"), ["-std=c++17"])
        self.assertEqual(extension_build.with_standard(["-std=c++20", "-O2"], "c++17"), ["-std=c++20", "-O2"])

    def test_parts_of_the_header_that_are_not_mentioned_are_left_out(self):
        flags = extension_build.feature_flags
        self.assertEqual(flags({"x", "PYBIND11_MODULE"}), ["-DASSAY_NO_HALF", "-DASSAY_NO_LIBRARY"])
        half = "AT_DISPATCH_FLOATING_TYPES_AND_HALF"
        self.assertEqual(flags({half, "TORCH_LIBRARY", "PYBIND11_MODULE"}), [])
        self.assertEqual(flags({"kBFloat16", "getCurrentCUDABlasHandle"}), ["-DASSAY_USES_CUBLAS"])
        self.assertIn("-DASSAY_NO_BINDING", flags({"x", "PYBIND11_MODULE"}, {"x"}))
        for name in ("PYBIND11_MODULE", "py"):
            self.assertNotIn("-DASSAY_NO_BINDING", flags({name}, {name, "x"}))
        needed = extension_build.standard_headers({"cout", "map", "x"})
        self.assertEqual(needed, "#include <iostream>\n#include <map>\n")


class TestSources(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def test_identifiers_leave_comments_out(self):
        text = "x.sum(0); // x.mean()\n/* torch::relu */ auto y = torch::zeros({2});"
        self.assertEqual(extension_build.identifiers(text), {"x", "sum", "auto", "y", "torch", "zeros"})

    def test_included_files_are_followed(self):
        self.write("b.h", '#include "c.h"\nint b;')
        self.write("c.h", '#include "b.h"\nint c;')
        source = Source(self.write("a.cu", '#include "b.h"\n// #include "d.h"\n#include <vector>\n'))
        self.write("d.h", "int d;")
        found = extension_build.included_files(source, [])
        self.assertEqual(sorted(os.path.basename(path) for path in found), ["b.h", "c.h"])

    def test_the_cache_key_depends_on_everything_that_decides_the_result(self):
        header = self.write("b.h", "int b;")
        build = Build("x", (Source(self.write("a.cu", '#include "b.h"')),))
        keys = {extension_build.cache_key(build, ["1"])}
        self.assertEqual(keys, {extension_build.cache_key(build, ["1"])})
        keys.add(extension_build.cache_key(build, ["2"]))
        keys.add(extension_build.cache_key(build._replace(cuda_cflags=("-O0",)), ["1"]))
        keys.add(extension_build.cache_key(build._replace(name="y"), ["1"]))
        pathlib.Path(header).write_text("int b2;")
        keys.add(extension_build.cache_key(build, ["1"]))
        pathlib.Path(build.sources[0].path).write_text('#include "b.h"\n')
        keys.add(extension_build.cache_key(build, ["1"]))
        self.assertEqual(len(keys), 6)

    def test_processes_that_build_the_same_wait_for_each_other(self):
        compiler = self.write(
            "c++",
            f"#!{sys.executable}\n"
            "import sys, time\n"
            f"open({str(self.folder / 'log')!r}, 'a').write('called\\n')\n"
            "time.sleep(0.3)\n"
            "open(sys.argv[sys.argv.index('-o') + 1], 'w').close()\n",
        )
        os.chmod(compiler, 0o755)
        program = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from assay.virtual.extension_build import *\n"
            "build = Build('x', (Source(sys.argv[2] + '/a.cpp', 'int a;'),), with_cuda=False)\n"
            "print(build_library(build, sys.argv[2], lambda names: ('', ''), 'c++17'))\n"
        )
        target = str(self.folder / "build")
        command = [sys.executable, "-c", program, str(support.ROOT / "python"), target]
        environment = dict(os.environ, CXX=compiler)
        started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        for process in started:
            self.assertEqual(process.communicate()[0], os.path.join(target, "x.so") + "\n")
        self.assertEqual((self.folder / "log").read_text().count("called"), 2)  # one source, one link

    def test_a_source_in_the_callers_file_keeps_its_lines(self):
        caller = self.write("answer.py", 'import x\n\nsource = """\n__global__ void k() {}\n"""\n')
        placed = extension._placed(["\n__global__ void k() {}\n", "int made();"], caller, "cuda.cu")
        self.assertEqual(placed[0], f'#line 3 "{caller}"\n\n__global__ void k() {{}}\n')
        self.assertEqual(placed[1], "int made();")

    def test_a_source_that_was_put_together_keeps_the_lines_that_it_has(self):
        kernel = ["", "__global__ void k(float* x) {", "  int i = threadIdx.x;", "  BODY", "  x[i] = 1;", "}", ""]
        caller = self.write("answer.py", 'import x\n\nsource = r"""' + "\n".join(kernel) + '"""\n')

        def lines_of(text):
            """What the preprocessor makes of it: {line of the text: number}."""
            numbers, number = {}, None
            for line in text.split("\n"):
                if line.startswith("#line"):
                    number = int(line.split()[1]) - 1
                elif number is not None:
                    number += 1
                    numbers[line] = number
            return numbers

        def placed(body):
            return lines_of(extension._placed(["\n".join(kernel).replace("BODY", body)], caller, "cuda.cu")[0])

        changed = placed("__syncthreads();")
        self.assertEqual(changed["  x[i] = 1;"], 7)
        self.assertEqual(changed["  __syncthreads();"], 6)
        longer = placed("a();\n  b();\n  c();")
        self.assertEqual((longer["  a();"], longer["  b();"], longer["  c();"], longer["  x[i] = 1;"]), (6, 6, 6, 7))
        foreign = extension._placed(["void other() {\n  a();\n}\n"], caller, "cuda.cu")
        self.assertEqual(foreign, ["void other() {\n  a();\n}\n"])

    def test_no_line_directive_within_a_macro(self):
        macro = ["#define K(NAME) \\", "  __global__ void NAME() { \\", "  BODY \\", "  }", "K(k)", "void f();"]
        caller = self.write("answer.py", 'source = """\n' + "\n".join(macro).replace("\\", "\\\\") + '\n"""\n')
        text = "\n".join(["", *macro, ""]).replace("BODY", "a(); \\\n  b();")
        placed = extension._placed([text], caller, "cuda.cu")[0]
        self.assertIn("#line", placed)
        lines = placed.split("\n")
        for before, line in zip(lines, lines[1:]):
            self.assertFalse(before.endswith("\\") and line.startswith("#line"), placed)


NVCC_STEPS = """\
#$ _SPACE_=
#$ CICC_PATH=/cuda/nvvm/bin
#$ gcc -E -x c++ "a.cu" -o "k/a.cpp4.ii"
#$ cudafe++ --gen_c_file_name "k/a.cpp" --gen_module_id_file --module_id_file_name "k/a.module_id" "k/a.cpp4.ii"
#$ gcc -D__CUDA_ARCH__=900 -E -x c++ "a.cu" -o "k/a.cpp1.ii"
#$ "$CICC_PATH/cicc" --module_id_file_name "k/a.module_id" "k/a.cpp1.ii" -o "k/a.ptx"
#$ ptxas -arch=compute_90 "k/a.ptx"
#$ fatbinary --create="k/a.fatbin"
#$ gcc -c -x c++ "k/a.cpp" -o "a.o"
"""


class TestSteps(unittest.TestCase):
    """nvcc's steps, those for the device beside those for the host."""

    def test_the_two_compilations_are_told_apart(self):
        steps = extension_nvcc.parse(NVCC_STEPS)
        self.assertEqual([command.split()[0] for command in steps.host], ["gcc", "cudafe++"])
        self.assertEqual([command.split()[0] for command in steps.device],
                         ["gcc", '"$CICC_PATH/cicc"', "ptxas", "fatbinary"])
        self.assertEqual((steps.last.split()[1], steps.name_file), ("-c", "k/a.module_id"))
        self.assertEqual(steps.variables, {"_SPACE_": "", "CICC_PATH": "/cuda/nvvm/bin"})
        self.assertNotIn("--gen_module_id_file", steps.host[1])

    def test_other_lists_are_left_to_nvcc(self):
        without_device = "\n".join(line for line in NVCC_STEPS.splitlines() if "cicc" not in line)
        two = NVCC_STEPS.replace("#$ ptxas", '#$ "$CICC_PATH/cicc" -arch compute_100\n#$ ptxas')
        for listing in ("", "nvcc fatal: no input files", without_device, two):
            self.assertIsNone(extension_nvcc.parse(listing))

    @unittest.skipUnless(shutil.which("nvcc"), "nvcc was not found")
    def test_the_object_is_complete_and_an_error_is_said_once(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "a.cu"), os.path.join(folder, "a.o")
            command = [extension_build.nvcc(), "-gencode=arch=compute_90,code=compute_90", "-c", source, "-o", target]
            kernel = "__device__ static int count; __global__ void k(int* x) { *x = %s + count; }"
            pathlib.Path(source).write_text(kernel % "1")
            status, output = extension_nvcc.compile(command, source, folder, dict(os.environ))
            self.assertEqual(status, 0, output)
            names = subprocess.run(["nm", "-C", target], capture_output=True, text=True).stdout
            self.assertIn("k(int*)", names)
            pathlib.Path(source).write_text(kernel % "nothing")
            status, output = extension_nvcc.compile(command, source, folder, dict(os.environ))
            self.assertNotEqual(status, 0)
            self.assertEqual(output.count('identifier "nothing" is undefined'), 1, output)
            self.assertEqual(sorted(os.listdir(folder)), ["a.cu", "a.o"])


class TestErrors(unittest.TestCase):
    """Which errors of a compiler lead to torch's own headers."""

    def test_names_of_torch_do(self):
        for name, line in (
            ("nn", 'cuda.cu(4): error: namespace "torch" has no member "nn"'),
            ("special_thing", 'cuda.cu(5): error: class "at::Tensor" has no member "special_thing"'),
            ("AT_DISPATCH_V9", 'cuda.cu(5): error: identifier "AT_DISPATCH_V9" is undefined'),
            ("ATen/x.h", "main.cpp:1:10: fatal error: ATen/x.h: No such file or directory"),
            (
                "nn",
                'a.cu(7): error: name followed by "::" must be a class or namespace name\n'
                "    auto y = torch::nn::functional::relu(x);\n"
                "                    ^\n",
            ),
            (
                "something that the source uses",
                'a.cu(4): error: no instance of overloaded function "__ldg" matches the argument list\n'
                "            argument types are: (const c10::Half *)\n",
            ),
            ("class_", "main.cpp:3:4: error: ‘class_’ is not a member of ‘pybind11’"),
            ("foo", "main.cpp:3:4: error: ‘class at::Tensor’ has no member named ‘foo’"),
        ):
            with self.subTest(name):
                self.assertEqual(extension.missing_name(line), name)

    def test_names_of_the_source_do_not(self):
        for line in (
            "main.cpp:4:46: error: ‘forward’ was not declared in this scope; did you mean ‘std::forward’?",
            'cuda.cu(9): error: identifier "blockSize" is undefined',
            'cuda.cu(9): error: expected a ";"',
            'a.cu(7): error: name followed by "::" must be a class or namespace name\n  my::f(torch::kInt);\n  ^\n',
            "cuda.cu(9): warning #177-D: variable of torch::Tensor was declared but never referenced",
            "main.cpp:9:6: error: redefinition of ‘void assay_module_body(pybind11::module_&)’",
        ):
            with self.subTest(line):
                self.assertIsNone(extension.missing_name(line))


class TestDeclarations(unittest.TestCase):
    """C++ declarations from torch's schemas."""

    def declare(self, schema):
        parsed = extension_operators.parse_schema(schema)
        return extension_operators.method_declaration(parsed), extension_operators.function_declaration(parsed)

    def test_arguments_defaults_and_overload(self):
        method, function = self.declare(
            "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) "
            "-> Tensor"
        )
        self.assertEqual(
            method,
            "Tensor sum(OptionalIntArrayRef dim_, bool keepdim_ = false, "
            "std::optional<ScalarType> dtype_ = std::nullopt) const "
            '{ return assay::Call("sum.dim_IntList")(*this)(dim_)(keepdim_)(dtype_).result<Tensor>(); }',
        )
        self.assertIn("inline Tensor sum(const Tensor& self_, OptionalIntArrayRef dim_, ", function)

    def test_factories_take_tensor_options(self):
        method, function = self.declare(
            "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
            "bool? pin_memory=None) -> Tensor"
        )
        self.assertIsNone(method)
        self.assertEqual(
            function,
            "inline Tensor zeros(IntArrayRef size_, const TensorOptions& options = {}) "
            '{ return assay::Call("zeros")(size_)(options).result<Tensor>(); }',
        )

    def test_operators_that_change_a_tensor_return_a_reference_to_it(self):
        method, function = self.declare("aten::relu_(Tensor(a!) self) -> Tensor(a!)")
        self.assertEqual(
            method,
            "Tensor& relu_() const "
            '{ return assay::Call("relu_")(*this).into(const_cast<Tensor&>(*this)); }',
        )
        self.assertTrue(function.startswith("inline Tensor& relu_(Tensor& self_) "))

    def test_out_comes_first(self):
        method, function = self.declare("aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)")
        self.assertIsNone(method)
        self.assertEqual(
            function,
            "inline Tensor& mm_out(Tensor& out_, const Tensor& self_, const Tensor& mat2_) "
            '{ return assay::Call("mm.out")(self_)(mat2_)(out_).into(out_); }',
        )

    def test_self_may_come_later(self):
        method, _ = self.declare("aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor")
        self.assertIn('assay::Call("where.self")(condition_)(*this)(other_)', method)

    def test_tuples_lists_and_defaults_that_cpp_lacks(self):
        for schema, declared in (
            (
                "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
                "std::tuple<Tensor, Tensor> max(int64_t dim_, bool keepdim_ = false) const",
            ),
            (
                "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
                "std::vector<Tensor> split(int64_t split_size_, int64_t dim_ = 0) const",
            ),
            (
                "aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
                "Tensor var(OptionalIntArrayRef dim_, bool unbiased_, bool keepdim_ = false) const",
            ),
        ):
            with self.subTest(schema):
                self.assertTrue(self.declare(schema)[0].startswith(declared))

    def test_types_without_a_cpp_form_are_left_out(self):
        self.assertEqual(self.declare("aten::f(Tensor self, Generator? generator=None) -> Tensor"), (None, None))


@needs_cuda_headers
class TestHeader(unittest.TestCase):
    """The light header with the host compiler."""

    def compile(self, text, *flags):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "a.cpp")
            pathlib.Path(source).write_text(text)
            command = [CXX, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", extension_build.INCLUDE_FOLDER]
            command += ["-isystem", str(CUDA_INCLUDE), source, *flags]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
            )
            self.assertEqual(done.returncode, 0, done.stdout[:3000])
            if "-fsyntax-only" not in flags:
                self.assertEqual(subprocess.run([os.path.join(folder, "a.out")]).returncode, 0)

    def test_every_public_header_compiles(self):
        root = pathlib.Path(extension_build.INCLUDE_FOLDER)
        headers = [path.relative_to(root) for path in sorted(root.rglob("*.h")) if path.parts[-3] != "assay"]
        self.assertGreater(len(headers), 40)
        self.compile("".join(f"#include <{path}>\n" for path in headers), "-fsyntax-only")

    @support.needs_torch
    def test_every_operator_of_the_installed_torch_can_be_declared(self):
        import torch

        all_names = torch._C._dispatch_get_all_op_names()
        names = {name[6:].split(".")[0] for name in all_names if name.startswith("aten::")}
        names |= {name + "_out" for name in names}
        methods, functions = extension_operators.installed_declarations(names)
        self.assertGreater(methods.count("\n"), 400)
        self.assertGreater(functions.count("\n"), 1500)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "assay_methods.inc").write_text(methods)
            pathlib.Path(folder, "assay_functions.inc").write_text(functions)
            self.compile("#include <torch/types.h>\n", "-fsyntax-only", "-I", folder)

    def test_16_bit_floats_convert_as_the_compiler_converts(self):
        self.compile(
            """
            #include <c10/util/Half.h>
            #include <cmath>
            int main() {
              for (uint32_t bits = 0; bits < 65536; ++bits) {
                const c10::Half half(uint16_t(bits), c10::Half::from_bits());
                const float value = half;
                if (std::isnan(value)) continue;
                if (value != float(assay::bits_as<_Float16>(uint16_t(bits)))) return 1;
                for (float near : {value, std::nextafterf(value, 1e30f), value * 1.0004883f}) {
                  if (c10::Half(near).x != assay::bits_as<uint16_t>(_Float16(near))) return 2;
                }
                const c10::BFloat16 wide(uint16_t(bits), c10::BFloat16::from_bits());
                if (!std::isnan(float(wide)) && c10::BFloat16(float(wide)).x != bits) return 3;
              }
              if (c10::BFloat16(1.00390625f).x != 0x3f80) return 4;  // ties go to even
              if (c10::BFloat16(1.01171875f).x != 0x3f82) return 4;
              const c10::Half one(1.0f);
              static_assert(std::is_same_v<decltype(one + one), c10::Half>);
              static_assert(std::is_same_v<decltype(one + 1.0f), float>);
              static_assert(std::is_same_v<decltype(one * 2), c10::Half>);
              return std::numeric_limits<c10::Half>::max() == 65504.0f ? 0 : 5;
            }
            """
        )


@support.needs_torch_cuda
@support.needs_nvcc
@needs_virtual_gpu
class TestOnVirtualGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.TemporaryDirectory(prefix="assay-extensions-")
        cls.addClassCleanup(cls.cache.cleanup)

    def run_script(self, text):
        """Runs a script on the virtual GPU; it must succeed."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            pathlib.Path(path).write_text(textwrap.dedent(text))
            package = str(support.ROOT / "python")
            environment = dict(
                os.environ,
                LD_PRELOAD=f"{support.LIBRARIES}/libcudart.so.13:{support.LIBRARIES}/libcuda.so.1",
                LD_LIBRARY_PATH=str(support.LIBRARIES),
                PYTHONPATH=os.pathsep.join([os.path.join(package, "assay", "site"), package]),
                PYTORCH_NO_CUDA_MEMORY_CACHING="1",
                TORCH_EXTENSIONS_DIR=self.cache.name,
                OMP_NUM_THREADS="1",
            )
            options = dict(cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            done = subprocess.run([sys.executable, path], env=environment, **options)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            return done.stdout

    def test_a_kernel_with_inline_source(self):
        self.run_script(
            '''
            import torch
            from torch.utils.cpp_extension import load_inline

            SOURCE = """
            #include <ATen/cuda/CUDAContext.h>
            template <class T>
            __global__ void scale(const T* x, T* y, float factor, int n) {
              const int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] = x[i] * static_cast<T>(factor);
            }
            __global__ void rows(at::PackedTensorAccessor32<float, 2, at::RestrictPtrTraits> x, float* y) {
              float sum = 0;
              for (int j = 0; j < x.size(1); ++j) sum += x[blockIdx.x][j];
              y[blockIdx.x] = sum;
            }
            torch::Tensor scaled(torch::Tensor x, double factor) {
              TORCH_CHECK(x.is_cuda(), "x must be on the GPU, not on ", x.device());
              auto y = torch::empty_like(x);
              const int n = x.numel();
              AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "scaled", [&] {
                scale<scalar_t><<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
                    x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), factor, n);
              });
              C10_CUDA_KERNEL_LAUNCH_CHECK();
              return y;
            }
            torch::Tensor row_sums(const torch::Tensor& x) {
              auto options = torch::TensorOptions().dtype(torch::kFloat32).device(x.device());
              auto y = torch::zeros({x.size(0)}, options);
              auto accessor = x.packed_accessor32<float, 2, torch::RestrictPtrTraits>();
              rows<<<x.size(0), 1>>>(accessor, y.data_ptr<float>());
              return y;
            }
            """
            DECLARED = """
            torch::Tensor scaled(torch::Tensor x, double factor);
            torch::Tensor row_sums(const torch::Tensor& x);
            """
            module = load_inline("kernels", DECLARED, SOURCE, functions=["scaled", "row_sums"],
                                 extra_cuda_cflags=["-O3", "-arch=sm_80"])
            for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
                x = torch.randn(1000, dtype=dtype)
                assert torch.equal(module.scaled(x.cuda(), 2).cpu(), x * 2), dtype
            x = torch.randn(8, 6)
            torch.testing.assert_close(module.row_sums(x.t().cuda()).cpu(), x.t().sum(1))
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                y = module.scaled(x.cuda(), 3.0)
            stream.synchronize()
            torch.testing.assert_close(y.cpu(), x * 3)
            for wrong, text in ((x, "x must be on the GPU, not on cpu"),
                                (x.cuda().int(), "\\"scaled\\" not implemented for 'Int'")):
                try:
                    module.scaled(wrong, 1.0)
                except RuntimeError as error:
                    assert str(error) == text, error
                else:
                    raise AssertionError(text)
            try:
                module.row_sums(x.cuda().double())
            except RuntimeError as error:
                assert str(error) == "expected scalar type Float but found Double", error
            '''
        )

    def test_bindings(self):
        """Arguments, results and errors as with pybind11; no CUDA source."""
        self.run_script(
            '''
            import torch
            from torch.utils.cpp_extension import load_inline

            SOURCE = """
            #include <map>
            torch::Tensor same(torch::Tensor x) { return x; }
            torch::Tensor changed(torch::Tensor x) { x.add_(1); return x; }
            std::string kinds(int64_t i, double d, bool b, std::string s) {
              return std::to_string(i) + " " + std::to_string(d) + " " + std::to_string(b) + " " + s;
            }
            std::tuple<torch::Tensor, int, std::vector<double>> several(const torch::Tensor& x) {
              return {x, 2, {1.5, 2.5}};
            }
            std::vector<torch::Tensor> halves(std::vector<torch::Tensor> all) {
              return {all.at(0), all.at(1) * 0.5};
            }
            bool given(c10::optional<torch::Tensor> x) { return x.has_value() && x->defined(); }
            int64_t product(at::IntArrayRef sizes) { return c10::multiply_integers(sizes); }
            torch::Tensor undefined() { return torch::Tensor(); }
            int over(int) { return 1; }
            int over_text(std::string) { return 2; }
            void fail(int how) {
              if (how == 0) throw std::invalid_argument("value");
              if (how == 1) throw std::out_of_range("index");
              if (how == 2) TORCH_CHECK_INDEX(false, "torch index");
              TORCH_CHECK(how != 3);
              torch::ones({2, 3}).matmul(torch::ones({2, 3}));
            }
            torch::Tensor operators(torch::Tensor a, torch::Tensor b) {
              auto c = torch::cat({a, b}, 0).to(torch::kFloat64).t().contiguous();
              c.index_put_({0, torch::indexing::Slice(0, 2)}, 7);
              c[1][0] = 5;
              return (c - c.mean({1}, true)).clamp(-10, 2.5).sum(0) / 2;
            }
            std::string described(torch::Tensor x) {
              return c10::str(x.sizes(), x.strides(), x.dtype(), x.scalar_type(), x.device(), x.is_contiguous(),
                              x.element_size());
            }
            std::map<std::string, int> counts(torch::Dtype dtype) {
              return {{"bytes", int(c10::elementSize(dtype))}};
            }
            py::tuple taken(py::tuple values, py::object other) {
              py::list found;
              found.append(values.size());
              found.append(values[1].cast<double>());
              return py::make_tuple(values[0], found, other.attr("real"));
            }
            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
              m.def("taken", &taken);
              m.def("same", &same, "the tensor itself");
              m.def("changed", &changed);
              m.def("kinds", &kinds, py::arg("i"), py::arg("d") = 0.5, py::arg("b") = true,
                    py::arg("s") = "text");
              m.def("several", &several);
              m.def("halves", &halves);
              m.def("given", &given, py::arg("x") = py::none());
              m.def("product", &product);
              m.def("undefined", &undefined);
              m.def("over", &over);
              m.def("over", &over_text);
              m.def("fail", &fail);
              m.def("operators", &operators);
              m.def("described", &described);
              m.def("counts", &counts);
              m.def("twice", [](double x) { return 2 * x; }, py::arg("x"),
                    py::call_guard<py::gil_scoped_release>());
              m.attr("version") = 3;
            }
            """
            module = load_inline("bindings", SOURCE)
            x = torch.arange(6.0).reshape(2, 3)
            assert module.same(x) is x and module.version == 3 and "the tensor itself" in module.same.__doc__
            assert module.changed(x) is x and x[0, 0] == 1
            assert module.kinds(1) == "1 0.500000 1 text"
            assert module.kinds(i=3, s="s", d=2, b=0) == "3 2.000000 0 s"
            tensor, number, values = module.several(x)
            assert tensor is x and number == 2 and values == [1.5, 2.5]
            assert torch.equal(module.halves((x, x))[1], x / 2) and module.halves([x, x])[0] is x
            assert not module.given() and not module.given(None) and module.given(x)
            assert module.product([2, 3, 4]) == 24 and module.undefined() is None
            assert module.over(1) == 1 and module.over("a") == 2 and module.twice(2) == 4.0
            assert module.taken((x, 2), 3 + 4j)[1:] == ([2, 2.0], 3.0) and module.taken((x, 2), 1)[0] is x
            assert module.counts(torch.float16) == {"bytes": 2}
            assert module.described(x) == "[2, 3][3, 1]floatFloatcpu14", module.described(x)
            c = torch.cat([x, x]).double().t().contiguous()
            c[0, :2] = 7
            c[1, 0] = 5
            expected = (c - c.mean(1, True)).clamp(-10, 2.5).sum(0) / 2
            torch.testing.assert_close(module.operators(x, x), expected)

            def raises(kind, text, function, *arguments, **named):
                try:
                    function(*arguments, **named)
                except Exception as error:
                    assert type(error) is kind and text in str(error), (type(error), str(error))
                else:
                    raise AssertionError(f"{text}: nothing raised")

            signature = "1. (i: int, d: float = 0.5, b: bool = True, s: str = 'text') -> str"
            raises(TypeError, signature, module.kinds, 1.5)
            raises(TypeError, "incompatible function arguments", module.kinds, 1, 0.5, "yes")
            raises(TypeError, "Invoked with: None", module.same, None)
            raises(TypeError, "kwargs: y=1", module.kinds, 1, y=1)
            raises(TypeError, "incompatible", module.same)
            raises(TypeError, "incompatible", module.halves, "ab")
            raises(ValueError, "value", module.fail, 0)
            raises(IndexError, "index", module.fail, 1)
            raises(IndexError, "torch index", module.fail, 2)
            raises(RuntimeError, "Expected how != 3 to be true, but got false.", module.fail, 3)
            raises(RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", module.fail, 4)
            '''
        )

    def test_files_libraries_and_the_cache(self):
        self.run_script(
            '''
            import pathlib, time
            import torch
            from torch.utils.cpp_extension import load
            from assay.virtual import extension_build

            pathlib.Path("shared.h").write_text("torch::Tensor negated(torch::Tensor x);")
            pathlib.Path("negated.cpp").write_text("""
            #include <torch/library.h>
            #include "shared.h"
            torch::Tensor negated(torch::Tensor x) { return -x; }
            torch::Tensor halved(torch::Tensor x) { return x / 2; }
            TORCH_LIBRARY(assay_test, m) {
              m.def("negated(Tensor x) -> Tensor", &negated);
              m.def("halved(Tensor x) -> Tensor");
            }
            TORCH_LIBRARY_IMPL(assay_test, CPU, m) { m.impl("halved", &halved); }
            """)
            pathlib.Path("main.cpp").write_text("""
            #include <torch/extension.h>
            #include "shared.h"
            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("negated", &negated); }
            """)
            module = load("files", ["main.cpp", "negated.cpp"], extra_cflags=["-O1"])
            x = torch.ones(3)
            assert torch.equal(module.negated(x), -x)
            assert torch.equal(torch.ops.assay_test.negated(x), -x)
            assert torch.equal(torch.ops.assay_test.halved(x), x / 2)

            extension_build.compile_command = None  # a second build would fail
            assert load("files", ["main.cpp", "negated.cpp"], extra_cflags=["-O1"]) is module
            '''
        )

    def test_torchs_own_headers_when_a_name_is_missing(self):
        output = self.run_script(
            '''
            import functools

            import torch
            import torch.utils.cpp_extension as cpp_extension

            calls = []

            @functools.wraps(cpp_extension.load_inline.torch_function)
            def torch_function(**named):
                calls.append(named)
                return "built"

            cpp_extension.load_inline.torch_function = torch_function
            built = cpp_extension.load_inline(
                "fallback", "torch::nn::Linear layer(2, 3);", extra_ldflags=["-lcudart_static"],
                extra_cuda_cflags=["-arch=sm_80", "-O2", "-std=c++17"])
            assert built == "built" and calls[0]["extra_ldflags"] == [], calls
            assert calls[0]["extra_cuda_cflags"] == ["-O2"] and calls[0]["name"] == "fallback", calls
            assert "torch::nn::Linear" in calls[0]["cpp_sources"][0] and not calls[0]["use_pch"], calls
            ptx = ["-gencode=arch=compute_90,code=compute_90", "-lineinfo"]
            assert cpp_extension._get_cuda_arch_flags() == ptx
            try:
                cpp_extension.load_inline("wrong", "int f() { return missing_thing; }", functions="f")
            except RuntimeError as error:
                assert "Error building extension 'wrong'" in str(error) and "missing_thing" in str(error)
            else:
                raise AssertionError
            assert len(calls) == 1
            try:
                cpp_extension.load_inline("dnn", """
                    extern "C" int cudnnCreate(void*);
                    int f() { return cudnnCreate(nullptr); }""", functions="f")
            except NotImplementedError as error:
                assert "calls cudnnCreate, whose library is machine code" in str(error), error
            else:
                raise AssertionError
            '''
        )
        self.assertIn("assay: Linear is not in the light header; compiling with PyTorch's own headers", output)
        self.assertEqual(output.count("assay: "), 1)

    def test_torchs_own_headers_build_a_module_once(self):
        # Those of its headers that compile in seconds.
        output = self.run_script(
            '''
            import os, subprocess, sys
            import torch
            from torch.utils.cpp_extension import load_inline

            SOURCE = """
            #include <c10/util/flat_hash_map.h>
            #include <pybind11/pybind11.h>
            int entries(int n) {
              ska::flat_hash_map<int, int> map;
              for (int i = 0; i < n; ++i) map[i % 7] = i;
              return map.size();
            }
            PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("entries", &entries); }
            """
            module = load_inline("own_headers", SOURCE, no_implicit_headers=True)
            assert module.entries(100) == 7 and module.entries(3) == 3
            assert torch.ones(3, device="cuda").sum().item() == 3
            print("made at", os.stat(module.__file__).st_mtime_ns, flush=True)
            if "again" not in sys.argv:
                sys.exit(subprocess.run([sys.executable, __file__, "again"]).returncode)
            '''
        )
        self.assertEqual(output.count("assay: c10/util/flat_hash_map.h is not in the light header"), 1)
        self.assertEqual(len(set(re.findall(r"made at \d+", output))), 1)

    def test_an_extension_built_by_setuptools(self):
        output = self.run_script(
            '''
            import glob, pathlib, subprocess, sys

            pathlib.Path("filling.cu").write_text("""
            #include <Python.h>
            __global__ void filling(float* y, int n) {
              const int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] = 3;
            }
            static PyObject* fill(PyObject*, PyObject* given) {
              unsigned long long y = 0;
              int n = 0;
              if (!PyArg_ParseTuple(given, "Ki", &y, &n)) return nullptr;
              filling<<<(n + 127) / 128, 128>>>(reinterpret_cast<float*>(y), n);
              return PyLong_FromLong(cudaGetLastError());
            }
            static PyMethodDef methods[] = {{"fill", fill, METH_VARARGS, ""}, {nullptr, nullptr, 0, nullptr}};
            static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "filling", nullptr, -1, methods};
            PyMODINIT_FUNC PyInit_filling() { return PyModule_Create(&definition); }
            """)
            pathlib.Path("setup.py").write_text("""
            from setuptools import setup
            from torch.utils.cpp_extension import BuildExtension, CUDAExtension
            setup(name="filling", ext_modules=[CUDAExtension("filling", ["filling.cu"])],
                  cmdclass={"build_ext": BuildExtension})
            """.replace("\\n            ", "\\n"))
            built = subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], capture_output=True, text=True)
            assert built.returncode == 0, built.stdout + built.stderr
            print(built.stderr)

            import torch
            sys.path.insert(0, ".")
            import filling

            y = torch.zeros(300, device="cuda")
            assert filling.fill(y.data_ptr(), 300) == 0
            assert torch.equal(y.cpu(), torch.full((300,), 3.0))
            '''
        )
        self.assertIn("assay: setuptools compiles with PyTorch's own headers", output)


if __name__ == "__main__":
    unittest.main()
