"""Files in a run directory are opened in one way, ``fileio/regular.py``; docs/security.md says what
that promises.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.contract.test_house import modules

# What opens, reads or writes a file by its path, and libraries that do when they are given one.
OPENING = {
    *(
        "open",
        "FileIO",
        "io.open",
        "io.FileIO",
        "os.open",
        "codecs.open",
        "gzip.open",
        "zipfile.ZipFile",
    ),
    *(
        "np.load",
        "np.save",
        "np.savez",
        "np.fromfile",
        "np.memmap",
        "np.loadtxt",
        "torch.load",
        "torch.save",
    ),
    *(
        "shutil.copy",
        "shutil.copy2",
        "shutil.copyfile",
        "shutil.move",
        "shutil.copytree",
        "os.truncate",
    ),
    *("PIL.Image.open", "PillowImage.open", "mmap.mmap"),
}
METHODS = {"read_text", "read_bytes", "write_text", "write_bytes", "tofile"}
ELSEWHERE = {
    "fileio/append.py": "os.open: creates, exclusively",
    "fileio/regular.py": "os.open, FileIO: the one way",
    "fileio/replace.py": "open, os.open: creates a temporary file, exclusively; fsyncs a directory",
    "cli/__init__.py": "os.open: the null device",
    "cli/output.py": "open: the null device",
    "porting/comparison/matching/given_names.py": "open: a list that the command line names",
    "porting/comparison/page.py": "read_text: a part of this package",
    "values/page_words.py": "read_text: a part of this package",
    "conversion/user_images.py": "PillowImage.open: a picture that a caller hands over",
    "export/output_directory.py": "open: creates, exclusively, in a hidden directory of its own",
    "export/tables.py": "np.save: into an open file",
    "fileio/whole_step_file.py": (
        "open, os.open, zipfile.ZipFile, np.memmap: creates, exclusively; an open file"
    ),
    "landscape/checkpoints.py": "torch.save, torch.load: into and from an open file",
    "landscape/network_copies.py": "torch.save, torch.load: memory",
    "landscape/plane.py": "open: what Linux says is mapped in this process",
    "porting/port_check/port_report.py": "open: a file that a caller names",
    "porting/port_check/report_page.py": "read_text: a part of this package",
    "recording/npy_export.py": "np.save: into an open file",
    "values/summary_values.py": "PIL.Image.open: memory",
    "viewer/page_frame.py": "read_text: a part of this package",
    "viewer/frontend.py": (
        "open, zipfile.ZipFile, read_bytes: the cached wheel of the front end, "
        "parts of this package"
    ),
    "viewer/remarks.py": "open, os.open: remarks, which are in the user's state directory",
}


def _called(tree: ast.AST) -> Iterator[str]:
    """Every name that is called, or handed over as something to call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for part in [node.func, *node.args]:
                name = ast.unparse(part) if isinstance(part, ast.Name | ast.Attribute) else ""
                if name in OPENING or (isinstance(part, ast.Attribute) and part.attr in METHODS):
                    yield name if name in OPENING else name.rpartition(".")[2] or part.attr


@pytest.mark.slow
def test_only_these_modules_open_files_in_another_way_than_through_fileio_regular() -> None:
    found = {}
    for name, path in modules():
        if calls := {*_called(ast.parse(path.read_text(encoding="utf-8")))}:
            found[name] = calls

    assert found == {
        name: {*calls.partition(":")[0].split(", ")} for name, calls in ELSEWHERE.items()
    }
