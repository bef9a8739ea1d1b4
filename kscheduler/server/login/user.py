"""A user, as Kubernetes knows one."""

from dataclasses import dataclass, replace
from typing import Final

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
# Members may do everything without being looked up, as in kube-scheduler.
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class RequestUser:
    """Name, groups and additional information; hashable, since it is part of what an answer is remembered under."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def authenticated(self) -> "RequestUser":
        """The user as a member of `system:authenticated`."""
        if self.name == "system:anonymous" or {AUTHENTICATED, UNAUTHENTICATED} & set(self.groups):
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS: Final = RequestUser("system:anonymous", groups=(UNAUTHENTICATED,))
