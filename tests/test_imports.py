"""Imports go one way, and the command answers before anything heavy is loaded."""

import ast
import os
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "regard"

# Who may import whom: a part, and the parts below it that it may name. A new edge is a decision: write it here.
ALLOWED: dict[str, set[str]] = {
    # leaves
    "errors": set(),
    "__version__": set(),
    "card": set(),
    "nn": set(),  # torch alone
    "files": {"errors"},
    "device": {"errors"},
    "memory": set(),
    "workers": set(),  # torch alone
    # text and data
    "text": {"errors", "files"},
    "data": {"errors", "files", "text"},
    "align": set(),  # numpy alone
    # networks and what decodes them; a decoder speaks to a protocol, not to a model
    "models": {"nn"},
    "decode": {"errors", "text", "workers"},
    # composed above the models: the recipe's schema, the bundle
    "config": {"decode", "errors", "models"},
    "bundle": {"__version__", "card", "decode", "errors", "files", "models", "nn", "text"},
    "hub": {"bundle", "decode", "errors", "files", "memory", "models", "nn", "text"},
    # learning
    "tasks": {"bundle", "config", "data", "decode", "errors", "files", "models", "nn", "text"},
    "training": {
        "bundle", "config", "data", "device", "errors", "files", "memory", "models", "nn", "tasks", "text", "workers",
    },
    # what people use
    "predict": {"bundle", "data", "errors", "tasks"},
    "api": {"bundle", "config", "decode", "device", "errors", "files", "hub", "nn", "predict", "tasks", "training"},
    "view": {"__version__", "align", "api", "bundle", "data", "decode", "errors", "files", "models", "nn", "text"},
    "explain": {"api", "bundle", "decode", "errors", "text", "view"},
    "serve": {"__version__", "api", "bundle", "decode", "errors", "explain", "files", "text", "view"},
    "demo": {"api", "config", "data", "errors", "files", "tasks", "training", "view"},
    "cli": {
        "__version__", "api", "bundle", "card", "config", "data", "decode", "demo", "errors", "explain", "files", "hub",
        "models", "nn", "serve", "tasks", "training", "view",
    },
    "__main__": {"cli"},
    "__init__": {"api", "errors", "explain", "view"},
}  # fmt: skip


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """Line and full name of everything that a file imports, wherever in it, `from regard import x` as regard.x."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def part(path: Path) -> str:
    return path.relative_to(SRC).with_suffix("").parts[0]


def wrong_edges() -> list[str]:
    found = []
    for path in sorted(SRC.rglob("*.py")):
        for line, name in imports(path):
            package, _, rest = name.partition(".")
            other = rest.split(".")[0]
            if package == "regard" and other != part(path) and other not in ALLOWED.get(part(path), set()):
                found.append(f"{path.relative_to(SRC)}:{line}: {part(path)} -> {other}")
    return found


def test_imports_go_along_the_table() -> None:
    assert wrong_edges() == []


def test_the_table_names_every_part() -> None:
    assert {part(path) for path in SRC.rglob("*.py")} <= set(ALLOWED)


def test_the_table_has_no_circle() -> None:
    order = list(TopologicalSorter(ALLOWED).static_order())
    for way in (("nn", "models", "tasks", "training", "cli"), ("text", "data", "tasks")):
        places = [order.index(name) for name in way]
        assert places == sorted(places)


def test_an_edge_that_is_not_in_the_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ALLOWED, "models", set())
    assert any("models -> nn" in line for line in wrong_edges())


def test_nn_imports_torch_alone() -> None:
    for path in sorted((SRC / "nn").rglob("*.py")):
        for line, name in imports(path):
            package = name.split(".")[0]
            known = package in {"torch", "__future__"} or package in sys.stdlib_module_names
            assert known or name.startswith("regard.nn."), f"{path}:{line}: {name}"


def test_a_public_name_is_not_taken_by_a_package() -> None:
    import regard
    from regard import api

    assert regard.train is api.train


HEAVY = ("torch", "numpy", "tokenizers", "sacrebleu", "safetensors")


def loaded_after(code: str) -> set[str]:
    """Which heavy libraries a fresh interpreter has after running some code."""
    script = f"{code}\nimport sys\nprint('loaded:', *(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].removeprefix("loaded:").split())


HELP = """
import sys
from regard.cli import main
sys.argv = ["regard", {arguments}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def test_importing_regard_loads_nothing_heavy() -> None:
    assert loaded_after("import regard; regard.__version__; dir(regard)") == set()
    assert loaded_after("from regard import UserError") == set()


@pytest.mark.parametrize("arguments", ['"--help"', '"--version"', '"train", "--help"', '"translate", "--help"'])
def test_help_loads_nothing_heavy(arguments: str) -> None:
    assert loaded_after(HELP.format(arguments=arguments)) == set()


def test_what_is_loaded_is_seen() -> None:
    assert loaded_after("import numpy") == {"numpy"}


@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs the child's own CPU time")
def test_help_takes_less_than_half_a_second_of_work() -> None:
    def seconds() -> float:
        process = subprocess.Popen(
            [sys.executable, "-m", "regard", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, process.stderr.read().decode()  # type: ignore[union-attr]
        process.stderr.close()  # type: ignore[union-attr]
        return usage.ru_utime + usage.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5
