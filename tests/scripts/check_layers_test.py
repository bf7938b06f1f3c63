"""The layer check finds what it is there to find: each test builds a small bad tree and looks at what is said of it."""

import contextlib
import io
import pathlib
import runpy
import tempfile
import unittest

SCRIPT = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_layers"))


def check(files):
    """Exit code and output of the check over a tree of these files."""
    with tempfile.TemporaryDirectory() as root, contextlib.redirect_stdout(io.StringIO()) as output:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return SCRIPT["main"]([root]), output.getvalue()


class CheckLayers(unittest.TestCase):
    def accepts(self, files):
        code, output = check(files)
        self.assertEqual(code, 0, output)

    def finds(self, files, *texts):
        code, output = check(files)
        self.assertEqual(code, 1, output)
        for text in texts:
            self.assertIn(text, output)

    def test_accepts_a_sound_tree(self):
        self.accepts({
            "ballast/base/bytes.h": "#pragma once\n#include <vector>\n",
            "ballast/base/hash.cc": "#include <blake3.h>\n#include <fmt/format.h>\n",
            "ballast/io/file.cc": '#include <sys/mman.h>\n#include <thread>\n#include "ballast/base/bytes.h"\n',
            "apps/ballast/main.cc": '#include <CLI/CLI.hpp>\n#include <iostream>\n#include "ballast/io/file.h"\n',
            "tests/apps/main_test.cc": '#include "apps/ballast/main.h"\n#include "tests/support/files.h"\n',
        })

    def test_refuses_an_empty_tree(self):
        self.finds({"README": ""}, "no sources")

    def test_finds_a_layer_that_includes_one_above(self):
        self.finds({"ballast/base/a.h": '\n#include "ballast/io/file.h"\n'},
                   "ballast/base/a.h:2: ballast/base must not include ballast/io")

    def test_finds_a_portable_layer_that_needs_an_operating_system(self):
        self.finds({"ballast/formats/a.cc": '#include "ballast/io/file.h"\n'}, "ballast/formats must not include ballast/io")

    def test_finds_computing_that_reaches_for_archives(self):
        for layer in ["device", "params", "ops", "backends"]:
            self.finds({f"ballast/{layer}/a.cc": '#include "ballast/archive/open.h"\n'}, "must not include ballast/archive")

    def test_finds_the_library_including_a_program(self):
        self.finds({"ballast/archive/a.cc": '#include "apps/ballast/a.h"\n'}, "must not include apps")

    def test_finds_names_that_collide_when_files_are_compiled_together(self):
        for first, second in [("constexpr int kLimit = 3;", "constexpr long kLimit[] = {3};"),
                              ("struct Part {\n  int size;\n};", "class Part final : public Base {};"),
                              ("std::vector<int> parts(int a) { return {a}; }", "[[nodiscard]] bool parts();"),
                              ("template <class T>\nT* find(T& t) { return &t; }", "int find = 0;"),
                              ("using Row = int;", "enum class Row : char { kA };")]:
            self.finds({"ballast/base/a.cc": f"namespace ballast {{\nnamespace {{\n\n{first}\n}}\n}}\n",
                        "ballast/base/b.cc": f"namespace ballast {{\nnamespace {{\n{second}\n}}\n}}\n"},
                       "is also in ballast/base/a.cc:")

    def test_accepts_names_that_cannot_meet(self):
        own = "namespace {\nint count = 0;\nvoid add(int count);\n}\nvoid Tree::grow() { int here = 0; }\n"
        self.accepts({"ballast/base/a.cc": own, "ballast/tensor/a.cc": own, "apps/ballast/a.cc": own,
                      "tests/base/a_test.cc": own, "ballast/backends/cpu/a.cc": own, "ballast/backends/cpu/b.cc": own})
        self.accepts({"ballast/base/a.cc": "namespace {\nvoid one() { int x = 0; }\nint Tree::size() const { return 1; }\n}\n",
                      "ballast/base/b.cc": "namespace {\nvoid two() { int x = 0; }\nint Bush::size() const { return 1; }\n"
                                           "using std::move;\nTEST(Tree, Grows) { int x; }\n}\n"})

    def test_accepts_one_name_in_two_backends(self):
        own = "namespace {\nint count = 0;\n}\n"
        self.accepts({"ballast/backends/host/a.cc": own, "ballast/backends/reference/a.cc": own})
        self.finds({"ballast/backends/host/a.cc": own, "ballast/backends/host/b.cc": own}, "count is also in")

    def test_finds_those_who_reach_into_the_memory_of_tensors(self):
        for path in ["ballast/ops/a.cc", "ballast/nn/a.cc", "ballast/training/a.h", "apps/ballast/a.cc"]:
            self.finds({path: '#include "ballast/device/host_access.h"\n'}, "ballast/device/host_access.h belongs only in")
        for path in ["ballast/backends/cpu/a.cc", "tests/ops/a_test.cc", "bench/a.cc"]:
            self.accepts({path: '#include "ballast/device/host_access.h"\n'})
        self.accepts({"examples/a.cc": "#include <ballast/device/host_access.h>\n"})

    def test_finds_loops_over_elements_in_ops(self):
        self.finds({"ballast/ops/a.cc": "void run() { threads.for_ranges(8, 1, body); }\n"}, "loops over elements")
        self.finds({"ballast/ops/a.h": "const float* at(const Tensor& x) { return host_data<const float>(x); }\n"},
                   "the elements of tensors are a backend's")

    def test_finds_what_reaches_into_a_backend(self):
        for path, header in [("ballast/nn/a.cc", "host/kernel_table.h"), ("ballast/backends/reference/a.cc", "host/product.h"),
                             ("ballast/backends/host/a.cc", "cpu/cpu.h"), ("ballast/backends/execution.cc", "cpu/cpu.h")]:
            self.finds({path: f'#include "ballast/backends/{header}"\n'}, "is private to its backend")
        for path, header in [("ballast/backends/cpu/a.cc", "host/kernel_table.h"), ("ballast/backends/backends.cc", "cpu/cpu.h"),
                             ("tests/backends/a_test.cc", "cpu/cpu.h"), ("bench/a.cc", "cpu/cpu.h")]:
            self.accepts({path: f'#include "ballast/backends/{header}"\n'})

    def test_finds_what_is_installed_and_includes_what_is_not(self):
        tree = {"cmake/public_headers.txt": "[interface]\n# Values\nballast/base/a.h\n", "ballast/base/a.h": "", "ballast/base/b.h": "",
                "ballast/base/a.cc": '#include "ballast/base/b.h"\n'}
        self.accepts({**tree, "examples/a.cc": "#include <ballast/base/a.h>\n"})
        self.finds({**tree, "ballast/base/a.h": '#include "ballast/base/b.h"\n'},
                   "ballast/base/a.h:1: ballast/base/b.h is not installed")
        self.finds({**tree, "examples/a.cc": "#include <ballast/base/b.h>\n"}, "ballast/base/b.h is not installed")

    def test_finds_an_interface_that_needs_the_extension(self):
        tree = {"cmake/public_headers.txt": "[interface]\nballast/base/a.h\n[extension]\nballast/base/b.h\n",
                "ballast/base/a.h": "", "ballast/base/b.h": '#include "ballast/base/a.h"\n'}
        self.accepts(tree)
        self.assertIn("1 interface, 1 extension", check(tree)[1])
        self.finds({**tree, "ballast/base/a.h": '#include "ballast/base/b.h"\n', "ballast/base/b.h": ""},
                   "ballast/base/a.h:1: ballast/base/b.h is for those who extend Ballast")
        self.accepts({**tree, "examples/own_backend.cc": "#include <ballast/base/b.h>\n"})
        for path in ["bindings/c/a.cc", "ballast/base/a.cc"]:
            self.accepts({**tree, path: '#include "ballast/base/b.h"\n'})
        for path in ["examples/convert.cc", "tests/consumer/a.cc"]:
            self.finds({**tree, path: "#include <ballast/base/b.h>\n"}, "is for those who extend Ballast")

    def test_finds_an_interface_that_has_grown(self):
        headers = [f"ballast/base/{number}.h" for number in range(SCRIPT["MOST_INTERFACE_HEADERS"])]
        tree = {"cmake/public_headers.txt": "[interface]\n" + "\n".join(headers) + "\n", **{header: "" for header in headers}}
        self.accepts(tree)
        tree["cmake/public_headers.txt"] += "ballast/base/more.h\n"
        self.finds({**tree, "ballast/base/more.h": ""}, "and is to have at most")

    def test_finds_headers_that_cannot_be_installed(self):
        self.finds({"cmake/public_headers.txt": "[interface]\nballast/base/a.h\n", "ballast/base/b.h": ""},
                   "cmake/public_headers.txt:2: ballast/base/a.h does not exist")
        self.finds({"cmake/public_headers.txt": "[interface]\nballast/text/tokenizer/a.h\n", "ballast/text/tokenizer/a.h": ""},
                   "its headers are private")
        self.finds({"cmake/public_headers.txt": "ballast/base/a.h\n", "ballast/base/a.h": ""},
                   "ballast/base/a.h is neither under [interface] nor under [extension]")
        self.finds({"cmake/public_headers.txt": "[extension]\nballast/base/a.h\nballast/base/a.h\n", "ballast/base/a.h": ""},
                   "cmake/public_headers.txt:3: ballast/base/a.h is listed twice")

    def test_finds_a_circle_of_folders(self):
        self.finds({"ballast/base/a.h": '#include "ballast/tensor/b.h"\n',
                    "ballast/tensor/b.h": '#include "ballast/base/c.h"\n', "ballast/base/c.h": ""},
                   "a circle of folders: ballast/base -> ballast/tensor -> ballast/base")

    def test_finds_a_circle_of_headers_in_one_folder(self):
        self.finds({"ballast/base/a.h": '#include "ballast/base/b.h"\n',
                    "ballast/base/b.h": '#include "ballast/base/a.h"\n'}, "a circle of headers")

    def test_finds_a_folder_without_a_place(self):
        self.finds({"ballast/util/a.h": ""}, "no place among the layers")

    def test_finds_includes_that_do_not_start_at_the_root(self):
        self.finds({"ballast/base/a.cc": '#include "bytes.h"\n'}, "not a path from the root")

    def test_finds_outside_headers_in_the_wrong_file(self):
        for path, header in [("ballast/base/a.cc", "blake3.h"), ("ballast/base/a.h", "fmt/format.h"),
                             ("ballast/io/a.cc", "zlib.h"), ("ballast/archive/a.cc", "pcre2.h"),
                             ("ballast/formats/a.cc", "openssl/evp.h"), ("ballast/archive/a.cc", "CLI/CLI.hpp"),
                             ("ballast/formats/a.cc", "unistd.h")]:
            self.finds({path: f"#include <{header}>\n"}, f"{path}:1: <{header}> belongs only in")

    def test_finds_outside_headers_that_nobody_allowed(self):
        self.finds({"ballast/archive/a.cc": "#include <folly/Range.h>\n"}, "no row of ALLOWED_HEADERS")

    def test_finds_standard_headers_that_a_portable_layer_must_not_have(self):
        for header in ["thread", "fstream", "filesystem", "typeinfo"]:
            self.finds({"ballast/formats/a.cc": f"#include <{header}>\n"}, f"<{header}> has no place in a portable")
        for header in ["iostream", "regex"]:
            self.finds({"ballast/archive/a.cc": f"#include <{header}>\n"}, f"<{header}> has no place in the library")

    def test_finds_words_that_a_portable_layer_must_not_have(self):
        for text in ["try { f(); }", "catch (...) {}", "dynamic_cast<A*>(b)", "typeid(a)", "std::thread t;",
                     "fopen(p, m)"]:
            self.finds({"ballast/tensor/a.cc": f"void g() {{\n  {text};\n}}\n"}, "ballast/tensor/a.cc:2:")

    def test_finds_words_that_the_library_must_not_have(self):
        for text in ["throw 1", "std::cout << 1", "printf(a)", "std::fprintf(stderr, a)", 'getenv("HOME")', "abort()",
                     "std::exit(1)", "fmt::print(a)", "puts(a)"]:
            self.finds({"ballast/archive/a.cc": f"void g() {{ {text}; }}\n"}, "ballast/archive/a.cc:1:")

    def test_finds_flags_and_commands_in_what_the_library_says(self):
        for text in ['"choose one with --only"', '"--config FILE"', 'R"(leave out --compress)"', '"a\\n--prefer first"',
                     '"`ballast verify` finds them"', '"zcat x | ballast inspect -"']:
            self.finds({"ballast/io/a.cc": f"\nreturn fail({text});\n"}, "ballast/io/a.cc:2:", "the library knows no")
        self.accepts({"apps/ballast/a.cc": 'return fail("choose one with --only");\n'})
        self.accepts({"ballast/io/a.cc": '#include "ballast/base/a.h"\n// --only chooses them\n--count;\n'
                                         'const char* rule = "a--b, <!--x-->, -- y, ballast.origin, ballast 1.0";\n'})

    def test_is_not_misled_by_comments_text_and_similar_names(self):
        self.accepts({"ballast/base/a.cc": r'''
// throw, catch; #include "ballast/io/file.h"
/* #include <iostream>
#include "ballast/io/file.h" */
const char* a = "throw \" catch"; const char* b = R"x(try " )x";
int c = 1'000'000; char d = '"'; char e = '\''; const char* f = "// printf(";
void entry() { snprintf(a, 1, b); archive.abort(); try_parse(); fprintf_like(); }
'''})

    def test_sees_code_after_text_and_digit_separators(self):
        self.finds({"ballast/base/a.cc": 'int c = 1\'000; const char* a = "x";\nthrow 1; int d = 2\'000;\n'},
                   "ballast/base/a.cc:2: 'throw'")


if __name__ == "__main__":
    unittest.main()
