"""The queue: what is in it survives the server, its processes, and hostile forms."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier
from starlette.testclient import TestClient

from fairprobe import datasets
from fairprobe.errors import SettingError, StorageError
from fairprobe.locks import lock_file, unlock
from fairprobe.models import load_model
from fairprobe.runs.store import read_table_run
from fairprobe.search import Budget
from fairprobe.serve import jobs
from fairprobe.serve.app import application
from fairprobe.serve.jobs import AuditJob, JobView, Queue, RepairJob, command
from fairprobe.serve.settings import ServeSettings
from fairprobe.table.audit import audit
from tests.serve.conftest import ADDRESS, TOKEN

AUDIT = AuditJob(out="new", title="German, by gender", dataset="german", sensitive=["gender"])


@pytest.fixture
def queue(settings: ServeSettings) -> Iterator[Queue]:
    queue = Queue(settings)
    yield queue
    for view in queue.jobs():
        queue.cancel(view.id)
    queue.leave()


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Jobs run a program that waits until it is interrupted, in the place of an audit."""
    program = "\n".join(
        (
            "import signal, sys, time",
            "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))",
            "print('here', flush=True)",
            "time.sleep(60)",
        )
    )
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    started: list[str] = []

    def waits(job: jobs.Job, settings: ServeSettings) -> list[str]:
        started.append(job.out)
        return [str(tmp_path / "program.py")]

    monkeypatch.setattr(jobs, "PROGRAM", (sys.executable,))
    monkeypatch.setattr(jobs, "command", waits)
    return started


def wait_for(what: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


# -- commands --------------------------------------------------------------------------------------


def test_the_command_is_the_one_that_people_type(settings: ServeSettings) -> None:
    words = command(AUDIT, settings)
    assert words[0] == "audit"
    assert words[-2:] == ["--", "german"]
    assert f"--out={settings.runs / 'new'}" in words
    assert "--sensitive=gender" in words


def test_no_value_of_a_job_becomes_an_option(settings: ServeSettings) -> None:
    """A column may be called '--model=https://evil.example'."""
    key = "0" * 64 + "/people.csv"
    upload = settings.state / "uploads" / key
    upload.parent.mkdir(parents=True)
    upload.write_text("a,b\n1,2\n", encoding="utf-8")
    evil = "--model=https://evil.example"
    job = AuditJob(out="new", title="", table=key, label=evil, favorable=evil, sensitive=[evil])
    words = command(job, settings)
    assert words[words.index("--") + 1 :] == [str(upload)]
    assert f"--label={evil}" in words
    assert evil not in words
    repair = RepairJob(out="r", title="", run="--help", repair="counterfactual")
    assert command(repair, settings)[-2] == "--"


def test_models_come_from_their_folder_and_nowhere_else(
    settings: ServeSettings, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="--models"):
        command(AuditJob(out="n", title="", sensitive=["a"], model="x.onnx"), settings)
    (tmp_path / "models").mkdir()
    some = ServeSettings(runs=settings.runs, state=settings.state, models=tmp_path / "models")
    job = AuditJob(out="n", title="", sensitive=["a"], model="../../etc/evil.onnx")
    assert f"--model={tmp_path / 'models' / 'evil.onnx'}" in command(job, some)


@pytest.mark.parametrize(
    "change",
    [
        {"out": "../elsewhere"},
        {"out": "-x"},
        {"out": ".hidden"},
        {"options": {"seeds": -1}},
        {"options": {"people": "everybody"}},
        {"options": {"out": "elsewhere"}},
        {"command": ["rm"]},
        {"job": "shell"},
    ],
)
def test_a_forged_job_is_not_run(queue: Queue, settings: ServeSettings, change: object) -> None:
    name = queue.add(AUDIT)
    file = settings.state / "jobs" / name / "job.json"
    body = json.loads(file.read_text(encoding="utf-8"))
    body["job"] |= change
    file.write_text(json.dumps(body), encoding="utf-8")
    assert queue.jobs() == []
    queue.look()
    assert not (file.parent / "attempts").exists()


# -- the queue -------------------------------------------------------------------------------------


def test_jobs_wait_in_their_order_and_one_runs_on_each_core(
    queue: Queue, sleeping: list[str]
) -> None:
    names = [
        queue.add(AuditJob(out=f"run{number}", title="", sensitive=["gender"]))
        for number in range(3)
    ]
    queue.look()
    queue.look()
    assert sleeping == ["run0"]
    assert [view.state for view in reversed(queue.jobs())] == ["running", "waiting", "waiting"]
    assert queue.busy() == 3
    queue.cancel(names[1])
    queue.cancel(names[0])
    wait_for(lambda: queue.job(names[0]).is_over)
    assert [view.state for view in reversed(queue.jobs())] == ["cancelled", "cancelled", "waiting"]
    queue.look()
    assert sleeping == ["run0", "run2"]
    queue.cancel(names[2])
    wait_for(lambda: queue.busy() == 0)


def test_a_new_server_finds_the_job_that_still_runs(
    queue: Queue, settings: ServeSettings, sleeping: list[str]
) -> None:
    name = queue.add(AUDIT)
    queue.look()
    after = Queue(settings)
    wait_for(lambda: "here" in after.log(name))
    after.look()
    assert sleeping == ["new"]  # not started twice
    assert after.job(name).state == "running"
    after.cancel(name)
    wait_for(lambda: after.job(name).state == "cancelled")


def test_a_job_whose_processes_were_killed_is_resumed_three_times_at_most(
    queue: Queue, settings: ServeSettings, sleeping: list[str]
) -> None:
    name = queue.add(AUDIT)
    folder = settings.state / "jobs" / name
    for attempt in range(jobs.MOST_ATTEMPTS):
        queue.look()
        assert len(sleeping) == attempt + 1
        (worker,) = queue._processes
        wait_for(lambda: queue.log(name).count("here") > attempt)  # noqa: B023
        os.killpg(worker.pid, signal.SIGKILL)  # the worker and its command
        worker.wait()
        wait_for(lambda: lock_is_free(folder))
        (folder / "result.json").unlink(missing_ok=True)
    queue.look()
    view = queue.job(name)
    assert view.state == "failed"
    assert view.result is not None
    assert "killed 3 times" in view.result.why


@pytest.mark.slow
def test_an_audit_that_is_killed_in_its_search_goes_on_and_is_complete(
    queue: Queue, settings: ServeSettings
) -> None:
    name = queue.add(msgspec.structs.replace(AUDIT, options={"seeds": 4000, "samples": 500}))
    queue.look()
    (worker,) = queue._processes
    wait_for(lambda: queue.job(name).progress.stage.startswith("Searching"), 120)
    wait_for(lambda: queue.job(name).progress.done > 0, 60)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    assert not (settings.runs / "new").exists()
    wait_for(lambda: lock_is_free(settings.state / "jobs" / name))
    with queue.running():
        wait_for(lambda: queue.job(name).is_over, 180)
    view = queue.job(name)
    assert (view.state, view.has_run) == ("done", True), queue.log(name)
    found = read_table_run(settings.runs / "new").generation
    assert (found.seeds, found.stopped) == (4000, "complete")


def lock_is_free(folder: Path) -> bool:
    try:
        unlock(lock_file(folder / "lock"))
    except OSError:
        return False
    return True


def test_a_job_whose_run_is_there_is_done_although_nobody_said_so(
    queue: Queue, settings: ServeSettings, sleeping: list[str]
) -> None:
    name = queue.add(AUDIT)
    (settings.state / "jobs" / name / "attempts").write_text("1", encoding="utf-8")
    (settings.runs / "credit").rename(settings.runs / "new")
    queue.look()
    assert queue.job(name).state == "done"
    assert sleeping == []


def test_a_lost_job_goes_on_with_resume(
    queue: Queue, settings: ServeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    class Never:
        def __init__(self, words: list[str], **_: object) -> None:
            seen.append(words)

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Never)
    name = queue.add(AUDIT)
    queue.look()
    queue.look()
    assert [("--resume" in words) for words in seen] == [False, True]
    assert seen[1][:3] == [sys.executable, "-m", "fairprobe.serve.worker"]
    assert queue.job(name).state == "running"


def test_two_servers_do_not_share_a_queue(settings: ServeSettings) -> None:
    with (
        Queue(settings).running(),
        pytest.raises(StorageError, match="already serves"),
        Queue(settings).running(),
    ):
        pass
    with Queue(settings).running():
        pass


def test_a_name_is_used_once(queue: Queue, runs: Path) -> None:
    queue.add(AUDIT)
    with pytest.raises(SettingError, match="in the queue already"):
        queue.add(AUDIT)
    with pytest.raises(SettingError, match="something called 'credit'"):
        queue.add(AuditJob(out="credit", title="", sensitive=["gender"]))


@pytest.mark.parametrize(
    "name", ["..", "20260101-000000-0000000000", "x", "20260101-000000-000000000g"]
)
def test_there_is_no_other_job(queue: Queue, name: str) -> None:
    with pytest.raises(StorageError, match="There is no job"):
        queue.job(name)


# -- forms -----------------------------------------------------------------------------------------


def started(client: TestClient, queue: Queue) -> JobView:
    (view,) = queue.jobs()
    assert client.get(f"/jobs/{view.id}").status_code == 200
    return view


def test_an_audit_is_put_into_the_queue(client: TestClient, queue: Queue) -> None:
    form = {
        "data": "german",
        "sensitive": ["gender", "age"],
        "name": "my run",
        "seeds": "50",
        "time": "2.5",
    }
    answer = client.post("/start", data=form)
    assert answer.status_code == 303, answer.text
    view = started(client, queue)
    assert answer.headers["location"] == f"/jobs/{view.id}"
    assert isinstance(view.job, AuditJob)
    assert (view.job.out, view.job.sensitive) == ("my run", ["gender", "age"])
    assert (view.job.options["seeds"], view.job.options["time"]) == (50, 2.5)
    assert "my run" in client.get("/jobs").text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": "nothing"}, "There is no data set"),
        ({"sensitive": []}, "Which attribute is sensitive"),
        ({"sensitive": ["nothing"]}, "There is no sensitive attribute"),
        ({"name": "../x"}, "cannot be the name of a run"),
        ({"name": ""}, "cannot be the name of a run"),
        ({"name": "credit"}, "something called"),
        ({"seeds": "many"}, "is not a number"),
        ({"seeds": "nan"}, "is not a number"),
        ({"seed": "-1"}, "is not a number"),
        ({"method": "--help"}, "is not auto or probe"),
        ({"model": "/etc/passwd"}, "There is no model"),
        ({"table": "../../x.csv"}, "There is no such table"),
    ],
)
def test_a_form_that_makes_no_sense_is_a_sentence(
    client: TestClient, queue: Queue, change: dict[str, object], words: str
) -> None:
    form = {"data": "german", "sensitive": ["gender"], "name": "new"} | change
    answer = client.post("/start", data=form)
    assert answer.status_code == 400
    assert words in answer.text
    assert queue.jobs() == []


def test_a_table_is_uploaded_read_and_audited(client: TestClient, queue: Queue) -> None:
    rows = "age,sex,paid\n" + "".join(f"{20 + n},{'fm'[n % 2]},{n % 3}\n" for n in range(60))
    answer = client.post("/upload", files={"table": ("../../my people.csv", rows)})
    assert answer.status_code == 303, answer.text
    page = client.get(answer.headers["location"])
    assert "my-people.csv" in page.text
    for name in ("age", "sex", "paid"):
        assert f'value="{name}"' in page.text
    key = answer.headers["location"].partition("table=")[2].replace("%2F", "/")
    form = {"table": key, "label": "paid", "sensitive": "sex", "name": "own"}
    assert client.post("/start", data=form).status_code == 303
    job = started(client, queue).job
    assert isinstance(job, AuditJob)
    assert (job.table, job.label) == (key, "paid")


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("x.py", b"print(1)", 400),
        ("x.pkl", b"\x80\x04.", 400),
        (".csv", b"a,b\n1,2\n", 400),
        ("", b"a,b\n1,2\n", 400),
        ("x.parquet", b"PAR1 no", 400),
        ("x.csv", b"a,b\n1,2,3\n", 400),
        ("x.csv", b"", 400),
        ("x.csv", b"a,b\n" + b"1,2\n" * 100_000, 413),
    ],
)
def test_what_is_no_table_is_not_kept(
    client: TestClient, settings: ServeSettings, name: str, content: bytes, code: int
) -> None:
    answer = client.post("/upload", files={"table": (name, content)})
    assert answer.status_code == code, answer.text
    assert [path.name for path in (settings.state / "uploads").iterdir()] == []


def test_a_repair_is_put_into_the_queue(client: TestClient, queue: Queue) -> None:
    form = {"repair": "blind", "name": "credit-blind", "max_accuracy_drop": "3"}
    assert client.post("/repair/credit", data=form).status_code == 303
    job = started(client, queue).job
    assert isinstance(job, RepairJob)
    assert (job.run, job.repair, job.options["max_accuracy_drop"]) == ("credit", "blind", 3)
    assert client.post("/repair/credit", data={**form, "repair": "x"}).status_code == 400
    assert client.post("/repair/nothing", data=form).status_code == 404


def test_a_waiting_job_is_cancelled_and_its_page_says_so(client: TestClient, queue: Queue) -> None:
    name = queue.add(AUDIT)
    assert client.post(f"/jobs/{name}/cancel").status_code == 303
    assert "Cancelled" in client.get(f"/jobs/{name}").text
    assert client.get("/jobs/nothing").status_code == 400


def test_the_events_of_a_job_end_with_it(client: TestClient, queue: Queue) -> None:
    name = queue.add(AUDIT)
    queue.cancel(name)
    answer = client.get(f"/jobs/{name}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("event: end\ndata: ")
    assert "Cancelled" in answer.text


def test_a_log_gives_no_orders(client: TestClient, queue: Queue, settings: ServeSettings) -> None:
    name = queue.add(AUDIT)
    log = settings.state / "jobs" / name / "log.txt"
    log.write_bytes(b"\x1b[31m<script>alert(1)</script>\xff" + b"x" * 10**6)
    page = client.get(f"/jobs/{name}").text
    assert "<script>alert" not in page
    assert len(page) < 200_000
    assert "\x1b" not in client.get(f"/jobs/{name}/log").text


# -- the user's own models -------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path) -> ServeSettings:
    """A run of a user's own model, which lies in the folder of models."""
    rng, models = np.random.default_rng(0), tmp_path / "models"
    people = pd.DataFrame({"age": rng.integers(20, 60, 400), "sex": rng.choice(["f", "m"], 400)})
    people["paid"] = np.where(people["age"] + 9 * (people["sex"] == "m") > 42, "yes", "no")
    people.to_csv(tmp_path / "people.csv", index=False)
    data = datasets.open_table(tmp_path / "people.csv", label="paid", sensitive="sex")
    codes = data.x.astype(np.float32)
    forest = DecisionTreeClassifier(max_depth=4).fit(codes, data.y)
    models.mkdir()
    skops.io.dump(forest, models / "tree.skops")
    (models / "code.py").write_text("def predict(x): ...", encoding="utf-8")
    model = load_model(models / "tree.skops", data)
    budget = Budget(seeds=10, local_iterations=5)
    (tmp_path / "runs").mkdir()
    audit(data, model, "sex", budget=budget, samples=200).save(tmp_path / "runs" / "own")
    return ServeSettings(
        runs=tmp_path / "runs", state=tmp_path / "state", models=models, token=TOKEN
    )


def test_a_black_box_is_asked_where_its_file_lies_in_the_folder_of_models(
    own: ServeSettings, tmp_path: Path
) -> None:
    with TestClient(application(own), base_url=ADDRESS, headers={"origin": ADDRESS}) as client:
        client.get(f"/?token={TOKEN}")
        answer = client.get("/what-if/own?base=40,1")
        assert answer.status_code == 400
        assert "Upload the same table" in answer.text
        content = (tmp_path / "people.csv").read_bytes()
        assert client.post("/upload", files={"table": ("people.csv", content)}).is_success
    with TestClient(application(own), base_url=ADDRESS, headers={"origin": ADDRESS}) as client:
        client.get(f"/?token={TOKEN}")
        page = client.get("/what-if/own?base=40,1")
        assert page.status_code == 200, page.text
        assert "With any sex" in page.text
        assert "Neurons that react" not in page.text
        assert "age" in client.get("/flip/own?base=40,1").text
        form = client.get("/start?data=german").text
        assert "tree.skops" in form
        assert "code.py" not in form
        given = {"repair": "counterfactual", "name": "own-repaired"}
        assert client.post("/repair/own", data=given, follow_redirects=False).status_code == 303
    (view,) = Queue(own).jobs()
    words = command(view.job, own)
    assert f"--model={tmp_path / 'models' / 'tree.skops'}" in words
    assert any(word.startswith("--table=") for word in words)


def test_another_file_is_not_the_model_of_the_run(own: ServeSettings, tmp_path: Path) -> None:
    model = tmp_path / "models" / "tree.skops"
    model.write_bytes(model.read_bytes() + b" ")
    with TestClient(application(own), base_url=ADDRESS) as client:
        client.get(f"/?token={TOKEN}")
        answer = client.get("/what-if/own?base=40,1")
        assert answer.status_code == 400
        assert "--models" in answer.text
