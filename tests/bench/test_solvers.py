"""The adapters: how their options are read, and what each makes of a small model."""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from dataclasses import fields

import numpy as np
import pytest

from bench_programs import answering, companion, runs, script
from brute_force import solve
from ibia import examples
from ibia.bench.pyagrum_peer import import_pyagrum
from ibia.bench.solvers import SOLVERS, Allowance, CrashedError, NonsenseError, NoTimeError, UnsuitedError, parse_solver
from ibia.bench.solvers import program as program_module
from ibia.bench.solvers.libdai import factor_graph
from ibia.bench.solvers.program import run_program
from ibia.bench.version import own_version
from ibia.errors import InputError, UnavailableError
from ibia.model import Model

EVIDENCE = {3: 1}


@pytest.fixture
def student():
    return examples.student()


def check_exact(answer, model, evidence, accuracy=1e-9):
    truth = solve(model, evidence)
    for one, other in zip(answer.marginals, truth.marginals, strict=True):
        assert np.allclose(one, other, atol=accuracy)
    if answer.log10_z is not None:
        assert answer.log10_z == pytest.approx(truth.log_z / math.log(10), abs=accuracy)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("ibia", "ibia"),
        ("ibia:bound=15", "ibia:bound=15"),
        ("ibia:bound=15.0,order=breadth", "ibia:bound=15,order=breadth"),
        ("ibia:time=120,memory=8GB", "ibia:time=120,memory=8000000000"),
        ("paper", "paper:bound=20"),
        ("paper:bound=15", "paper:bound=15"),
        ("loopy:damping=0.3,schedule=flooding", "loopy:damping=0.3,schedule=flooding"),
        ("uai:solver", "uai:program=solver"),
        ("merlin:algorithm=cte", "merlin:algorithm=cte"),
    ],
)
def test_a_label_gives_the_same_solver_again(text, label):
    solver = parse_solver(text)
    assert solver.label == solver.text == label
    assert parse_solver(label) == solver


# A value of each option, as users write it.
VALUES = {
    "bound": "15.5",
    "time": "0.1",
    "memory": "1.5TiB",
    "reduce": "demand",
    "loss": "kl",
    "update": "links",
    "order": "breadth",
    "sweeps": "7",
    "threshold": "0.123456789012345",
    "slices": "never",
    "damping": "0.123456789012345",
    "schedule": "flooding",
    "tolerance": "1e-20",
    "samples": "20_000",
    "seed": "5",
    "algorithm": "cte",
    "ibound": "3",
    "iterations": "4",
    "method": "jtree",
    "program": "/some/program",
    "pr": "yes",
}


@pytest.mark.parametrize(
    ("name", "option"), [(name, entry.name) for name, kind in SOLVERS.items() for entry in fields(kind)]
)
def test_every_option_is_in_the_label(name, option):
    solver = parse_solver(f"{name}:{option}={VALUES[option]}")
    assert option == "program" or solver.label == solver.text
    assert parse_solver(solver.text) == solver
    assert getattr(parse_solver(solver.text), option) == getattr(solver, option) is not None


@pytest.mark.parametrize("name", ["uai", "merlin", "libdai"])
def test_the_label_of_a_program_has_its_name_and_no_path(name, tmp_path, monkeypatch):
    one, other = parse_solver(f"{name}:program=/some/where/solver"), parse_solver(f"{name}:program=/else/where/solver")
    assert one.label.startswith(f"{name}:program=solver~")
    assert "where" not in one.label
    assert one.label != other.label
    assert one.text == f"{name}:program=/some/where/solver"
    # However it is written.
    assert parse_solver(f"{name}:program=/some//where/./solver").label == one.label
    monkeypatch.chdir(tmp_path)
    assert parse_solver(f"{name}:program=./solver").label == parse_solver(f"{name}:program={tmp_path}/solver").label


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ibis", "no solver 'ibis'; expected one of ibia"),
        ("ibia:width=3", "no option 'width=3'; expected NAME=VALUE with: bound, time"),
        ("ibia:bound=wide", "cannot have bound=wide: the bound is 'wide'; expected a number of bits from 1 to 40"),
        ("ibia:bound=8,bound=9", r"^The option bound of the solver ibia is given twice\.$"),
        ("uai:/some/program,program=/other", "The option program of the solver uai is given twice"),
        ("ibia:memory=much", "expected a size like 8GB"),
        ("ibia:15", "no option '15'"),
        ("ibia:bound=-3", "cannot have bound=-3.*from 1 to 40"),
        ("paper:bound=nan", "cannot have bound=nan"),
        ("ibia:loss=foo", "loss=foo: unknown loss 'foo'; expected one of kl"),
        ("ibia:order=foo", "unknown order 'foo'"),
        ("ibia:update=foo", "unknown update 'foo'"),
        ("ibia:slices=foo", "expected one of auto"),
        ("ibia:reduce=nan", "expected a number of bits"),
        ("ibia:sweeps=0", "at least 1"),
        ("ibia:threshold=-1", "at least 0"),
        ("paper:bound=4", r"paper:bound=4 cannot be run: reduce is 5\.0; expected .* to the bound \(4\)"),
        ("ibia:bound=3,reduce=4", "expected a number of bits from 0 to the bound"),
        ("loopy:schedule=zz", "schedule=zz: expected one of flooding, residual"),
        ("loopy:damping=7", "damping=7: expected a number of at least 0 and less than 1"),
        ("loopy:tolerance=inf", "at least 0"),
        ("loopy:sweeps=1.5", "cannot have sweeps=1.5: expected a whole number of at least 1"),
        ("merlin:algorithm=nope", "expected one of wmb, ijgp, cte"),
        ("merlin:ibound=0", "at least 1"),
        ("libdai:method=magic", "expected one of jtree, bp"),
        ("pyagrum-gibbs:samples=0", "at least 1"),
        ("uai:/some/program,pr=True", "cannot have pr=True: expected one of yes, no"),
    ],
)
def test_wrong_options_are_sentences(text, words):
    with pytest.raises(InputError, match=words):
        parse_solver(text)


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, entry.name) for name, kind in SOLVERS.items() for entry in fields(kind) if entry.name != "program"],
)
def test_every_option_says_what_is_expected(name, option):
    with pytest.raises(InputError, match=rf"^The solver {name} cannot have {option}=abc: .*expected .*[^.]\.$"):
        parse_solver(f"{name}:{option}=abc")


def test_every_solver_says_what_it_is():
    assert all(solver.about and solver.name == name for name, solver in SOLVERS.items())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pyagrum-exact", "pyAgrum is not installed"),
        ("pgmpy-exact", "pgmpy is not installed"),
        ("merlin:program=no-such-program", "There is no program no-such-program"),
        ("libdai:program=no-such-program", "There is no program no-such-program"),
        ("uai:/no/such/program", "There is no program /no/such/program"),
        ("uai", "Which program"),
    ],
)
def test_what_is_missing_is_said_before_anything_runs(text, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyagrum", None)
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    with pytest.raises((UnavailableError, InputError), match=words):
        parse_solver(text).version()


def test_the_version_of_the_package_tells_its_sources():
    version, marked, _ = own_version().partition("+")
    assert (version, marked) == ("0.1.0", "+")
    assert own_version() == own_version()


def test_ibia_and_the_setting_of_the_paper(student):
    answer = parse_solver("ibia:bound=10").solve(student, EVIDENCE, Allowance())
    check_exact(answer, student, EVIDENCE)
    assert answer.figures["exact"] is True
    assert (answer.figures["bound"], answer.figures["reduce"]) == (10, 1.0)
    assert parse_solver("ibia:bound=10,reduce=auto").solve(student, EVIDENCE, Allowance()).figures["reduce"] == 1.0
    assert len(answer.figures["step_figures"][0]) == len(answer.figures["step_columns"])
    paper = parse_solver("paper:bound=6")
    arguments = paper.arguments(student, Allowance(threads=2))
    assert arguments == {
        "bound": 6.0,
        "threads": 2,
        "reduce": 5.0,
        "loss": "mi",
        "update": "links",
        "order": "topological",
    }
    assert paper.arguments(examples.grid(2, 2), Allowance())["order"] == "elimination"
    assert parse_solver("paper:order=reverse").arguments(student, Allowance())["order"] == "reverse"


def test_ibia_keeps_to_the_limits_of_the_run_unless_it_has_its_own(student):
    allowance = Allowance(30.0, 2e9, 1)
    assert parse_solver("ibia").arguments(student, allowance) == {"time_limit": 30.0, "memory_limit": 2e9, "threads": 1}
    assert parse_solver("ibia:bound=9").arguments(student, allowance) == {"bound": 9.0, "threads": 1}
    assert parse_solver("ibia:time=5").arguments(student, allowance) == {"time_limit": 5.0, "threads": 1}


def test_loopy_is_exact_on_a_tree():
    tree = examples.tree(8, seed=3)
    solver = parse_solver("loopy")
    answer = solver.solve(tree, {2: 1}, Allowance(seconds=60.0))
    check_exact(answer, tree, {2: 1}, accuracy=1e-5)
    assert answer.figures["converged"] is True


def test_a_program_of_the_competitions(student, tmp_path):
    program = answering(tmp_path, "solver", student, EVIDENCE)
    answer = parse_solver(f"uai:{program},pr=yes").solve(student, EVIDENCE, Allowance(10.0, 1e9))
    check_exact(answer, student, EVIDENCE)
    assert answer.log10_z is not None
    assert 0.0 < answer.seconds < 60.0
    assert answer.figures["program_memory_bytes"] > 2**20
    assert parse_solver(f"uai:{program}").solve(student, EVIDENCE, Allowance()).log10_z is None
    silent = parse_solver(f"uai:{script(tmp_path, 'silent')}")
    with pytest.raises(InputError, match=r"silent has not written model\.uai\.MAR and ended with exit status 3\.$"):
        silent.solve(student, EVIDENCE, Allowance())


def going_on(folder, name, model, text):
    """Write a program that answers a model exactly and goes on with other lines."""
    program = answering(folder, name, model, EVIDENCE)
    program.write_text(f"{program.read_text()}{text}\n")
    return program


@pytest.mark.parametrize(
    "text",
    [
        "time.sleep(1000)",
        # Better answers, as it would say, whole ones.
        "import os\nwhile True:\n    time.sleep(0.2)\n    shutil.copy('model.uai.MAR', 'draft')\n"
        "    os.replace('draft', 'model.uai.MAR')",
        # The next one is half-written.
        "stream = open('model.uai.MAR', 'a')\nstream.write('-BEGIN-\\n5 2 0.5 0.5 2 0.')\nstream.flush()\n"
        "time.sleep(1000)",
    ],
)
def test_what_a_program_has_written_at_its_limit_counts(student, tmp_path, text):
    program = going_on(tmp_path, "anytime", student, text)
    began = time.monotonic()
    answer = parse_solver(f"uai:{program}").solve(student, EVIDENCE, Allowance(1.5))
    assert 1.5 <= time.monotonic() - began < 10
    check_exact(answer, student, EVIDENCE)
    assert answer.seconds == 1.5
    assert answer.figures["note"] == (
        "MAR: anytime was ended at its limit of 1.5 s. What it had written by then counts."
    )


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (None, r"^slow has not written model\.uai\.MAR and was ended at its limit of 1 s\.$"),
        (
            "MAR\n5 2 0.5 0.5",
            r"^slow was ended at its limit of 1 s\. What it had written is no answer: model\.uai\.MAR, line 2: the "
            "file ends too early",
        ),
    ],
)
def test_a_program_without_an_answer_at_its_limit_is_out_of_time(student, tmp_path, written, words):
    text = "" if written is None else f"open('model.uai.MAR', 'w').write({written!r})\n"
    program = script(tmp_path, "slow", f"{text}import time\ntime.sleep(1000)")
    with pytest.raises(NoTimeError, match=words):
        parse_solver(f"uai:{program}").solve(student, EVIDENCE, Allowance(1.0))


@pytest.mark.parametrize(
    ("before", "seconds", "note"),
    [
        (
            "if sys.argv[4] == 'PR': sys.exit('no room')",
            None,
            "log Z is not known: partial has not written model.uai.PR and ended with exit status 1: no room",
        ),
        (
            "if sys.argv[4] == 'PR': open('model.uai.PR', 'w').write('PR\\nmuch'); sys.exit(0)",
            None,
            "log Z is not known: model.uai.PR, line 2: log10 of the partition function is 'much'; expected a number.",
        ),
        (
            "import time\nif sys.argv[4] == 'PR': time.sleep(1000)",
            2.0,
            "log Z is not known: partial has not written model.uai.PR and was ended at its limit of ",
        ),
    ],
)
def test_marginals_are_an_answer_without_log_z(student, tmp_path, before, seconds, note):
    program = answering(tmp_path, "partial", student, EVIDENCE, before=f"import sys\n{before}")
    began = time.monotonic()
    answer = parse_solver(f"uai:{program},pr=yes").solve(student, EVIDENCE, Allowance(seconds))
    # Both together have the time of one run.
    assert time.monotonic() - began < (10.0 if seconds is None else seconds + 1.0)
    check_exact(answer, student, EVIDENCE)
    assert answer.log10_z is None
    assert answer.figures["note"].startswith(note)


def test_log_z_is_not_asked_for_when_no_time_is_left(student, tmp_path):
    program = going_on(tmp_path, "anytime", student, "time.sleep(1000)")
    answer = parse_solver(f"uai:{program},pr=yes").solve(student, EVIDENCE, Allowance(1.0))
    check_exact(answer, student, EVIDENCE)
    assert answer.log10_z is None
    assert answer.figures["note"].endswith("log Z is not known: no time was left to ask for it.")


def test_a_program_that_leaves_something_in_the_background_has_answered(student, tmp_path):
    lingering = "import os, time\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)"
    program = answering(tmp_path, "solver", student, EVIDENCE, before=lingering)
    began = time.monotonic()
    answer = parse_solver(f"uai:{program}").solve(student, EVIDENCE, Allowance())
    assert time.monotonic() - began < 15
    check_exact(answer, student, EVIDENCE)


def held_by(command, folder):
    """Return the bytes that a program is said to have held."""
    return run_program([*map(str, command)], folder).memory


def test_the_memory_of_a_program_is_its_own(tmp_path):
    # More than both programs hold together, and held by whoever starts them.
    hoard = np.ones(50_000_000)
    assert held_by(["/bin/true"], tmp_path) < 3e7
    greedy = script(tmp_path, "greedy", "hoard = bytearray(2 * 10**8); hoard[::4096] = b'x' * len(hoard[::4096])")
    assert 2e8 < held_by([greedy], tmp_path) < 2.5e8
    # What a script runs is that script's.
    (tmp_path / "around").write_text(f"#!/bin/sh\n{greedy}\nexit 0\n")
    (tmp_path / "around").chmod(0o755)
    assert 2e8 < held_by([tmp_path / "around"], tmp_path) < 2.5e8
    assert hoard.nbytes > 2e8


def test_a_program_that_takes_too_long_is_ended_with_what_it_waits_for(tmp_path):
    mark = tmp_path / "other"
    patient = script(tmp_path, "patient", f"{companion(mark)}os.wait()")
    began = time.monotonic()
    with pytest.raises(NoTimeError, match=r"^patient was ended at its limit of 1 s\.$"):
        run_program([str(patient)], tmp_path, seconds=1.0)
    assert 1.0 <= time.monotonic() - began < 15
    time.sleep(0.1)
    assert not runs(int(mark.read_text()))


def test_a_program_has_nothing_to_read(tmp_path):
    curious = script(tmp_path, "curious", "import sys; sys.exit(len(sys.stdin.read()))")
    assert run_program([str(curious)], tmp_path).code == 0


def test_a_program_that_cannot_be_run_is_a_sentence(tmp_path):
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(InputError, match=r"^text cannot be run: Exec format error\.$"):
        run_program([str(tmp_path / "text")], tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "while True: print('x' * 1000)",
        "import sys\nwhile True: sys.stderr.write('x' * 1000)",
        "stream = open('model.uai.MAR', 'w')\nwhile True: stream.write('1 2 0.5 0.5')",
        # Ended by the signal that others ignore.
        "import os, signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwhile True: os.write(1, bytes(1000))",
    ],
)
def test_a_program_that_writes_without_end_is_ended(student, tmp_path, monkeypatch, text):
    monkeypatch.setattr(program_module, "_MOST_WRITTEN", 2**20)
    endless = script(tmp_path, "endless", text)
    with pytest.raises(InputError, match=r"^endless has written 1 MiB, which is the most it may\.$"):
        parse_solver(f"uai:{endless}").solve(student, EVIDENCE, Allowance())


def test_a_lower_limit_of_the_user_is_not_raised_and_named(student, tmp_path):
    endless = script(tmp_path, "endless", "while True: print('x' * 1000)")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(InputError, match=r"^endless has written 64 KiB, which is the most it may\.$"):
            parse_solver(f"uai:{endless}").solve(student, EVIDENCE, Allowance())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ("uai", r"^tidy has not written model\.uai\.MAR and ended with exit status 1\.$"),
        ("merlin", r"^tidy ended with exit status 1\.$"),
        ("libdai", r"^tidy ended with exit status 1\.$"),
    ],
)
def test_a_program_that_removes_its_folder_has_no_answer(student, tmp_path, solver, words):
    tidy = script(tmp_path, "tidy", "import os, shutil, sys; shutil.rmtree(os.getcwd()); sys.exit(1)")
    with pytest.raises(InputError, match=words):
        parse_solver(f"{solver}:program={tidy}").solve(student, EVIDENCE, Allowance())


def test_a_program_without_a_folder_has_not_written_an_answer(student, tmp_path):
    tidy = script(tmp_path, "tidy", "import os, shutil; shutil.rmtree(os.getcwd())")
    with pytest.raises(InputError, match=r"^tidy has not written an answer and ended with exit status 0\.$"):
        parse_solver(f"merlin:program={tidy}").solve(student, EVIDENCE, Allowance())


def test_last_words_without_end_are_cut(student, tmp_path):
    verbose = script(tmp_path, "verbose", "import sys; sys.stderr.write('x' * 10**6); sys.exit(7)")
    with pytest.raises(InputError) as raised:
        parse_solver(f"uai:{verbose}").solve(student, EVIDENCE, Allowance())
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("import sys; print('no room', file=sys.stderr); sys.exit(7)", InputError, "with exit status 7: no room$"),
        ("import os; os.kill(os.getpid(), 11)", CrashedError, r"was ended by the signal SIGSEGV\.$"),
        ("import os, sys; print('oh', flush=True); os.kill(os.getpid(), 9)", CrashedError, "the signal SIGKILL: oh$"),
    ],
)
@pytest.mark.parametrize("solver", ["uai", "merlin", "libdai"])
def test_how_a_program_ended_is_said(student, tmp_path, solver, text, kind, words):
    program = script(tmp_path, "bad", text)
    with pytest.raises(InputError, match=words) as raised:
        parse_solver(f"{solver}:program={program}").solve(student, EVIDENCE, Allowance())
    assert type(raised.value) is kind


def test_a_program_is_told_the_limits_as_in_the_competitions(student, tmp_path):
    text = "import os; print(os.environ['INF_TIME'], os.environ['UAI_MEMORY'], file=open('model.uai.MAR', 'w'))"
    program = script(tmp_path, "curious", text)
    with pytest.raises(NonsenseError, match="12 marginals"):
        parse_solver(f"uai:{program}").solve(student, EVIDENCE, Allowance(12.0, 3e9))


def test_merlin_by_a_program_that_writes_like_it(student, tmp_path):
    truth = solve(student, EVIDENCE)
    solution = [
        {"variable": number, "states": len(values), "marginal": list(values)}
        for number, values in enumerate(truth.marginals)
        if number not in EVIDENCE
    ]
    # A comma before the end, as some versions have it.
    written = json.dumps({"algorithm": "wmb", "value": truth.log_z, "solution": solution})[:-1] + ",}"
    text = "import sys; assert sys.argv[sys.argv.index('--ibound') + 1] == '7'\n"
    text += f"open('answer.MAR', 'w').write({written!r})"
    program = script(tmp_path, "merlin", text)
    answer = parse_solver(f"merlin:ibound=7,program={program}").solve(student, EVIDENCE, Allowance())
    check_exact(answer, student, EVIDENCE)
    assert answer.log10_z is not None
    with pytest.raises(InputError, match="ended with exit status 1"):
        parse_solver(f"merlin:program={program}").solve(student, EVIDENCE, Allowance())


# Its answer tells the i-bound.
MERLIN = """import json, sys, time
ibound = int(sys.argv[sys.argv.index("--ibound") + 1])
open({log!r}, "a").write(f"{{ibound}}\\n")
share = 1 / ibound
{mischief}
marginals = [{{"variable": number, "states": 2, "marginal": [share, 1 - share]}} for number in range({count})]
json.dump({{"value": 0.0, "solution": marginals}}, open("answer.MAR.json", "w"))"""


def raised(tmp_path, mischief, allowance, algorithm="wmb", count=16):
    """Return the answer of a stand-in for Merlin on a grid, and the i-bounds that it was called with."""
    log = tmp_path / "calls"
    program = script(tmp_path, "merlin", MERLIN.format(log=str(log), mischief=mischief, count=count))
    solver = parse_solver(f"merlin:algorithm={algorithm},program={program}")
    answer = solver.solve(examples.grid(4, count // 4), {}, allowance)
    assert len(answer.marginals) == count
    assert answer.marginals[0][0] == pytest.approx(1 / answer.figures["ibound"]) or "share" in mischief
    return answer, [int(line) for line in log.read_text().split()]


def test_the_ibound_of_merlin_is_raised_while_the_next_run_fits(tmp_path):
    began = time.monotonic()
    answer, calls = raised(tmp_path, "time.sleep(0.05 * 2**ibound)", Allowance(seconds=6.0))
    assert time.monotonic() - began < 6.0
    # 0.2, 0.4, 0.8, 1.6 s by then at least, and that makes the next one too long.
    assert calls == list(range(2, answer.figures["ibound"] + 1))
    assert 2 < answer.figures["ibound"] < 6
    # All the runs together are what the answer took.
    assert answer.seconds >= sum(0.05 * 2**ibound for ibound in calls)


@pytest.mark.parametrize(
    "mischief",
    [
        "if ibound == 4: time.sleep(100)",
        "if ibound == 4: sys.exit('no memory left')",
        "if ibound == 4: share = float('nan')",
    ],
)
def test_the_last_answer_of_merlin_is_kept_when_the_next_run_comes_to_nothing(tmp_path, mischief):
    answer, calls = raised(tmp_path, mischief, Allowance(seconds=5.0))
    assert calls == [2, 3, 4]
    assert answer.figures["ibound"] == 3
    assert answer.marginals[0][0] == pytest.approx(1 / 3)


def test_the_ibound_of_merlin_is_raised_no_further_than_it_matters(tmp_path):
    answer, calls = raised(tmp_path, "share = 1 / min(ibound, 4)", Allowance())
    assert calls == [2, 3, 4, 5, 6, 7]
    assert answer.marginals[0][0] == pytest.approx(1 / 4)
    (tmp_path / "calls").unlink()
    _, calls = raised(tmp_path, "", Allowance(), count=4)
    assert calls == [2, 3, 4]
    (tmp_path / "calls").unlink()
    _, calls = raised(tmp_path, "", Allowance(memory=1e6))
    assert calls == [2]
    (tmp_path / "calls").unlink()
    answer, calls = raised(tmp_path, "", Allowance(), algorithm="cte")
    assert len(calls) == 1
    assert answer.figures["exact"] is True


def test_libdai_by_a_program_that_prints_like_it(student, tmp_path):
    truth = solve(student, EVIDENCE)
    lines = [
        f"# ({{x{number}}}, ({', '.join(f'{value:.3e}' for value in values)}))"
        for number, values in enumerate(truth.marginals)
        if number not in EVIDENCE
    ]
    text = f"import sys; assert open('model.fg').read().startswith('5'); print({chr(10).join(['# METHOD', *lines])!r})"
    program = script(tmp_path, "testdai", text)
    answer = parse_solver(f"libdai:method=jtree,program={program}").solve(student, EVIDENCE, Allowance())
    check_exact(answer, student, EVIDENCE, accuracy=1e-3)
    program = script(tmp_path, "testdai", "print('# ({x0}, (many, 0.5))')")
    with pytest.raises(NonsenseError, match=r"libDAI's answer cannot be read: .*'many'"):
        parse_solver(f"libdai:program={program}").solve(student, EVIDENCE, Allowance())


def test_factor_graph_by_hand():
    # Scope (1, 0): the table of libDAI has variable 0 first, and that varies fastest.
    model = Model.from_arrays([2, 2, 3], [([1, 0], [[1.0, 2.0], [0.0, 4.0]]), ([1, 2], np.arange(6.0) + 1)])
    text = factor_graph(model, {2: 1})
    assert text.split("\n\n") == ["2", "2\n0 1\n2 2\n3\n0 1.0\n1 2.0\n3 4.0", "1\n1\n2\n2\n0 2.0\n1 5.0\n"]
    assert factor_graph(Model.from_arrays([2], []), {}).split("\n\n")[1] == "1\n0\n2\n2\n0 1.0\n1 1.0\n"


def needs_pyagrum():
    try:
        import_pyagrum()
    except UnavailableError:
        pytest.skip("pyAgrum (the extra 'pyagrum') is not installed")


def test_pyagrum(student):
    needs_pyagrum()
    answer = parse_solver("pyagrum-exact").solve(student, EVIDENCE, Allowance())
    check_exact(answer, student, EVIDENCE)
    assert answer.log10_z is not None
    grid = examples.grid(3, 3)
    check_exact(parse_solver("pyagrum-exact").solve(grid, {0: 1}, Allowance()), grid, {0: 1})
    check_exact(parse_solver("pyagrum-loopy").solve(student, {}, Allowance(10.0)), student, {}, accuracy=0.05)
    check_exact(parse_solver("pyagrum-gibbs").solve(student, {}, Allowance(5.0)), student, {}, accuracy=0.05)


def test_a_sampler_with_a_limit_of_time_is_ended_by_that(student, monkeypatch):
    needs_pyagrum()
    engines = []

    def ready(peer, evidence, set_up):
        engine = peer._pyagrum.GibbsSampling(peer._model)
        set_up(engine)
        # Whatever it may do, it need not do here.
        engine.setMaxTime(0.01)
        engine.makeInference()
        engines.append(engine)
        return engine

    monkeypatch.setattr("ibia.bench.solvers.pyagrum.Peer.inference", ready)
    for text, seconds in (("", 3600.0), ("", None), (":samples=5000", 3600.0), (":samples=5000", None)):
        parse_solver(f"pyagrum-gibbs{text}").solve(student, {}, Allowance(seconds))
    limited, unlimited, *asked = (engine.maxIter() for engine in engines)
    # More than anybody draws in an hour.
    assert limited > 10**12
    assert unlimited == 10**7
    assert asked == [5000, 5000]


def test_what_is_no_bayesian_network_is_refused_before_anything_is_built(monkeypatch):
    needs_pyagrum()
    monkeypatch.setattr("ibia.bench.solvers.pyagrum.Peer", None)
    for solver in ("pyagrum-loopy", "pyagrum-gibbs"):
        with pytest.raises(UnsuitedError, match="Bayesian networks only"):
            parse_solver(solver).solve(examples.grid(3, 3), {}, Allowance())


def test_pyagrum_treats_what_is_bayesian_though_it_does_not_say_so():
    needs_pyagrum()
    random = np.random.default_rng(3)

    def table(*shape, child):
        values = random.random(shape)
        return values / values.sum(axis=child, keepdims=True)

    # Children first and in the middle, the parent 4 without a table, 5 in no table, a constant.
    model = Model.from_arrays(
        [2, 3, 2, 2, 2, 3],
        [
            ([0], table(2, child=0)),
            ([1, 0], table(3, 2, child=0)),
            ([0, 2, 1, 4], table(2, 2, 3, 2, child=1)),
            ([3, 2], table(2, 2, child=0)),
            ([], 2.5),
        ],
    )
    assert model.kind == "markov"
    answer = parse_solver("pyagrum-exact").solve(model, EVIDENCE, Allowance())
    check_exact(answer, model, EVIDENCE)
    assert answer.figures["engine"] == "LazyPropagation"
    assert answer.log10_z is not None
    check_exact(parse_solver("pyagrum-loopy").solve(model, EVIDENCE, Allowance(10.0)), model, EVIDENCE, accuracy=0.02)
    gibbs = parse_solver("pyagrum-gibbs:samples=200000")
    check_exact(gibbs.solve(model, EVIDENCE, Allowance(20.0)), model, EVIDENCE, accuracy=0.02)
    # On a tree its loopy propagation is exact.
    tree = Model.from_arrays(
        [2, 3, 2], [([0], table(2, child=0)), ([1, 0], table(3, 2, child=0)), ([2, 0], table(2, 2, child=0))]
    )
    check_exact(parse_solver("pyagrum-loopy").solve(tree, {1: 2}, Allowance(10.0)), tree, {1: 2}, accuracy=1e-5)


def test_pgmpy(student):
    pytest.importorskip("pgmpy")
    check_exact(parse_solver("pgmpy-exact").solve(student, EVIDENCE, Allowance()), student, EVIDENCE)
