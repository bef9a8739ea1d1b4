"""Go's text/template, as far as scheduler_perf's files use it."""

from typing import Any

import pytest

from kscheduler.bench.upstream.text_template import TextTemplateError, check, execute

DATA: dict[str, Any] = {
    "Index": 13,
    "Count": 4,
    "zero": 0,
    "empty": "",
    "name": "a",
    "nodes": 2.0,
    "half": 0.5,
    "yes": True,
    "text": "7",
    "listed": [{"key": "x"}, {"key": "y"}],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("pod-{{.Index}}", "pod-13", id="field"),
        pytest.param("{{ .Index }}/{{ .Count }}", "13/4", id="fields"),
        pytest.param("{{.nodes}} {{.half}} {{.yes}} {{.name}}", "2 0.5 true a", id="values as they are printed"),
        pytest.param("{{Mod .Index 12}}", "1", id="function"),
        pytest.param("{{DivideInt 30000 .Count}} {{DivideInt .Index 10}}", "7500 1", id="whole division"),
        pytest.param("{{DivideFloat .Index 2}} {{SubtractInt .Index .Count}}", "6.5 9", id="division, subtraction"),
        pytest.param("{{MultiplyInt 2 .Index}} {{AddFloat 0.5 .half}}", "26 1", id="product, sum"),
        pytest.param("{{AddInt 7000 (Mod .Index (DivideInt .Index .Count))}}", "7001", id="parentheses"),
        pytest.param("{{.text | Int}}{{(or .none 2) | Int}}", "72", id="pipes"),
        pytest.param("{{or .none 3}} {{or .zero 4}} {{or .Index 5}}", "3 4 13", id="or: the first that is set"),
        pytest.param("{{and .Index .empty}}|{{and .Index .name}}", "|a", id="and"),
        pytest.param("{{$n := or .none 2}}{{$n}}", "2", id="variable"),
        pytest.param("{{(or .none nil) | JSON}} {{.listed | JSON}}", 'null [{"key":"x"},{"key":"y"}]', id="JSON"),
        pytest.param("{{if .zero}}a{{else}}b{{end}}{{if .none}}c{{end}}{{if not .zero}}d{{end}}", "bd", id="if"),
        pytest.param('{{if eq .name "b"}}1{{else if eq .name "a"}}2{{else}}3{{end}}', "2", id="else if"),
        pytest.param("{{if ge .Index (.Count | Int)}}more{{end}}{{if lt .Index 5}}less{{end}}", "more", id="ge, lt"),
        pytest.param('{{if ne .name "a"}}x{{end}}{{if le 1 1}}y{{end}}{{if gt 1 1}}z{{end}}', "y", id="comparisons"),
        pytest.param("{{with .name}}is {{.}}{{end}}{{with .none}}x{{else}} {{.name}}{{end}}", "is a a", id="with"),
        pytest.param("{{range 3}}{{.}},{{end}}", "0,1,2,", id="range over a number"),
        pytest.param("{{range $i := 2}}{{$i}}{{$.Index}}{{end}}", None, id="the root is not built"),
        pytest.param("{{range $i := (.Count | Int)}}{{$i}}{{end}}", "0123", id="range with a variable"),
        pytest.param("{{range .listed}}{{.key}}{{end}}", "xy", id="range over a list"),
        pytest.param("{{range $i, $v := .listed}}{{$i}}{{$v.key}}{{end}}", None, id="a variable's field is not built"),
        pytest.param("{{range .none}}x{{else}}nothing{{end}}", "nothing", id="range over nothing"),
        pytest.param("a\n  {{- .name -}}\n b", "aab", id="trimmed"),
        pytest.param("{{/* it's not read */}}b", "b", id="comment"),
        pytest.param('{{"q\\"uoted"}}{{`raw`}}', 'q"uotedraw', id="strings"),
    ],
)
def test_a_template_is_executed_as_go_does(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(TextTemplateError):
            execute(text, DATA)
        return
    assert execute(text, DATA) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a\n{{printf .Index}}", "line 2: the function 'printf' is not known", id="function"),
        pytest.param("{{block .a}}", "line 1: the function 'block' is not known", id="keyword"),
        pytest.param("{{AddInt 1 (Square 2)}}", "the function 'Square' is not known", id="inner function"),
        pytest.param("{{.Index | .Count}}", "line 1: a function must follow '|', not '.Count'", id="pipe"),
        pytest.param("{{.Index .Count}}", "line 1: '.Count' is not expected here", id="two values"),
        pytest.param("{{(.Index}}", "line 1: a parenthesis is not closed", id="parenthesis"),
        pytest.param("{{}}", "line 1: a value is missing", id="empty"),
        pytest.param("{{.a & .b}}", "line 1: '& .b' is not understood", id="sign"),
        pytest.param("x\n{{.Index", "line 2: '{{' is not closed", id="not closed"),
        pytest.param("{{if .a}}b", "line 1: {{end}} is missing", id="if without end"),
        pytest.param("{{if .a}}b{{else}}c", "line 1: {{end}} is missing", id="else without end"),
        pytest.param("{{range .a}}b", "line 1: {{end}} is missing", id="range without end"),
        pytest.param("\n{{end}}", "line 2: {{end}} without a beginning", id="end without a beginning"),
        pytest.param("{{range $i .a}}{{end}}", "line 1: '.a' is not expected here", id="range without :="),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(TextTemplateError) as found:
        check(text)
    assert message in str(found.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a\n{{.none}}", "line 2: .none is not set", id="field"),
        pytest.param("{{.listed}}", "line 1: .listed is [{", id="list"),
        pytest.param("{{Mod .Index 0}}", "line 1: Mod 13 0: division by zero", id="modulo zero"),
        pytest.param("{{DivideInt 1 .zero}}", "line 1: DivideInt 1 0: division by zero", id="by zero"),
        pytest.param("{{AddInt 1 .name}}", 'line 1: AddInt 1 "a": could not convert', id="not a number"),
        pytest.param("{{AddInt .yes}}", "line 1: AddInt true: true is not a number", id="truth"),
        pytest.param("{{Mod 1}}", "line 1: Mod 1: ", id="missing argument"),
        pytest.param("{{lt 1 .none}}", "line 1: lt 1 null: ", id="compared with nothing"),
        pytest.param("{{$n}}", "the variable $n is not declared", id="variable"),
        pytest.param("{{if .yes}}{{$n := 1}}{{end}}{{$n}}", "the variable $n is not declared", id="end of a scope"),
        pytest.param("{{range .name}}{{end}}", 'line 1: range over "a"', id="range over a text"),
    ],
)
def test_what_cannot_be_executed_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(TextTemplateError) as found:
        execute(text, DATA)
    assert message in str(found.value)
