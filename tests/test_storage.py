"""A folder in the making: it takes its place whole, and what was there is replaced only where that
may be, or put back. Processes are really killed, at every step.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairprobe import storage
from fairprobe.errors import SettingError, StorageError
from fairprobe.locks import CHECKPOINT, LOCK, PART, SCRATCH, WORK, remove_dead
from fairprobe.storage import (
    StagedFolder,
    check_unpacked,
    in_use,
    replacing,
    rescue,
    workspace,
    write_text,
)


def staged(folder: Path, *, overwrite: bool = False) -> StagedFolder:
    """A folder of ours has a file `mark`."""
    made = StagedFolder(
        folder,
        overwrite=overwrite,
        ours="folder of ours",
        is_ours=lambda place: (place / "mark").exists(),
    )
    (made.staging / "mark").write_text("new")
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_filled_beside_its_place_and_takes_it_whole(tmp_path: Path) -> None:
    made = staged(tmp_path / "a" / "run")
    assert made.staging.parent.parent == tmp_path / "a"
    assert not (tmp_path / "a" / "run").exists()
    made.take_place()
    made.remove()  # it is in its place, where this does not look
    assert names(tmp_path / "a") == ["run"]
    assert (tmp_path / "a" / "run").stat().st_mode & 0o777 == 0o755


def test_only_a_folder_of_ours_is_replaced_and_only_when_that_is_wanted(tmp_path: Path) -> None:
    for name, file in (("ours", "mark"), ("letters", "dear.txt")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("old")
    with pytest.raises(SettingError, match="ours exists and is not empty"):
        staged(tmp_path / "ours")
    with pytest.raises(
        SettingError, match="letters holds something that is no folder of ours, and is not replaced"
    ):
        staged(tmp_path / "letters", overwrite=True)
    made = staged(tmp_path / "ours", overwrite=True)
    made.take_place()
    made.remove()
    assert (tmp_path / "ours" / "mark").read_text() == "new"
    assert names(tmp_path) == ["letters", "ours"]


def older(tmp_path: Path) -> Path:
    """A folder of ours that is there already."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mark").write_text("old")
    return tmp_path / "run"


def test_a_move_that_fails_puts_the_older_folder_back_and_leaves_the_new_one_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = older(tmp_path)
    made, real = staged(run, overwrite=True), Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path == made.staging:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, target)

    monkeypatch.setattr(storage, "_exchange", lambda *_: False)
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="No space left") as caught:
        made.take_place()
    assert made.why(caught.value) == f"Cannot write {run}: No space left on device"
    assert [(path / "mark").read_text() for path in (run, made.staging)] == ["old", "new"]
    made.remove(caught.value)
    assert names(tmp_path) == ["run"]


def test_an_older_folder_that_cannot_be_moved_back_is_kept_and_restored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = older(tmp_path)
    made, real = staged(run, overwrite=True), Path.rename

    def rename(path: Path, target: Path) -> Path:
        if target == run:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_exchange", lambda *_: False)
        patch.setattr(Path, "rename", rename)
        with pytest.raises(OSError, match="Input/output error") as caught:
            made.take_place()
        made.remove(caught.value)
    assert not run.exists()
    remove_dead(tmp_path)  # but not the only copy
    storage.restore(run)
    assert (run / "mark").read_text() == "new"  # it was complete
    staged(run, overwrite=True).remove()
    assert names(tmp_path) == ["run"]


def test_a_message_names_the_folder_and_not_the_hidden_one(tmp_path: Path) -> None:
    made = staged(tmp_path / "run")
    reason = made.why(
        StorageError(f"Cannot write {made.staging / 'audit.json'}: the disk is full.")
    )
    assert reason == f"Cannot write {tmp_path / 'run' / 'audit.json'}: the disk is full"
    made.remove()
    assert names(tmp_path) == []


# -- processes that are killed ---------------------------------------------------------------------

STAGED = """
from fairprobe.storage import *
from fairprobe.storage import _exchange
made = StagedFolder(
    here / "run", overwrite=True, ours="x", is_ours=lambda place: (place / "mark").exists()
)
(made.staging / "mark").write_text("new")
(made.staging / "more").write_text("new")
"""


def child(code: str, here: Path) -> tuple[int, str]:
    """Run some code in a process of its own, where the folder is `here`; exit code and output."""
    begin = "import os, sys, pathlib, signal\nhere = pathlib.Path(sys.argv[1])\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + textwrap.dedent(code), str(here)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"TMPDIR": str(here)},
    )
    return done.returncode, done.stdout


ENDED, KILLED = (0, ""), (-signal.SIGKILL, "")
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@contextmanager
def living(code: str, here: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has run some code and waits."""
    code = f"import pathlib\nhere = pathlib.Path({str(here)!r})\n{textwrap.dedent(code)}"
    process = subprocess.Popen(
        [sys.executable, "-c", code + "\nprint('ready', flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(here)},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


# The process is killed before the n-th call of the system that changes anything.
KILLER = """
calls = 0
def watch(event, arguments):
    global calls
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.rmtree"):
        calls += 1
        if calls == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
"""
EXCHANGES = {"exchanged": "", "moved": "storage._exchange = lambda *_: False\n"}


@pytest.mark.parametrize("how", EXCHANGES)
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_run_and_the_next_start_cleans_up(
    tmp_path: Path, how: str
) -> None:
    prepare = "from fairprobe import storage\n" + EXCHANGES[how]
    seen, at = set[str](), 0
    while True:
        at += 1
        here = tmp_path / str(at)
        here.mkdir()
        run = older(here)
        (run / "more").write_text("old")
        # Python itself tries out the temporary folder, before the killer watches.
        code = prepare + "import tempfile\ntempfile.gettempdir()\n" + KILLER.format(at=at)
        code += STAGED + "made.take_place()\nmade.remove()\n"
        exit_code, _ = child(code, here)
        if how == "exchanged":
            assert run.exists()
        storage.restore(run)  # as every start and every reader does
        texts = {(run / name).read_text() for name in ("mark", "more")}
        assert len(texts) == 1, f"half a run after a kill at {at}"
        seen |= texts
        staged(run, overwrite=True).remove()
        assert names(here) == ["run"], f"leftovers after a kill at {at}"
        if exit_code == 0:
            break
        assert exit_code == -signal.SIGKILL
    assert seen == {"old", "new"}
    assert at > 5


def test_a_workspace_of_a_dead_process_is_removed_and_with_resume_its_checkpoint_is_kept(
    tmp_path: Path,
) -> None:
    code = f"""
    from fairprobe.storage import *
    with workspace(here / "run") as work:
        (work / "checkpoint").mkdir()
        (work / "checkpoint" / "one").write_text("done")
        (work / "run").mkdir()
        {KILL}
    """
    assert child(code, tmp_path) == KILLED
    assert names(tmp_path) == [f".run{WORK}"]
    with workspace(tmp_path / "another"):  # leaves a checkpoint of another run alone
        assert names(tmp_path) == [f".another{WORK}", f".run{WORK}"]
    with workspace(tmp_path / "run", resume=True) as work:
        assert names(work) == [CHECKPOINT, LOCK]
        assert (work / CHECKPOINT / "one").read_text() == "done"
    assert names(tmp_path) == []
    assert child(code, tmp_path) == KILLED
    with workspace(tmp_path / "run") as work:
        assert names(work) == [LOCK]
    assert names(tmp_path) == []


def test_a_dead_workspace_without_a_checkpoint_goes_at_the_next_start_of_any_run_beside_it(
    tmp_path: Path,
) -> None:
    assert child(STAGED + KILL, tmp_path) == KILLED
    assert names(tmp_path) == [f".run{WORK}"]
    with workspace(tmp_path / "another"):
        assert names(tmp_path) == [f".another{WORK}"]


def test_an_error_keeps_the_checkpoint_and_nothing_else(tmp_path: Path) -> None:
    def fail(*folders: str) -> None:
        with workspace(tmp_path / "run") as work:
            for name in folders:
                (work / name).mkdir(parents=True)
                (work / name / ("weights" if "networks" in name else "fingerprint")).touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail("run")
    assert names(tmp_path) == []
    with pytest.raises(RuntimeError):
        fail("run", CHECKPOINT)
    assert names(tmp_path) == []  # there is nothing in it
    with pytest.raises(RuntimeError):
        fail("run", f"{CHECKPOINT}/networks")
    assert names(tmp_path / f".run{WORK}") == [CHECKPOINT, LOCK]


def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(tmp_path: Path) -> None:
    with living(STAGED, tmp_path):
        with pytest.raises(StorageError, match=r"Another fairprobe process is writing .*/run\."):
            staged(tmp_path / "run", overwrite=True)
        with workspace(tmp_path / "another"):
            remove_dead(tmp_path)
        assert (tmp_path / f".run{WORK}" / "run" / "mark").read_text() == "new"
    staged(tmp_path / "run").remove()
    assert names(tmp_path) == []


def test_a_forked_process_neither_removes_nor_releases_what_its_parent_holds(
    tmp_path: Path,
) -> None:
    code = """
    from fairprobe.locks import remove_dead
    from fairprobe.storage import *
    with workspace(here / "run") as work:
        with scratch() as folder:
            if os.fork() == 0:
                raise SystemExit
            os.wait()
            remove_dead(here)
            print(folder.is_dir(), work.is_dir())
    """
    assert child(code, tmp_path) == (0, "True True\n")
    assert names(tmp_path) == []


# -- temporary folders -----------------------------------------------------------------------------

SCRATCHED = """
from fairprobe.storage import *
made = scratch()
(made.path / "records").write_bytes(bytes(1000))
"""


def test_a_temporary_folder_goes_with_its_process_and_a_killed_one_at_the_next_start(
    tmp_path: Path,
) -> None:
    assert child(SCRATCHED, tmp_path) == ENDED
    assert names(tmp_path) == []
    assert child(SCRATCHED + KILL, tmp_path) == KILLED
    assert child(SCRATCHED + KILL, tmp_path) == KILLED
    assert len(names(tmp_path)) == 1  # the second start removed what the first left
    with living(SCRATCHED, tmp_path):
        assert len(names(tmp_path)) == 1
        assert child(SCRATCHED, tmp_path) == ENDED
        assert len(names(tmp_path)) == 1  # that of the process that lives
    assert child(SCRATCHED, tmp_path) == ENDED
    assert names(tmp_path) == []


def test_a_run_in_the_making_removes_dead_temporary_folders_too(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for begin in ("with workspace(here / 'runs' / 'run')", "with in_use(here / 'runs' / 'scenes')"):
        assert child(SCRATCHED + KILL, tmp_path) == KILLED
        assert len(names(tmp_path)) == 2
        assert child(f"from fairprobe.storage import *\n{begin}: pass", tmp_path) == ENDED
        assert names(tmp_path) == ["runs"]
    assert names(tmp_path / "runs") == []


def test_nothing_is_removed_that_is_not_a_leftover_of_this_user(tmp_path: Path) -> None:
    """Folders without a lock, other names, symbolic links, other users' folders."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / LOCK).touch()
    (tmp_path / "outside" / "letter").write_text("dear")
    (tmp_path / f"{SCRATCH}link").symlink_to(tmp_path / "outside")
    (tmp_path / f"{SCRATCH}lock").mkdir()
    (tmp_path / f"{SCRATCH}lock" / LOCK).symlink_to(tmp_path / "outside" / "letter")
    (tmp_path / "fairprobe-rescued-1").mkdir()
    (tmp_path / "fairprobe-rescued-1" / "findings.parquet").write_text("found")
    (tmp_path / f"{SCRATCH}unlocked").mkdir()
    (tmp_path / f".letter{PART}").symlink_to(tmp_path / "outside" / "letter")
    if os.geteuid() == 0:
        foreign = tmp_path / f"{SCRATCH}foreign"
        foreign.mkdir()
        (foreign / LOCK).touch()
        for path in (foreign, foreign / LOCK):
            os.chown(path, 65534, 65534)
    before = sorted(map(str, tmp_path.rglob("*")))
    assert child(SCRATCHED, tmp_path) == ENDED
    write_text(tmp_path / "letter", "mine")
    assert (tmp_path / "outside" / "letter").read_text() == "dear"
    (tmp_path / "letter").unlink()
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_where_there_are_no_locks_nothing_is_removed_and_everything_else_works(
    tmp_path: Path,
) -> None:
    code = textwrap.dedent("""
        import errno, fcntl
        def refuse(*_):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        fcntl.flock = refuse
    """)
    assert child(code + SCRATCHED + KILL, tmp_path) == KILLED
    left = names(tmp_path)
    assert child(code + SCRATCHED, tmp_path) == ENDED
    assert names(tmp_path) == left
    assert child(code + STAGED + KILL, tmp_path) == KILLED
    assert child(code + STAGED + "made.take_place()\nmade.remove()", tmp_path) == ENDED
    assert (
        child(code + "from fairprobe.storage import *\nwrite_text(here / 'a.txt', 'a')", tmp_path)
        == ENDED
    )
    filled = "from fairprobe.storage import *\nwith in_use(here / 'run'): pass"
    assert child(code + filled, tmp_path) == ENDED
    hidden = [name for name in names(tmp_path) if re.fullmatch(rf"\.run\.\w+{WORK}", name)]
    assert sorted([*left, "a.txt", "run", *hidden]) == names(tmp_path)
    assert len(hidden) == 1


# -- files -----------------------------------------------------------------------------------------


def test_a_kill_while_a_file_is_written_leaves_the_older_one_and_nothing_after_the_next_write(
    tmp_path: Path,
) -> None:
    write_text(tmp_path / "a.txt", "old")
    code = f"""
    from fairprobe.storage import *
    with replacing(here / "a.txt") as temporary:
        temporary.write_text("half")
        {KILL}
    """
    assert child(code, tmp_path) == KILLED
    assert names(tmp_path) == [f".a.txt{PART}", "a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"
    with replacing(tmp_path / "a.txt") as temporary:
        assert temporary.read_text() == ""
        temporary.write_text("new")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "new"


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.txt") as one:
        one.write_text("one")
        with replacing(tmp_path / "a.txt") as other:
            assert other != one
            other.write_text("other")
        remove_dead(tmp_path)
        assert (tmp_path / "a.txt").read_text() == "other"
    assert (tmp_path / "a.txt").read_text() == "one"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_that_is_filled_in_its_place_has_one_writer_and_loses_dead_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"""
    from fairprobe.storage import *
    with in_use(here / "run"):
        (here / "run" / "pictures").mkdir()
        with replacing(here / "run" / "pictures" / "1.png") as temporary:
            {KILL}
    """
    assert child(code, tmp_path) == KILLED
    assert len(list((tmp_path / "run").rglob(f"*{PART}"))) == 1
    monkeypatch.setattr(storage, "PATIENCE", 0.1)
    with in_use(tmp_path / "run"):
        assert names(tmp_path / "run" / "pictures") == []
        with (
            pytest.raises(StorageError, match="Another fairprobe process is writing"),
            in_use(tmp_path / "run"),
        ):
            pass
    assert names(tmp_path / "run") == ["pictures"]


def test_a_folder_that_cannot_be_filled_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(StorageError, match=r"Cannot write to .*run: Not a directory\. Choose"),
        in_use(tmp_path / "file" / "run"),
    ):
        pass


def test_a_long_name_has_a_workspace_too(tmp_path: Path) -> None:
    run = tmp_path / ("ü" * 125)
    made = staged(run)
    made.take_place()
    made.remove()
    assert names(tmp_path) == [run.name]


def test_a_file_in_a_folder_that_is_not_there_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Cannot write .*a\.txt: No such file.* Choose another"):
        write_text(tmp_path / "missing" / "a.txt", "a")


# -- what only a power cut or another system would show --------------------------------------------


def test_a_file_and_a_folder_are_on_the_disk_before_they_take_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        real_fsync(descriptor)

    def replace(path: Path, target: Path) -> Path:
        synced.append(f"move to {target.name}")
        return real_replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write_text(tmp_path / "a.txt", "a")
    assert synced == [".a.txt.fairprobe-part", "move to a.txt"]
    synced.clear()
    made = staged(tmp_path / "run")
    made.take_place()
    made.remove()
    assert synced == ["mark", "run", "move to run", tmp_path.name]


@pytest.mark.parametrize("reason", ["another system", "an old kernel", "an error"])
def test_where_folders_cannot_be_exchanged_the_older_one_is_moved_away_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    run = older(tmp_path)
    made = staged(run, overwrite=True)
    if reason == "another system":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        code = errno.EINVAL if reason == "an old kernel" else errno.EIO
        monkeypatch.setattr("ctypes.get_errno", lambda: code)
        monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Refusing())
    if reason == "an error":
        with pytest.raises(OSError, match="Input/output error"):
            made.take_place()
        assert (run / "mark").read_text() == "old"
    else:
        made.take_place()
        assert (run / "mark").read_text() == "new"
        assert (made.work / "old" / "mark").read_text() == "old"
    made.remove()
    assert names(tmp_path) == ["run"]


class Refusing:
    """A C library that cannot exchange folders."""

    def renameat2(self, *_: object) -> int:
        return -1


def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    file.write_bytes(b"x" * 2**20)
    check_unpacked(file, 2**29)
    with pytest.raises(StorageError, match=r"a\.npz would unpack to 0\.5 GiB or more"):
        check_unpacked(file, 2**29 + 1)
    file.write_bytes(b"x" * 2**24)
    check_unpacked(file, 50 * 2**24)
    with pytest.raises(StorageError, match="over 50 times its size"):
        check_unpacked(file, 50 * 2**24 + 1)


def test_a_folder_that_was_made_only_to_be_filled_goes_if_nothing_was_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        with in_use(tmp_path / name):
            assert (tmp_path / name).is_dir()
    assert names(tmp_path) == ["there"]


def test_what_cannot_be_written_in_full_is_rescued_where_most_of_it_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / name for name in ("full", "small", "also-small", "large")]
    for place in places:
        place.mkdir()
    monkeypatch.setattr(storage, "_places", lambda _: iter(places))

    def write(path: Path) -> None:
        place = path.parent.parent.name
        if place == "full" or ("small" in place and path.name == "b"):
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_text("x")

    files = {"a": write, "b": write}
    folder, is_whole = rescue(files, beside=tmp_path)
    assert folder is not None
    assert (folder.parent, is_whole, names(folder)) == (places[3], True, ["a", "b"])
    assert [names(place) for place in places[:3]] == [[], [], []]
    del places[3]
    folder, is_whole = rescue(files, beside=tmp_path)
    assert folder is not None
    assert (folder.parent, is_whole, names(folder)) == (places[1], False, ["a"])
    assert [names(place) for place in (places[0], places[2])] == [[], []]
    del places[1:]
    assert rescue(files, beside=tmp_path) == (None, False)
    assert names(places[0]) == []
