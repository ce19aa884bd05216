"""Scenes by panoptic models of transformers: small random ones of the real kinds, saved and loaded
as real ones are.
"""

from __future__ import annotations

import json
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from fairprobe.errors import DataError, ModelError, StorageError
from fairprobe.models import one_thread
from fairprobe.scenes.scene import Picture
from fairprobe.scenes.sources.segmenter import SegmentedScenes

transformers: Any = import_module("transformers")  # its own annotations do not fit its own examples

LABELS = {0: "person", 1: "road, route", 2: "sky-other-merged", 3: "car"}
NAMES = {"id2label": LABELS, "label2id": {name: number for number, name in LABELS.items()}}
HEIGHT, WIDTH = 48, 64
STAGES = ["stage1", "stage2", "stage3", "stage4"]


def picture(seed: int) -> Picture:
    """Large spots of color, on which random networks differ from place to place."""
    small = np.random.default_rng(seed).integers(0, 255, (3, 4, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((WIDTH, HEIGHT)))


def sure(layer: Any) -> None:
    """A class head that speaks for one class at a time, and never for 'no object'."""
    with torch.no_grad():
        layer.weight.mul_(200)
        layer.bias.copy_(torch.tensor([0.0, 0, 0, 0, -1e4]))


def mask2former(folder: Path, seed: int = 37) -> Path:
    backbone = transformers.SwinConfig(
        image_size=64,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 1, 1],
        window_size=2,
        out_features=STAGES,
    )
    sizes = {
        "feature_size": 32,
        "mask_feature_size": 32,
        "hidden_dim": 32,
        "encoder_feedforward_dim": 32,
        "dim_feedforward": 32,
    }
    layers = {"encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2, "num_queries": 6}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.Mask2FormerForUniversalSegmentation(
            transformers.Mask2FormerConfig(backbone_config=backbone, **sizes, **layers, **NAMES)
        )
    sure(model.class_predictor)
    model.save_pretrained(folder)
    transformers.Mask2FormerImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(
        folder
    )
    return folder


def detr(folder: Path, seed: int = 15) -> Path:
    backbone = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=STAGES,
    )
    layers = {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
        "num_queries": 6,
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.DetrForSegmentation(
            transformers.DetrConfig(
                backbone_config=backbone,
                use_timm_backbone=False,
                d_model=128,
                encoder_ffn_dim=32,
                decoder_ffn_dim=32,
                **layers,
                **NAMES,
            )
        )
    sure(model.detr.class_labels_classifier)
    model.save_pretrained(folder)
    transformers.DetrImageProcessorPil(
        size={"shortest_edge": 48, "longest_edge": 64}
    ).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {"mask2former": mask2former(root / "mask2former"), "detr": detr(root / "detr")}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    folder.mkdir()
    for seed in range(3):
        Image.fromarray(picture(seed)).save(folder / f"{seed}.png")
    return folder


def found_by_hand(folder: Path, image: Picture) -> list[tuple[str, Any]]:
    """Names and masks as the library itself gives them."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    model = transformers.AutoModelForUniversalSegmentation.from_pretrained(folder).eval()
    with one_thread(), torch.inference_mode():
        outputs = model(**processor(images=image, return_tensors="pt"))
    result = processor.post_process_panoptic_segmentation(
        outputs, label_ids_to_fuse=set(), target_sizes=[image.shape[:2]]
    )[0]
    return [
        (LABELS[segment["label_id"]], (result["segmentation"] == segment["id"]).numpy())
        for segment in result["segments_info"]
    ]


@pytest.mark.parametrize("kind", ["mask2former", "detr"])
def test_a_scene_holds_what_the_model_finds(
    models: dict[str, Path], images: Path, kind: str
) -> None:
    scenes = SegmentedScenes(images, models[kind])
    assert scenes.names == ("0", "1", "2")
    objects, ground = 0, 0
    for at, scene in enumerate(scenes):
        wanted = [
            (name, mask) for name, mask in found_by_hand(models[kind], picture(at)) if mask.any()
        ]
        things = {(name, mask.tobytes()) for name, mask in wanted if name in ("person", "car")}
        assert {
            (item.label, item.whole(scene.size).tobytes()) for item in scene.instances
        } == things
        for label, name in (("road", "road, route"), ("sky", "sky-other-merged")):
            masks = [mask for other, mask in wanted if other == name]
            assert np.array_equal(
                scene.ground(frozenset({label})),
                np.any([np.zeros(scene.size, dtype=bool), *masks], axis=0),
            )
            ground += len(masks)
        objects += len(things)
    assert objects
    assert ground


def test_segments_are_stored_and_a_damaged_file_is_replaced(
    models: dict[str, Path], images: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "kept" / "here"
    scenes = SegmentedScenes(images, models["mask2former"], cache=cache)
    first = scenes.read("1")
    (kept,) = cache.iterdir()
    written = kept.read_bytes()
    sent = pickle.loads(pickle.dumps(scenes))
    assert sent.read("1").counts() == first.counts()
    assert sent._segmenter is None  # the model was not needed, nor sent
    kept.write_bytes(written[:50])
    assert np.array_equal(sent.read("1").stuff, first.stuff)
    assert kept.read_bytes() == written
    np.savez_compressed(
        kept.with_suffix(""), numbers=np.full((HEIGHT, WIDTH), 99), labels=np.array(["car"])
    )
    assert sent.read("1").counts() == first.counts()


def test_another_model_does_not_take_what_the_first_found(
    models: dict[str, Path], images: Path, tmp_path: Path
) -> None:
    other = mask2former(tmp_path / "other", seed=4)
    for folder in (models["mask2former"], other):
        SegmentedScenes(images, folder, cache=tmp_path / "kept").read("0")
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_picture_is_turned_as_the_camera_held_it(models: dict[str, Path], tmp_path: Path) -> None:
    turned = Image.fromarray(np.rot90(picture(0)).copy())
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    turned.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(SegmentedScenes(tmp_path, models["detr"]).read("a").image, picture(0))


def test_pictures_that_cannot_be_read_are_reported(
    models: dict[str, Path], images: Path, tmp_path: Path
) -> None:
    (images / "broken.jpg").write_bytes(b"nothing")
    assert SegmentedScenes(images, models["detr"]).messages == (
        "broken.jpg cannot be read as a picture and is left out.",
    )
    (tmp_path / "none").mkdir()
    with pytest.raises(StorageError, match=r"none has no pictures\. Expected files that end in"):
        SegmentedScenes(tmp_path / "none", models["detr"])
    (tmp_path / "none" / "broken.jpg").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"no readable picture in"):
        SegmentedScenes(tmp_path / "none", models["detr"])


def test_a_model_that_cannot_be_loaded_is_named(
    models: dict[str, Path], images: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelError, match="cannot be loaded as a panoptic segmenter"):
        SegmentedScenes(images, folder)
    config = json.loads((models["detr"] / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(
        ModelError,
        match=r"of the kind 'bert'. Expected a panoptic segmenter: mask2former, maskformer, detr",
    ):
        SegmentedScenes(images, folder)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ModelError, match=r"Expected config.json, preprocessor_config.json and model.safetensors"
    ):
        SegmentedScenes(images, folder)
    (folder / "preprocessor_config.json").write_bytes(
        (models["detr"] / "preprocessor_config.json").read_bytes()
    )
    (folder / "model.safetensors").write_bytes(
        (models["detr"] / "model.safetensors").read_bytes()[:1000]
    )
    with pytest.raises(ModelError, match="cannot be loaded"):
        SegmentedScenes(images, folder)


def test_weights_in_a_pickle_are_never_loaded(
    models: dict[str, Path], images: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "preprocessor_config.json"):
        (folder / name).write_bytes((models["detr"] / name).read_bytes())
    weights = transformers.AutoModelForUniversalSegmentation.from_pretrained(
        models["detr"]
    ).state_dict()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        SegmentedScenes(images, folder)


@pytest.mark.parametrize("name", ["nobody/no-such-model", "not a name"])
def test_a_hub_that_is_away_is_said_at_once(
    images: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        StorageError,
        match=f"There is no folder {name}, and the Hugging Face hub gave no model of that name",
    ):
        SegmentedScenes(images, name)


def test_a_cache_folder_that_cannot_be_made_is_named(models: dict[str, Path], images: Path) -> None:
    with pytest.raises(StorageError, match=r"Cannot make the folder .*0\.png"):
        SegmentedScenes(images, models["detr"], cache=images / "0.png" / "kept")
