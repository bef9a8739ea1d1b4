"""Rules that several plugins share: tolerations, CSI migration, the arithmetic of scores, ties."""
