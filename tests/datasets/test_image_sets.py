"""Collections of faces in the layouts in which they are published, and `.npz` files, with
everything wrong in them that can be.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from fairprobe.datasets.image_sets import ImageSet, open_images
from fairprobe.datasets.pictures import MessageLog, read_picture
from fairprobe.errors import DataError, SettingError, StorageError
from tests.helpers import assets

Bytes = npt.NDArray[np.uint8]


def picture(number: int, *, width: int = 12, height: int = 12) -> Bytes:
    """One of which the first pixel tells which it is, in a format that loses nothing."""
    image = np.random.default_rng(number).integers(0, 256, size=(height, width, 3)).astype(np.uint8)
    image[0, 0] = number % 256
    return image


def save(path: Path, number: int, **sizes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(number, **sizes)).save(
        path, format="PNG"
    )  # whatever it is called: the content decides


def words(images: ImageSet, name: str) -> list[str]:
    """The attribute of each picture in words; '?' where it is unknown."""
    attribute = images.attributes[name]
    return ["?" if code < 0 else attribute.values[code] for code in attribute.codes]


def numbers(images: ImageSet) -> list[int]:
    return [int(image[0, 0, 0]) for image in images.images]


# -- collections -----------------------------------------------------------------------------------


def celeba(root: Path, ending: str = "txt") -> Path:
    names = [f"{at:06d}.jpg" for at in range(1, 7)]
    male, young, pale = [1, -1, 1, -1, 1, -1], [1, 1, 1, -1, -1, -1], [-1, -1, -1, -1, -1, 1]
    for at, name in enumerate(names, start=1):
        save(root / "img_align_celeba" / name, at, width=9, height=11)
    rows = list(zip(names, male, young, pale, strict=True))
    if ending == "txt":
        lines = [
            "6",
            "Male Young Pale_Skin ",
            *(f"{name} {a:2d} {b:2d} {c:2d}" for name, a, b, c in rows),
        ]
        parts = [f"{name} {at // 2}" for at, name in enumerate(names)]
    else:
        lines = [
            "image_id,Male,Young,Pale_Skin",
            *(f"{name},{a},{b},{c}" for name, a, b, c in rows),
        ]
        parts = ["image_id,partition", *(f"{name},{at // 2}" for at, name in enumerate(names))]
    (root / f"list_attr_celeba.{ending}").write_text("\n".join(lines) + "\n")
    (root / f"list_eval_partition.{ending}").write_text("\n".join(parts) + "\n")
    return root


@pytest.mark.parametrize("ending", ["txt", "csv"])
def test_celeba_tells_gender_and_age_and_its_test_part(tmp_path: Path, ending: str) -> None:
    images = open_images(celeba(tmp_path, ending))
    expected = ("CelebA", (6, 3, 11, 9), [1, 2, 3, 4, 5, 6])
    assert (images.name, images.images.shape, numbers(images)) == expected
    assert words(images, "gender") == ["male", "female"] * 3
    assert words(images, "age") == ["young"] * 3 + ["old"] * 3
    assert words(images, "pale_skin") == ["no"] * 5 + ["yes"]
    assert images.held_out.tolist() == [False] * 4 + [True] * 2  # validation is no test
    assert images.y.tolist() == [1] * 6
    assert images.messages == ()


def test_races_of_celebas_people_come_from_a_file_of_the_users(tmp_path: Path) -> None:
    root = celeba(tmp_path / "celeba")
    labels = tmp_path / "race.csv"
    labels.write_text(
        "file,race\n000001.jpg,A\nimg_align_celeba/000002.jpg,B\n000003.jpg,\n000004.jpg,A\n"
    )
    images = open_images(root, labels=labels)
    race = images.attributes["race"]
    assert race.values == ("A", "B")
    assert race.codes.tolist() == [0, 1, -1, 0, -1, -1]
    assert "2 of 6 pictures have no row in race.csv." in images.messages
    (root / "identity_CelebA.txt").write_text(
        "".join(f"00000{at}.jpg {at // 2}\n" for at in (1, 2, 3))
    )
    identities = open_images(root).identities
    assert identities is not None
    assert identities.tolist() == [0, 1, 1, -1, -1, -1]
    labels.write_text("file,race\nnobody.jpg,A\n")
    with pytest.raises(DataError, match="names none of the pictures"):
        open_images(root, labels=labels)
    labels.write_text("file\n000001.jpg\n")
    with pytest.raises(DataError, match="no column besides 'file'"):
        open_images(root, labels=labels)
    labels.write_text("name,race\n000001.jpg,A\n")
    with pytest.raises(DataError, match="no column 'file'"):
        open_images(root, labels=labels)


def lfw(root: Path) -> Path:
    people = {"Aaron_Eckhart": 1, "Jane_De_Roe": 3, "Li_Na": 2, "Bo_Li": 1, "Al_Ko": 1}
    number = 0
    for name, count in people.items():
        for at in range(1, count + 1):
            number += 1
            save(root / "lfw" / name / f"{name}_{at:04d}.jpg", number)
    return root


SCORES = {  # Male, Asian, White, Black, then one that is not used
    "Aaron Eckhart\t1": "1.5\t-1.9\t0.9\t-1.2\t0.3",
    "Jane De Roe\t1": "-1.1\t-0.4\t-0.3\t0.8\t0.1",
    "Jane De Roe\t2": "-0.1\t-0.4\t-0.3\t0.8\t0.1",
    "Li Na\t1": "-2.0\t1.4\t0.3\t-0.8\t0.1",
    "Li Na\t2": "-2.0\t1.4\t0.3\t-0.8\t0.1",
    "Bo Li\t1": "2.0\t0.4\t0.3\t-0.8\t0.5",
    "Al Ko\t1": "2.0\t0.4\t0.3\t-0.8\t0.1",
}


def test_lfw_tells_gender_and_race_by_the_scores_of_its_attributes(tmp_path: Path) -> None:
    heading = "#\tperson\timagenum\tMale\tAsian\tWhite\tBlack\tIndian"
    (tmp_path / "lfw_attributes.txt").write_text(
        "\n".join(
            [
                "# about these scores",
                heading,
                *(f"{who}\t{scores}" for who, scores in SCORES.items()),
            ]
        )
        + "\n"
    )
    images = open_images(lfw(tmp_path))
    gender = ["male"] * 3 + ["female"] * 2 + ["?"] + ["female"] * 2
    assert words(images, "gender") == gender
    race = ["White", "Asian", "Indian", "Black", "Black", "?", "Asian", "Asian"]
    assert words(images, "race") == race
    assert images.attribute_messages["gender"] == (
        "The gender is unknown in 1 of 8 pictures of people; they belong to no group.",
    )


def test_lfw_tells_gender_by_lists_of_names_and_never_divides_a_person(tmp_path: Path) -> None:
    lfw(tmp_path)
    men = ["Aaron_Eckhart_0001.jpg", "Bo_Li_0001.jpg", "Al_Ko_0001.jpg"]
    women = [*(f"Jane_De_Roe_{at:04d}.jpg" for at in (1, 2, 3)), "Li_Na_0001.jpg", "Li_Na_0002.jpg"]
    (tmp_path / "male_names.txt").write_text("\n".join(men))
    (tmp_path / "female_names.txt").write_text("\n".join(women))
    seen = set()
    for seed in range(12):
        images = open_images(tmp_path, seed=seed)
        assert words(images, "gender") == ["male"] * 3 + ["female"] * 5
        held = tuple(images.held_out.tolist())
        assert held[3] == held[4] == held[5]  # Jane De Roe
        assert held[6] == held[7]
        seen.add(held)
        assert np.array_equal(open_images(tmp_path, seed=seed).held_out, images.held_out)
    assert len(seen) > 2


def fairface(root: Path) -> Path:
    rows = {
        "train": [
            "1.jpg,50-59,Male,East Asian,True",
            "2.jpg,30-39,Female,Indian,False",
            "3.jpg,3-9,Female,Black,False",
        ],
        "val": ["1.jpg,more than 70,Male,White,True"],
    }
    for part, lines in rows.items():
        (root / f"fairface_label_{part}.csv").write_text(
            "file,age,gender,race,service_test\n" + "".join(f"{part}/{line}\n" for line in lines)
        )
        for at in range(1, len(lines) + 1):
            save(root / part / f"{at}.jpg", at + (10 if part == "val" else 0))
    return root


def test_fairface_holds_its_validation_part_out(tmp_path: Path) -> None:
    images = open_images(fairface(tmp_path))
    assert numbers(images) == [1, 2, 3, 11]
    assert words(images, "gender") == ["Male", "Female", "Female", "Male"]
    assert words(images, "race") == ["East Asian", "Indian", "Black", "White"]
    assert words(images, "age") == ["50-59", "30-39", "3-9", "more than 70"]
    assert images.held_out.tolist() == [False, False, False, True]
    assert (
        "No image of the race 'Middle Eastern' can be used; the group is left out."
        in images.attribute_messages["race"]
    )


def test_diveface_tells_gender_and_group_in_its_folders_and_keeps_people_whole(
    tmp_path: Path,
) -> None:
    expected = {
        "Group1_Male": ("Male", "East Asian"),
        "Group2_Female": ("Female", "Sub-Saharan and South Indian"),
        "Group3_Female": ("Female", "Caucasian"),
    }
    for place, folder in enumerate(expected):
        for at in range(12):
            save(tmp_path / folder / f"{place}@N{at // 3}" / f"{at}.jpg", 12 * place + at)
    images = open_images(tmp_path)
    found = list(zip(words(images, "gender"), words(images, "race"), strict=True))
    assert found == [pair for pair in expected.values() for _ in range(12)]
    held = images.held_out.reshape(-1, 3)  # three pictures of each person
    assert (held.all(axis=1) | ~held.any(axis=1)).all()
    assert 0 < held.sum() < held.size


def test_utkface_tells_everything_in_its_names(tmp_path: Path) -> None:
    names = {
        "1_0_0_20161219203650636.jpg.chip.jpg": ("Male", "White", "0-2"),
        "9_1_1_20161219203650637.jpg": ("Female", "Black", "3-9"),
        "29_1_2_20161219203650638.jpg.chip.jpg": ("Female", "Asian", "20-29"),
        "70_0_3_20161219203650639.jpg.chip.jpg": ("Male", "Indian", "more than 70"),
        "116_0_4_20161219203650640.jpg.chip.jpg": ("Male", "Others", "more than 70"),
    }
    for at, name in enumerate((*names, "39_1_20170116174525125.jpg.chip.jpg")):
        save(tmp_path / "UTKFace" / name, at)
    images = open_images(tmp_path)
    found = set(
        zip(words(images, "gender"), words(images, "race"), words(images, "age"), strict=True)
    )
    assert found == set(names.values())
    assert (
        images.messages[0]
        == "UTKFace/39_1_20170116174525125.jpg.chip.jpg has no age, gender and race in its name and"
        " is left out."
    )
    assert images.held_out.sum() == 1


def test_pictures_without_a_face_come_from_class_folders_and_get_the_faces_size(
    tmp_path: Path,
) -> None:
    (tmp_path / "faces").mkdir()
    fairface(tmp_path / "faces")
    for at, name in enumerate(("n01440764/a.JPEG", "n01440764/b.JPEG", "n01443537/c.JPEG")):
        save(tmp_path / "things" / "train" / name, at, width=30, height=20)
    save(tmp_path / "things" / "val" / "n01443537" / "d.JPEG", 200)
    images = open_images(tmp_path / "faces", others=tmp_path / "things")
    assert images.classes == ("not a face", "face")
    assert images.y.tolist() == [1] * 4 + [0] * 4
    assert images.images.shape == (8, 3, 12, 12)
    assert words(images, "gender")[4:] == ["?"] * 4
    assert images.held_out.tolist() == [False] * 3 + [True] + [False] * 3 + [True]
    assert any(
        message.startswith("3 images: each is cropped to the square in its middle")
        for message in images.messages
    )


# -- pictures that are not as they should be -------------------------------------------------------


def test_whatever_is_wrong_with_a_picture_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    root = fairface(tmp_path)
    (root / "train" / "2.jpg").write_bytes(b"no image")
    (root / "train" / "3.jpg").unlink()
    extra = ["grey", "alpha", "large", "deep"]
    with (root / "fairface_label_train.csv").open("a") as file:
        file.writelines(f"train/{name}.png,20-29,Female,White,False\n" for name in extra)
    Image.fromarray(picture(1)[..., 0]).save(root / "train" / "grey.png")
    Image.fromarray(np.dstack([picture(1), picture(2)[..., 0]])).save(root / "train" / "alpha.png")
    save(root / "train" / "large.png", 5, width=20, height=20)
    Image.fromarray(np.full((12, 12), 40_000, dtype=np.uint16)).save(root / "train" / "deep.png")
    images = open_images(root)
    assert len(images) == 4
    assert images.messages[:6] == (
        "train/3.jpg is in the list but not in the folder and is left out.",
        "train/2.jpg cannot be read as an image and is left out.",
        "train/deep.png has more than 8 bits a channel and is left out.",
        "train/large.png is not 12 × 12 pixels like most and is left out.",
        "train/alpha.png has an alpha channel, which is dropped.",
        "train/grey.png is gray and gets three equal channels.",
    )
    assert (
        "No image of the race 'Indian' can be used; the group is left out."
        in images.attribute_messages["race"]
    )
    resized = open_images(root, size=10)
    assert resized.images.shape == (5, 3, 10, 10)
    assert any(
        message.startswith("5 images: each is resized to 10 × 10 pixels")
        for message in resized.messages
    )


def test_pictures_are_turned_upright_and_of_several_frames_the_first_counts(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    first, second = Image.fromarray(picture(1)), Image.fromarray(picture(2))
    first.save(tmp_path / "20_0_0_1.png", exif=exif)
    first.save(tmp_path / "20_1_0_2.png", save_all=True, append_images=[second])
    images = open_images(tmp_path)
    assert np.array_equal(images.images[0].transpose(1, 2, 0), np.rot90(picture(1), k=-1))
    assert np.array_equal(images.images[1].transpose(1, 2, 0), picture(1))
    assert images.messages == (
        "20_0_0_1.png is turned upright, as its camera says.",
        "20_1_0_2.png has several frames, of which the first is used.",
    )


def test_huge_and_damaged_pictures_are_named_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Image, "MAX_IMAGE_PIXELS", 200
    )  # beyond it PIL warns, beyond twice as much it refuses
    save(tmp_path / "20_0_0_1.png", 1, width=15, height=15)
    save(tmp_path / "20_0_0_2.png", 2, width=30, height=30)
    whole = io.BytesIO()
    Image.fromarray(picture(1)).save(whole, "GIF")
    for at, end in enumerate((0, 20, 200)):
        (tmp_path / f"20_0_0_3{at}.png").write_bytes(whole.getvalue()[:end])
    for number in (4, 5):
        save(tmp_path / f"20_{number % 2}_0_{number}.png", number)
    images = open_images(tmp_path)
    assert numbers(images) == [4, 5]
    assert images.messages == (
        (
            "3 images: each cannot be read as an image and is left out (20_0_0_30.png,"
            " 20_0_0_31.png, 20_0_0_32.png)."
        ),
        (
            "2 images: each has too many pixels to be opened safely and is left out (20_0_0_1.png,"
            " 20_0_0_2.png)."
        ),
    )


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8),
    st.sampled_from(["PNG", "JPEG", "GIF", "BMP"]),
)
def test_no_damage_to_a_picture_is_more_than_a_message(
    damage: list[tuple[int, int]], kind: str
) -> None:
    file = io.BytesIO()
    Image.fromarray(picture(1)).save(file, kind)
    content = bytearray(file.getvalue())
    for at, byte in damage:
        content[at % len(content)] = byte
    log = MessageLog(Path())
    read = read_picture(Path("face.png"), log, content=bytes(content))
    assert read is not None or len(log.messages()) == 1


def test_a_label_that_is_missing_makes_a_person_unknown_and_a_strange_one_is_refused_by_its_name(
    tmp_path: Path,
) -> None:
    root = celeba(tmp_path, "csv")
    listed, divided = root / "list_attr_celeba.csv", root / "list_eval_partition.csv"
    text = listed.read_text()
    listed.write_text(text.replace("000001.jpg,1,", "000001.jpg,,"))
    divided.write_text(divided.read_text() + "000001.jpg,0\n")  # twice in the list
    images = open_images(root)
    assert words(images, "gender") == ["?", "female", "male", "female", "male", "female"]
    assert images.attribute_messages["gender"] == (
        "The gender is unknown in 1 of 6 pictures of people; they belong to no group.",
    )
    listed.write_text(text.replace("000002.jpg,-1,", "000002.jpg,woman,"))
    with pytest.raises(
        DataError, match=r"the attribute Male must be 1 or -1; 000002\.jpg has 'woman'"
    ):
        open_images(root)


def test_a_row_of_another_length_than_its_heading_is_refused(tmp_path: Path) -> None:
    listed = celeba(tmp_path) / "list_attr_celeba.txt"
    listed.write_text(listed.read_text().replace("000003.jpg  1  1 -1", "000003.jpg  1  1"))
    with pytest.raises(
        DataError, match=r"the attribute Pale_Skin must be 1 or -1; 000003\.jpg has ''"
    ):
        open_images(tmp_path)
    (tmp_path / "lfw" / "lfw_attributes.txt").parent.mkdir()
    (tmp_path / "lfw" / "lfw_attributes.txt").write_text(
        "#\n#\tperson\timagenum\nA B\t1\t0.5\t0.1\n"
    )
    with pytest.raises(DataError, match=r"Cannot read .*lfw_attributes\.txt"):
        open_images(tmp_path / "lfw")


def test_a_face_keeps_its_proportions_when_it_is_brought_to_a_size(tmp_path: Path) -> None:
    root = celeba(tmp_path)
    tall = np.zeros((30, 20, 3), dtype=np.uint8)
    tall[5:25] = 200  # the square in the middle
    for path in (root / "img_align_celeba").iterdir():
        Image.fromarray(tall).save(path, format="PNG")
    images = open_images(root, size=10)
    assert (
        images.images[:, :, 1:-1] == 200
    ).all()  # at the edge the filter looks a little beyond the square


def test_some_are_drawn_by_the_seed(tmp_path: Path) -> None:
    root = tmp_path / "faces"
    for at in range(40):
        save(root / f"20_{at % 2}_{at % 5}_{at}.jpg", at)
        save(tmp_path / "things" / "dog" / f"{at}.jpg", at)
    first, again, other = (
        open_images(root, others=tmp_path / "things", limit=20, seed=seed) for seed in (1, 1, 2)
    )
    assert (first.y == 1).sum() == (first.y == 0).sum() == 10
    assert numbers(first) == numbers(again) != numbers(other)
    part = first.take(first.y == 1)
    assert (len(part), len(part.attributes["gender"].codes), len(part.held_out)) == (10, 10, 10)


# -- npz -------------------------------------------------------------------------------------------


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


FACES = np.stack([picture(at) for at in range(6)])
GENDER = np.array([0, 1, 0, 1, 0, 255], dtype=np.uint8)


def test_an_npz_of_own_pictures(tmp_path: Path) -> None:
    path = npz(
        tmp_path / "own.npz",
        images=FACES,
        is_face=np.array([1, 1, 1, 1, 1, 0]),
        gender=GENDER,
        gender_names=np.array(["man", "woman"]),
        town=np.array(["Rome", "Oslo", "Oslo", "", "Rome", ""]),
        weight=np.linspace(0, 1, 6),
        split=np.array([0, 0, 0, 1, 1, 1]),
    )
    images = open_images(path)
    expected = ("own", ("not a face", "face"), [1, 1, 1, 1, 1, 0])
    assert (images.name, images.classes, images.y.tolist()) == expected
    assert np.array_equal(images.images, FACES.transpose(0, 3, 1, 2))
    assert words(images, "gender") == ["man", "woman", "man", "woman", "man", "?"]
    assert words(images, "town") == ["Rome", "Oslo", "Oslo", "?", "Rome", "?"]
    assert set(images.attributes) == {"gender", "town"}
    assert images.held_out.tolist() == [False] * 3 + [True] * 3
    assert open_images(path, size=8).images.shape == (6, 3, 8, 8)
    assert open_images(path, size=8).messages == (
        "All images are resized from 12 × 12 to 8 × 8 pixels.",
    )


def test_pictures_of_an_npz_may_be_numbers_grey_or_with_alpha(tmp_path: Path) -> None:
    as_numbers = open_images(npz(tmp_path / "a.npz", images=(FACES / 255).astype(np.float32)))
    assert np.array_equal(as_numbers.images, FACES.transpose(0, 3, 1, 2))
    grey = open_images(npz(tmp_path / "b.npz", images=FACES[..., 0]))
    assert np.array_equal(grey.images, np.repeat(FACES[..., :1], 3, axis=3).transpose(0, 3, 1, 2))
    alpha = open_images(
        npz(tmp_path / "c.npz", images=np.concatenate([FACES, FACES[..., :1]], axis=3))
    )
    assert np.array_equal(alpha.images, FACES.transpose(0, 3, 1, 2))
    assert "rounded to bytes" in as_numbers.messages[0]
    assert "gray" in grey.messages[0]
    assert "alpha channel" in alpha.messages[0]


def test_an_npz_of_files_in_a_row(tmp_path: Path) -> None:
    contents = []
    for at in range(4):
        file = io.BytesIO()
        Image.fromarray(picture(at, width=20) if at == 2 else picture(at)).save(file, format="PNG")
        contents.append(file.getvalue() if at != 1 else b"no image")
    offsets = np.cumsum([0, *map(len, contents)])
    path = npz(
        tmp_path / "f.npz",
        jpeg=np.frombuffer(b"".join(contents), dtype=np.uint8),
        offsets=offsets,
        gender=np.array([0, 1, 1, 1]),
    )
    images = open_images(path)
    assert (numbers(images), words(images, "gender")) == ([0, 3], ["0", "1"])
    assert images.messages == (
        "f.npz[1] cannot be read as an image and is left out.",
        "f.npz[2] is not 12 × 12 pixels like most and is left out.",
    )


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no images": ({"pictures": FACES}, "has no array `images`"),
    "words for pixels": ({"images": np.array([["a"]])}, "must be bytes"),
    "numbers above one": ({"images": FACES.astype(np.float64)}, "outside 0 to 1"),
    "five channels": ({"images": np.zeros((2, 8, 9, 5), dtype=np.uint8)}, "8 channels"),
    "too few classes": (
        {"images": FACES, "is_face": np.ones(3, dtype=int)},
        "`is_face` must be a whole number for each of the 6",
    ),
    "a third class": ({"images": FACES, "is_face": np.arange(6)}, "must be 0 or 1"),
    "a class without a name": (
        {"images": FACES, "y": np.arange(6), "y_names": np.array(["a", "b"])},
        "positions in `y_names`",
    ),
    "a group without a name": (
        {"images": FACES, "race": np.arange(6), "race_names": np.array(["a"])},
        "`race_names` has 1 names",
    ),
    "names without a number": (
        {"images": FACES, "race": np.zeros(6, dtype=int), "race_names": np.array("a")},
        "a word for each code of",
    ),
    "offsets that fall": (
        {"jpeg": np.zeros(9, dtype=np.uint8), "offsets": np.array([5, 0])},
        "whole numbers that rise",
    ),
    "nothing to read": (
        {"jpeg": np.zeros(9, dtype=np.uint8), "offsets": np.array([0, 9])},
        "No image of",
    ),
}


def test_an_array_that_tells_no_groups_says_why(tmp_path: Path) -> None:
    codes = np.arange(6) % 2
    arrays = {
        "images": FACES,
        "gender": codes[:-1],
        "race": codes / 2,
        "skin": codes,
        "skin_names": np.array([b"light", b"dark"]),
    }
    path = npz(tmp_path / "own.npz", **arrays)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("README.txt", "hello")
    images = open_images(path)
    assert images.attribute_messages["gender"] == (
        "`gender` of own.npz has the shape (5,) beside 6 images, so it defines no groups.",
    )
    assert images.attribute_messages["race"] == (
        "`race` of own.npz is neither whole numbers nor words but float64, so it defines no"
        " groups.",
    )
    assert images.attributes["skin"].values == ("light", "dark")


def test_a_set_made_by_hand_must_fit(tmp_path: Path) -> None:
    images = open_images(npz(tmp_path / "own.npz", images=FACES, gender=np.arange(6) % 2))
    with pytest.raises(DataError, match=r"must be bytes \(number, 3, height, width\); got float32"):
        replace(images, images=images.images.astype(np.float32))
    with pytest.raises(DataError, match="has 6 pictures, but `y` has 5"):
        replace(images, y=images.y[:-1])


@pytest.mark.parametrize(("arrays", "message"), BROKEN.values(), ids=BROKEN)
def test_an_npz_that_does_not_fit_is_told(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        open_images(npz(tmp_path / "broken.npz", **arrays))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path(tmp_path / "trapped").write_text, ("sprung",))

    np.savez(tmp_path / "trap.npz", images=np.array([Trap()], dtype=object))
    (tmp_path / "trap.pkl").write_bytes(pickle.dumps(Trap()))
    for name, message in (
        ("trap.npz", r"cannot be read as an \.npz of plain arrays \(`images`\)"),
        ("trap.pkl", r"is not an \.npz file"),
    ):
        with pytest.raises(StorageError, match=message):
            open_images(tmp_path / name)
    assert not (tmp_path / "trapped").exists()


# -- mistakes --------------------------------------------------------------------------------------


def test_a_folder_of_another_layout_is_told_what_is_known(tmp_path: Path) -> None:
    save(tmp_path / "group" / "face.png", 1)
    with pytest.raises(
        DataError,
        match=r"unsupported layout. .* CelebA .*DiveFace .*FairFace .*LFW .*UTKFace",
    ):
        open_images(tmp_path)
    with pytest.raises(StorageError, match="There is no"):
        open_images(tmp_path / "none")
    with pytest.raises(StorageError, match="There is no folder"):
        open_images(npz(tmp_path / "a.npz", images=FACES), others=tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no pictures in"):
        open_images(tmp_path / "a.npz", others=tmp_path / "empty")


@pytest.mark.parametrize(
    ("settings", "message"), [({"size": 2}, "size must be"), ({"limit": 1}, "limit must be")]
)
def test_settings_that_cannot_be_are_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        open_images(npz(tmp_path / "a.npz", images=FACES), **settings)


def test_a_list_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    root = fairface(tmp_path)
    with (root / "fairface_label_train.csv").open("a") as file:
        file.write("../../secret.jpg,20-29,Female,White,False\n")
    with pytest.raises(DataError, match="is outside the folder"):
        open_images(root)


@pytest.mark.parametrize("name", ["x" * 5_000, "a/" * 5_000 + "b.jpg", "train/\0.jpg"])
def test_a_picture_called_as_no_file_can_be_is_missing(tmp_path: Path, name: str) -> None:
    for root, write, file, row in (
        (tmp_path / "a", fairface, "fairface_label_train.csv", "20-29,Female,White,False"),
        (tmp_path / "b", celeba, "list_attr_celeba.txt", "1 1 1"),
    ):
        root.mkdir()
        whole = len(open_images(write(root)))
        with (root / file).open("a") as stream:
            stream.write(f"{name},{row}\n" if file.endswith("csv") else f"{name} {row}\n")
        images = open_images(root)
        assert len(images) == whole
        (said,) = (one for one in images.messages if "not in the folder" in one)
        assert len(said) < 300


# -- the assets ------------------------------------------------------------------------------------


def test_the_faces_of_the_assets() -> None:
    faces = open_images(assets() / "face_nonface32.npz")
    assert (faces.images.shape, faces.messages) == ((2800, 3, 32, 32), ())
    assert np.bincount(faces.y).tolist() == [1400, 1400]
    assert set(faces.attributes) == {"gender", "race"}
    assert (faces.attributes["gender"].codes[faces.y == 0] == -1).all()
    assert np.bincount(faces.attributes["race"].codes[faces.y == 1]).tolist() == [200] * 7
    assert int(faces.held_out.sum()) == 840
    decoded = open_images(assets() / "fairface64_jpeg.npz", limit=70)
    assert decoded.images.shape == (70, 3, 64, 64)
    assert open_images(assets() / "fairface48.npz").images.shape == (1680, 3, 48, 48)
