"""Each rule of the tree's text finds a planted fault at its line and is silent on a good twin.

The words that a rule forbids are put together here, so that the rule does not find this file.
"""

import os
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import rules_code  # noqa: E402
import rules_text  # noqa: E402

GUARDED = "#ifndef A_H\n#define A_H\n{}\n#endif\n"


class Planted(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.root)

    def findings(self, rule, files):
        """What `rule` finds in a tree of `files`, as (path, line) pairs."""
        for path, text in files.items():
            full = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        tree = rules_text.Tree(self.root, list(files))
        return [(finding.path, finding.line) for finding in rule(tree)]

    def expect(self, rule, path, bad, line, good):
        self.assertEqual(self.findings(rule, {path: bad}), [(path, line)])
        self.assertEqual(self.findings(rule, {path: good}), [])


class TextRules(Planted):
    def test_blanks_tab_found(self):
        self.expect(rules_text.blanks, "a.c", "int a;\n\tint b;\n", 2, "int a;\n    int b;\n")

    def test_blanks_trailing_blank_found(self):
        self.expect(rules_text.blanks, "a.c", "int a; \n", 1, "int a;\n")

    def test_blanks_carriage_return_found(self):
        self.expect(rules_text.blanks, "BUILD", "a\nb\r\n", 2, "a\nb\n")

    def test_blanks_end_of_file_one_newline(self):
        self.expect(rules_text.blanks, "a.md", "one\ntwo", 2, "one\ntwo\n")
        self.expect(rules_text.blanks, "b.md", "one\n\n", 3, "")

    def test_blanks_script_without_suffix_checked(self):
        self.expect(rules_text.blanks, "tool", "#!/bin/sh\n\techo\n", 2, "#!/bin/sh\necho\n")

    def test_blanks_data_left_alone(self):
        self.assertEqual(self.findings(rules_text.blanks, {"trace.csv": "a\tb \r\n"}), [])
        self.assertEqual(self.findings(rules_text.blanks, {"seed.c": b"\0\t\xff "}), [])

    def test_length_limit_is_inclusive(self):
        limit = rules_text.MAX_LINES
        self.expect(rules_text.length, "a.c", "x\n" * (limit + 1), limit + 1, "x\n" * limit)

    def test_head_comment_missing_found(self):
        self.expect(rules_text.head_comment, "a.c", "int a;\n", 1, "/* The books. */\nint a;\n")

    def test_machine_paths_found_only_as_whole_paths(self):
        for name in ("wo" + "rk", "ro" + "ot", "fa" + "rm"):
            self.expect(rules_text.machine_paths, "a.md", f"see\n/{name}/x\n", 2, f"a/{name}/x\n")
            self.expect(rules_text.machine_paths, "b.md", f'"/{name}"\n', 1, f"/{name}er /{name}-x\n")
        self.expect(rules_text.machine_paths, "c.md", "/tmp/" + "bash_x\n", 1, "/tmp/membrane\n")

    def test_postponed_words_found_only_as_words(self):
        for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
            self.expect(rules_text.postponed, "a.c", f"/* {word}: later */\n", 1, f"{word}{word}\n")

    def test_suppressions_found_by_name_and_text(self):
        word = "suppressions"
        self.assertEqual(
            self.findings(rules_text.suppressions, {f"tests/tsan_{word}.txt": "", "lsan.supp": ""}),
            [("lsan.supp", 1), (f"tests/tsan_{word}.txt", 1)])
        self.expect(
            rules_text.suppressions, "a.cc", f"\nconst char *__tsan_default_{word}();\n", 2, "\n")
        self.expect(rules_text.suppressions, ".bazelrc", f"TSAN_OPTIONS={word}=x\n", 1, "x\n")

    def test_links_dead_one_found(self):
        self.findings(rules_text.links, {"docs/there.md": ""})
        self.expect(
            rules_text.links, "docs/a.md", "[x](there.md)\n[y](gone.md#part)\n", 2,
            "[x](there.md#part) [y](https://example.org/gone) [z](../docs)\n")

    def test_rules_page_what_is_named_must_be_there(self):
        head = "| rule | short | by | test |\n| --- | --- | --- | --- |\n"
        files = {"a.c": "", "t/BUILD": 'name = "a_test"\n[x for x in ["b"]]\n',
                 "t/a_test.cc": "TEST(A, One)\nTEST_P(\n    B, Two)\n",
                 "t/b_test.py": "class C(U):\n    def test_x(self):\n        pass\n"}
        page = "docs/rules.md"
        good = "| 1 | s | `a.c` | `//t:a_test` `A.One` `B.Two` · `//t:b_test` `C.test_x` |\n"
        self.assertEqual(self.findings(rules_text.rules_page, {**files, page: head + good}), [])
        for old, new in (("`a.c`", "`b.c`"), ("//t:a_test", "//t:c_test"), ("//t:a", "//u:a"),
                         ("A.One", "A.Two"), ("C.test_x", "C.test_y"),
                         (good.split(" | ")[3], "none |\n")):
            with self.subTest(new):
                text = head + good.replace(old, new)
                found = self.findings(rules_text.rules_page, {**files, page: text})
                self.assertEqual({line for _, line in found}, {3})
                self.assertNotEqual(found, [])

    def test_rules_page_scenarios_name_tests_and_no_files(self):
        page = "docs/scenarios.md"
        files = {"t/BUILD": 'name = "a_test"\n', "t/a_test.cc": "TEST(A, One)\n"}
        head = "| source | situation | outcome | test |\n| --- | --- | --- | --- |\n"
        row = "| x#1 | `./x.so` | `there is none` | `//t:a_test` `A.One` |\n"
        self.assertEqual(self.findings(rules_text.rules_page, {**files, page: head + row}), [])
        wrong = head + row.replace("A.One", "A.Two")
        found = self.findings(rules_text.rules_page, {**files, page: wrong})
        self.assertEqual([line for _, line in found], [3])


class CodeRules(Planted):
    def includes(self, path, included, good):
        """Every part's headers exist; `path` may include `good` and not `included`."""
        headers = {
            header: "" for header in (
                "abi/membrane/plugin.h", "abi/base/lock.h", "governor/governor.h",
                "governor/membrane/budget.h", "host/include/membrane/membrane.h",
                "host/bind/bind.h", "plugins/common/ids.h", "plugins/cuda/driver.h",
                "tests/support/heap.h", "tools/check/check.h")}
        self.findings(rules_code.includes, headers)
        bad = f'#include <stdio.h>\n#include "{included}"\n'
        self.expect(rules_code.includes, path, bad, 2, f'#include "{good}"\n')

    def test_includes_abi_knows_itself_only(self):
        self.includes("abi/membrane/x.h", "abi/base/lock.h", "membrane/plugin.h")
        self.includes("abi/base/x.c", "governor/governor.h", "membrane/plugin.h")

    def test_includes_governor_knows_no_host_and_no_plugin(self):
        self.includes("governor/x.c", "membrane/membrane.h", "membrane/budget.h")
        self.includes("governor/x.c", "plugins/common/ids.h", "abi/base/lock.h")

    def test_includes_host_knows_no_plugin(self):
        self.includes("host/bind/x.c", "plugins/cuda/driver.h", "governor/governor.h")

    def test_includes_plugin_knows_no_host_and_no_other_plugin(self):
        self.includes("plugins/host/x.c", "host/bind/bind.h", "plugins/common/ids.h")
        self.includes("plugins/host/x.c", "plugins/cuda/driver.h", "abi/base/lock.h")
        self.includes("plugins/cuda/x.c", "governor/governor.h", "plugins/cuda/driver.h")

    def test_includes_tools_know_no_plugin_and_no_test(self):
        self.includes("tools/cli/x.c", "tests/support/heap.h", "host/bind/bind.h")
        self.includes("tools/cli/x.c", "plugins/common/ids.h", "tools/check/check.h")
        self.includes("tools/check/x.c", "host/bind/bind.h", "membrane/plugin.h")

    def test_includes_example_sees_what_a_user_sees(self):
        self.includes("docs/examples/x.c", "host/bind/bind.h", "membrane/membrane.h")

    def test_includes_test_may_include_all(self):
        self.assertEqual(
            self.findings(rules_code.includes, {"tests/x.cc": '#include "host/bind/bind.h"\n'}), [])

    def test_includes_folder_without_rule_found(self):
        self.assertEqual(self.findings(rules_code.includes, {"new/x.c": ""}), [("new/x.c", 1)])

    def test_headers_alone_internal_header_as_c(self):
        self.expect(
            rules_code.headers_alone, "host/a.h", GUARDED.format("size_t bytes(void);"), 3,
            GUARDED.format("#include <stddef.h>\nsize_t bytes(void);"))

    def test_headers_alone_unguarded_header_found(self):
        self.expect(
            rules_code.headers_alone, "host/a.h", "struct a {\n    int b;\n};\n", 1,
            GUARDED.format("struct a {\n    int b;\n};"))

    def test_headers_alone_header_of_tests_may_be_cpp(self):
        self.expect(
            rules_code.headers_alone, "tests/a.h", GUARDED.format("std::string a();"), 3,
            GUARDED.format("#include <string>\nstd::string a();"))

    @unittest.skipUnless(shutil.which("clang++"), "clang is in the deep group and not installed")
    def test_headers_alone_public_header_as_cpp_too(self):
        path = "abi/membrane/a.h"
        bad = GUARDED.format("static inline int *a(void *b) { return b; }")
        good = GUARDED.format("static inline int *a(void *b) { return (int *)b; }")
        self.assertEqual(self.findings(rules_code.headers_alone, {path: bad}), [(path, 3)] * 2)
        self.assertEqual(self.findings(rules_code.headers_alone, {path: good}), [])

    @unittest.skipUnless(shutil.which("clang-format"), "clang-format is in the deep group")
    def test_clang_format_untidy_file_found(self):
        shutil.copy(os.path.join(HERE, "../../.clang-format"), self.root)
        self.expect(
            rules_code.clang_format, "a.c", "int a;\nint  b ;\n", 2, "int a;\nint b;\n")

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is in the deep group")
    def test_shell_unquoted_word_found(self):
        self.expect(
            rules_code.shell, "tool", '#!/bin/sh\nrm $1\n', 2, '#!/bin/sh\nrm "$1"\n')

    def test_slot_callers_library_with_unwind_tables_found(self):
        slots = "    X(mbr_virtual_vtable, map, mbr_map_request, mbr_outcome, 0, \"\") \\\n"
        call = "mbr_status a(void)\n{\n    return m->virtual_.map(\n        m->instance, &r, &o, e);\n}\n"
        library = "cc_library(\n    name = \"a\",\n    srcs = [\"sub/a.c\"],\n%s)\n"
        files = {"abi/derive/slots.h": slots, "host/x/sub/a.c": call, "host/x/BUILD": library % ""}
        self.assertEqual(self.findings(rules_code.slot_callers, files), [("host/x/sub/a.c", 3)])
        files["host/x/BUILD"] = library % "    copts = SLOT_CALLER_COPTS,\n"
        self.assertEqual(self.findings(rules_code.slot_callers, files), [])
        files["host/x/BUILD"] = library % "" # a call of something else of that name
        files["host/x/sub/a.c"] = call.replace("m->instance, &r", "&r")
        self.assertEqual(self.findings(rules_code.slot_callers, files), [])

    def test_order_callers_slot_of_a_line_outside_the_ep_found(self):
        call = "mbr_status a(void)\n{\n    return c->order.signal(\n        c->instance, &r, &o, e);\n}\n"
        files = {"host/bind/a.c": call, "governor/b.c": call.replace("order.signal", "transfer.fill"),
                 "host/ep/slot.c": call, "host/ep/audit.c": "void a(void)\n{\n    c->order = *table;\n}\n"}
        self.assertEqual(sorted(self.findings(rules_code.order_callers, files)),
                         [("governor/b.c", 3), ("host/bind/a.c", 3)])


if __name__ == "__main__":
    unittest.main()
