#!/usr/bin/env python3
"""cmake/unity_names.py: which files are compiled alone, because their names mean something else in another file."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "cmake/unity_names.py"


def apart(*files):
    """The numbers of the files that the script names."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, body in enumerate(files):
            path = pathlib.Path(folder) / f"{number}.cpp"
            path.write_text(f"namespace assay {{\nnamespace {{\n\n{body}\n\n}}  // namespace\n}}  // namespace assay\n")
            paths.append(str(path))
        out = subprocess.run([sys.executable, SCRIPT, *paths], check=True, capture_output=True, text=True).stdout
        return [int(pathlib.Path(line).stem) for line in out.split()]


class UnityNames(unittest.TestCase):
    def test_other_names_go_together(self):
        self.assertEqual(apart("constexpr int kFew = 1;", "constexpr int kMany = kFew;", "int few(int a) {\n}"), [])

    def test_a_constant_twice(self):
        self.assertEqual(apart("constexpr int kFew = 1, kSome = 3;", "const char* const kSome[] = {}; "), [1])

    def test_a_type_twice(self):
        self.assertEqual(apart("struct Place {\n  int x;\n};", "int x() {\n}", "class Place {\n};"), [2])

    def test_functions_by_their_parameters(self):
        self.assertEqual(apart("std::string text(int a) {\n}", "std::string text(const A& a) {\n}",
                               "std::string text(const A& other,\n                 int b = 0) {\n}"), [])
        self.assertEqual(apart("int divide(Int a, Int b) {\n}", "Int divide(Int x,\n           Int y) {\n}"), [1])

    def test_aliases_with_the_same_words_mean_the_same(self):
        self.assertEqual(apart("using Json = nlohmann::json;", "using Json = nlohmann::json;"), [])
        self.assertEqual(apart("using Json = nlohmann::json;", "using Json = nlohmann::ordered_json;"), [1])
        self.assertEqual(apart("using ptx::Kind;", "struct Kind;", "using ptx::Kind;"), [1])

    def test_names_inside_of_functions_and_outside_of_the_namespace_do_not_count(self):
        self.assertEqual(apart("void f() {\n  constexpr int kFew = 1;\n}", "void g() {\n  constexpr int kFew = 2;\n}"), [])

    def test_a_function_that_hides_one_of_all_rooms(self):
        self.assertEqual(apart("int text_of(int a) {\n}", "void f() {\n  text_of(place);\n}"), [0])
        self.assertEqual(apart("int own_text(int a) {\n}", "void f() {\n  own_text(place);\n}"), [])


if __name__ == "__main__":
    unittest.main()
