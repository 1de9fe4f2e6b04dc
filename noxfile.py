#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.10"
# dependencies = ["nox>=2024.10.9", "packaging"]
# ///
"""The project's tasks.

``nox`` checks our own code, with any one supported Python and no other program. ``nox -s judges``
lets the programs of others judge it; where one is missing, its part is skipped with a line, or
fails if ``REQUIRE_JUDGES`` is set. Each has an environment below ``.nox``, as they need different
versions; the checks of our own code share one, "project". As the judges' have 25 GB together, each
is removed as soon as its judge has ended if ``REQUIRE_JUDGES`` is set.
"""

from __future__ import annotations

import atexit
import filecmp
import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

import nox
from packaging.requirements import Requirement

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "venv"
JUDGES = (  # longest first
    "libraries", "mindinsight", "lowest", "parity", "accelerator", "protobuf_matrix", "typing",
    "protos_check",
)  # fmt: skip
IS_REQUIRED = bool(os.environ.get("REQUIRE_JUDGES"))
# CI: an upstream release of today does not turn the gate red
IS_LOCKED = bool(os.environ.get("LOCKED"))
SHARED = ("project", "mindinsight-server")  # environments that several sessions use
# Where it is set, every process would compile all of PyTorch that it imports, which takes four
# times as long.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The order of tests is drawn; it is the same for a week, so that a failure can be seen again.
SEED = date.today().isocalendar().week % 10
os.environ["PYTEST_ADDOPTS"] = (
    f"{os.environ.get('PYTEST_ADDOPTS', '')} --randomly-seed={SEED}".strip()
)

ROOT = Path(__file__).resolve().parent
PYTHONS = [f"3.{minor}" for minor in range(14, 9, -1)]  # newest first
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGE = "mindsummary_lightning"
PROTOS = f"{PACKAGE}/fileformat/_proto"
PYPROJECT = nox.project.load_toml("pyproject.toml")
group = partial(nox.project.dependency_groups, PYPROJECT)

PINS: tuple[str, ...] = runpy.run_path("tests/oracle/pins.py")["PINS"]
# A file's tests share fixtures. In the order of names: the file whose one test takes longest would
# be last, and alone.
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # of PyTorch, in each of the processes
# a failure is shown when it happens
QUICK = ("-q", "-m", "not slow", "--hypothesis-profile=few", "--instafail")
# half of its time
QUICK_FIRST = [f"tests/{room}" for room in ("collection", "docs", "fileformat", "graph", "trainer")]
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
# and the newest, with which all tests run
PROTOBUF_MAJORS = ["3.20.1", "4.25.8", "5.29.5", "6.33.0"]
OF_TRAININGS = [
    f"tests/{room}" for room in ("trainer", "collection", "recording", "graph", "landscape")
]


def lower_bounds() -> list[str]:
    """The lowest version that pyproject.toml allows of each dependency, extras included."""
    project = PYPROJECT["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    # Lightning's other name
    lines += [line for line in group("trainings") if line.startswith("pytorch-lightning")]
    bounds = [
        (needed.name, each) for needed in map(Requirement, lines) for each in needed.specifier
    ]
    return list(
        dict.fromkeys(f"{name}=={each.version}" for name, each in bounds if each.operator == ">=")
    )


class Environment(NamedTuple):
    """A virtual environment below ``.nox``."""

    requirements: Sequence[str]
    versions: Sequence[str] = (THIS_PYTHON,)  # Pythons that it can have, best first
    # takes no notice of the constraints that are set for pip, as its versions are its point
    is_pinned: bool = False


# Libraries that train with Lightning, and the tests of what is recorded of them.
LIBRARIES = {
    "forecasting": ["darts", "neuralforecast", "pytorch-forecasting", "torch_geometric"],
    "scripts": [
        "chemprop", "gluonts[torch]", "kornia", "monai", "peft", "pytorch-metric-learning",
        "scvi-tools", "transformers", "x-transformers",
    ],
}  # fmt: skip
OF_LIBRARIES = {
    "forecasting": "tests/graph/test_libraries.py",
    "scripts": "tests/trainer/test_foreign_scripts.py",
}
# Where a user may run the tests that CI does not, by the variables that make it so; `-W error` is
# for what is left open.
LEFT_OPEN = "-W error::ResourceWarning -W error::pytest.PytestUnraisableExceptionWarning"
PLACES = {
    "directory": {},
    "locale": {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
    "sdist": {},
    "user": {},
    "warnings": {"PYTEST_ADDOPTS": f"{os.environ['PYTEST_ADDOPTS']} {LEFT_OPEN}"},
}
PROJECT = [name for part in ("tests", "browser", "lint", "types") for name in group(part)]
ENVIRONMENTS = {
    "project": Environment(
        ["ninja", "setuptools", *dict.fromkeys(PROJECT), "-e", ".[tensorboard]"]
    ),
    "mindinsight-server": Environment([*PINS, "setuptools<81"], ("3.11", "3.10", "3.9")),
    "mindspore-writer": Environment(
        ["mindspore==2.7.0", "protobuf<=3.20.3", "crc32c"], ("3.11", "3.10", "3.9")
    ),
    "mindspore-newest": Environment(
        ["mindspore==2.10.0", "numpy<2", "crc32c"], ("3.11", "3.12", "3.10")
    ),
    "builder": Environment(group("package")),
    "protoc": Environment(group("protos"), ("3.11", "3.12", "3.10")),  # no later ones have a wheel
    "lowest": Environment(
        [*lower_bounds(), *group("trainings")], ("3.10", "3.11", "3.12"), is_pinned=True
    ),
    "newest": Environment([*group("tests"), "-e", ".[tensorboard]"], PYTHONS, is_pinned=True),
    **{
        kind: Environment([*names, *group("trainings"), "-e", "."])
        for kind, names in LIBRARIES.items()
    },
}


def find_pythons(versions: Iterable[str]) -> Iterator[str]:
    """The Pythons on the PATH that start; a version manager may list others."""
    for version in versions:
        path = sys.executable if version == THIS_PYTHON else shutil.which(f"python{version}")
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            yield path


def leave_out(session: nox.Session, why: str) -> NoReturn:
    """Skip a judge, or fail where none may be missing."""
    if IS_REQUIRED:
        session.error(f"{why}; REQUIRE_JUDGES is set")
    session.skip(why)


def python_of(session: nox.Session, name: str) -> str:
    """Python of an environment, which is made if it is missing or lacks what it should have."""
    requirements, versions, is_pinned = ENVIRONMENTS[name]
    path = (ROOT / session.cache_dir).parent / name  # a session may have changed the directory
    if IS_REQUIRED and name not in SHARED:
        atexit.register(shutil.rmtree, path, ignore_errors=True)
    python, installed = path / "bin" / "python", path / "requirements.txt"
    wanted = "\n".join(requirements)
    if installed.exists() and installed.read_text(encoding="utf-8") == wanted:
        return str(python)
    if not python.exists():
        creator = next(find_pythons(versions), None)
        if creator is None:
            leave_out(
                session,
                f"no Python {', '.join(versions)} is on the PATH for the environment {name}",
            )
        # The pip that comes with Python 3.11 takes twice as long as the newest one to install what
        # the project needs.
        subprocess.run([creator, "-m", "venv", "--upgrade-deps", str(path)], check=True)
    env = {**os.environ, "PIP_CONSTRAINT": ""} if is_pinned else None
    # Compiling every file takes longer than the rest of an installation; Python compiles what is
    # imported.
    command = [str(python), *PIP, "--no-compile", *requirements]
    lock = lock_of(name, str(python))
    if IS_LOCKED and lock.exists():
        command += ["--constraint", str(lock)]
    for _ in range(2):  # an index may break a download off
        done = subprocess.run(
            command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if not done.returncode:
            break
    else:
        print(done.stdout)  # noqa: T201
        why = f"pip cannot install the environment {name}"
        session.error(why) if name == "project" else leave_out(session, why)
    installed.write_text(wanted, encoding="utf-8")
    return str(python)


def lock_of(name: str, python: str) -> Path:
    """The file of locked versions for this minor version of Python; need not exist."""
    told = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
    minor = ".".join(told.split()[1].split(".")[:2])
    return ROOT / ".ci" / "locks" / f"{name}-{minor}.txt"


def state_python(session: nox.Session, name: str) -> None:
    """Say which Python an environment has; warn where it is not the one that its name promises."""
    python, wanted = python_of(session, name), ENVIRONMENTS[name].versions[0]
    told = subprocess.run(
        [python, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    session.log(f"{name}: {told}")
    if not told.startswith(f"Python {wanted}."):
        session.warn(
            f"{name}: Python {wanted} is not on the PATH, so these versions were run with {told}"
        )


def installed_versions(python: str) -> list[str]:
    """What pip has installed from an index, as ``name==version`` without ``+cpu``."""
    listed = subprocess.run(
        [python, "-m", "pip", "freeze", "--exclude-editable"], capture_output=True, text=True
    )
    return [line.partition("+")[0] for line in listed.stdout.splitlines() if "==" in line]


def newer_than_locked(session: nox.Session) -> str:
    """The packages of the environment "project" that differ from its lock, with commas."""
    python = python_of(session, "project")
    lock = lock_of("project", python)
    locked = lock.read_text(encoding="utf-8").splitlines() if lock.exists() else []
    return ", ".join(line for line in installed_versions(python) if locked and line not in locked)


def empty_folder(session: nox.Session) -> Path:
    """A session's temporary folder, without what an earlier call left there."""
    shutil.rmtree(session.create_tmp())
    return Path(session.create_tmp()).resolve()


def active(python: str) -> dict[str, str]:
    """The variables under which programs of an environment are found first."""
    return {"PATH": os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])}


def run_in_project(
    session: nox.Session, program: str, *arguments: str, env: dict[str, str] | None = None
) -> None:
    """Run a program of the environment "project", as if that were active."""
    python = python_of(session, "project")
    session.run(
        str(Path(python).parent / program), *arguments, env={**(env or {}), **active(python)}
    )


def run_two_at_a_time(
    session: nox.Session, commands: dict[str, list[str]], env: dict[str, str]
) -> str:
    """Run commands; what each has printed is shown when it has ended, and returned."""

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, text=True, **streams)
        print(done.stdout, flush=True)  # noqa: T201
        return done

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(run, commands.values()))
    if failed := [name for name, done in zip(commands, ended, strict=True) if done.returncode]:
        session.error(f"{', '.join(failed)} failed")
    return "".join(done.stdout for done in ended)


# Our own code


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Style and formatting."""
    run_in_project(session, "ruff", "check", ".")
    run_in_project(session, "ruff", "format", "--check", ".")
    run_in_project(session, "complexipy", PACKAGE)


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Static types, strict, of the package and of what users write with it."""
    if sys.version_info < (3, 11):
        session.skip(
            "the newest NumPy for Python 3.10 states its types in another way; a newer "
            "Python checks them"
        )
    run_in_project(session, "mypy")
    run_in_project(session, "mypy", "tests/typing")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """All tests that need no other program; ``-- tests/faults --full``: the long form."""
    ignored = [f"--ignore={path}" for path in ("tests/oracle", *OF_LIBRARIES.values())]
    try:
        run_in_project(session, "pytest", *ignored, *SIDE_BY_SIDE, *session.posargs, env=ONE_THREAD)
    except nox.command.CommandFailed:
        if newer := newer_than_locked(session):
            session.warn(
                f"newer than in CI, where the tests pass: {newer}. LOCKED=1 installs what CI has."
            )
        raise


@nox.session(venv_backend="none")
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it outside the checkout, train the demo with it."""
    folder = empty_folder(session)
    run_in_project(
        session, "python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")
    )
    (built,) = (folder / "dist").glob("*.whl")
    place = folder / "installed"
    run_in_project(session, "python", *PIP, "--no-deps", "--target", str(place), str(built))
    shutil.copy(ROOT / "examples" / "digits.py", folder)
    session.chdir(folder)
    variables = {"PYTHONPATH": str(place)}
    proof = f"import {PACKAGE} as p; assert p.__file__.startswith({str(place)!r}), p.__file__"
    run_in_project(session, "python", "-c", proof, env=variables)
    run_in_project(session, "python", "digits.py", "--epochs", "1", env=variables)
    run_in_project(
        session, "python", str(place / "bin" / "mindsummary"), "show", "runs", env=variables
    )
    session.log(
        f"left out: what needs other programs and versions ({', '.join(JUDGES)}): python -m "
        "nox -s judges"
    )


def changed_modules(session: nox.Session) -> list[str]:
    """Modules that differ from the branch point, staged and new ones too; all without git."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.split() if not done.returncode else []

    if shutil.which("git") is None or not git("rev-parse", "HEAD"):
        session.log("types: there is no git checkout, so all modules are checked")
        return [PACKAGE]
    main = git("rev-parse", "--verify", "--quiet", "origin/main") or git(
        "rev-parse", "--verify", "--quiet", "main"
    )
    (base,) = git("merge-base", "HEAD", *main) if main else git("rev-parse", "HEAD")
    differing = git("diff", "--name-only", "--diff-filter=d", base, "--", f"{PACKAGE}/*.py")
    new = git("ls-files", "--others", "--exclude-standard", f"{PACKAGE}/*.py")
    return [name for name in (*differing, *new) if not name.startswith(PROTOS)]


def run_halves(
    session: nox.Session, commands: Sequence[list[str]], is_ended_by_failure: bool
) -> None:
    """Run test processes side by side; show each line after the number of its process."""
    env = {**os.environ, **ONE_THREAD, **active(commands[0][0]), "PYTHONUNBUFFERED": "1"}
    running = [
        subprocess.Popen(
            command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for command in commands
    ]

    def show(number: int) -> int:
        for line in running[number].stdout or ():
            print(f"{number + 1}| {line}", end="", flush=True)  # noqa: T201
        status = running[number].wait()
        if status and is_ended_by_failure:
            for other in running:
                other.terminate()
        return status

    with ThreadPoolExecutor(len(commands)) as pool:
        statuses = list(pool.map(show, range(len(commands))))
    if any(statuses):
        session.error("tests failed")


@nox.session(venv_backend="none", default=False)
def quick(session: nox.Session) -> None:
    """The edit loop: lint, contracts, types of changed files, quick tests (``-- PATH``)."""
    lint(session)
    run_in_project(session, "lint-imports")
    if changed := changed_modules(session):
        run_in_project(session, "mypy", *changed)
    # Two processes, each with half of the time: pytest-xdist would take a third longer for
    # thousands of short tests.
    command = [python_of(session, "project"), "-m", "pytest", *QUICK, *session.posargs]
    if any(Path(argument.partition("::")[0]).exists() for argument in session.posargs):
        session.run(*command, env={**ONE_THREAD, **active(command[0])})
        return
    others = [f"--ignore={folder}" for folder in (*QUICK_FIRST, "tests/oracle")]
    run_halves(session, [[*command, *QUICK_FIRST], [*command, *others]], "-x" in session.posargs)


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """Plant faults one by one and list those that no test sees; ``-- MODULE TESTS ...``."""
    module, *tested = session.posargs or session.error(
        "name a module and its tests: -- PACKAGE/a/module.py tests/a"
    )
    python = Path(python_of(session, "project"))
    session.install("mutmut>=3.8")
    folder = empty_folder(session) / "checkout"
    for part in (PACKAGE, "tests", "docs", "examples"):
        shutil.copytree(ROOT / part, folder / part)
    settings = {
        "source_paths": [PACKAGE], "only_mutate": [module], "also_copy": ["docs", "examples"],
        "pytest_add_cli_args": QUICK, "pytest_add_cli_args_test_selection": tested,
    }  # fmt: skip
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        "\n".join([project, "[tool.mutmut]", *lines, ""]), encoding="utf-8"
    )
    session.chdir(folder)
    variables = {
        **ONE_THREAD,
        "PYTHONPATH": str(python.parents[1] / f"lib/python{THIS_PYTHON}/site-packages"),
    }
    session.run("python", "-m", "mutmut", "run", "--max-children", "2", env=variables, silent=True)
    session.run("python", "-m", "mutmut", "results", env=variables)
    session.log(f"to see one: cd {folder} && {session.bin}/python -m mutmut show NAME")


# Judges


@nox.session(venv_backend="none", default=False)
def judges(session: nox.Session) -> None:
    """Run the sessions of ``JUDGES``, two at a time; show each when it has ended."""
    for name in SHARED:
        if any(find_pythons(ENVIRONMENTS[name].versions)):
            python_of(session, name)
    session.log(
        f"{', '.join(JUDGES)}: two at a time, half an hour; each is shown when it has ended"
    )
    printed = run_two_at_a_time(
        session, {name: [sys.executable, "-m", "nox", "-s", name] for name in JUDGES}, {}
    )
    for line in printed.splitlines():
        if "skipped:" in line:
            session.warn(line.removeprefix("nox > "))


@nox.session(venv_backend="none", default=False)
def mindinsight(session: nox.Session) -> None:
    """A real MindInsight 2.3.1 reads what we wrote, through its REST API and in a browser."""
    server = python_of(session, "mindinsight-server")
    if browser := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        why = f"{' and '.join(browser)} not on the PATH"
        session.error(f"{why}; REQUIRE_JUDGES is set") if IS_REQUIRED else session.warn(
            f"browser skipped: {why}"
        )
    variables = {**ONE_THREAD, "MINDINSIGHT_PYTHON": server}
    # In the order of the files: the tests share a server and a browser, which remembers what a page
    # was set to.
    order = "--randomly-dont-reorganize"
    run_in_project(
        session, "pytest", "tests/oracle", order, *SIDE_BY_SIDE, *session.posargs, env=variables
    )
    compare(session, "mindinsight_signatures", server, "write_signatures.py", "mindinsight")


def compare(session: nox.Session, name: str, python: str, script: str, *words: str) -> None:
    """Let an original write a file of tests/golden again; only its version may differ."""
    fresh, committed = (
        Path(session.create_tmp()) / f"{name}.json",
        ROOT / "tests" / "golden" / f"{name}.json",
    )
    session.run(python, f"tests/golden/{script}", *words, "--output", str(fresh))
    found, expected = (json.loads(path.read_text(encoding="utf-8")) for path in (fresh, committed))
    if {**found, "written_by": None} != {**expected, "written_by": None}:
        session.error(f"{fresh} differs from {committed}; read the difference")


@nox.session(venv_backend="none", default=False)
@nox.parametrize("environment", ["mindspore-writer", "mindspore-newest"])
def parity(session: nox.Session, environment: str) -> None:
    """MindSpore 2.7.0 and 2.10.0 write the golden values and record nets; ``-- --full``: all."""
    writer = python_of(session, environment)
    compare(session, "mindspore_values", writer, "write_with_mindspore.py")
    compare(session, "mindspore_signatures", writer, "write_signatures.py", "mindspore")
    for subject in ("defaults", "errors", "rows"):
        compare(session, f"mindspore_{subject}", writer, f"write_{subject}.py")
    folder = "tests/golden/collector"
    session.run(
        writer, f"{folder}/train_with_mindspore.py", "--check", f"{folder}/mindspore_collector.json"
    )
    runs = empty_folder(session)
    train = "tests/porting/comparison/ports/train_with_mindspore.py"
    session.run(writer, train, str(runs), silent=True)
    session.run(writer, train, str(runs / "again"), "cnn", silent=True)
    nets = () if "--full" in session.posargs else ("transformer", "resnet")
    ours = {"PYTHONPATH": str(ROOT)}
    session.run(
        writer, "tests/porting/mindspore/record_with_mindspore.py", str(runs / "steps"), env=ours
    )
    session.run(
        writer,
        "tests/porting/comparison/chains/nets_mindspore.py",
        str(runs / "chains"),
        *nets,
        env=ours,
    )
    originals, reports = str(runs / "originals"), runs / "reports"
    run_in_project(
        session,
        "python",
        "-m",
        "tests.porting.mindspore.record_torch_originals",
        originals,
        *nets,
        env=ours,
    )
    how = ("full",) if "--full" in session.posargs else ()
    session.run(
        writer,
        "tests/porting/mindspore/wrong_ports.py",
        originals,
        str(reports),
        *how,
        env=ours,
        silent=True,
    )
    folders = {
        "MINDSPORE_RUNS": runs, "MINDSPORE_STEPS": runs / "steps",
        "MINDSPORE_CHAINS": runs / "chains",
        "MINDSPORE_REPORTS": reports,
    }  # fmt: skip
    variables = {**ONE_THREAD, **{name: str(path) for name, path in folders.items()}}
    tested = (
        "tests/porting/comparison/test_mindspore_ports.py",
        "tests/porting/comparison/test_chains.py",
        "tests/porting/mindspore",
    )
    run_in_project(session, "pytest", *tested, *session.posargs, env=variables)


@nox.session(venv_backend="none", default=False)
def accelerator(session: nox.Session) -> None:
    """A stand-in accelerator counts copies and waits; a C++ compiler builds it once."""
    if shutil.which(compiler := os.environ.get("CXX", "c++")) is None:
        leave_out(
            session, f"{compiler} is not on the PATH: the stand-in accelerator is a C++ extension"
        )
    built = {"ACCELERATOR_BUILD": str(Path(session.cache_dir).resolve() / "accelerator")}
    run_in_project(session, "pytest", "tests/accelerator", *session.posargs, env=built)


@nox.session(default=False)
def typing(session: nox.Session) -> None:
    """The code of users under pyright, strict, which knows at least 99 % of our types."""
    if missing := [name for name in ("node", "npm") if shutil.which(name) is None]:
        leave_out(
            session, f"{' and '.join(missing)} not on the PATH: pyright is a program for node"
        )
    session.install("pyright==1.1.414")
    python = python_of(session, "project")
    session.run("pyright", "--pythonpath", python, "-p", "tests/typing")
    verify = ("pyright", "--pythonpath", python, "--ignoreexternal", "--verifytypes", PACKAGE)
    # Told of Python alone, --verifytypes does not look into its packages: their classes are
    # unknown.
    paths = os.pathsep.join(
        map(str, [ROOT, *Path(python).parents[1].glob("lib/python*/site-packages")])
    )
    told = str(session.run(*verify, env={"PYTHONPATH": paths}, success_codes=[0, 1], silent=True))
    score = float(told.rpartition("completeness score: ")[2].partition("%")[0])
    if score < 99:
        session.error(f"{told}\nonly {score} % of the types are known")


@nox.session(venv_backend="none", default=False)
def lowest(session: nox.Session) -> None:
    """The lowest allowed versions: README's first block, the demo, tests of trainings."""
    python = python_of(session, "lowest")
    state_python(session, "lowest")
    session.run(python, "-m", "pip", "check")
    variables = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
    session.run(python, "-m", "pytest", *QUICK, *OF_TRAININGS, *session.posargs, env=variables)
    folder = empty_folder(session)  # now: it is TMPDIR from here on, and tests want one outside
    (folder / "block.py").write_text(
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .split("```python\n")[1]
        .partition("```")[0],
        encoding="utf-8",
    )
    shutil.copy(ROOT / "examples" / "digits.py", folder)
    session.chdir(folder)
    session.run(python, "block.py", env=variables)
    session.run(python, "digits.py", "--epochs", "1", env=variables)


@nox.session(venv_backend="none", default=False)
def newest(session: nox.Session) -> None:
    """The newest versions that pip can get, on the newest Python: every test that is not slow."""
    python = python_of(session, "newest")
    state_python(session, "newest")
    versions = (
        "import torch, lightning, numpy; print(*(each.__version__ for each in (torch, "
        "lightning, numpy)))"
    )
    session.run(python, "-c", versions)
    variables = {**ONE_THREAD, **active(python)}
    session.run(
        python, "-m", "pytest", *QUICK, "--ignore=tests/oracle", *session.posargs, env=variables
    )


@nox.session(venv_backend="none", default=False)
def protobuf_matrix(session: nox.Session) -> None:
    """The codecs with each older major version of protobuf, which hides the installed one."""
    python = python_of(session, "project")
    drawn = [] if "--full" in session.posargs else ["--hypothesis-profile=few", "-m", "not slow"]
    for version in PROTOBUF_MAJORS:
        folder = Path(session.create_tmp()).resolve() / version
        if not folder.exists():
            session.run(python, *PIP, "--no-deps", "--target", str(folder), f"protobuf=={version}")
        variables = {**ONE_THREAD, "PYTHONPATH": str(folder)}
        proof = (
            f"from google import protobuf; assert protobuf.__version__ == {version!r}, "
            "protobuf.__file__"
        )
        session.run(python, "-c", proof, env=variables)
        run_in_project(
            session, "pytest", "tests/fileformat", "-q", *drawn, *session.posargs, env=variables
        )


@nox.session(venv_backend="none", default=False)
def protos_check(session: nox.Session) -> None:
    """The committed protobuf classes are what the sources give."""
    target = empty_folder(session)
    protos(session, target)
    for fresh in sorted((target / PROTOS).glob("*_pb2.py*")):
        if not filecmp.cmp(fresh, ROOT / PROTOS / fresh.name, shallow=False):
            session.error(f"{PROTOS}/{fresh.name} is out of date; run 'nox -s protos'")


@nox.session(venv_backend="none", default=False)
@nox.parametrize("kind", list(LIBRARIES))
def libraries(session: nox.Session, kind: str) -> None:
    """Models of other libraries, trained as their users do: their graphs and messages."""
    session.run(python_of(session, kind), "-m", "pytest", OF_LIBRARIES[kind], *session.posargs)


# Once a week, and by hand


def unpacked_sdist(session: nox.Session, python: str) -> Path:
    """Build a source distribution and unpack it in the session's folder."""
    folder = Path(session.create_tmp())
    session.run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder), external=True)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder)
    return Path(str(archive).removesuffix(".tar.gz"))


@nox.session(venv_backend="none", default=False)
@nox.parametrize("place", list(PLACES))
def places(session: nox.Session, place: str) -> None:
    """The quick tests in odd places: TMPDIR, ASCII locale, sdist, not as root, with warnings."""
    python = python_of(session, "project")
    folder = empty_folder(session) / "有 空格"
    folder.mkdir()
    variables = {**ONE_THREAD, **active(python), **PLACES[place]}
    if place == "directory":
        variables["TMPDIR"] = str(folder)
    if place == "sdist":
        session.chdir(unpacked_sdist(session, python))
        variables["PYTHONPATH"] = os.getcwd()  # before the checkout, which is installed
    ignored = ("--ignore=tests/oracle",)
    command = [python, "-m", "pytest", *QUICK, *ignored, *session.posargs]
    if place == "user" and os.geteuid() == 0:
        if shutil.which("runuser") is None:
            leave_out(session, "runuser is not on the PATH: root cannot run tests as another user")
        # The checkout may be below a directory that other users cannot enter.
        copied = Path("/tmp") / f"{PACKAGE}-of-nobody"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(".nox", ".git"))
        session.run("chown", "-R", "nobody", str(copied), external=True)
        session.chdir(copied)
        command = ["runuser", "-u", "nobody", "--", *command]
        variables["HOME"] = str(copied)
    session.run(*command, env=variables, external=True)


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Train on real data and leave a run behind."""
    session.log(
        "installs into .nox/demo; on Linux plain pip takes PyTorch's CUDA build, about 3 GB "
        "(README: CPU only)"
    )
    session.install(".[demo]", silent=False)
    session.run("python", "examples/digits.py", *session.posargs)


@nox.session(default=False)
def guides(session: nox.Session) -> None:
    """Every block of README and guides in order, outside the checkout; ``-- PAGE``: one."""
    extras = "demo,pandas,parquet,plot,report,tensorboard"
    session.install(
        f".[{extras}]",
        "duckdb>=1",
        "hydra-core>=1.3",
        "jsonargparse[signatures]>=4.40",
        "optuna>=4",
    )
    folder = empty_folder(session)
    for part in ("docs", "tests/docs"):
        shutil.copytree(ROOT / part, folder / "pages" / part)
    for page in ROOT.glob("*.md"):
        shutil.copy(page, folder / "pages")
    (folder / "work").mkdir()
    session.chdir(folder / "work")
    environment = {
        "PYTHONPATH": str(folder / "pages"),
        "PL_TRAINER_ENABLE_PROGRESS_BAR": "False",
        "MPLBACKEND": "Agg",
    }
    session.run("python", "-m", "tests.docs.page_code", *session.posargs, env=environment)


@nox.session(venv_backend="none", default=False)
def package(session: nox.Session) -> None:
    """Build wheel and sdist, install the wheel, train with it, look with every Python."""
    builder, folder = python_of(session, "builder"), empty_folder(session)
    session.run(builder, "-m", "build", "--outdir", str(folder / "dist"))
    built = sorted(map(str, (folder / "dist").iterdir()))
    session.run(builder, "-m", "twine", "check", "--strict", *built)
    (wheel,) = (path for path in built if path.endswith(".whl"))
    each_verb = (
        str(ROOT / "tests" / "package" / "each_verb.py"),
        str(ROOT / "tests" / "oracle" / "mindspore_runs"),
    )
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}

    def fresh(name: str, creator: str) -> str:
        session.run(creator, "-m", "venv", "--clear", str(folder / name))
        return str(folder / name / "bin" / "python")

    python = fresh("clean", sys.executable)
    session.run(python, *PIP, wheel)
    session.run(python, *each_verb, env=cache)
    session.run(python, *PIP, f"{wheel}[demo]")
    shutil.copy(ROOT / "examples" / "digits.py", folder)
    session.chdir(folder)
    session.run(python, "digits.py", "--epochs", "1")
    session.run(str(folder / "clean" / "bin" / "mindsummary"), "show", "runs")

    # What docs/install.md tells those who only look to run after ``python``, with the wheel in the
    # place of the name.
    section = (
        (ROOT / "docs" / "install.md")
        .read_text(encoding="utf-8")
        .partition("## Install only the viewer")[2]
        .splitlines()
    )
    named = [
        [word.strip('"') for word in line.split()[1:]]
        for line in section
        if line.startswith("    python -m pip")
    ]
    needs, report, own = [
        [wheel if word == PACKAGE.replace("_", "-") else word for word in words] for words in named
    ]
    for creator in find_pythons(PYTHONS):
        python = fresh("looking", creator)
        session.run(python, *needs, "--quiet")
        session.run(python, *own, "--quiet")
        session.run(python, *each_verb, "torch", "lightning", "PIL", env=cache)
        session.run(python, *report, "--quiet")
        session.run(python, *each_verb, "torch", "lightning", env=cache)


@nox.session(venv_backend="none", default=False)
def docs(session: nox.Session) -> None:
    """Build the site into site/; a warning is an error. Needs PyTorch."""
    run_in_project(
        session, "sphinx-build", "-E", "-n", "-W", "--keep-going", "docs", "site", *session.posargs
    )


@nox.session(python="3.11", default=False)  # atheris has wheels for a few versions only
def fuzz(session: nox.Session) -> None:
    """Fuzz all that reads a run, guided by coverage, for a minute; ``-- SECONDS`` for longer."""
    session.install("atheris>=3", "-e", ".", "hypothesis")
    folder = Path(session.create_tmp()).resolve()
    (folder / "corpus").mkdir(exist_ok=True)
    seconds = int(session.posargs[0]) if session.posargs else 60
    for begin in range(0, seconds, 180):  # in rounds: the memory of what atheris instruments grows
        limits = (
            f"-max_total_time={min(seconds - begin, 180)}",
            "-rss_limit_mb=2048",
            "-timeout=20",
            "-max_len=16384",
        )
        command = ("-m", "tests.faults.fuzz_reader", str(folder / "finds"), str(folder / "corpus"))
        session.run("python", *command, *limits, f"-artifact_prefix={folder}/")
    if finds := sorted(path.name for path in (folder / "finds").iterdir()):
        session.error(f"{folder / 'finds'} has {', '.join(finds)}")


@nox.session(venv_backend="none", default=False)
def lock(session: nox.Session) -> None:
    """Write the newest versions of each environment into ``.ci/locks``; ``-- NAME``: of one."""
    if IS_LOCKED:
        session.error(
            "LOCKED is set, so the environments would have the versions of the locks; unset it"
        )
    for name in session.posargs or [name for name in ENVIRONMENTS if name != "newest"]:
        shutil.rmtree((ROOT / session.cache_dir).parent / name, ignore_errors=True)
        python = python_of(session, name)
        path = lock_of(name, python)
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*installed_versions(python), ""]), encoding="utf-8")


@nox.session(venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Measure each figure of docs/development/performance.md next to its peers.

    It is never part of the checks.
    """
    variables = {
        "BENCH_JSON": str(Path(session.create_tmp()).resolve() / "figures.json"),
        "MINDINSIGHT_PYTHON": python_of(session, "mindinsight-server"),
        "MINDSPORE_PYTHON": python_of(session, "mindspore-writer"),
    }
    # parts of others, and what measures no speed
    apart = ("paired.py", "object_store.py", "soak.py", "faults.py")
    speeds = (
        path for path in sorted(Path("benchmarks").glob("[a-z]*.py")) if path.name not in apart
    )
    for script in session.posargs or map(str, speeds):
        run_in_project(session, "python", script, env=variables)


@nox.session(venv_backend="none", default=False)
def protos(session: nox.Session, target: Path = ROOT) -> None:
    """Generate the protobuf classes."""
    command = (
        "-m",
        "grpc_tools.protoc",
        "-I",
        "protos",
        f"--python_out={target}",
        f"--pyi_out={target}",
    )
    session.run(
        python_of(session, "protoc"), *command, *sorted(map(str, Path("protos").rglob("*.proto")))
    )


if __name__ == "__main__":
    nox.main()
