"""The model, its page and the code name the same things. Needs neither spin nor gcc."""

import importlib
import re
from pathlib import Path

import pytest

from mail_service.domain.states import TRANSITIONS, AttemptState, EmailState
from tests.model.search import MODEL, NotRun, read
from tests.model.variants import CORRECT, LARGE, MUTANTS, Variant

PAGE = Path(__file__).parents[2] / "docs" / "model.md"
TEXT = MODEL.read_text()
CONSTANTS = {
    name: int(value) for name, value in re.findall(r"^#define (\w+) +(\d+)\b", TEXT, re.MULTILINE)
}


def rows() -> dict[str, str]:
    """Give the map of the page: what the model does, and the functions of the code it stands for."""
    mapped = PAGE.read_text().partition("## The map")[2].partition("\n## ")[0]
    found = re.findall(r"^\| (`.*?`.*?) \| .*? \| (.*) \|$", mapped, re.MULTILINE)
    return {name: code for names, code in found for name in re.findall(r"`(\w+)`", names)}


def test_the_model_draws_the_edges_of_the_code() -> None:
    drawn = re.findall(r"\(a == (\w+) +&& b == (\w+)\)", TEXT)
    assert sorted((a.lower(), b.lower()) for a, b in drawn) == sorted(
        (a.value, b.value) for a, ends in TRANSITIONS.items() for b in ends
    )


def test_the_model_numbers_the_states_as_the_code_orders_them() -> None:
    assert [CONSTANTS[state.name] for state in EmailState] == list(range(len(EmailState)))
    assert {state.name for state in AttemptState} <= set(CONSTANTS)
    assert len({CONSTANTS[state.name] for state in AttemptState} | {CONSTANTS["ABSENT"]}) == 8


def test_the_map_has_a_row_for_everything_that_the_model_does() -> None:
    done = set(re.findall(r"^(?:inline|proctype) (\w+)\(", TEXT, re.MULTILINE))
    assert done == set(rows())


@pytest.mark.parametrize(("action", "code"), rows().items(), ids=rows())
def test_every_function_that_an_action_stands_for_exists(action: str, code: str) -> None:
    named = re.findall(r"`([\w.]+):([\w.]+)`", code)
    assert named or "no code" in code
    for module, path in named:
        found = importlib.import_module(
            f"mail_service.{module}" if module[:6] != "actors" else module
        )
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found)


def test_every_mistake_in_the_model_is_searched_and_every_searched_one_is_there() -> None:
    written = set(re.findall(r"\b(M_\w+)", TEXT))
    searched = {name for mutant in MUTANTS for name in mutant.defines if name.startswith("M_")}
    assert written == searched
    assert not any(name.startswith("M_") for right in (*CORRECT, LARGE) for name in right.defines)


def test_every_promise_of_the_model_is_broken_by_a_mistake() -> None:
    promised = set(re.findall(r'PROMISE\("(.+?)"', TEXT)) | set(
        re.findall(r"^ltl (\w+)", TEXT, re.M)
    )
    assert promised == {mutant.broken_by for mutant in MUTANTS}
    assert {c.claim for c in CORRECT} - {None} == set(re.findall(r"^ltl (\w+)", TEXT, re.M))


def test_the_page_names_every_mistake_with_what_catches_it() -> None:
    page = PAGE.read_text()
    for mutant in MUTANTS:
        assert f"| `{mutant.name}` | {mutant.broken_by} |" in page


FULL = """
Full statespace search for:
State-vector 84 byte, depth reached 61, errors: 0
  1.5e+07 states, stored
  354.904\ttotal actual memory usage
edge: 0 1
mark: 1 stale page refused
mark: 0 acceptance beat a refusal
"""
RIGHT = Variant(name="right", what="")


def test_what_pan_prints_is_read() -> None:
    found = read(FULL, RIGHT, 1.0)
    assert (found.broken, found.complete, found.states) == (None, True, 15_000_000)
    assert found.edges == {(0, 1)}
    assert found.situations == {"stale page refused": True, "acceptance beat a refusal": False}


@pytest.mark.parametrize(
    "cut",
    [
        "error: max search depth too small",
        "pan: reached -DMEMLIM bound",
        "Warning: Search not completed",
        "Bit statespace search for:",
    ],
)
def test_a_search_that_did_not_see_everything_is_not_complete(cut: str) -> None:
    assert not read(f"{cut}\n{FULL}", RIGHT, 1.0).complete


def test_a_broken_promise_is_named() -> None:
    text = "broken: S9 expiry is doubt\npan:1: assertion violated 0\n" + FULL.replace(
        "errors: 0", "errors: 1"
    )
    assert read(text, RIGHT, 1.0).broken == "S9 expiry is doubt"


@pytest.mark.parametrize("text", ["", "pan: out of memory", "States= 1e+06"])
def test_no_end_is_no_result(text: str) -> None:
    with pytest.raises(NotRun):
        read(text, RIGHT, 1.0)
