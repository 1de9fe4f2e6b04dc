from __future__ import annotations

from pathlib import Path

import pytest

from mindsummary_lightning.values import Image
from mindsummary_lightning.viewer.api import ApiError, EncodedAnswer
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.reading.runs import damage_unseen, values_at, write_summary
from tests.viewer.pages.asking import ask

PNG = b"\x89PNG\r\n\x1a\n rest"


def runs_with_images(base: Path, count: int = 3) -> LoadedRuns:
    write_summary(
        base / "a",
        [values_at(step, {"i": Image(4, 9, PNG + bytes([step % 256]))}) for step in range(count)],
    )
    return LoadedRuns(str(base))


def test_images_are_listed_with_their_recorded_size(tmp_path: Path) -> None:
    answer = ask(
        runs_with_images(tmp_path), "datavisual/image/metadata", train_id="./a", tag="i/image"
    )

    assert answer["metadatas"][1] == {"step": 1, "wall_time": 1700000001.0, "width": 9, "height": 4}


def test_an_image_is_returned_as_it_was_recorded(tmp_path: Path) -> None:
    runs = runs_with_images(tmp_path)

    one = ask(runs, "datavisual/image/single-image", train_id="./a", tag="i/image", step="1")
    newest = ask(runs, "datavisual/image/single-image", train_id="./a", tag="i/image", step="-1")

    assert (one, newest) == (
        EncodedAnswer(PNG + b"\1", "image/png"),
        EncodedAnswer(PNG + b"\2", "image/png"),
    )


def test_of_very_many_images_some_are_listed_but_each_can_be_had(tmp_path: Path) -> None:
    runs = runs_with_images(tmp_path, 1001)
    asked = {"train_id": "./a", "tag": "i/image"}

    listed = [one["step"] for one in ask(runs, "datavisual/image/metadata", **asked)["metadatas"]]

    assert (len(listed), listed[0], listed[-1]) == (1000, 0, 1000)
    (other,) = set(range(1001)) - set(listed)
    image = ask(runs, "datavisual/image/single-image", **asked, step=f"{other}")
    assert image.content[-1] == other % 256


@pytest.mark.parametrize(
    ("path", "step"), [("datavisual/image/metadata", ""), ("datavisual/image/single-image", "1")]
)
@pytest.mark.parametrize("tag", ["loss/scalar", "other/image", "i"])
def test_what_is_no_image_is_refused(tmp_path: Path, path: str, step: str, tag: str) -> None:
    records = [values_at(step, {"i": Image(4, 9, PNG), "loss": 1.0}) for step in (1, 2)]
    write_summary(tmp_path / "a", records)

    with pytest.raises(ApiError, match="Image is not exist") as refused:
        ask(LoadedRuns(str(tmp_path)), path, train_id="./a", tag=tag, step=step)

    assert refused.value.code == "5054500D"


def test_an_image_that_changed_since_it_was_located_is_refused(tmp_path: Path) -> None:
    records = [values_at(step, {"i": Image(4, 9, PNG)}) for step in (1, 2)]
    path = write_summary(tmp_path / "a", records)
    runs = LoadedRuns(str(tmp_path))
    asked = {"train_id": "./a", "tag": "i/image"}
    assert len(ask(runs, "datavisual/image/metadata", **asked)["metadatas"]) == 2
    damage_unseen(path, records[1])

    with pytest.raises(ApiError, match="Can not find the step") as refused:
        ask(runs, "datavisual/image/single-image", **asked, step="2")
    assert refused.value.code == "5054500D"
    image = ask(runs, "datavisual/image/single-image", **asked, step="1")
    assert image == EncodedAnswer(PNG, "image/png")


@pytest.mark.parametrize("step", ["7", "-2"])
def test_a_step_that_was_not_recorded_is_refused(tmp_path: Path, step: str) -> None:
    with pytest.raises(ApiError, match="Can not find the step"):
        ask(
            runs_with_images(tmp_path),
            "datavisual/image/single-image",
            train_id="./a",
            tag="i/image",
            step=step,
        )
