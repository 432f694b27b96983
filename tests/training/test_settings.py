"""What is asked is checked, and a work folder keeps what is done."""

import pytest

from saguaro.errors import ConfigError, WeightsError
from saguaro.training.folder import DATA, TRAIN, WorkFolder, without_folders
from saguaro.training.settings import DataSettings, TrainSettings


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (DataSettings, {"temperatures": ()}, "names none"),
        (DataSettings, {"temperatures": (1.0, 1.0)}, "twice"),
        (DataSettings, {"temperatures": (-1.0,)}, "0 ... 100"),
        (DataSettings, {"top_k": 0}, "top_k"),
        (DataSettings, {"context": 4}, "context"),
        (DataSettings, {"seed": -1}, "seed"),
        (TrainSettings, {"trained": "layer"}, "did you mean"),
        (TrainSettings, {"precision": "int8"}, "precision"),
        (TrainSettings, {"stored": "int4"}, "stored"),
        (TrainSettings, {"stored": "int8", "trained": "all"}, "whole and not learn"),
        (TrainSettings, {"stored": "int8", "draft_vocab": 9}, "whole and not learn"),
        (TrainSettings, {"head_rows": 9, "trained": "head"}, "does not learn"),
        (TrainSettings, {"eagle3": True, "trained": "all"}, "--train is for language models"),
        (TrainSettings, {"own_states": 4}, "--own-states is for heads"),
        (TrainSettings, {"measured_states": 8}, "--measured-states is for heads"),
        (TrainSettings, {"own_weight": 0.5}, "--own-weight is for heads"),
        (TrainSettings, {"own_share": 0.5}, "--own-share is for heads"),
        (TrainSettings, {"eagle3": True, "own_share": 0.0}, "own_share must be in 0.01 ... 1"),
        (TrainSettings, {"eagle3": True, "own_weight": 1.5}, "own_weight must be in 0 ... 1"),
        (TrainSettings, {"eagle3": True, "head_rows": 9}, "--head-rows is for language models"),
        (TrainSettings, {"eagle3": True, "states": 1.0}, "--states is for language models"),
        (DataSettings, {"rows": 0}, "rows"),
        (TrainSettings, {"steps": 5, "epochs": 1}, "not both"),
        (TrainSettings, {"minutes": 0.0}, "minutes"),
        (TrainSettings, {"data_share": 1.0}, "data_share"),
        (TrainSettings, {"lr": 0.0}, "lr"),
        (TrainSettings, {"layers": ()}, "--layers"),
    ],
)
def test_values_out_of_range(kind, values, words):
    with pytest.raises(ConfigError, match=words):
        kind(**values)


def test_a_stage_goes_on_with_the_same_settings_only(tmp_path):
    work = WorkFolder(tmp_path)
    work.claim(DATA, {"seed": 1, "temperatures": (0.0, 1.0)})
    work.claim(DATA, {"seed": 1, "temperatures": (0.0, 1.0)})
    with pytest.raises(ConfigError, match="seed differ"):
        work.claim(DATA, {"seed": 2, "temperatures": (0.0, 1.0)})


def test_dropping_texts_drops_the_training_and_not_the_other_way_round(tmp_path):
    work = WorkFolder(tmp_path)
    for stage in (DATA, TRAIN):
        work.claim(stage, {"seed": 1})
        work.spend(stage, 5.0)
    (tmp_path / "texts-00000.safetensors").touch()
    (tmp_path / "state.safetensors").touch()
    work.drop(TRAIN)
    assert {path.name for path in tmp_path.iterdir()} == {"data.json", "spent.json", "texts-00000.safetensors"}
    assert work.spent() == {DATA: 5.0}
    work.claim(TRAIN, {"seed": 2})
    work.drop(DATA)
    assert {path.name for path in tmp_path.iterdir()} == {"spent.json"}
    assert work.spent() == {}


def test_a_damaged_file_is_named(tmp_path):
    work = WorkFolder(tmp_path)
    (tmp_path / "data.json").write_text("{")
    with pytest.raises(WeightsError, match=r"data\.json is damaged"):
        work.claim(DATA, {})


def test_a_card_shows_no_folder_of_the_machine():
    assert without_folders("/somewhere/models/target.gguf") == "target.gguf"
    assert without_folders("~/models/target.gguf") == "target.gguf"
    for plain in ("prompts/own.jsonl", "--eagle3", "organisation/name@main", "toy:llama?vocab=24"):
        assert without_folders(plain) == plain
