"""Local copies of the cluster's objects, kept up to date by list and watch.

The problem: a scheduler needs all nodes and pods at hand, through restarts of the API server, compacted history,
silent connections and objects that cannot be read. The idea is client-go's: a `Reflector` lists once and then watches,
resuming where it stopped; an `Informer` keeps the store and calls handlers with each change; an `InformerFactory` owns
an informer per kind. `Progress` decides what to do next, without I/O; `ViewAge` knows how old a store is; a `Rereader`
asks again for what could not be read; a `StoreAudit` looks for what a watch has lost.
Limit: events are ordered within a kind, never across kinds.
"""

from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.informer import Handler, Informer, InformerStatistics, ListHandler
from kscheduler.informers.reflector import Reflector
from kscheduler.informers.store import Store
from kscheduler.informers.transform import Transform

__all__ = [
    "Handler",
    "Informer",
    "InformerFactory",
    "InformerStatistics",
    "ListHandler",
    "Reflector",
    "Store",
    "Transform",
]
