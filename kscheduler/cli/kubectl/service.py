"""The running service behind the API server's proxy.

    GET /api/v1/namespaces/NAMESPACE/services/https:NAME:PORT/proxy/explain?pod=...

The proxy asks whether the user may use it (`services/proxy`), and then forwards the request without any trace of who
that is: the API server takes the Authorization header away. So the service would see nobody. The user's own token must
not go there by another way: anyone who runs the service could keep it and be the user. Instead the API server is asked
for a token of an account that may do nothing but ask (`serviceaccounts/token`), good for ten minutes, and that one goes
in a header of its own, which the service reviews like any other.

Where the user may not have one, the question is asked without; the service then answers only if it lets everybody.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from kscheduler.client.access.connection import Connection
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.rest import APIClient

DEFAULT_SERVICE: Final = "kscheduler-system/kscheduler:10259"
DEFAULT_ACCOUNT: Final = "kscheduler-asker"
HEADER: Final = "Kscheduler-Authorization"
TOKEN_SECONDS: Final = 600
_ANSWER_SECONDS: Final = 20.0
_OF_THE_SERVICE: Final = ("the service knows ", "cannot get path", "cannot post path")
_UNKNOWN_POD: Final = "the service knows no pod "
_TOO_MANY: Final = ": ask for some of them"
_JSON: Final = "application/json"
T = TypeVar("T")
# By path a field that each answer of a service has.
_FIELDS: Final = {"/explain": "kind", "/nodes": "nodes", "/pending": "reasons", "/simulate": "kind"}
_REPLICAS_TRIED: Final = 4

Tree = dict[str, Any]


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


_TOKEN: Final = msgspec.json.Decoder(_TokenRequest)


class ServiceQueryError(Exception):
    """The service could not be asked. The text says why, and what would help."""

    def __init__(self, short: str, details: str = "") -> None:
        super().__init__(f"{short}: {details}" if details else short)
        self.short = short
        """Without the words of the API server: for users who get an answer all the same."""


class InvalidQueryError(Exception):
    """The service has answered that the question is wrong."""


class UnknownToServiceError(InvalidQueryError):
    """The service has answered that there is no such pod."""


class TooManyQueriedError(InvalidQueryError):
    """The service has answered that it does not answer about so many pods and groups at once."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A Service whose port speaks HTTPS."""

    namespace: str
    name: str
    port: str

    @property
    def path(self) -> str:
        """Of its proxy."""
        return f"/api/v1/namespaces/{self.namespace}/services/https:{self.name}:{self.port}/proxy"

    @property
    def text(self) -> str:
        """As the flag has it."""
        return f"{self.namespace}/{self.name}:{self.port}"


def service_address(text: str) -> ServiceAddress:
    """`NAMESPACE/NAME:PORT`. Raises `ValueError`."""
    namespace, slash, rest = text.partition("/")
    name, colon, port = rest.partition(":")
    if not (namespace and slash and name and colon and port) or not all(map(_is_name, (namespace, name, port))):
        message = f"{text!r} is not NAMESPACE/NAME:PORT, such as {DEFAULT_SERVICE}"
        raise ValueError(message)
    return ServiceAddress(namespace, name, port)


def _is_name(text: str) -> bool:
    return text.isascii() and text.replace("-", "a").replace(".", "a").isalnum()


class ServiceProxyClient:
    """Asks one service. A context manager."""

    def __init__(self, connection: Connection, address: ServiceAddress, account: str = DEFAULT_ACCOUNT) -> None:
        self._connection, self._address, self._account = connection, address, account
        self._client: APIClient | None = None
        self._why_no_token = ""

    async def __aenter__(self) -> Self:
        async with APIClient(self._connection) as client:
            token = await self._token(client)
        headers = {HEADER: f"Bearer {token}"} if token else {}
        self._client = APIClient(self._connection, headers=headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.close()

    async def get(self, path: str, accept: str = _JSON, **params: str) -> bytes:
        """The answer. Raises `ServiceQueryError`, `InvalidQueryError`, `UnknownToServiceError`."""
        query = f"?{urlencode(params)}" if params else ""
        try:
            return await self._open().get(
                f"{self._address.path}{path}{query}", retries=0, accept=accept, timeout_seconds=_ANSWER_SECONDS
            )
        except ClientError as error:
            raise self._error_of(error) from None

    async def get_json(self, path: str, **params: str) -> Tree:
        """The answer, decoded. Raises likewise."""
        return self._decoded(await self.get(path, **params), path)

    async def get_as(self, kind: type[T], path: str, **params: str) -> T:
        """The answer as a struct. Raises likewise."""
        return _converted(await self.get_json(path, **params), kind, path)

    async def post(self, path: str, body: Tree, accept: str = _JSON) -> bytes:
        """The answer to a JSON object. Raises likewise."""
        try:
            return await self._open().post(
                f"{self._address.path}{path}",
                msgspec.json.encode(body),
                retries=0,
                timeout_seconds=_ANSWER_SECONDS,
                accept=accept,
            )
        except ClientError as error:
            raise self._error_of(error) from None

    async def post_json(self, path: str, body: Tree) -> Tree:
        """The answer to a JSON object, decoded. Raises likewise."""
        return self._decoded(await self.post(path, body), path)

    async def post_as(self, kind: type[T], path: str, body: Tree) -> T:
        """The answer to a JSON object as a struct. Raises likewise."""
        return _converted(await self.post_json(path, body), kind, path)

    async def read(self, path: str) -> Tree | None:
        """An object of the cluster, with the user's own rights; `None` where it is not there or may not be read.

        Raises `ClientError`.
        """
        async with self.own_client() as client:
            try:
                tree = msgspec.json.decode(await client.get(path, retries=0))
            except (APIError, msgspec.DecodeError):
                return None
        return tree if isinstance(tree, dict) else None

    def own_client(self) -> APIClient:
        """The API server with the user's own rights, for what the service may not do or does not know."""
        return APIClient(self._connection)

    async def explained(self, **params: str) -> Tree:
        """The explanation of a `pod` or `podGroup`, by the replica that schedules if one of a few tries finds it.

        Raises likewise.
        """
        tree: Tree = {}
        for _ in range(_REPLICAS_TRIED):
            tree = await self.get_json("/explain", **params)
            known = (tree.get("situation") or {}).get("inService")
            if known is None or known["leads"]:
                break
        return tree

    def _open(self) -> APIClient:
        if self._client is None:
            message = "the client is not open: use it in `async with`"
            raise RuntimeError(message)
        return self._client

    async def _token(self, client: APIClient) -> str:
        """A token of the account; empty if there is none."""
        path = f"/api/v1/namespaces/{self._address.namespace}/serviceaccounts/{self._account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        try:
            answer = await client.post(path, msgspec.json.encode(request), retries=0)
        except ClientError as error:
            self._why_no_token = str(error)
            return ""
        try:
            return _TOKEN.decode(answer).status.token
        except msgspec.DecodeError:
            self._why_no_token = f"POST {path}: the answer is no TokenRequest"
            return ""

    def _decoded(self, text: bytes, path: str) -> Tree:
        """Raises `ServiceQueryError`."""
        try:
            tree = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ServiceQueryError(f"what answers at {self._address.text} is no kscheduler: {path}: {error}") from None
        if not isinstance(tree, dict) or _FIELDS[path] not in tree:
            raise ServiceQueryError(
                f"what answers at {self._address.text} is no kscheduler: {path}: no {_FIELDS[path]} in the answer"
            )
        return tree

    def _error_of(self, error: ClientError) -> Exception:
        where = f"the service {self._address.text}"
        if not isinstance(error, APIError):
            return ServiceQueryError(f"{where} does not answer: {error}")
        message = error.message
        is_its_own = any(part in message for part in _OF_THE_SERVICE)
        if error.code == 404 and _UNKNOWN_POD in message:
            return UnknownToServiceError(message)
        if error.code == 400 and _TOO_MANY in message:
            return TooManyQueriedError(message)
        if error.code in (400, 422) or (error.code == 404 and is_its_own):
            return InvalidQueryError(message)
        if error.code == 401 or (error.code == 403 and is_its_own):
            return ServiceQueryError(f"{where} does not let you ask: {message}{self._token_hint()}")
        if error.code == 403:
            return ServiceQueryError(f"you may not use the API server's proxy to {self._address.text}", message)
        if error.code == 404:
            return ServiceQueryError(f"{where} is not there, or does not answer questions", message)
        return ServiceQueryError(f"{where} does not answer now: {message}")

    def _token_hint(self) -> str:
        return f" (and no token of account {self._account}: {self._why_no_token})" if self._why_no_token else ""


def _converted(tree: Tree, kind: type[T], path: str) -> T:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as problem:
        raise ServiceQueryError(f"the service answers in a form of another version: {path}: {problem}") from None
