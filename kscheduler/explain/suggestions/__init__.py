"""The smallest changes after which a pod fits, said: in words, as commands, for programs."""
