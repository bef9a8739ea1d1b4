"""Local copies of the cluster's objects, kept true by list and watch.

The problem: a scheduler needs all nodes and pods at hand, through restarts of the API server, compacted history,
silent connections and objects that cannot be read. The idea is client-go's: a `Reflector` lists once and then watches,
resuming where it stopped; an `Informer` keeps the store and tells handlers what changed; an `InformerFactory` owns one
per kind. What to do next is decided by `Progress`, which does no I/O.
Limit: order is kept within a kind, never across kinds.
"""

from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.informer import Handler, Informer, InformerStatistics
from kscheduler.informers.reflector import Reflector
from kscheduler.informers.store import Store
from kscheduler.informers.transform import Transform

__all__ = ["Handler", "Informer", "InformerFactory", "InformerStatistics", "Reflector", "Store", "Transform"]
