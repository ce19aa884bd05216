"""Old names, which work for one release with a warning."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import fairprobe as fp
from fairprobe import deprecated, repairs

ROOMS = [name for name in deprecated.MOVED if name != "fairprobe.repair"]


@pytest.mark.parametrize("old", ROOMS)
def test_an_old_module_warns_and_has_what_its_new_home_has(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    new = deprecated.MOVED[old]
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
        module = import_module(old)
    home = import_module(new)
    for name in vars(home):
        if not name.startswith("_"):
            assert getattr(module, name) is getattr(home, name)


# In a process of its own: what is imported first must not matter.
OLD_PATHS = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
import fairprobe.model.trace
import fairprobe.repair.retrain
from fairprobe.repair.retrain import Retrain
from fairprobe.repair import counterfactual
import fairprobe as fp
import fairprobe.models.trace, fairprobe.repairs
assert fairprobe.model.trace.Watch is fairprobe.models.trace.Watch
assert Retrain is fp.repairs.Retrain
assert fp.repair.retrain is fp.repairs.retrain and callable(fp.repairs.retrain)
assert fp.repair.counterfactual is counterfactual is fp.repairs.counterfactual
assert callable(fp.repair)
assert fairprobe.repairs.__name__ == "fairprobe.repairs"
"""


def test_old_paths_never_load_a_file_twice_nor_hide_a_function() -> None:
    subprocess.run([sys.executable, "-c", OLD_PATHS], check=True)


def test_the_old_room_of_repairs_warns_and_forwards_and_the_function_of_its_name_does_not() -> None:
    with pytest.warns(DeprecationWarning, match=r"repair\.blind is now fairprobe\.repairs\.blind"):
        assert fp.repair.blind is repairs.blind  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        fp.repair._no_such_name  # type: ignore[attr-defined]  # noqa: B018
    assert callable(fp.repair)


def test_repair_takes_the_arguments_of_audit_in_their_order() -> None:
    for function in (fp.audit, fp.repair):
        assert [*inspect.signature(function).parameters][:3] == ["data", "model", "sensitive"]
