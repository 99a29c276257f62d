"""What holds for the package as a whole."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import simile
from simile._common.needs import EXTRAS
from simile.learning import ALGORITHMS, algorithms

ROOT = Path(__file__).parents[1]
SOURCES = sorted(ROOT.glob("src/**/*.py"))


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import simile", ("numpy",)),
        (
            "import simile; [getattr(simile, n) for n in simile.__all__]",
            ("numba", "sklearn", "polars", "pyarrow", "safetensors"),
        ),
    ],
)
def test_importing_simile_loads_nothing_heavy(code: str, heavy: tuple[str, ...]):
    told = (
        f"{code}; import sys; print([m for m in {heavy} + ('torch', 'scipy', 'pandas', 'skops') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_training_and_its_report_load_nothing_that_takes_longer_than_they_do(tmp_path: Path):
    """scipy.signal brings scipy.stats, and pyarrow brings pandas: half of the time that a short training took."""
    simile.write(simile.tasks.pursuit(n_sequences=4, length=150), tmp_path / "games.csv")
    words = ["train", "games.csv", "--actions", "pan", "--model", "SmoothForest(n_trees=2)"]
    told = (
        f"from simile.cli import main; main({words}); import sys; "
        "print([m for m in ('scipy.signal', 'scipy.stats', 'pandas', 'sklearn', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").exists()
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_stub_tells_type_checkers_the_same_names_from_the_same_homes():
    stub = ast.parse(Path(simile.__file__).with_suffix(".pyi").read_text())
    told = {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert told == {name: f"simile.{home}" for home, names in simile.HOMES.items() for name in names.split()}


def test_a_name_that_does_not_exist_is_an_attribute_error_as_usual():
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = simile.lern
    assert set(simile.__all__) < set(dir(simile))


def test_every_public_name_exists_and_is_documented():
    for name in simile.__all__:
        assert getattr(simile, name).__doc__, name


def test_every_error_is_a_simile_error():
    for name in ("ArgumentError", "DataError", "DivergedError", "StorageError"):
        assert issubclass(getattr(simile, name), simile.SimileError)


def test_the_version_is_said_once_and_the_same():
    assert simile.__version__ == version("smooth-imitation")


def test_extras_that_messages_and_docs_name_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    named = {n for found in re.findall(r'(?:smooth-imitation\[|extra=")([\w,]+)', text) for n in found.split(",")}
    named |= set(EXTRAS.values())
    assert {"cli", "torch", "video", "tracking"} <= named <= set(project["optional-dependencies"])


def test_every_optional_library_is_asked_for_in_one_way_and_its_extra_is_known():
    asked = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        asked |= {module.partition(".")[0] for module in re.findall(r'\bneed\(\s*"([\w.]+)"', text)}
        if path != ROOT / "src/simile/_common/needs.py":
            assert not re.search(r"needs? .*pip install", text), path
    assert {"pyarrow", "torch", "optuna"} <= asked <= set(EXTRAS)


def test_every_extra_brings_the_libraries_it_is_named_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def brings(extra: str) -> set[str]:
        lines = project["optional-dependencies"][extra]
        own = {re.split(r"[^\w-]", line)[0] for line in lines}
        return own.union(*(brings(below) for line in lines for below in re.findall(r"smooth-imitation\[(\w+)\]", line)))

    for module, extra in EXTRAS.items():
        named = {"PIL": "pillow", "cv2": "opencv-python-headless", "onvif": "onvif-zeep-async"}
        assert named.get(module, module.replace("_", "-")) in brings(extra), (module, extra)
    # Who imports the web door needs what it needs.
    web = (ROOT / "src/simile/_common/web.py").read_text(encoding="utf-8")
    doors = set(re.findall(r"^(?:import|from) (\w+)", web, re.MULTILINE)) & set(EXTRAS)
    assert {"starlette", "uvicorn"} <= doors <= brings("studio") & brings("serve")


def test_the_top_of_the_package_fits_on_a_screen():
    own = {"__init__.py", "__init__.pyi", "__main__.py", "py.typed", "__pycache__"}
    assert len([path for path in (ROOT / "src/simile").iterdir() if path.name not in own]) <= 15


@pytest.mark.parametrize(("short", "home"), simile.ALIASES.items())
def test_a_short_name_is_the_module_itself_however_it_is_imported(short: str, home: str):
    code = (
        "import importlib, sys, simile\n"
        f"by_attribute = simile.{short}\n"
        f"import simile.{short}\n"
        f"from simile import {short} as by_name\n"
        f"whole = importlib.import_module('simile.{home}')\n"
        f"assert by_attribute is by_name is simile.{short} is sys.modules['simile.{short}'] is whole\n"
        f"assert whole.__name__ == 'simile.{home}', whole.__name__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    # Whatever is imported first: a name out of it, or a module below it.
    first = {"client": "from simile.client import Client", "neural": "from simile.neural.network import Network"}
    code = (
        f"{first.get(short, f'import simile.{short}')}\n"
        "import sys, simile\n"
        "from importlib import import_module\n"
        f"assert simile.{short} is import_module('simile.{home}')\n"
        f"for name in [n for n in sys.modules if n.startswith('simile.{short}.')]:\n"
        f"    assert sys.modules[name] is import_module('simile.{home}' + name.removeprefix('simile.{short}')), name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_home_holds_the_names_it_is_said_to():
    for home, names in simile.HOMES.items():
        module = importlib.import_module(f"simile.{home}")
        for name in names.split():
            assert getattr(simile, name) is getattr(module, name), (home, name)


def test_there_is_one_list_of_algorithms_and_each_is_a_public_function():
    assert all(getattr(simile, name) is getattr(algorithms, name) for name in ALGORITHMS)
    listed = [path for path in SOURCES if '"searn", "smile", "dagger"' in path.read_text(encoding="utf-8")]
    assert listed == [ROOT / "src/simile/learning/__init__.py"]


@pytest.mark.parametrize("name", ["Score", "Tally", "Estimate"])
def test_numbers_have_one_home(name: str):
    homes = [path for path in SOURCES if re.search(rf"^class {name}\b", path.read_text(encoding="utf-8"), re.M)]
    assert homes == [ROOT / "src/simile/metrics.py"]


def test_numba_is_imported_by_kernels_alone():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if path.name.startswith("kernel") or path.parent.name == "kernels" or "numba" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert "numba" not in {name.partition(".")[0] for name in names}, path


def test_make_help_lists_every_target_and_make_install_every_extra():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    assert targets == set(re.findall(r"^([a-z-]+):.* ## \w", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.search(r"^EXTRAS := (.*)$", makefile, re.MULTILINE)[1].split(","))
    assert extras == set(project["optional-dependencies"]) - {
        "bench",
        "gs",
        "abfs",
    }  # `make bench` adds that itself; for the others there is nothing to test against


def test_the_map_of_the_code_is_true():
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][
        0
    ]
    rooms = {room: n for n, layer in enumerate(reversed(layers["layers"]), 1) for room in re.findall(r"\w+", layer)}
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\nsrc/simile/\n")[1].split("```")[0]
    lines = re.findall(r"^  (\w+)(?:/|\.py) +(\d+)  (.*(?:\n {8,}.*)*)$", text, re.MULTILINE)
    assert {room: int(layer) for room, layer, _ in lines} == {r: n for r, n in rooms.items() if r != "__main__"}
    for room, _, line in lines:
        for name in line.partition(": ")[2].split():
            path = ROOT / "src/simile" / room / name
            assert path.is_dir() if name.endswith("/") else path.with_suffix(".py").is_file(), path


def test_files_that_the_docs_name_exist():
    for page in (*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")):
            assert any((place / name).is_file() for place in (ROOT, ROOT / "src/simile")), (page.name, name)


def test_benchmarks_import_names_that_exist():
    for path in ROOT.glob("benchmarks/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "simile":
                exec(compile(ast.Module([node], []), str(path), "exec"), {})


def test_the_five_minutes_of_the_readme_leave_what_the_demo_made_alone():
    written = re.findall(r'(?:save|write)\([^)]*"out/([^"]+)"', (ROOT / "README.md").read_text("utf-8"))
    made = re.findall(r'out / [\'"]([^\'"]+)[\'"]', (ROOT / "src/simile/experiments/demo.py").read_text("utf-8"))
    assert len(written) >= 2
    assert len(made) >= 4
    assert not set(written) & set(made)
