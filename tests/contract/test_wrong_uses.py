"""Wrong uses of Python's names and of the command: each is answered by one line with what is wrong
and what helps.
"""

from __future__ import annotations

import builtins
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from torch import nn

import mindsummary_lightning as ms
from mindsummary_lightning import errors, values
from tests.cli.command import mindsummary
from tests.cli.demo_run import write_demo_run
from tests.reading.runs import write_parameter_run
from tests.support import skip_without_packages

# A call, the class of its error ("warning" where nothing is raised), words of its text.
_CALLS = """
ms.SumaryReader | AttributeError | no attribute 'SumaryReader'; closest: 'SummaryReader'
ms.viewer.shw | AttributeError | closest: 'show'
record().add_txt("a", "b") | AttributeError | closest: 'add_text'
record().add_scalar("loss", 1.0, step=3) | TypeError | add_scalar() got an unexpected keyword argument 'step'
logger().log_images("x", []) | AttributeError | closest: 'log_image'
logger().watch(net) | AttributeError | a SummaryCollector(collect_gradients='.*') records gradients
logger().log_text("a", ["b"]) | warning | log_text is skipped: MindInsight has no page for what it records
ms.MindInsightLogger("logs", raise_exception=True).log_text("a", ["b"]) | warning | log_text is skipped
record().add_text("a", "b") | warning | add_text is skipped: MindInsight has no page for what it records
SummaryRecord(5) | TypeError | log_dir must be a path, not 5
SummaryRecord("") | ValueError | log_dir must be a path that is not empty, not ''
SummaryRecord("s3://bucket/run") | RemotePathError | mindsummary sync runs s3://bucket/run --follow
SummaryRecord("notes.txt") | NotADirectoryError | notes.txt is not a directory, so nothing can be recorded in
SummaryRecord("x", file_prefix="a/b") | ValueError | file_prefix must hold no path separator
SummaryRecord("x", network="net") | TypeError | network must be a torch.nn.Module or None, not 'net'
SummaryRecord("x", max_file_size="1MB") | TypeError | max_file_size must be an int of bytes or None, not '1MB'
SummaryRecord("x", max_file_size=0) | ValueError | max_file_size must be at least 1 byte, or None for no limit
SummaryRecord("x", export_options={"tensor_format": "npz"}) | ValueError | must be 'npy' or None, not 'npz'
SummaryRecord("x", export_options={"format": "npy"}) | ValueError | the key of export_options must be 'tensor_format', not 'format'
SummaryRecord("x", file_mode=644) | ValueError | not 644, which is decimal; write 0o644
SummaryRecord("x", fsync_secs=-1) | ValueError | fsync_secs must be above 0, or None for no fsync, not -1
record().set_mode("evaluate") | ValueError | mode must be 'train' or 'eval', got 'evaluate'
record().add_value("scalr", "loss", 1.0) | ValueError | plugin must be one of scalar, image, tensor,
record().add_value("scalar", "", 1.0) | ValueError | name must not be empty
record().add_value("scalar", 3, 1.0) | TypeError | name must be a str, not 3
record().add_value("scalar", "x", torch.zeros(3)) | ValueError | needs exactly one element, found 3 in shape (3,)
record().add_value("scalar", "x", "high") | TypeError | expected a number, a NumPy array, a list of numbers or a dense
record().add_value("image", "x", torch.zeros(3, 4, 4)) | ValueError | needs shape (images, channels, height, width)
record().add_value("tensor", "x", torch.tensor(1.0)) | ValueError | found a single number: record it as a scalar
record().add_value("graph", "x", net) | TypeError | must be a mindsummary_lightning.values.Graph
record().record(2.5) | TypeError | step must be an int, not 2.5
record().record(2**70) | ValueError | step must be in the range of 64 bits
record().record(1, plugin_filter="scalar") | TypeError | plugin_filter must be callable or None, got 'scalar'
record().add_scalar(3, 1.0) | TypeError | name must be a str, not 3
record().add_scalars("loss", 1.0, 1) | warning | must be a dict from names to numbers, got float
record().add_image("x", np.zeros((2, 2, 2)), 1) | warning | an image needs 1, 3 or 4 channels
record().add_image("x", np.zeros((4, 4)), 1, dataformats="AB") | ValueError | must be the letters of HW, CHW, NCHW
record().add_graph(net) | warning | Pass an input, or give the module an example_input_array
record().add_hparams({"lr": 1}, 0.5) | TypeError | must be dicts, got dict and float
closed().add_scalar("x", 1.0, 1) | warning | 'x' at step 1 is not recorded. Record before close(), or make a new record
closed().__enter__() | ValueError | is closed. Make a new record
MindInsightLogger(5) | TypeError | save_dir must be a path, not 5
MindInsightLogger("runs", version=1.5) | TypeError | version must be an int, a str or None, not 1.5
MindInsightLogger("s3://bucket") | RemotePathError | mindsummary sync runs s3://bucket --follow
MindInsightLogger("notes.txt").experiment | NotADirectoryError | give another directory
logger().log_metrics(3.0) | warning | must be a dict from names to numbers, got float
logger().log_metrics({"loss": 1.0}, step="x") | warning | a step must be a whole number, got 'x'
logger().log_metrics({"loss": 1.0}, step=2.7) | warning | must be a whole number, got 2.7. Its whole part 2 is recorded
logger().log_metrics({"loss": "high"}, step=1) | warning | metric 'loss' is skipped: expected a number
logger().log_hyperparams(5) | warning | params must be a mapping, Namespace or dataclass, got int
logger().log_image("x", "picture.png") | TypeError | Put a single image in a list
logger().log_image("x", ["missing.png"]) | warning | image 'x' is skipped: missing.png: no such file or directory
logger().log_figure("x", "figure") | warning | expected a matplotlib.figure.Figure, found a str
logger().log_graph("net") | TypeError | model must be a torch.nn.Module or None, not 'net'
fit(logger=SummaryCollector()) | TypeError | must be a logger, got a SummaryCollector. Give it as callbacks=[...]
fit(callbacks=[logger()]) | TypeError | a callback must be a Callback, got a MindInsightLogger. Give it as logger=...
fit(callbacks=[SummaryCollector]) | TypeError | SummaryCollector
SummaryCollector(5) | TypeError | summary_dir must be a path, not 5
SummaryCollector(collect_freq=0) | ValueError | collect_freq must be at least 1, not 0
SummaryCollector(collect_specified_data={"collect_metrics": True}) | ValueError | closest: 'collect_metric'
SummaryCollector(collect_specified_data={"collect_metric": "yes"}) | TypeError | must be a bool, not 'yes'
SummaryCollector(collect_specified_data={"histogram_regular": "a[*"}) | ValueError | is not a regular expression
SummaryCollector(collect_specified_data={"collect_landscape": {"unit": "epochs"}}) | ValueError | 'step' or 'epoch'
SummaryCollector(custom_lineage_data={"lr": [1]}) | TypeError | custom_lineage_data['lr'] must be a str, int or float
SummaryCollector(collect_parameter_statistics=1) | TypeError | collect_parameter_statistics must be a regular expression
SummaryCollector(collect_parameter_statistics="(") | ValueError | is not a regular expression
SummaryCollector(loss=5) | TypeError | loss, the name of a logged metric, must be a str, not 5
TrainLineage(5) | TypeError | must be a SummaryRecord, a MindInsightLogger or a directory, got 5
StepRecorder("x", steps="3") | TypeError | steps must be an int or a sequence of them, not '3'
StepRecorder("x").step(net, None).__enter__() | TypeError | must be a torch.optim.Optimizer or a sequence of them
values.UserDefinedInfo(5) | TypeError | values of UserDefinedInfo must be a dict, not 5
SummaryReader(5) | TypeError | run_dir must be a path, not 5
SummaryReader("nowhere") | NotADirectoryError | is not a directory; give the directory with the run's event files
SummaryReader("s3://bucket/run") | NotADirectoryError | bring it here first: mindsummary sync s3://bucket/run runs
SummaryReader("runs").tags() | FileNotFoundError | contains no event file. Give one of the runs in it: a, b, c
SummaryReader("runs/a").scalars("los") | LookupError | has no scalar 'los'; closest: 'loss/auto'; it has 'accuracy',
SummaryReader("runs/a").scalars(3) | LookupError | has no scalar 3; it has 'accuracy'
SummaryReader("runs/a").scalars("logits") | LookupError | but a tensor with this tag. Use reader.tensors('logits')
SummaryReader("runs/a").scalars("loss/auto/scalar") | LookupError | is added by MindInsight's pages, so use 'loss/auto'
SummaryReader("runs/c").parameter_statistics().column("gradient") | ValueError | closest: 'gradient_max',
find_runs("nowhere") | FileNotFoundError | No such file or directory: 'nowhere'
find_runs("s3://bucket/runs") | NotADirectoryError | mindsummary sync s3://bucket/runs runs
read_scalars(5) | TypeError | runs must be a path, not 5
read_scalars("runs", tags="loss") | TypeError | tags must be a collection of names, not 'loss'; write ['loss']
filter_summary_lineage("nope") | LineageParamSummaryPathError | 'nope' is not a directory (the working directory is
filter_summary_lineage("runs", {"sorted_nam": "loss"}) | LineageSearchConditionParamError | closest: 'sorted_name'
filter_summary_lineage("runs", {"seed": {"gt": 1}}) | LineageSearchConditionParamError | or user_defined/seed for a value that you
filter_summary_lineage("runs", {"loss": {"gtt": 5}}) | LineageSearchConditionParamError | must be one of eq, lt, gt, le,
filter_summary_lineage("runs", {"loss": {"gt": "x"}}) | LineageSearchConditionParamError | must be a number, not 'x'
get_summary_lineage("empty") | LineageFileNotFoundError | does not contain a lineage file
get_summary_lineage("runs/a", keys=["metrics"]) | LineageParamValueError | each key must be one of metric, hyper_parameters,
compare_runs("runs/a", 5) | TypeError | run_dir must be a path, not 5
compare_runs("runs/a", "runs/b", tolerance="fp16") | ValueError | must be float32, bfloat16, float16 or a number between
bool(compare_runs("runs/a", "runs/b")) | TypeError | cannot be used as a condition. Use .is_same, or .verdict
SummaryLandscape("nope") | FileNotFoundError | summary_dir must be an existing directory, got
SummaryLandscape("runs/a").generate(nn.Linear, [], nn.MSELoss()) | TypeError | not the class Linear itself
SummaryLandscape("runs/a").generate(net, [], nn.MSELoss()) | FileNotFoundError | collect_landscape switched on
SummaryLandscape("runs/a").gen_landscapes_with_multi_process(3) | TypeError | callback_fn must be a function, not 3
plot_landscapes(SummaryReader("runs/a")) | TypeError | must be those of SummaryLandscape.generate() or of
plot_landscapes([]) | ValueError | landscapes must hold at least one landscape
ms.viewer.show("nope") | NotADirectoryError | nope is not a directory (the working directory is
ms.viewer.show("runs", height="tall") | TypeError | height must be an int of pixels, not 'tall'
"""
# Words of a command, its exit code, words of the one line.
_WORDS = """
lsit runs | 2 | no subcommand 'lsit'; closest: 'list'
exp runs | 2 | no subcommand 'exp'; closest: 'export'
help nope | 2 | no subcommand 'nope'; `mindsummary --help` lists all subcommands
-x | 2 | no option -x
list --exat runs | 2 | no option --exat; closest: '--exact'
lineage --srt=loss | 2 | no option --srt; closest: '--sort'
lineage a b | 2 | expected DIR, but got the additional words: b
doctor extra | 2 | expected no argument, but got the additional words: extra
lineage runs --limit x | 2 | argument --limit: must be a whole number of at least 1, not 'x'
lineage runs --where loss | 2 | must be FIELD, one of = != < <= > >=, and a value, not 'loss'
lineage runs --where 'loss>high' | 2 | loss must be compared with a number, got 'high'
lineage runs --where 'los!=1' | 2 | no field 'los'; closest: 'loss'
lineage runs --where 'epoch>many' | 2 | epoch must be compared with a number, got 'many'
lineage runs --where 'loss>1' --where 'loss>2' | 2 | compares loss in the same way as an earlier --where
lineage runs --sort accurcy | 2 | no field 'accurcy'; closest: 'metric/accuracy'
compare runs/a | 2 | the following arguments are required: CANDIDATE
compare runs/a runs | 2 | runs contains 3 runs (a, b, c); give one of them
compare runs/a runs/b --tolerance abc | 2 | must be float32, bfloat16, float16 or a number between 0 and 1, got 'abc'
compare runs/a runs/b --names nowhere | 2 | nowhere: no such file or directory
compare runs/a runs/b --names notes.txt | 2 | the baseline has no tensor 'nothing'; it has conv1.weight
compare runs/a runs/b --html /nope/x.html | 2 | /nope/x.html: there is no directory /nope
compare '' '' | 2 | '': no such file or directory
list "runs\r" | 1 | runs\\u000d: no such file or directory
list nowhere | 1 | nowhere: no such file or directory
list empty | 1 | no run in empty: neither this directory nor a directory in it contains a summary or lineage file
list notes.txt | 1 | notes.txt is a file; give its directory: .
list s3://bucket/runs | 1 | bring it here first: mindsummary sync s3://bucket/runs runs
show runs | 2 | runs contains 3 runs (a, b, c); give one of them
show runs/a --follow | 2 | --follow needs a terminal
show bad | 1 | run `mindsummary repair`
dump runs/a | 2 | is a directory; dump needs a file; its files are: runs/a/events.out.events.summary
dump notes.txt | 2 | must be an event file, but looks like another kind of file: it begins with
verify nowhere | 2 | nowhere: no such file or directory
repair | 2 | the following arguments are required: DIR
export runs/a --to csv | 2 | the following arguments are required: -o/--out/--output
export runs/a --to xls --out o | 2 | invalid choice: 'xls' (choose from
export runs/a --to csv --out runs | 1 | runs is not empty
export runs/a --to csv --out notes.txt | 1 | --out must be a new or empty directory, got the file notes.txt
import empty --out o | 1 | no TensorBoard event file in empty
report runs/a -o /nope/x.html | 1 | /nope/x.html: there is no directory /nope
landscape runs/a --module json | 2 | --module must be package.module:function, not 'json'
landscape runs/a --module nowhere:f | 2 | 'nowhere:f' cannot be imported: No module named 'nowhere'
landscape runs/a --module json:nothing | 2 | 'json:nothing' cannot be imported: module 'json' has no attribute 'nothing'
landscape runs/a --module json:__name__ | 2 | --module 'json:__name__' must be a function, not str
landscape runs/a --module json:loads | 1 | train the run with SummaryCollector and collect_landscape switched on
landscape runs/a --out x | 2 | need --module, because they apply only to the computation of landscapes
landscape runs/a --plot x.docx | 2 | --plot writes a file that ends in .png, .svg, .pdf, not x.docx
landscape runs/c | 1 | runs/c has no loss landscape; to compute those of a collector, name a function: --module
sync nowhere far | 1 | there is no directory nowhere: nothing was sent
sync runs runs/far | 2 | must be outside of the source runs, got runs/far
sync runs far --every 0 | 2 | --every must be greater than 0 seconds
sync runs gs://bucket/runs | 1 | pip install gcsfs
view nowhere | 1 | nowhere is not a directory
view runs --port 70000 | 2 | --port must be between 0 and 65535, not 70000
view runs --memory 0 | 2 | --memory must be at least 1 MB, not 0
view runs --host nowhere.invalid --port 1 | 1 | cannot listen on port 1 of nowhere.invalid
completion tcsh | 2 | invalid choice: 'tcsh' (choose from
"""


_RECORDS: list[ms.SummaryRecord] = []  # that a call has made, to be closed when its test ends


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a, b and c, a damaged one, an empty directory and a file."""
    base = tmp_path_factory.mktemp("wrong")
    for name in ("a", "b"):
        write_demo_run(base / "runs" / name, steps=30)
    write_parameter_run(base / "runs" / "c")
    shutil.copytree(base / "runs" / "a", base / "bad")
    (path,) = (base / "bad").glob("*_MS")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    (base / "empty").mkdir()
    (base / "notes.txt").write_text("nothing conv1.weight\n")
    return base


@pytest.fixture(autouse=True)
def _there(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(made)
    yield
    while _RECORDS:
        _RECORDS.pop().close()
    for name in sorted({*os.listdir(made)} - {"runs", "bad", "empty", "notes.txt"}):
        shutil.rmtree(name)


def _record() -> ms.SummaryRecord:
    record = ms.SummaryRecord("out")
    _RECORDS.append(record)
    return record


def _closed() -> ms.SummaryRecord:
    record = ms.SummaryRecord("closed")
    record.close()
    return record


def _fit(**options: Any) -> None:
    from lightning.pytorch.demos.boring_classes import BoringModel

    quiet: dict[str, Any] = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "accelerator": "cpu",
    }
    L.Trainer(max_steps=1, **quiet, **options).fit(BoringModel())


_NAMES: dict[str, Any] = {
    "record": _record,
    "closed": _closed,
    "logger": lambda: ms.MindInsightLogger("logs"),
    "fit": _fit,
    "net": nn.Linear(2, 1),
    "ms": ms,
    "np": np,
    "torch": torch,
    "nn": nn,
    "values": values,
    **{name: getattr(ms, name) for name in ms.__all__},
}


def _rows(table: str) -> list[Any]:
    rows = [line.split(" | ") for line in table.strip().split("\n")]
    return [
        pytest.param(*row, id=row[0], marks=[pytest.mark.slow] * row[0].startswith("fit("))
        for row in rows
    ]


@pytest.mark.parametrize(("call", "kind", "words"), _rows(_CALLS))
def test_a_wrong_call_is_answered_by_one_line(
    call: str, kind: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    skip_without_packages(call)
    if kind == "warning":
        eval(call, _NAMES)
        (text,) = (
            record.getMessage() for record in caplog.records if record.name.startswith(ms.__name__)
        )
    else:
        with pytest.raises(getattr(errors, kind, None) or getattr(builtins, kind)) as raised:
            eval(call, _NAMES)
        text = str(raised.value)

    assert words in text
    assert "\n" not in text
    assert len(text) < 420


@pytest.mark.parametrize(("words", "code", "told"), _rows(_WORDS))
def test_wrong_words_are_answered_by_one_line(
    words: str, code: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    skip_without_packages(words)
    answer = mindsummary(capsys, *shlex.split(words))

    lines = answer.err.splitlines()
    usage = [line for line in lines if line.startswith(("usage: ", " "))]
    assert (answer.code, answer.out) == (int(code), "")
    assert [told in line for line in lines[len(usage) :]] == [True]
    assert not usage or code == "2"
