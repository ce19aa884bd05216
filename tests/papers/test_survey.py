"""The realism study: an order that gives nothing away, answers that cannot be used, and a table
worked out by hand.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from html import unescape
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairprobe.errors import DataError, SettingError, StorageError
from fairprobe.results import decode, encode, to_dict
from papers.distrofair.answers import Answer, Answers, Rating, evaluate, read_answers
from papers.distrofair.survey import (
    REAL,
    Candidate,
    PagePicture,
    SurveyKey,
    SurveyPicture,
    _chosen,
    choose,
    render_survey,
)

OPERATORS = ("delete", "insert", "rotate")


def candidates(scenes: int, operators: tuple[str, ...] = OPERATORS) -> list[Candidate]:
    return [
        Candidate(
            f"s{at}",
            operator,
            f"s{at}-{operator}.png",
            f"s{at}.png",
            dataset="camvid",
            is_inducing=at % 2 == 0,
            original_vehicles=at,
        )
        for at in range(scenes)
        for operator in operators
    ]


# -- choosing --------------------------------------------------------------------------------------


def test_thirty_mutants_are_shown_with_their_originals_as_in_the_paper() -> None:
    survey = choose(candidates(40))
    real = [picture for picture in survey.pictures if picture.operator == REAL]
    assert (len(survey.pictures), len(real), survey.messages) == (60, 30, [])
    for operator in OPERATORS:
        assert sum(picture.operator == operator for picture in survey.pictures) == 10
    assert sorted(picture.scene for picture in real) == sorted(
        picture.scene for picture in survey.pictures if picture.operator != REAL
    )
    assert [picture.name for picture in survey.pictures] == [f"p{at:02}" for at in range(1, 61)]
    assert all(
        picture.image == f"{picture.scene}.png" and picture.vehicles == int(picture.scene[1:])
        for picture in real
    )
    assert not any(picture.is_inducing for picture in real)


@given(st.integers(2, 14), st.integers(1, 5), st.integers(0, 1000), st.integers(1, 3))
def test_no_operator_follows_itself_and_no_mutant_is_next_to_its_original(
    scenes: int, each: int, seed: int, operators: int
) -> None:
    if each * operators < 2:
        return
    survey = choose(candidates(scenes, OPERATORS[:operators]), each=each, seed=seed)
    for before, after in pairwise(survey.pictures):
        assert before.scene != after.scene
        assert REAL in (before.operator, after.operator) or before.operator != after.operator
    assert (
        len({picture.image for picture in survey.pictures})
        == len(survey.pictures)
        == 2 * min(scenes, each * operators)
    )


def test_the_order_hangs_on_the_seed_and_not_on_the_order_of_candidates() -> None:
    some = candidates(40)
    assert choose(some, seed=1) == choose(some[::-1], seed=1) != choose(some, seed=2)


def test_real_pictures_may_follow_each_other_so_that_nothing_alternates() -> None:
    survey = choose(candidates(40))
    assert any(
        before.operator == after.operator == REAL for before, after in pairwise(survey.pictures)
    )


def test_scarce_scenes_are_shared_and_said() -> None:
    survey = choose(candidates(6))
    assert {
        operator: sum(picture.operator == operator for picture in survey.pictures)
        for operator in OPERATORS
    } == dict.fromkeys(OPERATORS, 2)
    assert survey.messages[0] == "There were scenes for only 2 of 10 'delete' pictures."


def test_as_many_mutants_make_a_recognizer_err_as_are_wanted() -> None:
    """24 of 30, as in the paper's table 5; what cannot be had is said."""
    survey = choose(candidates(80), inducing=0.8)
    assert sum(picture.is_inducing for picture in survey.pictures) == 24
    assert survey.messages == []
    scarce = choose(candidates(40), inducing=0.8)  # every other scene, each shown once
    assert sum(picture.is_inducing for picture in scarce.pictures) == 20
    assert scarce.messages == ["20 mutants make a recognizer err, not 24: there are no others."]
    with pytest.raises(SettingError, match="from 0 to 1"):
        choose(candidates(40), inducing=24)


def test_the_share_that_makes_a_recognizer_err_is_met_whenever_it_can_be() -> None:
    """10 + 10 + 4, where two operators have no other pictures."""
    operators = [*["insert"] * 20, *["delete"] * 20, *["rotate"] * 40]
    some = [
        Candidate(f"s{at}", operator, f"{at}.png", "", is_inducing=at < 60)
        for at, operator in enumerate(operators)
    ]
    for seed in range(3):
        survey = choose(some, inducing=0.8, seed=seed)
        mutants = [picture for picture in survey.pictures if picture.operator != REAL]
        assert (len(mutants), sum(one.is_inducing for one in mutants)) == (30, 24)
        assert survey.messages == []


def test_pictures_that_cannot_err_are_shown_where_a_mix_has_no_others() -> None:
    """Error-inducing pictures of coco use up its share, unless rotations wait for cityscapes'."""
    coco = [
        Candidate(f"c{at}", operator, f"c{at}.png", "", dataset="coco", is_inducing=hits)
        for at, (operator, hits) in enumerate(
            [*[("delete", True)] * 10, *[("insert", True)] * 10, *[("rotate", False)] * 10]
        )
    ]
    others = [
        Candidate(f"b{at}", "rotate", f"b{at}.png", "", dataset="cityscapes", is_inducing=at < 4)
        for at in range(10)
    ]
    survey = choose([*coco, *others], inducing=0.8, mix={"coco": 20, "cityscapes": 10})
    assert (len(survey.pictures), survey.messages) == (60, [])
    alone = choose(others, inducing=0.8)
    assert Counter(one.operator for one in alone.pictures) == {"rotate": 10, REAL: 10}


@given(st.data())
def test_no_choice_shows_more_pictures_or_comes_nearer_to_the_share(data: st.DataObject) -> None:
    """Against every possible choice from a few candidates."""
    row = st.tuples(st.integers(0, 4), st.sampled_from(OPERATORS), st.booleans())
    rows = data.draw(st.lists(row, min_size=1, max_size=8, unique=True))
    each, wanted = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    some = [
        Candidate(f"s{scene}", operator, f"{at}.png", "", is_inducing=hit)
        for at, (scene, operator, hit) in enumerate(rows)
    ]
    operators = {one.operator for one in some}
    target = round(wanted * each * len(operators))

    def quality(taken: Sequence[Candidate]) -> tuple[int, int, int]:
        numbers = Counter(one.operator for one in taken)
        rarest = min(numbers[operator] for operator in operators)
        return len(taken), rarest, -abs(sum(one.is_inducing for one in taken) - target)

    possible = [
        taken
        for size in range(len(some) + 1)
        for taken in combinations(some, size)
        if len({one.scene for one in taken}) == size
        and all(number <= each for number in Counter(one.operator for one in taken).values())
    ]
    found, _ = _chosen(some, each, wanted, None, np.random.default_rng(0))
    assert {one.image for one in found} in [{one.image for one in taken} for taken in possible]
    assert quality(found) == max(map(quality, possible))


def test_data_sets_are_mixed_as_wanted() -> None:
    own = candidates(60)
    other = [replace(one, scene=f"b{one.scene}", dataset="bremen") for one in own]
    survey = choose([*own, *other], inducing=0.8, mix={"camvid": 20, "bremen": 10})
    mutants = [picture for picture in survey.pictures if picture.operator != REAL]
    assert Counter(one.dataset for one in mutants) == {"camvid": 20, "bremen": 10}
    assert Counter(one.operator for one in mutants) == dict.fromkeys(OPERATORS, 10)
    assert sum(one.is_inducing for one in mutants) == 24
    few = choose([*own, *other[:3]], mix={"camvid": 20, "bremen": 10})
    assert "1 mutants are of bremen, not 10." in few.messages


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_pictures_are_refused(count: int) -> None:
    with pytest.raises(SettingError, match="too few for an order"):
        choose(candidates(count))
    with pytest.raises(SettingError, match="at least one mutant"):
        choose(candidates(5), each=0)


def test_a_survey_comes_back_from_its_document() -> None:
    survey = choose(candidates(6))
    assert decode(encode(survey), SurveyKey, name="survey.json") == survey
    for wrong in (b"{}", b'{"pictures": [{"name": "p1"}]}', b'{"pictures": [3]}', b"["):
        with pytest.raises(StorageError, match=r"survey\.json is damaged"):
            decode(wrong, SurveyKey, name="survey.json")


# -- answers ---------------------------------------------------------------------------------------


def shown(
    name: str,
    operator: str,
    vehicles: int | None = 2,
    *,
    dataset: str = "camvid",
    is_inducing: bool = False,
) -> SurveyPicture:
    return SurveyPicture(
        name=name,
        image=f"{name}.png",
        scene=f"scene of {name}",
        operator=operator,
        dataset=dataset,
        is_inducing=is_inducing,
        vehicles=vehicles,
    )


def rating(answers: int, mean: float | None, inducing: float | None) -> Rating:
    return Rating(answers=answers, mean=mean, inducing=inducing)


SURVEY = SurveyKey(
    pictures=[
        shown("p1", REAL),
        shown("p2", "insert", is_inducing=True),
        shown("p3", REAL),
        shown("p4", "delete"),
        shown("p5", REAL, dataset="coco"),
        shown("p6", "insert", vehicles=30, dataset="coco"),
    ]
)


def written(
    folder: Path,
    name: str,
    *lines: str,
    header: str = "participant,picture,realism,likelihood,vehicles",
) -> Path:
    path = folder / name
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def test_answers_are_read_with_any_order_of_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a.csv",
        "5,p1,2,ann,7.5,nothing",
        header="realism,picture,vehicles,participant,likelihood,remark",
    )
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as spreadsheets write it
    found = read_answers([path], SURVEY)
    assert found.messages == ()
    (answer,) = found.answers
    assert vars(answer) == {
        "participant": "ann",
        "picture": "p1",
        "realism": 5.0,
        "likelihood": 7.5,
        "vehicles": 2,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ann,p1,11,5,2", "realism must be a number from 0 to 10; got '11'."),
        ("ann,p1,5,-1,2", "likelihood must be a number from 0 to 10; got '-1'."),
        ("ann,p1,nan,5,2", "realism must be a number from 0 to 10; got 'nan'."),
        ("ann,p1,,5,2", "realism must be a number from 0 to 10; got ''."),
        ("ann,p1,good,5,2", "realism must be a number from 0 to 10; got 'good'."),
        ("ann,p1", "realism must be a number from 0 to 10; got ''."),
        ("ann,p99,5,5,2", "the survey has no picture 'p99'."),
        (",p1,5,5,2", "the participant is missing."),
        ("ann,p1,5,5,two", "vehicles must be a whole number or empty; got 'two'."),
        ("ann,p1,5,5,-2", "vehicles must be a whole number or empty; got '-2'."),
        ("bob,p2,6,6,1", "bob has answered for p2 before; the first answer counts."),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_the_rest_goes_on(
    tmp_path: Path, line: str, message: str
) -> None:
    found = read_answers([written(tmp_path, "a.csv", "bob,p2,3,4,2", line, "bob,p4,1,2,")], SURVEY)
    assert found.messages == (f"a.csv: line 3: {message}",)
    assert [(answer.picture, answer.realism, answer.vehicles) for answer in found.answers] == [
        ("p2", 3.0, 2),
        ("p4", 1.0, None),
    ]


def test_a_file_that_cannot_be_used_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    binary, empty, folder = tmp_path / "binary.csv", tmp_path / "empty.csv", tmp_path / "folder.csv"
    binary.write_bytes(b"participant,picture,realism,likelihood,vehicles\n\xff\xfe\x00")
    empty.touch()
    folder.mkdir()
    good = written(tmp_path, "good.csv", "ann,p1,5,5,2")
    without = written(tmp_path, "without.csv", "ann,p1,5", header="participant,picture,realism")
    found = read_answers([binary, empty, folder, tmp_path / "gone.csv", without, good], SURVEY)
    assert len(found.answers) == 1
    assert [message.split(":")[0] for message in found.messages] == [
        "binary.csv",
        "empty.csv",
        "folder.csv",
        "gone.csv",
        "without.csv",
    ]
    assert "not a CSV file in UTF-8" in found.messages[0]
    assert "cannot be read" in found.messages[3]
    assert (
        "no column likelihood, vehicles, and is left out. Expected: participant, picture"
        in found.messages[4]
    )


def test_the_same_participant_in_two_files_counts_once(tmp_path: Path) -> None:
    paths = [
        written(tmp_path, f"{name}.csv", "ann,p1,5,5,2", f"ann,p{name},9,9,2")
        for name in ("2", "3")
    ]
    found = read_answers(paths, SURVEY)
    assert [answer.picture for answer in found.answers] == ["p1", "p2", "p3"]
    assert found.messages == (
        "3.csv: line 2: ann has answered for p1 before; the first answer counts.",
    )


def test_many_bad_lines_are_summed_up(tmp_path: Path) -> None:
    found = read_answers([written(tmp_path, "a.csv", *["ann,p9,1,1,1"] * 50)], SURVEY)
    assert len(found.messages) == 21
    assert found.messages[-1] == "a.csv: 30 more lines cannot be used."


# -- the evaluation --------------------------------------------------------------------------------


def answered(folder: Path, **participants: str) -> Answers:
    """Of each participant "realism/likelihood/vehicles" for p1, p2 …, parted by blanks."""
    lines = [
        f"{name},p{at},{answer.replace('/', ',')}"
        for name, answers in participants.items()
        for at, answer in enumerate(answers.split(), start=1)
    ]
    return read_answers([written(folder, "answers.csv", *lines)], SURVEY)


def test_the_table_by_hand(tmp_path: Path) -> None:
    """Eve counts one picture of five right and is left out; p6 has too many vehicles to be
    counted.
    """
    found = evaluate(
        SURVEY,
        answered(
            tmp_path,
            ann="8/9/2 4/5/2 9/9/2 7/8/2 10/10/2 2/3/17",
            bob="6/7/2 6/5/2 8/8/2 9/8/2 8/8/1 0/1/30",
            eve="0/0/9 0/0/9 0/0/9 0/0/9 0/0/2 0/0/9",
        ),
    )
    assert (found.participants, found.valid, found.counted) == (
        3,
        ["ann", "bob"],
        ["p1", "p2", "p3", "p4", "p5"],
    )
    camvid, coco, total, ratio = found.rows
    assert (camvid.name, coco.name, total.name, ratio.name) == ("camvid", "coco", "total", "ratio")
    realism = camvid.realism
    assert realism[REAL] == rating(4, (8 + 9 + 6 + 8) / 4, None)
    assert realism["mutated"] == rating(4, (4 + 7 + 6 + 9) / 4, (4 + 6) / 2)
    assert realism["insert"] == rating(2, 5.0, 5.0)
    assert realism["delete"] == rating(2, 8.0, None)
    assert coco.likelihood == {
        REAL: rating(2, 9.0, None),
        "mutated": rating(2, 2.0, None),
        "delete": rating(0, None, None),
        "insert": rating(2, 2.0, None),
    }
    real, mutated = [8, 9, 10, 6, 8, 8], [4, 7, 2, 6, 9, 0]
    assert total.realism["mutated"].mean == pytest.approx(sum(mutated) / 6)
    assert ratio.realism["mutated"].mean == pytest.approx(100 * sum(mutated) / sum(real))
    assert ratio.realism["insert"].inducing == pytest.approx(100 * 5 / (sum(real) / 6))
    assert REAL not in ratio.realism
    assert found.tests["realism"].p_value == pytest.approx(stats.mannwhitneyu(real, mutated).pvalue)
    assert to_dict(found)["rows"][2]["realism"]["mutated"]["answers"] == 6


def test_three_right_of_five_are_enough_and_two_are_not(tmp_path: Path) -> None:
    good = "5/5/2 5/5/2 5/5/2 5/5/2 5/5/2 5/5/2"
    three, two = "5/5/2 5/5/2 5/5/2 5/5/9 5/5/9 5/5/2", "5/5/2 5/5/2 5/5/9 5/5/9"
    found = evaluate(
        SURVEY,
        answered(
            tmp_path, a=good, b=good, c=good, d=good, e=good, f=good, g=good, three=three, two=two
        ),
    )
    assert found.valid == [*"abcdefg", "three"]
    assert found.messages == []  # seven and eight of nine agree on every picture


def test_where_few_agree_the_pictures_with_most_agreement_count(tmp_path: Path) -> None:
    found = evaluate(SURVEY, answered(tmp_path, a="5/5/2 5/5/2 5/5/2", b="5/5/3 5/5/3 5/5/2 5/5/2"))
    assert found.counted == ["p1", "p2", "p3", "p4", "p5"]
    assert found.valid == ["a"]
    assert found.messages == [
        "More than 75% of the participants agree on the vehicles of 1 pictures, not of 5; the 5"
        " with most agreement validate them."
    ]


def test_the_five_are_drawn_among_all_that_are_agreed_on() -> None:
    survey = SurveyKey(pictures=[shown(f"p{at}", REAL if at % 2 else "insert") for at in range(9)])
    answers = Answers(tuple(_answer(f"p{at}") for at in range(9)), ())
    drawn = {tuple(evaluate(survey, answers, seed=seed).counted) for seed in range(8)}
    assert all(len(set(one)) == 5 for one in drawn)
    assert len(drawn) > 1
    assert evaluate(survey, answers, seed=3) == evaluate(survey, answers, seed=3)


def _answer(picture: str) -> Answer:
    return Answer("ann", picture, 5.0, 5.0, 2)


def test_without_pictures_to_count_everybody_is_valid(tmp_path: Path) -> None:
    survey = SurveyKey(pictures=[shown("p1", REAL, None), shown("p2", "rotate", 0)])
    found = evaluate(
        survey, read_answers([written(tmp_path, "a.csv", "ann,p1,5,6,", "ann,p2,4,3,1")], survey)
    )
    assert (found.valid, found.counted) == (["ann"], [])
    assert "could not be validated" in found.messages[0]
    assert [row.name for row in found.rows] == ["total", "ratio"]  # one data set is the total
    assert found.rows[1].likelihood["rotate"].mean == pytest.approx(50)


def test_nobody_valid_leaves_an_empty_table_and_no_answers_are_refused(tmp_path: Path) -> None:
    found = evaluate(SURVEY, answered(tmp_path, eve="5/5/9 5/5/9"))
    assert found.valid == []
    assert found.rows[-2].realism["mutated"] == rating(0, None, None)
    assert found.rows[-1].realism["mutated"].mean is None
    assert found.tests["realism"].p_value is None
    with pytest.raises(DataError, match=r"no usable answer\. a\.csv: line 2"):
        evaluate(SURVEY, read_answers([written(tmp_path, "a.csv", "ann,p9,1,1,1")], SURVEY))


# -- the page --------------------------------------------------------------------------------------


def test_the_survey_runs_its_own_script_and_loads_nothing() -> None:
    pictures = [PagePicture(f"p{at}", "data:image/jpeg;base64,AA==", 4, 4) for at in (1, 2, 3)]
    html = render_survey("How real are these?", "bath-1", pictures)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in unescape(html)
    assert "bath-1" not in script  # nothing of the survey is ever a program
    assert "://" not in html
    assert re.findall(r'<img data-picture="(p\d)"', html) == ["p1", "p2", "p3"]
    asked = Counter(re.findall(r'<input[^>]* name="(\w+)"', html))
    assert asked == {"realism": 11, "likelihood": 11, "vehicles": 1}
    assert 'const fields = ["realism", "likelihood", "vehicles"];' in script
