"""The API server's client: connection, REST verbs, watch decoding, pod writes and Events.

The problem: the generated client costs a hundred times what decoding costs, never times out and retries without end.
The idea: kubernetes_asyncio asks exec plugins and providers for credentials; the rest is our own: HTTP/1.1 for
requests and watches, aiohttp for proxies, msgspec for objects, client-go's rules for retries, and errors that say what
the caller may conclude.
Nothing here knows scheduling.

    access              the API server's address and our credentials: kubeconfig, tokens, TLS
    http                HTTP/1.1 without I/O, connections that are kept, lines of a stream; aiohttp for the rest
    rest, errors        verbs with client-go's rules for retries; what may go wrong
    retry_after         how long a server may make us wait
    watch, lists        lines of a watch, and bodies of lists, to typed values
    pod_writes, claim_writes, events    what a scheduler writes: bindings, conditions, volumes; Events
    reachability, outage_cause, failure_text    whether the API server answers, and if not, why
"""
