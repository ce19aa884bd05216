"""A reader in a process of its own: whatever ends it is an error in a sentence."""

from __future__ import annotations

import pytest

from fairprobe.models.formats import boosters
from fairprobe.models.formats.boosters import run_apart


def test_a_program_gets_its_input_and_returns_what_it_writes_not_what_it_prints() -> None:
    program = "print('noise')\nout.write(sys.argv[1].encode() + sys.stdin.buffer.read())"
    assert run_apart(program, "word", content=b" and content") == b"word and content"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise KeyError('tree')", "KeyError: 'tree'"),
        ("os.abort()", "it is damaged"),
        ("b'x' * 2**40", "MemoryError"),
        ("while True: pass", "more than 1 seconds"),
    ],
)
def test_a_program_that_fails_crashes_or_exceeds_its_limits_is_an_error(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosters, "SECONDS", 1)
    with pytest.raises(ValueError, match=said):
        run_apart(program)
