"""What if: a whole scheduler over a copy of a cluster, with changes that nobody has made, until nothing moves any more.

`plan` is what is asked, `frozen_cluster` the API server's part, `drains` what kubectl would do, `rehearse` the play.
"""
