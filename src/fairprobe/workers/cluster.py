"""Tasks on a Ray cluster, which decides where and when each one runs, and starts it again when a
machine is lost.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from fairprobe.errors import SettingError
from fairprobe.workers.base import DIED, ONE_THREAD, TRIES, environment

ANSWER_TIMEOUT = 5.0  # seconds for an address to answer
JOIN_TIMEOUT = 30.0  # seconds for a cluster to accept us


class ClusterWorkers:
    """Cluster at `address`, or a private one on this machine for "local". A connection that the
    caller already has is used and left open.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._inputs: dict[str, Any] = {}  # references to what several tasks need
        self._names: dict[Any, str] = {}  # submitted tasks, by the reference to their result
        self._is_ours = False

    def __enter__(self) -> Self:
        if find_spec("ray") is None:
            raise SettingError(
                "Working on a cluster needs Ray, which is not installed. Install it: pip install"
                ' "fairprobe[cluster]"'
            )
        is_connected = "ray" in sys.modules and sys.modules["ray"].is_initialized()
        if self._address != "local" and not is_connected:
            # Before Ray is imported: it reads its environment only then.
            _check_answer(self._address)
            _try_to_join(self._address)
        self._ray: Any = import_module("ray")
        if not self._ray.is_initialized():
            self._connect()
            self._is_ours = True
        self._task = self._ray.remote(_call).options(
            num_cpus=1,
            max_retries=TRIES - 1,
            retry_exceptions=False,
            runtime_env={"env_vars": ONE_THREAD},
        )
        return self

    def _connect(self) -> None:
        private: dict[str, Any] = {"include_dashboard": False} if self._address == "local" else {}
        refused = (OSError, RuntimeError, ValueError, AssertionError, self._ray.exceptions.RayError)
        try:
            # No usage statistics: Ray's notice about them would not be seen. Workers of a private
            # cluster get the priority of any other process.
            with environment({"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}):
                self._ray.init(
                    address=self._address,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **private,
                )
        except refused as error:
            raise SettingError(_cannot_join(self._address, _first_line(error))) from error

    def __exit__(self, *_: object) -> None:
        try:
            for reference in self._names:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(reference, force=True)
        finally:
            self._names.clear()
            self._inputs.clear()
            if self._is_ours:
                self._ray.shutdown()

    @property
    def count(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def has_room(self) -> bool:
        return True  # the cluster has its own queue

    def submit(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        for each, value in (inputs or {}).items():
            if each not in self._inputs:
                self._inputs[each] = self._ray.put(value)
        shared = (self._inputs[each] for each in inputs or {})
        self._names[self._task.remote(function, arguments, *shared)] = name

    def stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        ended, _ = self._ray.wait(list(self._names), num_returns=1, timeout=seconds)
        return [(self._names.pop(reference), self._result(reference)) for reference in ended]

    def _result(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.WorkerCrashedError:
            return DIED
        except self._ray.exceptions.RayError as error:
            return f"the cluster could not do it: {_first_line(error)}"


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], *inputs: Any) -> Any:
    return function(*arguments, *inputs)


def _check_answer(address: str) -> None:
    """Find out quickly whether anything listens at the address; Ray itself would try for
    minutes.
    """
    place = address.removeprefix("ray://")
    if address == "auto" or "://" in place:
        return
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_TIMEOUT).close()
    except (OSError, ValueError, OverflowError) as error:
        raise SettingError(
            f"No Ray cluster answers at '{address}' ({_first_line(error)}). Expected 'host:port' of"
            " a running cluster (ray start --head shows it), 'auto' for the one this machine"
            " belongs to, or 'local' for a private one."
        ) from error


def _try_to_join(address: str) -> None:
    """Join the cluster from another process first: when something else listens there, Ray tries
    for minutes, and nothing in this process could stop it. Where RAY_AUTH_MODE is not set and a
    token is present, try with and without it.
    """
    why = ""
    for mode in _token_modes():
        with environment(mode):
            why = _join_error(address)
        if not why:
            os.environ.update(mode)
            return
    raise SettingError(_cannot_join(address, why))


def _token_modes() -> list[dict[str, str]]:
    """`ray start --head` starts a cluster that requires a token, and stores the token in the home
    folder.
    """
    has_token = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (
        Path.home() / ".ray" / "auth_token"
    ).exists()
    if has_token and "RAY_AUTH_MODE" not in os.environ:
        return [{"RAY_AUTH_MODE": "token"}, {}]
    return [{}]


def _join_error(address: str) -> str:
    """Why the cluster cannot be joined; empty if it can."""
    code = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    try:
        subprocess.run(  # noqa: S603
            [sys.executable, "-c", code, address],
            capture_output=True,
            text=True,
            timeout=JOIN_TIMEOUT,
            check=True,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {JOIN_TIMEOUT:.0f} seconds"
    except subprocess.CalledProcessError as error:
        return str((error.stderr.strip().splitlines() or ["Ray ended"])[-1].rstrip("."))
    return ""


def _cannot_join(address: str, why: str) -> str:
    return (
        f"Cannot join the Ray cluster at '{address}' ({why}). Is it running? It needs the same"
        " versions of Ray and Python as this machine; if it asks for a token, set RAY_AUTH_MODE"
        " and RAY_AUTH_TOKEN_PATH."
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
