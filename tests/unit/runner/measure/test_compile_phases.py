"""Time is booked to the innermost phase of a compilation, once, and to nothing outside of one."""

from __future__ import annotations

import threading

import pytest

from compile_hud.runner.measure.compile.phases import CompileClock, CompileKey, phase_of


class Script:
    """Plays events on a CompileClock; each takes one second more than the one before."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.clock = CompileClock(now_s=lambda: self.now_s)

    def play(self, *events: str) -> dict[str, float]:
        """Begin `+name` and end `-name`, 1 s, 2 s, 4 s ... after one another."""
        for index, event in enumerate(events):
            (self.clock.begin if event[0] == "+" else self.clock.end)(event[1:])
            self.now_s += 2.0**index
        return self.clock.phases_s


@pytest.fixture
def script() -> Script:
    return Script()


def test_an_inner_phase_interrupts_the_outer_one(script: Script) -> None:
    phases_s = script.play(
        "+entire_frame_compile",
        "+backend_compile",
        "+inductor_compile",
        "+PyCodeCache.load_by_key_path",
        "-PyCodeCache.load_by_key_path",
        "-inductor_compile",
        "-backend_compile",
        "-entire_frame_compile",
    )
    assert phases_s == {"dynamo": 1 + 64, "aot": 2 + 32, "inductor": 4 + 16, "backend": 8}
    # Together they are the time between the first event and the last.
    assert sum(phases_s.values()) == 127


def test_each_compilation_has_its_own_share_of_each_phase(script: Script) -> None:
    clock = script.clock
    for name, compile_id, inner_s, outer_s in (
        ("entire_frame_compile", "0/0", 2.0, 1.0),
        ("entire_frame_compile", "0/1", 5.0, 0.5),
        ("entire_backward_compile", "0/0", 7.0, 3.0),
        ("CachingAutotuner.benchmark_all_configs", "", 0.0, 4.0),
        ("entire_frame_compile", "0/0", 1.0, 0.0),
    ):
        clock.begin(name, compile_id=compile_id)
        script.now_s += outer_s
        clock.begin("inductor_compile", compile_id="ignored")
        script.now_s += inner_s
        clock.end("inductor_compile")
        clock.end(name)
        script.now_s += 100.0
    own = {
        (key.compile_id, key.is_backward): phases_s for key, phases_s in clock.phases_of_s.items()
    }
    assert own == {
        ("0/0", False): {"dynamo": 1.0, "inductor": 3.0},
        ("0/1", False): {"dynamo": 0.5, "inductor": 5.0},
        ("0/0", True): {"aot": 3.0, "inductor": 7.0},
        ("", False): {"autotune": 4.0, "inductor": 0.0},
    }
    assert list(clock.phases_of_s)[0] == CompileKey(compile_id="0/0", is_backward=False)
    sums = {name: sum(of.get(name, 0.0) for of in own.values()) for name in clock.phases_s}
    assert sums == clock.phases_s


def test_an_event_without_a_phase_belongs_to_its_parent(script: Script) -> None:
    phases_s = script.play(
        "+entire_frame_compile", "+build_guards", "-build_guards", "-entire_frame_compile"
    )
    assert phases_s == {"dynamo": 7.0}


def test_what_lies_outside_of_a_compilation_is_not_booked(script: Script) -> None:
    assert script.play("+compile_file", "-compile_file", "-inductor_compile") == {}
    assert script.clock.num_compiles() == 0


def test_the_threads_of_a_compiler_do_not_count(script: Script) -> None:
    script.play("+entire_frame_compile", "+async_compile.wait")
    helper = threading.Thread(target=script.play, args=("+compile_file", "-compile_file"))
    helper.start()
    helper.join()
    phases_s = script.play("-async_compile.wait", "-entire_frame_compile")
    assert phases_s == {"dynamo": 1 + 1, "backend": 2 + 1 + 2}


def test_an_unfinished_event_ends_with_its_parent(script: Script) -> None:
    phases_s = script.play(
        "+entire_frame_compile", "+backend_compile", "-entire_frame_compile", "+compile_file"
    )
    assert phases_s == {"dynamo": 1.0, "aot": 2.0}


def test_compilations_and_recordings_are_counted_when_they_begin(script: Script) -> None:
    script.play("+entire_frame_compile", "+backend_compile", "-entire_frame_compile")
    script.play("+entire_backward_compile", "-entire_backward_compile")
    script.play("+CUDAGraphNode.record", "-CUDAGraphNode.record")
    clock = script.clock
    # They began after 0 s, 7 s and 10 s.
    assert (clock.num_compiles(), clock.num_recordings()) == (2, 1)
    assert clock.num_compiles(since_s=7, until_s=7) == 1
    assert clock.num_compiles(since_s=8, until_s=9) == 0
    assert clock.num_recordings(since_s=10, until_s=10) == 1
    assert clock.num_recordings(since_s=0, until_s=9) == 0


def test_templates_are_known_by_the_end_of_their_name() -> None:
    assert phase_of("mm_template_precompiling") == "backend"
    assert phase_of("mm_template_autotuning") == "autotune"
    assert phase_of("anything else") is None
