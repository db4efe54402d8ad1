#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The checks of the sources, run on small trees with and without faults."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Check(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="cairn-checks-"))
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def run_check(self, name):
        run = subprocess.run([HERE / name, self.root], capture_output=True, text=True, check=False)
        return run.returncode, run.stdout

    def refused(self, name, *words):
        status, said = self.run_check(name)
        self.assertEqual(status, 1, said)
        for word in words:
            self.assertIn(word, said)

    def accepted(self, name):
        status, said = self.run_check(name)
        self.assertEqual(status, 0, said)


class Names(Check):
    def setUp(self):
        super().setUp()
        self.write("src/pool/a.c", "static int a_run(void)\n{\n}\n\nint pool_a(void)\n{\n}\n")

    def test_a_tree_without_faults(self):
        self.write("src/base/b.c", "void cairn_b(int x,\n\t     int y)\n{\n}\n")
        self.write("src/roles/driver/m.c", "int main(void)\n{\n}\n")
        self.write("src/roles/sidecar/m.c", "int main(void)\n{\n}\n")
        self.accepted("names")

    def test_static_functions_of_one_name(self):
        self.write("src/repo/b.c", "static bool a_run(int x)\n{\n}\n")
        self.refused("names", "a_run()", "src/pool/a.c", "src/repo/b.c")

    def test_external_functions_without_their_prefix(self):
        self.write("src/pool/device/b.c", "char *device_open(void)\n{\n}\n")
        self.accepted("names")  # of the directory itself
        self.write("src/pool/c.c", "char *open_it(void)\n{\n}\n")
        self.refused("names", "src/pool/c.c", "open_it()", "pool_")

    def test_a_prefix_of_another_directory(self):
        self.write("src/repo/b.c", "int pool_b(void)\n{\n}\n")
        self.refused("names", "src/repo/b.c", "pool_b()")


class Layers(Check):
    def setUp(self):
        super().setUp()
        self.write("docs/ARCHITECTURE.md",
                   (HERE.parents[1] / "docs/ARCHITECTURE.md").read_text(encoding="utf-8"))

    def test_downwards(self):
        self.write("src/pool/a.c", '#include "base/err.h"\n#include "pool/pool.h"\n')
        self.accepted("layers")

    def test_upwards_sideways_and_inside(self):
        for path, include in (("src/pool/a.c", "kube/object.h"),
                              ("src/sidecar/a.c", "older/session/webhook.h"),
                              ("src/roles/driver/a.c", "roles/sidecar/sidecar_options.h"),
                              ("src/backup/a.c", "repo/s3/sign.h"),
                              ("src/repo/a.c", "sign.h")):
            with self.subTest(path=path, include=include):
                self.write(path, f'#include "{include}"\n')
                self.refused("layers", path, include)
                (self.root / path).unlink()

    def test_a_list_that_differs_from_the_document(self):
        self.write("docs/ARCHITECTURE.md", "<!-- layers -->\n```\nsrc/base\n```\n")
        self.refused("layers", "ARCHITECTURE")


class Readmes(Check):
    def setUp(self):
        super().setUp()
        self.write("src/pool/a.c", "")
        self.write("src/pool/README.md", "Begin with `a.c`, `pool/a.c`, `NAME_b.c`.\n")

    def test_a_tree_without_faults(self):
        self.write("CONTRIBUTING.md", "| x? | [src/pool](src/pool/README.md): `a.c` |\n")
        self.accepted("readmes")

    def test_a_directory_without_a_readme(self):
        self.write("src/repo/b.c", "")
        self.refused("readmes", "src/repo")

    def test_names_and_links_that_lead_nowhere(self):
        self.write("src/pool/README.md", "Begin with `b.c` and [this](c.md).\n")
        self.refused("readmes", "`b.c`", "c.md")
        self.write("src/pool/README.md", "")
        self.write("CONTRIBUTING.md", "| x? | [src/pool](src/pool/README.md): `gone.c` |\n")
        self.refused("readmes", "`gone.c`")

    def test_tests_and_cases_that_do_not_exist(self):
        self.write("tests/meson.build", "test('a', x)\nforeach b : ['one']\n  test('b/' + b, x)\n"
                   "  test('b/' + b + '/long', x)\nendforeach\n")
        self.write("tests/test_a.c", "static void it_works(void **state)\n")
        table = "| failure | test: cases |\n|---|---|\n| x | {} |\n"
        for named in ("`a`", "`a`: it_works; `b/one`", "`b/one/long` (as_said)", "`b/*`"):
            with self.subTest(named=named):
                self.write("docs/x.md", table.format(named))
                self.accepted("readmes")
        for named, fault in (("`c`", "`c`"), ("`b/two`", "`b/two`"), ("`a/more`", "`a/more`"),
                             ("`a`: it_fails", "it_fails"), ("`c/*`", "`c/*`")):
            with self.subTest(named=named):
                self.write("docs/x.md", table.format(named))
                self.refused("readmes", fault)

    def test_statements_of_a_proposal(self):
        head = "| the proposal says | shown by |\n|---|---|\n"
        self.write("tests/meson.build", "test('driver/a', 'test_a.py')\n")
        self.write("tests/test_a.py", "class Story:\n    def test_one(self):\n")
        self.write("docs/generations.md", f"{head}| a | `driver/a` Story.test_one |\n"
                                          "| b | differs, because it must |\n")
        self.accepted("readmes")
        for row, said in (("| c | |", "c: there is neither"),
                          ("| d | yes |", "d: there is neither"),
                          ("| e | `driver/a` test_two |", "no test_two"),
                          ("| f | `driver/a` Other.test_one |", "no Other.test_one"),
                          ("| g | `driver/b` for all |", "no test driver/b"),
                          ("| h | see `tests/test_b.py` |", "no tests/test_b.py")):
            with self.subTest(row=row):
                self.write("docs/generations.md", f"{head}{row}\n")
                self.refused("readmes", said)


unittest.main()
