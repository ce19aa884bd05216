"""The job runner with real processes, real kills and a real Ray: nothing is lost, nothing is done
twice, and no process is left behind. Tests wait for conditions, never for a number of seconds.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairprobe import __version__, storage
from fairprobe.errors import SettingError, StorageError
from fairprobe.results import decode
from fairprobe.versions import commit
from fairprobe.workers import cluster
from fairprobe.workers.base import DIED
from papers import runner
from papers.base import Variant
from papers.catalogue import experiment
from papers.jobs import Job, JobDescription, JobProgress, JobRecord, Outcome
from papers.neuronfair import Table4
from papers.runner import run
from tests.papers.experiment_work import InThisProcess
from tests.papers.small import short_searches

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds until a test gives up, on a machine of any speed


class Lab:
    """A folder for an experiment, and the diary in which its jobs note each call."""

    def __init__(self, place: Path) -> None:
        self.folder, self.diary = place / "experiment", place / "diary"

    def job(
        self,
        name: str,
        work: str,
        *,
        inputs: tuple[str, ...] = (),
        weight: float = 1.0,
        **settings: Any,
    ) -> Job:
        settings["diary"] = str(self.diary)
        return Job(
            id=name,
            work=f"tests.papers.experiment_work:{work}",
            settings=settings,
            inputs=inputs,
            weight=weight,
        )

    def run(self, *stages: list[Job], **options: Any) -> Outcome:
        return run(stages, self.folder, **options)

    def calls(self) -> list[str]:
        return [line.split()[0] for line in self._lines()]

    def pids(self, word: str) -> list[int]:
        return [int(line.split()[1]) for line in self._lines() if line.startswith(f"{word} ")]

    def record(self, name: str) -> Path:
        return self.folder / "jobs" / f"{name}.json"

    def error(self, name: str) -> Path:
        return self.folder / "jobs" / f"{name}.error.txt"

    def files(self) -> set[str]:
        return {path.name for path in (self.folder / "jobs").iterdir()}

    def _lines(self) -> list[str]:
        return self.diary.read_text(encoding="utf-8").splitlines() if self.diary.exists() else []


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def soon(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, f"still waiting: {what}"
        time.sleep(0.05)


def squares_and_sum(lab: Lab) -> list[list[Job]]:
    return [
        [lab.job(f"square-{x}", "square", x=x) for x in (2, 3)],
        [lab.job("sum", "add", inputs=("square-3", "square-2"))],
    ]


# -- doing jobs ------------------------------------------------------------------------------------


def test_results_and_records_are_there_and_in_order(lab: Lab) -> None:
    outcome = lab.run(*squares_and_sum(lab), workers=2)
    assert outcome.results == {
        "square-2": {"y": 4},
        "square-3": {"y": 9},
        "sum": {"sum": 13, "from": ["square-3", "square-2"]},
    }
    assert list(outcome.results) == ["square-2", "square-3", "sum"]
    assert outcome.failures == {}
    assert lab.files() == {"square-2.json", "square-3.json", "sum.json"}
    record = decode(lab.record("sum").read_bytes(), JobRecord, name="sum")
    assert record == outcome.records["sum"]
    assert record.job == JobDescription(
        id="sum",
        work="tests.papers.experiment_work:add",
        settings={"diary": str(lab.diary)},
        inputs=["square-3", "square-2"],
    )
    assert record.seconds >= 0
    assert record.finished.endswith("+00:00")
    assert record.machine.cores == os.cpu_count()
    assert os.uname().nodename not in (record.machine.cpu, record.machine.platform)
    assert record.versions.keys() - {"commit"} == {"fairprobe", "python", "torch", "numpy"}
    assert record.versions.get("commit", "") == commit()  # none outside of a Git checkout
    assert record.versions["fairprobe"] == __version__


def test_heavy_jobs_start_first_but_never_before_an_earlier_stage(lab: Lab) -> None:
    first = [
        lab.job(f"a{x}", "square", x=x, weight=weight)
        for x, weight in ((1, 1.0), (2, 5.0), (3, 2.0))
    ]
    lab.run(first, [lab.job("b", "square", x=4, weight=100.0)])
    assert lab.calls() == ["square-2", "square-3", "square-1", "square-4"]


def test_progress_is_reported_at_the_start_at_each_end_and_while_waiting(lab: Lab) -> None:
    steps: list[JobProgress] = []

    def watch(now: JobProgress) -> None:
        steps.append(now)
        if [step.running for step in steps].count(("c",)) == 4:  # while nothing happens
            lab.diary.with_name("allowed").touch()

    lab.run(
        [lab.job("a", "square", x=1), lab.job("b", "fail")],
        [lab.job("c", "sleep_until_allowed")],
        progress=watch,
    )
    assert steps[0] == JobProgress(done=0, total=3, failed=0, running=(), reused=0)
    assert steps[-1] == JobProgress(done=3, total=3, failed=1, running=(), reused=0)
    assert {now.done for now in steps} == {0, 1, 2, 3}
    assert str(steps[-1]) == "3 of 3 jobs, 1 failed"


def test_workers_use_one_thread_and_the_driver_keeps_its_own(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    result = lab.run([lab.job("a", "threads")]).results["a"]
    assert result["torch"] == 1
    assert set(result["environment"].values()) == {"1"}
    assert result["numpy was there before"] is False
    assert dict(os.environ) == before


# -- mistakes in the plan --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "a/b", "../a", "a b", ".a", "a.", "-a", "é", "a\n", "a" * 201]
)
def test_an_id_that_cannot_be_a_file_name_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="is not valid as a file name"):
        Job(id=name, work="a:b", settings={})


@pytest.mark.parametrize("work", ["", "module", "module:", ":function", "a:b:c", "a b:c", "a.:b"])
def test_work_that_names_no_function_is_refused(work: str) -> None:
    with pytest.raises(SettingError, match=r"expected 'package\.module:function'"):
        Job(id="a", work=work, settings={})


@pytest.mark.parametrize("value", [float("nan"), Path(), {1, 2}])
def test_settings_that_cannot_be_json_are_refused(value: object) -> None:
    with pytest.raises(SettingError, match="cannot be written as JSON"):
        Job(id="a", work="a:b", settings={"value": value})


def test_settings_are_a_copy() -> None:
    settings = {"list": [1], "tuple": (1, 2)}
    job = Job(id="a", work="a:b", settings=settings)
    settings["list"].append(2)  # type: ignore[attr-defined]
    assert job.settings == {"list": [1], "tuple": [1, 2]}


def test_a_wrong_plan_is_refused_before_any_work(lab: Lab) -> None:
    a = lab.job("a", "square", x=1)
    with pytest.raises(SettingError, match="Two jobs have the id 'A'"):
        lab.run([a], [lab.job("A", "square", x=2)])
    with pytest.raises(SettingError, match="needs 'c', which is not a job of an earlier stage"):
        lab.run([a], [lab.job("b", "add", inputs=("a", "c"))])
    with pytest.raises(SettingError, match="needs 'a', which is not a job of an earlier stage"):
        lab.run([a, lab.job("b", "add", inputs=("a",))])
    with pytest.raises(SettingError, match="1 worker or more; got workers=0"):
        lab.run([a], workers=0)
    assert not lab.folder.exists()


def test_a_folder_that_cannot_be_used_is_an_error(lab: Lab) -> None:
    lab.folder.write_text("a file")
    with pytest.raises(SettingError, match="is a file; name a folder"):
        lab.run([lab.job("a", "square", x=1)])
    lab.folder.unlink()
    lab.folder.mkdir()
    (lab.folder / "jobs").write_text("a file")
    with pytest.raises(StorageError, match=r"Cannot write to .*experiment: File exists"):
        lab.run([lab.job("a", "square", x=1)])
    with pytest.raises(StorageError, match=r"Cannot write to /proc/nowhere"):
        run([[lab.job("a", "square", x=1)]], Path("/proc/nowhere"))
    assert lab.calls() == []


# -- going on --------------------------------------------------------------------------------------


def test_what_is_done_is_not_done_again(lab: Lab) -> None:
    first = lab.run(*squares_and_sum(lab))
    calls = lab.calls()
    reports: list[JobProgress] = []
    assert lab.run(*squares_and_sum(lab), progress=reports.append) == first
    assert lab.calls() == calls
    assert reports == [JobProgress(done=3, total=3, failed=0, running=(), reused=3)]


def test_what_a_killed_run_left_half_written_is_gone_after_the_next_start(lab: Lab) -> None:
    first = lab.run(*squares_and_sum(lab))
    files = lab.files()
    killed = (
        "import os, sys, pathlib; from fairprobe.storage import replacing\n"
        "with replacing(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", killed, str(lab.record("old"))], check=False)
    assert len(lab.files()) == len(files) + 1
    tidied = storage._tidied.copy()
    storage._tidied.clear()  # as in the next process
    assert lab.run(*squares_and_sum(lab)) == first
    storage._tidied.update(tidied)
    assert lab.files() == files


def test_changed_settings_are_done_again_and_so_is_whatever_needs_them(lab: Lab) -> None:
    lab.run(*squares_and_sum(lab))
    squares, last = squares_and_sum(lab)
    squares[0] = lab.job("square-2", "square", x=4)
    lab.diary.unlink()
    outcome = lab.run(squares, last)
    assert outcome.results["sum"]["sum"] == 25
    assert lab.calls() == ["square-4", "add"]


def test_a_job_done_again_with_the_same_result_still_renews_what_needs_it(lab: Lab) -> None:
    stages = [
        [lab.job("a", "same")],
        [lab.job("b", "add", inputs=("a",))],
        [lab.job("c", "add")],
    ]
    lab.run(*stages)
    lab.record("a").unlink()
    lab.diary.unlink()
    lab.run(*stages)
    assert lab.calls() == ["same", "add"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace('"y": 4', '"y": NaN'),
        lambda text: text.replace('"y": 4', '"y": ' + "[" * 10_000 + "]" * 10_000),
        lambda text: text.replace('"result"', '"results"'),
        lambda text: text.replace('"cores": ', '"cores": -'),
        lambda text: text.replace(f'"fairprobe": "{__version__}"', '"fairprobe": "0.0.1"'),
        lambda text: text.replace(":square", ":add"),
    ],
    ids=[
        *("half", "empty", "something else", "NaN", "deep", "no result", "impossible"),
        *("another version", "other work"),
    ],
)
def test_a_record_that_is_not_this_jobs_is_done_again(
    lab: Lab, damage: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LocalWorkers", InThisProcess)
    stage = [lab.job("a", "square", x=2)]
    lab.run(stage)
    text = lab.record("a").read_text(encoding="utf-8")
    assert damage(text) != text
    lab.record("a").write_text(damage(text), encoding="utf-8")
    assert lab.run(stage).results == {"a": {"y": 4}}
    assert lab.calls() == ["square-2", "square-2"]
    assert json.loads(lab.record("a").read_text(encoding="utf-8"))["result"] == {"y": 4}


# -- failures --------------------------------------------------------------------------------------


def failing(lab: Lab) -> list[list[Job]]:
    return [
        [lab.job("bad", "fail"), lab.job("good", "square", x=2)],
        [lab.job("needy", "add", inputs=("good", "bad")), lab.job("free", "add", inputs=("good",))],
        [lab.job("late", "add", inputs=("needy",))],
    ]


def check_failures(lab: Lab, outcome: Outcome) -> None:
    assert outcome.failures == {
        "bad": "tests.papers.experiment_work.UnpicklableError: fire and water",
        "needy": "needs bad, which failed",
        "late": "needs needy, which failed",
    }
    assert outcome.results == {"good": {"y": 4}, "free": {"sum": 4, "from": ["good"]}}
    assert "Traceback" in lab.error("bad").read_text(encoding="utf-8")
    assert not lab.record("bad").exists()


def test_a_failure_does_not_stop_the_others_and_a_later_run_tries_again(lab: Lab) -> None:
    check_failures(lab, lab.run(*failing(lab)))
    lab.diary.with_name("repaired").touch()
    outcome = lab.run(*failing(lab))
    assert outcome.failures == {}
    assert outcome.results["needy"]["sum"] == 4
    assert outcome.results["late"]["from"] == ["needy"]
    assert Counter(lab.calls()) == {"fail": 2, "square-2": 1, "add": 3}
    assert not [name for name in lab.files() if name.endswith(".txt")]


def test_a_result_that_cannot_be_json_is_a_failure_that_says_so(lab: Lab) -> None:
    outcome = lab.run(
        [lab.job(what, "give", what=what) for what in ("nan", "object", "list", "tuple")]
    )
    assert outcome.results == {"tuple": {"pair": [1, 2]}}
    for what, why in (
        ("nan", "cannot be written as JSON: Out of range float"),
        ("object", "cannot be written as JSON: Object of type PosixPath"),
        ("list", "returned a list; expected a dictionary or a result"),
    ):
        assert why in outcome.failures[what]


def test_work_that_is_not_there_or_leaves_is_a_failure(lab: Lab) -> None:
    jobs = [
        lab.job("gone", "nothing_of_that_name"),
        lab.job("exit", "leave"),
        Job(id="no-module", work="nowhere:f", settings={}),
    ]
    outcome = lab.run([*jobs, lab.job("good", "square", x=1)])
    assert outcome.failures["gone"].startswith(
        "AttributeError: module 'tests.papers.experiment_work' has no attribute"
    )
    assert outcome.failures["exit"] == "SystemExit: I am leaving"
    assert outcome.failures["no-module"] == "ModuleNotFoundError: No module named 'nowhere'"
    assert outcome.results == {"good": {"y": 1}}


# -- death -----------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_costs_one_try_of_one_job(lab: Lab) -> None:
    killed: list[int] = []

    def kill_the_sleeper(now: JobProgress) -> None:
        if not killed and lab.pids("sleep"):
            killed.append(lab.pids("sleep")[0])
            lab.diary.with_name("allowed").touch()
            os.kill(killed[0], signal.SIGKILL)

    jobs = [
        lab.job("slow", "sleep_until_allowed", weight=9.0),
        *(lab.job(f"a{x}", "square", x=x) for x in range(6)),
    ]
    outcome = lab.run(jobs, workers=2, progress=kill_the_sleeper)
    assert outcome.failures == {}
    assert outcome.results["slow"] == {"slept": True}
    calls = Counter(lab.calls())
    assert calls.pop("sleep") in (1, 2)  # killed while it slept, or just as it woke
    assert set(calls.values()) == {1}
    assert len(killed) == 1


def test_a_job_that_always_kills_its_process_is_given_up_after_three_tries(lab: Lab) -> None:
    jobs = [
        lab.job("deadly", "die", times=99, weight=9.0),
        *(lab.job(f"a{x}", "square", x=x) for x in range(4)),
    ]
    outcome = lab.run(jobs, workers=2)
    assert outcome.failures == {"deadly": DIED}
    assert len(outcome.results) == 4
    assert Counter(lab.calls()) == {
        "die": 3,
        "square-0": 1,
        "square-1": 1,
        "square-2": 1,
        "square-3": 1,
    }


def test_a_worker_that_dies_while_it_has_nothing_to_do_harms_nobody(lab: Lab) -> None:
    killed: list[int] = []

    def kill_the_idle(now: JobProgress) -> None:
        if not killed and now.done == 1 and now.running == ("slow",):
            killed.extend(lab.pids("square-1"))
            os.kill(killed[0], signal.SIGKILL)
            lab.diary.with_name("allowed").touch()

    stages = [
        [lab.job("slow", "sleep_until_allowed"), lab.job("quick", "square", x=1)],
        [lab.job(f"a{x}", "square", x=2) for x in (1, 2)],
    ]
    outcome = lab.run(*stages, workers=2, progress=kill_the_idle)
    assert len(outcome.results) == 4
    assert len(killed) == 1


def alive(session: int) -> list[int]:
    """The living processes of a session; one that has ended and was not yet collected (Z) is
    not.
    """
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own_session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # ended while we looked
            continue
        if int(own_session) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.fixture
def driver(lab: Lab) -> Iterator[subprocess.Popen[str]]:
    """A driver in a session of its own, in the middle of its second stage."""
    # In the background of a shell interrupts are ignored, and the driver would inherit that.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = (
        f"{heard}; import sys; from tests.papers.experiment_work import drive; drive(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, str(lab.folder), str(lab.diary)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        soon(lambda: len(lab.pids("sleep")) == 2, "the driver is in its second stage")
        yield process
    finally:
        for pid in alive(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE)


def finish(lab: Lab) -> None:
    """A second run does what the driver left undone, and nothing else."""
    assert lab.files() == {"quick-1.json", "quick-2.json"}
    lab.diary.with_name("allowed").touch()
    quick = [lab.job(f"quick-{x}", "square", x=x) for x in (1, 2)]
    slow = [lab.job(f"slow-{x}", "sleep_until_allowed") for x in (1, 2)]
    assert len(lab.run(quick, slow, workers=2).results) == 4
    assert Counter(lab.calls()) == {"square-1": 1, "square-2": 1, "sleep": 4}


def test_a_driver_that_is_killed_leaves_no_orphans_and_no_half_files(
    lab: Lab, driver: subprocess.Popen[str]
) -> None:
    assert len(alive(driver.pid)) >= 3
    driver.send_signal(signal.SIGKILL)
    driver.wait(timeout=PATIENCE)
    soon(lambda: not alive(driver.pid), "the orphans end")
    finish(lab)


@pytest.mark.parametrize(
    "whole_group", [False, True], ids=["the driver alone", "everybody, as a terminal does"]
)
def test_ctrl_c_ends_the_workers_and_keeps_what_is_done(
    lab: Lab, driver: subprocess.Popen[str], whole_group: bool
) -> None:
    if whole_group:
        os.killpg(driver.pid, signal.SIGINT)
    else:
        driver.send_signal(signal.SIGINT)
    out, err = driver.communicate(timeout=PATIENCE)
    assert (driver.returncode, out, err) == (77, "", "")
    soon(lambda: not alive(driver.pid), "the workers end")
    finish(lab)


def test_an_exception_from_progress_stops_the_run(lab: Lab) -> None:
    def stop(now: JobProgress) -> None:
        if lab.pids("sleep"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run(
            [lab.job("quick", "square", x=1, weight=2.0), lab.job("slow", "sleep_until_allowed")],
            progress=stop,
        )
    assert lab.files() == {"quick.json"}
    (pid,) = lab.pids("sleep")
    assert not Path(f"/proc/{pid}").exists()


# -- Ray -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    module = pytest.importorskip("ray")
    module.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        yield module
    finally:
        module.shutdown()


def test_an_address_that_nobody_answers_is_an_error_with_the_remedy(lab: Lab) -> None:
    pytest.importorskip("ray")
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"):
        with pytest.raises(SettingError, match=f"No Ray cluster answers at '{address}'"):
            lab.run([lab.job("a", "square", x=1)], cluster=address)


def test_an_address_where_something_else_listens_is_an_error_with_the_remedy(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(cluster, "JOIN_TIMEOUT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as something:
        address = f"127.0.0.1:{something.getsockname()[1]}"
        with pytest.raises(
            SettingError,
            match=f"Cannot join the Ray cluster at '{address}' \\(no answer in 1 seconds",
        ):
            lab.run([lab.job("a", "square", x=1)], cluster=address)


def test_missing_ray_is_an_error_with_the_remedy(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r'pip install "fairprobe\[cluster\]"'):
        lab.run([lab.job("a", "square", x=1)], cluster="local")


@pytest.mark.slow
def test_ray_gives_the_results_of_local_processes_and_goes_on_from_them(
    tmp_path: Path, ray: Any
) -> None:
    here, there = Lab(tmp_path / "here"), Lab(tmp_path / "there")
    for lab in (here, there):
        lab.folder.parent.mkdir()
    on_ray = there.run(*squares_and_sum(there), cluster="local")
    assert on_ray.results == here.run(*squares_and_sum(here), workers=2).results
    assert on_ray.records["sum"].machine == on_ray.records["square-2"].machine
    calls = there.calls()
    assert there.run(*squares_and_sum(there), workers=2) == on_ray
    assert there.calls() == calls
    assert ray.is_initialized()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_an_experiment_on_ray_has_the_numbers_of_one_on_this_machine(
    tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_searches(monkeypatch)
    monkeypatch.setattr(Table4, "variants", (Variant("aequitas", "full"), Variant("random")))
    there = experiment("neuronfair-table4", tmp_path / "there", repeats=1, cluster="local")
    monkeypatch.setattr(runner, "LocalWorkers", InThisProcess)
    here = experiment("neuronfair-table4", tmp_path / "here", repeats=1)
    assert here.failures == there.failures == {}
    texts = [done.paths[1].read_text(encoding="utf-8") for done in (here, there)]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_ray_reports_failures(lab: Lab, ray: Any) -> None:
    check_failures(lab, lab.run(*failing(lab), cluster="local"))


@pytest.mark.slow
def test_ray_workers_use_one_thread(lab: Lab, ray: Any) -> None:
    result = lab.run([lab.job("a", "threads")], cluster="local").results["a"]
    assert result["torch"] == 1
    assert set(result["environment"].values()) == {"1"}


@pytest.mark.slow
def test_ray_tries_again_when_a_worker_dies_and_gives_up_after_three(
    lab: Lab, tmp_path: Path, ray: Any
) -> None:
    other = Lab(tmp_path / "other")
    other.folder.parent.mkdir()
    jobs = [
        lab.job("once", "die", times=1),
        other.job("always", "die", times=99),
        lab.job("good", "square", x=1),
    ]
    outcome = lab.run(jobs, cluster="local")
    assert outcome.results == {"once": {"alive": True}, "good": {"y": 1}}
    assert outcome.failures == {"always": DIED}
    assert (lab.calls().count("die"), other.calls().count("die")) == (2, 3)


def test_ray_ends_running_jobs_when_it_is_stopped(lab: Lab, ray: Any) -> None:
    def stop(now: JobProgress) -> None:
        if lab.pids("sleep"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.run([lab.job("slow", "sleep_until_allowed")], cluster="local", progress=stop)
    (pid,) = lab.pids("sleep")
    soon(lambda: not Path(f"/proc/{pid}").exists(), "the task ends")
    assert lab.files() == set()


def test_a_stored_token_is_tried_first_unless_the_mode_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cluster._token_modes() == [{}]
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("secret", encoding="utf-8")
    assert cluster._token_modes() == [{"RAY_AUTH_MODE": "token"}, {}]
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert cluster._token_modes() == [{}]
