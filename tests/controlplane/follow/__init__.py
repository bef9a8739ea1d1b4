"""`make follow VERSION=1.NN.P`: what a release of Kubernetes has that kscheduler does not know, as a program sees it.

    __main__      the steps, each with its time, and the report in Markdown
    upstream      the release's own lists: its kube-scheduler is asked, and programs compiled against its modules
    sources       what its source says, beside that of the release before: metrics, gates that are read, texts, files
    ours          the same lists of kscheduler, for the version of the release or else the newest that it follows
    comparison    what is new, gone or changed between two of them

What becomes of a difference is decided by a person: docs/following-kubernetes.md.
"""
