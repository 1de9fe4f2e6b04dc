"""The project's tasks.

``nox`` checks our own code, with any one supported Python and no other program. ``nox -s judges`` lets the programs of
others judge it; where one is missing, its part is skipped with a line, or fails if ``REQUIRE_JUDGES`` is set. Each
judge needs its own versions of nearly everything, so each has an environment below ``.nox``; the checks of our own code
share one, "project".
"""

from __future__ import annotations

import filecmp
import itertools
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple, NoReturn

import nox
from packaging.requirements import Requirement

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["lint", "types", "tests", "wheel"]
JUDGES = (  # longest first
    "libraries", "mindinsight", "lowest", "newest", "parity", "accelerator", "protobuf_matrix", "typing",
    "protos_check",
)  # fmt: skip
IS_REQUIRED = bool(os.environ.get("REQUIRE_JUDGES"))
# Where it is set, every process would compile all of PyTorch that it imports, which takes four times as long.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).resolve().parent
PACKAGE = "mindsummary_lightning"
PROTOS = f"{PACKAGE}/fileformat/_proto"
PYPROJECT = nox.project.load_toml("pyproject.toml")

# The set under which every page of MindInsight 2.3.1 works.
PINS: tuple[str, ...] = runpy.run_path("tests/oracle/pins.py")["PINS"]
# A file's tests share what its fixtures have made. In the order of their names: the file whose one test takes longest
# would otherwise come last, and alone.
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # of PyTorch, in each of the processes
QUICK = ("-q", "-m", "not slow", "--hypothesis-profile=few")
# Half of the time of `quick`.
QUICK_FIRST = ("tests/collection", "tests/docs", "tests/fileformat", "tests/graph", "tests/trainer")
PROTOBUF_MAJORS = ["3.20.1", "4.25.8", "5.29.5", "6.33.0"]  # and the newest, with which all tests run
OF_TRAININGS = [f"tests/{room}" for room in ("trainer", "collection", "recording", "graph", "landscape")]


def group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PYPROJECT, name))


def stated() -> list[Requirement]:
    """Every dependency of the package and of its extras."""
    project = PYPROJECT["project"]
    second = [line for line in group("trainings") if line.startswith("pytorch-lightning")]  # Lightning's other name
    lines = itertools.chain(project["dependencies"], *project["optional-dependencies"].values(), second)
    return [Requirement(line) for line in lines]


def lower_bounds() -> list[str]:
    """What the package and its extras depend on, each in the lowest version that pyproject.toml allows."""
    bounds = {needed.name: bound.version for needed in stated() for bound in needed.specifier if bound.operator == ">="}
    return [f"{name}=={version}" for name, version in bounds.items()]


class Environment(NamedTuple):
    """A virtual environment below ``.nox``.

    Attributes:
        requirements: what pip installs.
        versions: Pythons that it can have, best first; empty for the one that runs nox.
        is_pinned: whether it takes no notice of the constraints that are set for pip, as its versions are its point.
    """

    requirements: list[str]
    versions: tuple[str, ...] = ()
    is_pinned: bool = False


class Libraries(NamedTuple):
    """Libraries that train with Lightning, and the tests of what is recorded of them."""

    tests: str
    names: list[str]


LIBRARIES = {
    "forecasting": Libraries(
        "tests/graph/test_libraries.py", ["darts", "neuralforecast", "pytorch-forecasting", "torch_geometric"]
    ),
    "scripts": Libraries(
        "tests/trainer/test_foreign_scripts.py",
        [
            "chemprop", "gluonts[torch]", "kornia", "monai", "peft", "pytorch-metric-learning", "scvi-tools",
            "transformers", "x-transformers",
        ],
    ),
}  # fmt: skip
PROJECT = [name for part in ("tests", "browser", "lint", "types") for name in group(part)]
ENVIRONMENTS = {
    "project": Environment(["ninja", "setuptools", *dict.fromkeys(PROJECT), "-e", ".[tensorboard]"]),
    "mindinsight-server": Environment([*PINS, "setuptools<81"], ("3.11", "3.10", "3.9")),
    "mindspore-writer": Environment(["mindspore==2.7.0", "protobuf<=3.20.3", "crc32c"], ("3.11", "3.10", "3.9")),
    "mindspore-newest": Environment(["mindspore==2.10.0", "numpy<2", "crc32c"], ("3.11", "3.12", "3.10")),
    "protoc": Environment(group("protos"), ("3.11", "3.12", "3.10")),  # no later ones have a wheel
    "lowest": Environment([*lower_bounds(), *group("trainings")], ("3.10", "3.11", "3.12"), is_pinned=True),
    "newest": Environment(
        [*group("tests"), "-e", ".[tensorboard]"], ("3.14", "3.13", "3.12", "3.11", "3.10"), is_pinned=True
    ),
    **{kind: Environment([*names, *group("trainings"), "-e", "."]) for kind, (_, names) in LIBRARIES.items()},
}


def find_python(versions: Iterable[str]) -> str | None:
    """The first of these Pythons that is on the PATH and starts; a version manager's may be there and not start."""
    for version in versions:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            return sys.executable
        path = shutil.which(f"python{version}")
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


def leave_out(session: nox.Session, why: str) -> NoReturn:
    """Skip a judge, or fail where none may be missing."""
    if IS_REQUIRED:
        session.error(f"{why}; REQUIRE_JUDGES is set")
    session.skip(why)


def python_of(session: nox.Session, name: str) -> str:
    """Python of an environment, which is made if it is missing or lacks what it should have."""
    requirements, versions, is_pinned = ENVIRONMENTS[name]
    path = (ROOT / session.cache_dir).parent / name  # a session may have changed the directory
    python, installed = path / "bin" / "python", path / "requirements.txt"
    wanted = "\n".join(requirements)
    if installed.exists() and installed.read_text() == wanted:
        return str(python)
    if not python.exists():
        creator = find_python(versions) if versions else sys.executable
        if creator is None:
            leave_out(session, f"no Python {', '.join(versions)} is on the PATH for the environment {name}")
        # The pip that comes with Python 3.11 takes twice as long as the newest one to install what the project needs.
        subprocess.run([creator, "-m", "venv", "--upgrade-deps", str(path)], check=True)
    # Compiling every file takes longer than the rest of an installation; Python compiles what is imported.
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    pip = [str(python), "-m", "pip", "install", *options, *requirements]
    env = {**os.environ, "PIP_CONSTRAINT": ""} if is_pinned else None
    done = subprocess.run(pip, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print(done.stdout)  # noqa: T201
        why = f"pip cannot install the environment {name}"
        session.error(why) if name == "project" else leave_out(session, why)
    installed.write_text(wanted)
    return str(python)


def run_in_project(session: nox.Session, program: str, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run a program of the environment "project", as if that were active."""
    command, path = in_project(session, program)
    session.run(*command, *arguments, env={**(env or {}), **path}, external=True)


def in_project(session: nox.Session, program: str) -> tuple[list[str], dict[str, str]]:
    """What starts a program of the environment "project", and the variables that it needs."""
    folder = Path(python_of(session, "project")).parent
    return [str(folder / program)], {"PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}


def run_two_at_a_time(session: nox.Session, commands: dict[str, list[str]], env: dict[str, str]) -> str:
    """Run commands; what each has printed is shown when it has ended, and returned."""

    def run(name: str) -> tuple[str, subprocess.CompletedProcess[str]]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return name, subprocess.run(commands[name], cwd=ROOT, env={**os.environ, **env}, text=True, **streams)

    failed, printed = [], ""
    with ThreadPoolExecutor(2) as pool:
        for ended in as_completed([pool.submit(run, name) for name in commands]):
            name, done = ended.result()
            print(done.stdout, flush=True)  # noqa: T201
            printed += done.stdout
            failed += [name] if done.returncode else []
    if failed:
        session.error(f"{', '.join(failed)} failed")
    return printed


# Our own code


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    run_in_project(session, "ruff", "check", ".")
    run_in_project(session, "ruff", "format", "--check", ".")


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Static types, strict, of the package and of what users write with it."""
    if sys.version_info < (3, 11):
        session.skip("the newest NumPy for Python 3.10 states its types in another way; a newer Python checks them")
    run_in_project(session, "mypy")
    run_in_project(session, "mypy", "tests/typing")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """All tests that need no other program, import contracts too; ``-- tests/faults --full`` for the long form."""
    ignored = [f"--ignore={path}" for path in ("tests/oracle", *(each.tests for each in LIBRARIES.values()))]
    run_in_project(session, "pytest", *ignored, *SIDE_BY_SIDE, *session.posargs, env=ONE_THREAD)


@nox.session(venv_backend="none")
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it where the checkout is not, train the demo with it, and look at that run."""
    folder = Path(session.create_tmp()).resolve()
    for left in ("dist", "installed", "runs"):  # by an earlier call
        shutil.rmtree(folder / left, ignore_errors=True)
    run_in_project(session, "python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"))
    (built,) = (folder / "dist").glob("*.whl")
    place = folder / "installed"
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(place))
    run_in_project(session, "python", *pip, str(built))
    shutil.copy(ROOT / "examples" / "digits.py", folder)
    session.chdir(folder)
    variables = {"PYTHONPATH": str(place)}
    proof = f"import {PACKAGE} as p; assert p.__file__.startswith({str(place)!r}), p.__file__"
    run_in_project(session, "python", "-c", proof, env=variables)
    run_in_project(session, "python", "digits.py", "--epochs", "1", env=variables)
    run_in_project(session, "python", str(place / "bin" / "mindsummary"), "show", "runs", env=variables)
    session.log(f"left out: what needs other programs and versions ({', '.join(JUDGES)}): python -m nox -s judges")


@nox.session(venv_backend="none")
def quick(session: nox.Session) -> None:
    """The edit loop: lint, import contracts, types of changed files, and every test that is not slow."""
    lint(session)
    run_in_project(session, "lint-imports")
    git = ["git", "ls-files", "--modified", "--others", "--exclude-standard", "--deduplicate", f"{PACKAGE}/*.py"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, text=True).stdout.split()
    changed = [name for name in listed if (ROOT / name).exists() and not name.startswith(PROTOS)]
    if changed:
        run_in_project(session, "mypy", *changed)
    # Two processes, each with half of the time: pytest-xdist would take a third longer for thousands of short tests.
    command, path = in_project(session, "pytest")
    command += [*QUICK, *session.posargs]
    halves = {
        "one half": [*command, *QUICK_FIRST],
        "the other half": [*command, *(f"--ignore={folder}" for folder in (*QUICK_FIRST, "tests/oracle"))],
    }
    run_two_at_a_time(session, halves, {**ONE_THREAD, **path})


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant faults one by one and list those that no test sees; ``-- MODULE TESTS ...``, some minutes for a module."""
    module, *tested = session.posargs or session.error(
        "name a module and its tests: -- PACKAGE/room/module.py tests/room"
    )
    python = Path(python_of(session, "project"))
    session.install("mutmut>=3.8")
    folder = Path(session.create_tmp()).resolve() / "checkout"
    shutil.rmtree(folder, ignore_errors=True)
    for part in (PACKAGE, "tests", "docs", "examples"):
        shutil.copytree(ROOT / part, folder / part)
    settings = {
        "source_paths": [PACKAGE], "only_mutate": [module], "also_copy": ["docs", "examples"],
        "pytest_add_cli_args": ["-m", "not slow", "--hypothesis-profile=few"],
        "pytest_add_cli_args_test_selection": tested,
    }  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]))
    session.chdir(folder)
    packages = (
        python.parent.parent / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    variables = {**ONE_THREAD, "PYTHONPATH": str(packages)}
    session.run("python", "-m", "mutmut", "run", "--max-children", "2", env=variables, silent=True)
    session.run("python", "-m", "mutmut", "results", env=variables)
    session.log(f"to see one: cd {folder} && {session.bin}/python -m mutmut show NAME")


# Judges


@nox.session(venv_backend="none")
def judges(session: nox.Session) -> None:
    """The sessions of ``JUDGES``, two at a time; what each has printed is shown when it has ended."""
    for name in ("project", "mindinsight-server"):  # that several of them use
        if find_python(ENVIRONMENTS[name].versions) or name == "project":
            python_of(session, name)
    session.log(f"{', '.join(JUDGES)}: two at a time, half an hour; each is shown when it has ended")
    nox_itself = [sys.executable, "-m", "nox", "-s"]
    printed = run_two_at_a_time(session, {name: [*nox_itself, name] for name in JUDGES}, {})
    for line in printed.splitlines():
        if "skipped:" in line:
            session.warn(line.removeprefix("nox > "))


@nox.session(venv_backend="none")
def mindinsight(session: nox.Session) -> None:
    """A real MindInsight 2.3.1 reads what we wrote, through its REST API and in a browser."""
    server = python_of(session, "mindinsight-server")
    browser = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if browser:
        why = f"{' and '.join(browser)} not on the PATH"
        session.error(f"{why}; REQUIRE_JUDGES is set") if IS_REQUIRED else session.warn(f"browser skipped: {why}")
    variables = {**ONE_THREAD, "MINDINSIGHT_PYTHON": server}
    run_in_project(session, "pytest", "tests/oracle", *SIDE_BY_SIDE, *session.posargs, env=variables)
    compare(session, "mindinsight_signatures", server, "write_signatures.py", "mindinsight")


def compare(session: nox.Session, name: str, python: str, script: str, *words: str) -> None:
    """Let one of the originals write a file of tests/golden again; it differs in the version of its writer at most."""
    fresh, committed = Path(session.create_tmp()) / f"{name}.json", ROOT / "tests" / "golden" / f"{name}.json"
    session.run(python, f"tests/golden/{script}", *words, "--output", str(fresh), external=True)
    found, expected = (json.loads(path.read_text()) for path in (fresh, committed))
    if {**found, "written_by": None} != {**expected, "written_by": None}:
        session.error(f"{fresh} differs from {committed}; read the difference")


@nox.session(venv_backend="none")
@nox.parametrize("environment", ["mindspore-writer", "mindspore-newest"])
def parity(session: nox.Session, environment: str) -> None:
    """A real MindSpore, 2.7.0 and 2.10.0, writes the golden values again, and records nets; ``-- --full``: all."""
    writer = python_of(session, environment)
    compare(session, "mindspore_values", writer, "write_with_mindspore.py")
    compare(session, "mindspore_signatures", writer, "write_signatures.py", "mindspore")
    compare(session, "mindspore_defaults", writer, "write_defaults.py")
    compare(session, "mindspore_errors", writer, "write_errors.py")
    compare(session, "mindspore_rows", writer, "write_rows.py")
    folder = "tests/golden/collector"
    session.run(
        writer, f"{folder}/train_with_mindspore.py", "--check", f"{folder}/mindspore_collector.json", external=True
    )
    runs = Path(session.create_tmp()).resolve() / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    train = "tests/comparison/ports/train_with_mindspore.py"
    session.run(writer, train, str(runs), external=True, silent=True)
    session.run(writer, train, str(runs / "again"), "cnn", external=True, silent=True)
    nets = () if "--full" in session.posargs else ("transformer", "resnet")
    ours = {"PYTHONPATH": str(ROOT)}
    session.run(writer, "tests/mindspore/record_with_mindspore.py", str(runs / "steps"), env=ours, external=True)
    chains = "tests/comparison/chains/nets_mindspore.py"
    session.run(writer, chains, str(runs / "chains"), *nets, env=ours, external=True)
    variables = {
        **ONE_THREAD, "MINDSPORE_RUNS": str(runs), "MINDSPORE_STEPS": str(runs / "steps"),
        "MINDSPORE_CHAINS": str(runs / "chains"),
    }  # fmt: skip
    tested = ("tests/comparison/test_mindspore_ports.py", "tests/comparison/test_chains.py", "tests/mindspore")
    run_in_project(session, "pytest", *tested, *session.posargs, env=variables)


@nox.session(venv_backend="none")
def accelerator(session: nox.Session) -> None:
    """A stand-in accelerator counts copies and waits; needs a C++ compiler, which builds it once."""
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        leave_out(session, f"{compiler} is not on the PATH: the stand-in accelerator is a C++ extension")
    variables = {"ACCELERATOR_BUILD": str(Path(session.cache_dir).resolve() / "accelerator")}
    run_in_project(session, "pytest", "tests/accelerator", *session.posargs, env=variables)


@nox.session
def typing(session: nox.Session) -> None:
    """The code of users under pyright, strict; of the package's types at least 99 % are known to it."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        leave_out(session, f"{' and '.join(missing)} not on the PATH: pyright is a program for node")
    session.install("pyright==1.1.414")
    python = python_of(session, "project")
    session.run("pyright", "--pythonpath", python, "-p", "tests/typing")
    verify = ("pyright", "--pythonpath", python, "--ignoreexternal", "--verifytypes", PACKAGE)
    # Told of Python alone, --verifytypes does not look into its packages: their classes are unknown.
    paths = [ROOT, *Path(python).parents[1].glob("lib/python*/site-packages")]
    variables = {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    told = str(session.run(*verify, env=variables, success_codes=[0, 1], silent=True))
    score = float(told.rpartition("completeness score: ")[2].partition("%")[0])
    if score < 99:
        session.error(f"{told}\nonly {score} % of the types are known")


@nox.session(venv_backend="none")
def lowest(session: nox.Session) -> None:
    """The lowest versions that pyproject.toml allows: README's first block, the demo, and the tests of what trains."""
    python = python_of(session, "lowest")
    session.run(python, "-m", "pip", "check", external=True)
    variables = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
    session.run(python, "-m", "pytest", *QUICK, *OF_TRAININGS, *session.posargs, env=variables, external=True)
    folder = Path(session.create_tmp()).resolve()  # now: it is TMPDIR from here on, and tests want one outside
    shutil.rmtree(folder / "runs", ignore_errors=True)
    (folder / "block.py").write_text((ROOT / "README.md").read_text().split("```python\n")[1].partition("```")[0])
    shutil.copy(ROOT / "examples" / "digits.py", folder)
    session.chdir(folder)
    session.run(python, "block.py", env=variables, external=True)
    session.run(python, "digits.py", "--epochs", "1", env=variables, external=True)


@nox.session(venv_backend="none")
def newest(session: nox.Session) -> None:
    """The newest versions that pip can get, on the newest Python: every test that is not slow."""
    python = python_of(session, "newest")
    shown = ("-c", "import torch, lightning, numpy; print(torch.__version__, lightning.__version__, numpy.__version__)")
    session.run(python, *shown, external=True)
    variables = {**ONE_THREAD, "PATH": os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])}
    command = ("-m", "pytest", *QUICK, "--ignore=tests/oracle", *session.posargs)
    session.run(python, *command, env=variables, external=True)


@nox.session(venv_backend="none")
def protobuf_matrix(session: nox.Session) -> None:
    """The codecs work with each older major version of protobuf, which hides that of the environment."""
    python = python_of(session, "project")
    drawn = [] if "--full" in session.posargs else ["--hypothesis-profile=few", "-m", "not slow"]
    for version in PROTOBUF_MAJORS:
        folder = Path(session.create_tmp()).resolve() / version
        if not folder.exists():
            pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), f"protobuf=={version}")
            session.run(python, *pip, external=True)
        variables = {**ONE_THREAD, "PYTHONPATH": str(folder)}
        proof = f"from google import protobuf; assert protobuf.__version__ == {version!r}, protobuf.__file__"
        session.run(python, "-c", proof, env=variables, external=True)
        run_in_project(session, "pytest", "tests/fileformat", "-q", *drawn, *session.posargs, env=variables)


@nox.session(venv_backend="none")
def protos_check(session: nox.Session) -> None:
    """The committed protobuf classes are what the sources give."""
    target = Path(session.create_tmp()).resolve()
    generate(session, target)
    for fresh in sorted((target / PROTOS).glob("*_pb2.py*")):
        if not filecmp.cmp(fresh, ROOT / PROTOS / fresh.name, shallow=False):
            session.error(f"{PROTOS}/{fresh.name} is out of date; run 'nox -s protos'")


@nox.session(venv_backend="none")
@nox.parametrize("kind", list(LIBRARIES))
def libraries(session: nox.Session, kind: str) -> None:
    """Other libraries' models, trained as for their users: their graphs; and of scripts all that is said of them."""
    session.run(python_of(session, kind), "-m", "pytest", LIBRARIES[kind].tests, *session.posargs, external=True)


# Once a week, and by hand


@nox.session
def demo(session: nox.Session) -> None:
    """Train on real data and leave a run behind."""
    session.log("installs into .nox/demo; on Linux plain pip takes PyTorch's CUDA build, about 3 GB (README: CPU only)")
    session.install(".[demo]", silent=False)
    session.run("python", "examples/digits.py", *session.posargs)


@nox.session
def guides(session: nox.Session) -> None:
    """Every block of README and guides in order, outside the checkout, with the package installed; ``-- PAGE``: one."""
    extras = "demo,pandas,parquet,plot,report,tensorboard"
    session.install(f".[{extras}]", "duckdb>=1", "hydra-core>=1.3", "jsonargparse[signatures]>=4.40", "optuna>=4")
    folder = Path(session.create_tmp()).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("docs", "tests/docs"):
        shutil.copytree(ROOT / part, folder / "pages" / part)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, folder / "pages")
    work = folder / "work"
    work.mkdir()
    session.chdir(work)
    environment = {"PYTHONPATH": str(folder / "pages"), "PL_TRAINER_ENABLE_PROGRESS_BAR": "False", "MPLBACKEND": "Agg"}
    session.run("python", "-m", "tests.docs.page_code", *session.posargs, env=environment)


@nox.session
def package(session: nox.Session) -> None:
    """Build wheel and sdist, install the wheel where nothing else is, train with it and look with every Python."""
    session.install(*group("package"))
    folder = Path(session.create_tmp()).resolve()
    for left in ("dist", "runs"):  # by an earlier call
        shutil.rmtree(folder / left, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder / "dist"))
    built = sorted(map(str, (folder / "dist").iterdir()))
    session.run("twine", "check", "--strict", *built)
    (wheel,) = (path for path in built if path.endswith(".whl"))
    each_verb = (str(ROOT / "tests" / "package" / "each_verb.py"), str(ROOT / "tests" / "oracle" / "mindspore_runs"))
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}

    def fresh(name: str, creator: str = "python") -> str:
        session.run(creator, "-m", "venv", "--clear", str(folder / name), external=True)
        return str(folder / name / "bin" / "python")

    python = fresh("clean")
    session.run(python, "-m", "pip", "install", "--quiet", wheel, external=True)
    session.run(python, *each_verb, external=True, env=cache)
    session.run(python, "-m", "pip", "install", "--quiet", f"{wheel}[demo]", external=True)
    shutil.copy(ROOT / "examples" / "digits.py", folder / "digits.py")
    session.chdir(folder)
    session.run(python, "digits.py", "--epochs", "1", external=True)
    session.run(str(folder / "clean" / "bin" / "mindsummary"), "show", "runs", external=True)

    install_needs, install_report, install = looking_commands(wheel)
    for creator in looking_pythons():
        python = fresh("looking", creator)
        for words in (install_needs, install):
            session.run(python, *words, "--quiet", external=True)
        session.run(python, *each_verb, "torch", "lightning", "PIL", external=True, env=cache)
        session.run(python, *install_report, "--quiet", external=True)
        session.run(python, *each_verb, "torch", "lightning", external=True, env=cache)


def looking_pythons() -> list[str]:
    """The supported Pythons that are on the PATH and start; a version manager's may be there and not start."""
    found = (shutil.which(f"python3.{minor}") for minor in range(10, 15))
    return [path for path in found if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0]


def looking_commands(wheel: str) -> list[list[str]]:
    """What docs/install.md tells those who only look to run after ``python``, with a wheel in the place of the name."""
    section = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").partition("## Looking only")[2]
    lines = [line.split()[1:] for line in section.splitlines() if line.startswith("    python -m pip")]
    commands = [[word.strip('"') for word in line] for line in lines]
    return [[wheel if word == PACKAGE.replace("_", "-") else word for word in words] for words in commands]


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Build the site into site/; a warning is an error. Needs PyTorch, as the reference describes what trains."""
    run_in_project(session, "sphinx-build", "-E", "-n", "-W", "--keep-going", "docs", "site", *session.posargs)


@nox.session(python="3.11")  # atheris has wheels for a few versions only
def fuzz(session: nox.Session) -> None:
    """Fuzz all that reads a run, guided by coverage, for a minute; ``-- SECONDS`` for longer."""
    session.install("atheris>=3", "-e", ".", "hypothesis")
    folder = Path(session.create_tmp()).resolve()
    (folder / "corpus").mkdir(exist_ok=True)
    left = int(session.posargs[0]) if session.posargs else 60
    while left > 0:  # in rounds: the memory of what atheris instruments grows
        limits = (f"-max_total_time={min(left, 180)}", "-rss_limit_mb=2048", "-timeout=20", "-max_len=16384")
        command = ("-m", "tests.faults.fuzz_reader", str(folder / "finds"), str(folder / "corpus"))
        session.run("python", *command, *limits, f"-artifact_prefix={folder}/")
        left -= 180
    finds = sorted(path.name for path in (folder / "finds").iterdir())
    if finds:
        session.error(f"{folder / 'finds'} has {', '.join(finds)}")


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Every figure of docs/performance.md, each beside its peers; never part of the checks."""
    variables = {
        "BENCH_JSON": str(Path(session.create_tmp()).resolve() / "figures.json"),
        "MINDINSIGHT_PYTHON": python_of(session, "mindinsight-server"),
        "MINDSPORE_PYTHON": python_of(session, "mindspore-writer"),
    }
    for script in session.posargs or sorted(map(str, Path("benchmarks").glob("[a-z]*.py"))):
        if Path(script).name not in ("paired.py", "soak.py", "faults.py"):
            run_in_project(session, "python", script, env=variables)


@nox.session(venv_backend="none")
def protos(session: nox.Session) -> None:
    """Generate the protobuf classes."""
    generate(session, ROOT)


def generate(session: nox.Session, target: Path) -> None:
    sources = sorted(str(path.relative_to(ROOT / "protos")) for path in (ROOT / "protos").rglob("*.proto"))
    python = python_of(session, "protoc")  # before the directory changes: it is found from there
    session.chdir(ROOT / "protos")
    command = ("-m", "grpc_tools.protoc", "-I", ".", f"--python_out={target}", f"--pyi_out={target}")
    session.run(python, *command, *sources, external=True)
    session.chdir(ROOT)
