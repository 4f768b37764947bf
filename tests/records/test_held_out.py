"""Names that keep a validation set out of a choice, and names that do not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from checkwise.records import (
    RunKey,
    Trajectory,
    check_held_out,
    divide,
    is_target_folder,
    looks_held_out,
    same_name,
)
from tests.refusals import refused

HELD_OUT = [
    "test", "Test", "TEST", "tests", "testing", "test_set", "testset", "TestSet", "test2", "test-1",
    "photo_test", "photo.test", "id_test", "testA", "ood", "ood-photo", "OODPhoto", "val_ood",
    "target", "Targets", "target domain", "heldout", "held-out", "held_out", "HeldOut", "hold-out",
    "holdout", "unseen", "unseen_sketch", "out-of-distribution", "out_of_domain", "ｔｅｓｔ",
    "OoD", "OoD2", "TESTset", "TESTdata", "OODphoto", "OODv2", "HELDout", "TARGETdom", "tEsT",
    "oodval", "oodtest", "testood", "testdomain", "testenvs", "targetdomain", "unseendomain",
    "testsplit", "outofdistribution", "OutOfDist", "out-domain", "holdouts", "left-out", "o.o.d.",
    "te\u00adst", "evaltest", "EVALtest", "valtest", "evaltest2", "photo_evaltest", "evalood",
    "valtarget", "testeval", "tgt", "Tgt", "photo_tgt", "tgt2", "tst", "tst-1", "evaltst", "tgtval",
    "testloader", "testdev", "testfold", "testv2", "minitest", "testdataset", "testb", "withheld",
    "excluded", "not_seen", "neverSeen", "kept out", "nearood", "farOOD", "newtest", "leave_out",
    "t e s t", "T-E-S-T", "t_e_s_t 2", "photo t.e.s.t", "o o d", "h e l d   o u t", "u.n.s.e.e.n",
    "A o.o.d.", "site B (o.o.d.)", "i.i.d. o.o.d.", "U.S. t.e.s.t.", "t.e.s.t. x",
]  # fmt: skip
LOOK_ALIKE = {
    "t": "тτｔ𝐭ŧᴛ", "e": "еεｅéᴇ", "s": "ѕｓꜱş", "o": "оοօøｏ", "h": "һհħ", "T": "ТΤᎢꓔＴ🅃",
    "O": "ОΟꓳ", "D": "ᎠꓓĐ", "p": "рρ", "a": "аαɑ", "r": "гŕ", "g": "ցɡ", "l": "ӏł",
    "d": "ԁđ", "u": "υս",
}  # fmt: skip
VALIDATION = [
    "validation", "val", "valid", "dev", "art", "photo", "sketch", "env0", "contest", "latest",
    "attested", "greatest", "protest", "testament", "targeted", "food", "wood", "mood", "L100",
    "+90%", "real world", "held", "out", "", "0", "attest", "fastest", "evaluated", "evaluation",
    "eval", "tstorm", "testify", "widgets", "Valladolid", "attestation", "Тула", "Ωmega", "seen",
    "l a t e s t", "a b c", "U.S.A.", "te", "t e", "t o a s t",
]  # fmt: skip


def test_names_that_say_test_target_or_unseen_look_held_out_and_others_do_not() -> None:
    assert [name for name in HELD_OUT if not looks_held_out(name)] == []
    assert [name for name in VALIDATION if looks_held_out(name)] == []
    assert divide(["art", *HELD_OUT], where="run").sources == ("art",)
    assert divide(["photo", *VALIDATION], where="run").by_name == ()


@given(data=st.data())
def test_a_name_is_what_it_looks_like(data: st.DataObject) -> None:
    """Letters of other scripts, marks, signs that show nothing, and text that runs backwards."""
    name = data.draw(st.sampled_from(["test", "Test", "photo_test", "heldout", "OOD", "target 2"]))
    letters = [
        data.draw(st.sampled_from(LOOK_ALIKE.get(letter, letter) + letter)) for letter in name
    ]
    nothing = st.text("\u200b\u200d\u00ad\ufe0f\u0301\u034f\u3164\x00\u2060", max_size=2)
    spelt = "".join(letter + data.draw(nothing) for letter in letters)
    assert looks_held_out(spelt)
    turn = data.draw(st.sampled_from("\u202e\u2067\u200f"))
    assert looks_held_out(turn + spelt[::-1])


def test_such_a_set_beside_others_is_held_out_and_the_note_says_how_to_keep_it() -> None:
    sides = divide(["art", "my test", "photo"], where="run.csv")
    assert sides.sources == ("art", "photo")
    (note,) = sides.notes
    assert "my test" in note
    assert "--source 'my test'" in note
    assert divide(["art", "photo"], where="run.csv").notes == ()


def test_a_set_that_is_called_validation_by_caller_or_input_takes_part() -> None:
    assert divide(["art", "test"], sources=["test"], where="run").sources == ("art", "test")
    assert divide(["art", "test"], declared=["test"], where="run").sources == ("art", "test")


def test_where_nothing_else_is_left_the_user_is_asked() -> None:
    for names in (["test"], ["ood", "test"]):
        with refused("held-out: run.csv … 'test' … add --source"):
            divide(names, where="run.csv")
        assert divide(names, sources=names, where="run.csv").sources == tuple(names)
    for names in ([], ["photo"]):
        with refused("empty: run.csv … --held-out"):
            divide(names, held_out=names, where="run.csv")


def test_a_source_that_is_not_there_is_refused() -> None:
    with refused("unknown: --source … art, test … 'Test'"):
        divide(["art", "test"], sources=["Test"], where="run")


def test_a_name_that_differs_in_case_or_space_is_refused_with_the_domain_meant() -> None:
    for name in ("Sketch", "SKETCH", " sketch", "sketch\t", "ske tch", "ｓketch"):
        assert same_name(name, "sketch")
        with refused("ambiguous: 'sketch' … run.csv"):
            check_held_out([name], ["art", "sketch"], "run.csv")
        # Also where both spellings are there: one of them would stay a source.
        with refused("ambiguous"):
            divide(["art", name, "sketch"], held_out=["sketch"], where="run.csv")


def test_a_name_that_is_no_domain_is_refused_with_those_that_are() -> None:
    with refused("unknown: 'sketches' … art, sketch … run.csv"):
        check_held_out(["sketches"], ["art", "sketch"], "run.csv")
    check_held_out(["sketch"], ["art", "sketch"], "run.csv")
    divided = divide(["art", "photo"], held_out=["photo"], beside=["sketch"], where="run.csv")
    assert divided.sources == ("art",)


def test_numbers_and_signs_stay_apart() -> None:
    assert same_name("2.0", "2")
    for one, other in [("-90%", "90%"), ("1.0.1", "1.1"), ("L10", "L100"), ("a_b", "ab")]:
        assert not same_name(one, other)


def test_folders_of_runs_are_passed_over_only_where_no_trial_run_has_such_a_name() -> None:
    assert all(map(is_target_folder, ["target", "Targets", "held-out", "heldout", "held_out"]))
    assert not any(map(is_target_folder, ["test", "ood", "target_lr", "runs"]))


def test_no_trajectory_has_the_target_of_its_run_among_its_sources() -> None:
    key = RunKey("PACS", "ERM", ("sketch",), 0, 0)
    facts: dict[str, Any] = {"steps": [0], "values": {"accuracy": [[0.5, 0.6]]}}
    assert Trajectory(**facts, domains=["art", "photo"], key=key).key == key
    for domain in ("sketch", "Sketch", "sketch "):
        with refused("held-out"):
            Trajectory(**facts, domains=["art", domain], key=key)
