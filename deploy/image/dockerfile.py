"""Reads deploy/Dockerfile: its stages, and what the final one says about the process.

Only the forms that our file uses, each checked: another one is an error, not a guess.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).parents[1] / "Dockerfile"

_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_KNOWN: Final = frozenset(
    {"FROM", "ARG", "ENV", "LABEL", "COPY", "RUN", "WORKDIR", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}
)


class DockerfileError(Exception):
    """An instruction in a form that is not read here."""


@dataclass(frozen=True)
class Instruction:
    """A keyword and its arguments, continued lines joined."""

    keyword: str
    rest: str

    def words(self) -> list[str]:
        """The arguments without the instruction's own flags: a list in JSON, or words as a shell splits them."""
        start = self.rest.find("[")
        if start >= 0:
            listed: list[str] = json.loads(self.rest[start:])
            return listed
        return [word for word in shlex.split(self.rest) if not word.startswith("--")]

    def flags(self) -> list[str]:
        """The instruction's own flags, such as `--from=build`."""
        return re.findall(r"(?:^|(?<=\s))--[a-z]+=\S+", self.rest.partition("[")[0])


@dataclass(frozen=True)
class Stage:
    """A `FROM` and what follows."""

    base: str
    name: str
    instructions: tuple[Instruction, ...]

    def of(self, keyword: str) -> list[Instruction]:
        """Its instructions of one kind, in order."""
        return [one for one in self.instructions if one.keyword == keyword]


@dataclass(frozen=True)
class Dockerfile:
    """The whole file."""

    arguments: Mapping[str, str]
    """Of the file: before the first stage."""
    stages: tuple[Stage, ...]

    @property
    def final(self) -> Stage:
        """The stage that becomes the image."""
        return self.stages[-1]

    def stage(self, name: str) -> Stage:
        """A stage by its name."""
        (found,) = (one for one in self.stages if one.name == name)
        return found

    def process(self, given: Mapping[str, str], base: Mapping[str, str]) -> dict[str, Any]:
        """The final stage as the `config` of an OCI image; `given` are build arguments, `base` the base's variables."""
        arguments: dict[str, str] = {}
        config: dict[str, Any] = {"Labels": {}, "ExposedPorts": {}}
        variables = dict(base)
        for one in self.final.instructions:
            if one.keyword == "ARG":
                name, _, default = one.rest.partition("=")
                arguments[name] = given.get(name, default)
                continue
            words = [substituted(word, arguments | variables) for word in one.words()]
            match one.keyword:
                case "ENV":
                    variables |= dict(word.split("=", 1) for word in words)
                case "LABEL":
                    config["Labels"] |= dict(word.split("=", 1) for word in words)
                case "EXPOSE":
                    config["ExposedPorts"] |= {f"{word}/tcp": {} for word in words}
                case "USER":
                    config["User"] = words[0]
                case "WORKDIR":
                    config["WorkingDir"] = words[0]
                case "ENTRYPOINT":
                    config["Entrypoint"] = words
                case "CMD":
                    config["Cmd"] = words
                case "COPY":
                    pass  # a layer
                case keyword:
                    raise DockerfileError(f"{keyword} in the final stage: it has nothing to run or mount")
        return config | {"Env": [f"{name}={value}" for name, value in variables.items()]}


def substituted(text: str, values: Mapping[str, str]) -> str:
    """`${NAME}` replaced. Raises `DockerfileError` for a name that nobody has set."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise DockerfileError(f"${{{match[1]}}}: there is no such argument or variable")
        return values[match[1]]

    return _VARIABLE.sub(value, text)


def read(text: str) -> Dockerfile:
    """The stages of a Dockerfile. Raises `DockerfileError`."""
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for one in _instructions(text):
        if one.keyword == "FROM":
            base, _, name = " ".join(one.words()).partition(" AS ")
            stages.append((base, name, []))
        elif stages:
            stages[-1][2].append(one)
        elif one.keyword == "ARG":
            name, _, default = one.rest.partition("=")
            arguments[name] = default
        else:
            raise DockerfileError(f"{one.keyword} before the first FROM")
    return Dockerfile(arguments, tuple(Stage(base, name, tuple(found)) for base, name, found in stages))


def _instructions(text: str) -> list[Instruction]:
    lines = "\n".join(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    found = []
    for line in re.sub(r"\\\n\s*", "", lines).splitlines():
        keyword, _, rest = line.partition(" ")
        if keyword not in _KNOWN:
            raise DockerfileError(f"{keyword}: an instruction that is not read here")
        found.append(Instruction(keyword, rest.strip()))
    return found
