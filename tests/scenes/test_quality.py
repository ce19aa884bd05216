"""Measures of image quality: what they say of pictures whose quality is known, and what happens
where they cannot be taken.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import ndimage, stats
from torch import Tensor, nn

from fairprobe.errors import DataError, StorageError
from fairprobe.results import to_dict
from fairprobe.scenes.quality import (
    PROMPTS,
    MutantPair,
    blur,
    clip_iqa,
    clip_realism,
    image_quality,
    similarity,
)
from fairprobe.scenes.scene import Picture


def picture(seed: int, size: int = 40) -> Picture:
    """Coarse random squares: something sharp."""
    shape = (size // 5, size // 5, 3)
    coarse = np.random.default_rng(seed).integers(0, 256, size=shape, dtype=np.uint8)
    return coarse.repeat(5, axis=0).repeat(5, axis=1)


def blurred(image: Picture, sigma: float) -> Picture:
    return np.asarray(ndimage.gaussian_filter(image.astype(np.float64), (sigma, sigma, 0))).astype(
        np.uint8
    )


def test_similarity_is_one_for_the_same_picture_and_falls_with_the_change() -> None:
    image = picture(0)
    little, much = image.copy(), image.copy()
    little[:8, :8] = 0
    much[:24, :24] = 0
    assert similarity(image, image) == pytest.approx(1.0)
    assert similarity(image, image) > similarity(image, little) > similarity(image, much)


def test_similarity_of_two_flat_pictures_is_the_formula() -> None:
    """Without variance only the luminance term is left: (2ab + c) / (a² + b² + c), c = (0.01 ·
    255)².
    """
    a, b, c = 100.0, 140.0, (0.01 * 255) ** 2
    flat = [np.full((20, 20, 3), level, dtype=np.uint8) for level in (a, b)]
    assert similarity(flat[0], flat[1]) == pytest.approx((2 * a * b + c) / (a * a + b * b + c))


def test_blur_rises_with_blurring() -> None:
    image = picture(1, size=80)
    assert 0 <= blur(image) < blur(blurred(image, 1)) < blur(blurred(image, 3)) <= 1


def test_quality_is_the_mean_by_operator_and_originals_count_once() -> None:
    a, b = picture(2), picture(3)
    soft = blurred(a, 2)
    pairs = [("a", "insert", a, soft), ("a", "delete", a, a), ("b", "delete", b, b)]
    found = image_quality([MutantPair(*pair) for pair in pairs], with_clip=False)  # type: ignore[arg-type]
    by_name = {measure.name: measure for measure in found.measures}
    likeness, softness = by_name["similarity"], by_name["blur"]
    assert found.pictures == 3
    assert likeness.operators == {
        "insert": pytest.approx(similarity(a, soft)),
        "delete": pytest.approx(1.0),
    }
    assert likeness.mutated == pytest.approx((similarity(a, soft) + 2) / 3)
    assert likeness.original is None
    assert likeness.test is None
    assert softness.original == pytest.approx((blur(a) + blur(b)) / 2)
    assert softness.test is not None
    assert (softness.test.first, softness.test.second) == (2, 3)
    expected = stats.mannwhitneyu([blur(a), blur(b)], [blur(soft), blur(a), blur(b)])
    assert softness.test.p_value == pytest.approx(expected.pvalue)
    assert to_dict(found)["pictures"] == 3


def test_a_pair_that_cannot_be_measured_is_named_and_the_rest_goes_on() -> None:
    image, tiny = picture(4), picture(4)[:5, :5]
    found = image_quality(
        [
            MutantPair("odd", "insert", image, image[:20]),
            MutantPair("tiny", "delete", tiny, tiny),
            MutantPair("good", "rotate", image, image),
        ],
        with_clip=False,
    )
    assert found.pictures == 1
    assert [message.split(":")[0] for message in found.messages] == [
        "The insert mutant of odd was not measured",
        "The delete mutant of tiny was not measured",
    ]
    with pytest.raises(DataError, match="7 pixels a side"):
        similarity(tiny, tiny)


def test_nothing_to_measure_is_no_error() -> None:
    found = image_quality([], with_clip=False)
    assert to_dict(found) == {"pictures": 0, "measures": [], "messages": []}


def test_without_piq_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "piq", None)
    image = picture(5)
    found = image_quality([MutantPair("a", "insert", image, image)])
    assert [measure.name for measure in found.measures] == ["similarity", "blur"]
    assert found.messages == [
        "CLIP-IQA was left out, since piq is not installed. Install it: pip install piq."
    ]


class Brightness(nn.Module):
    """Takes the place of piq's network, whose weights cannot be had here: same interface, and an
    answer that can be worked out.
    """

    def __init__(self, data_range: float = 1.0) -> None:
        super().__init__()
        self.data_range = data_range

    def forward(self, x: Tensor) -> Tensor:
        assert x.ndim == 4
        assert x.shape[1] == 3
        assert x.dtype == torch.float32
        return (x / self.data_range).mean().reshape(1, 1)


def test_clip_iqa_asks_for_its_weights_and_takes_pictures_channels_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    piq = ModuleType("piq")
    piq.CLIPIQA = Brightness  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "piq", piq)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cache" / "clip"
    folder.mkdir(parents=True)
    (folder / "RN50.pt").touch()
    reason = clip_iqa()
    assert isinstance(reason, str)
    assert "weights are missing: clipiqa_tokens.pt in" in reason
    (folder / "clipiqa_tokens.pt").touch()
    score = clip_iqa()
    assert not isinstance(score, str)
    assert score(np.full((8, 9, 3), 51, dtype=np.uint8)) == pytest.approx(0.2)
    image = picture(6)
    found = image_quality([MutantPair("a", "insert", image, image // 2 * 2)])
    assert [measure.name for measure in found.measures] == ["similarity", "blur", "clip_iqa"]
    assert found.messages == []


@pytest.mark.slow
def test_clip_compares_a_picture_with_the_paper_s_prompts(tmp_path: Path) -> None:
    """A small CLIP with random weights: the score is the softmax of the two cosines of its own
    embeddings.
    """
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: at for at, word in enumerate(["[PAD]", "[END]", "Realistic", "Unrealistic",
                                                  "photo"])}  # fmt: skip
    plain = Tokenizer(models.WordLevel(words, unk_token="[PAD]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(
        single="$A [END]", special_tokens=[("[END]", 1)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="[PAD]", eos_token="[END]"
    )
    small = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
             "num_hidden_layers": 1}  # fmt: skip
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        text_config={**small, "vocab_size": 5, "max_position_embeddings": 8, "eos_token_id": 1},
        vision_config={**small, "image_size": 16, "patch_size": 8},
        projection_dim=8,
    )
    model = transformers.CLIPModel(config).eval()
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}
    )
    for part in (model, processor, tokenizer):
        part.save_pretrained(tmp_path)
    image = picture(7)
    found = clip_realism(tmp_path)(image)
    with torch.inference_mode():
        given = processor(images=image, return_tensors="pt")
        seen = model.visual_projection(model.vision_model(**given).pooler_output)[0]
        said = model.text_projection(
            model.text_model(**tokenizer(list(PROMPTS), return_tensors="pt")).pooler_output
        )
        cosines = torch.nn.functional.cosine_similarity(seen[None], said)
        expected = (model.logit_scale.exp() * cosines).softmax(0)[0]
    assert found == pytest.approx(float(expected), abs=1e-5)
    quality = image_quality(
        [MutantPair("a", "insert", image, image)], with_clip=False, realism=clip_realism(tmp_path)
    )
    assert [measure.name for measure in quality.measures] == ["similarity", "blur", "clip_realism"]
    with pytest.raises(StorageError, match="There is no folder"):
        clip_realism(tmp_path / "nothing")
