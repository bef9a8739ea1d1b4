"""The reader of the Dockerfile does what BuildKit does with our forms, and refuses all others."""

import pytest

from deploy.image import dockerfile

TEXT = """\
# a comment
ARG BASE=debian:13
FROM --platform=${BUILDPLATFORM} ${BASE} AS one
COPY a b /c/
RUN --network=none ["/bin/x", "--flag", "[y]"]
FROM ${BASE}
ARG VERSION=1
LABEL title="a b" \\
      version="${VERSION}"
ENV A=1 \\
    # in between
    PATH=/own:${PATH}
USER 1:1
EXPOSE 80
ENTRYPOINT ["/own/x"]
CMD ["run", "--port", "80"]
"""


def test_stages_and_their_instructions() -> None:
    found = dockerfile.read(TEXT)
    assert found.arguments == {"BASE": "debian:13"}
    assert [(stage.base, stage.name) for stage in found.stages] == [("${BASE}", "one"), ("${BASE}", "")]
    (copy,), (run,) = found.stage("one").of("COPY"), found.stage("one").of("RUN")
    assert (copy.flags(), copy.words()) == ([], ["a", "b", "/c/"])
    assert (run.flags(), run.words()) == (["--network=none"], ["/bin/x", "--flag", "[y]"])


def test_the_final_stage_as_a_process() -> None:
    assert dockerfile.read(TEXT).process({"VERSION": "2"}, {"PATH": "/bin"}) == {
        "Labels": {"title": "a b", "version": "2"},
        "ExposedPorts": {"80/tcp": {}},
        "User": "1:1",
        "Entrypoint": ["/own/x"],
        "Cmd": ["run", "--port", "80"],
        "Env": ["PATH=/own:/bin", "A=1"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("USER 1", "USER before the first FROM"),
        ("FROM x\nHEALTHCHECK NONE", "HEALTHCHECK: an instruction that is not read here"),
        ("FROM x\nRUN y", "RUN in the final stage"),
        ("FROM x\nENV A=${B}", r"\$\{B\}: there is no such argument"),
    ],
)
def test_another_form_is_an_error(text: str, message: str) -> None:
    with pytest.raises(dockerfile.DockerfileError, match=message):
        dockerfile.read(text).process({}, {})
