"""How many pods of a reason the change for one of them helps, in words."""


def freed_text(frees: int, tried: int, count: int, alike: int | None = None, looked: int | None = None) -> str:
    """Stands behind the number of nodes; nothing of a pod that waits alone.

    `tried`: the pods that were placed. `alike`: those with the spec of the example, itself among them. `looked`: among
    how many pods these were counted, the oldest; `None`: among all of the reason.
    """
    alike, looked = tried if alike is None else alike, count if looked is None else min(looked, count)
    if count == 1:
        return ""
    if tried == count:
        return f"; helps all {count}" if frees == count else f"; helps {frees} of the {count}"
    among = f"the {count}" if looked == count else f"the {looked} oldest of {count}"
    if looked == 1:
        return f"; helps this one of the {count}, the only one that was looked at"
    if alike == 1:
        return f"; helps this one of {among}, and no other is like it"
    helped = f"{frees} of them" if frees < tried else "both" if tried == 2 else f"all {tried}"
    if alike == looked:
        which = "" if looked == count else ", which are alike"
        return f"; tried for {tried} of {among}{which}, helps {helped}"
    others = looked - alike
    are = "is" if others == 1 else "are"
    if tried == alike:
        return f"; tried for the {tried} of {among} that are alike, helps {helped}; {others} {are} not like them"
    return f"; tried for {tried} of the {alike} that are alike, helps {helped}; {others} of {among} {are} not like them"
